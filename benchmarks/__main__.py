"""`./run bench`: everything side by side in one run, as ratios. `--only export` runs a part of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.control import control
from benchmarks.loads import loads
from benchmarks.parts import LABELS, Bench, Part, export, growth, memory, small
from benchmarks.report import keep, show, surroundings
from benchmarks.server import bench_server

PARTS = ("export", "memory", "small", "growth", "loads", "control")


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; may be repeated")
    parser.add_argument(
        "--subject",
        action="append",
        choices=list(LABELS),
        help="of the export: this way of reading; may be repeated",
    )
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the large table")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--documents", type=int, default=600, help="of 1 MB each")
    parser.add_argument("--tables", type=int, default=1000, help="small ones")
    parser.add_argument("--pipelines", type=int, default=10_000, help="of the control plane")
    parser.add_argument("--queue", type=int, default=1_000_000, help="its backfills")
    parser.add_argument("--connections", type=int, default=4, help="backhaul's max_connections")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep the server's data there: the next run makes no tables",
    )
    return parser.parse_args(given)


def main(given: Sequence[str]) -> int:
    arguments = _arguments(given)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    before = surroundings()
    console.print(f"{before['cores']} cores, load {before['load'][0]}")
    parts = []
    with bench_server(arguments.keep) as server:
        bench = Bench(server, arguments.repeat, console.print, arguments.connections)
        for measured in _chosen(bench, arguments):
            part = measured()
            show(console, part)
            parts.append(part)
    console.print(f"[dim]{keep(parts, before)}[/]")
    return 0


def _chosen(bench: Bench, arguments: argparse.Namespace) -> list[Callable[[], Part]]:
    subjects = arguments.subject or list(LABELS)
    known: dict[str, Callable[[], Part]] = {
        "export": lambda: export(bench, arguments.rows, subjects),
        "memory": lambda: memory(bench, arguments.documents),
        "small": lambda: small(bench, arguments.tables),
        "growth": lambda: growth(bench, arguments.rows),
        "loads": lambda: loads(bench, arguments.rows),
        "control": lambda: control(bench, arguments.pipelines, arguments.queue),
    }
    return [known[name] for name in arguments.only or PARTS]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
