"""What do loads cost, beside the export that they follow? One process, every phase; ratios of one run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from benchmarks.measure import Measured
from benchmarks.parts import Bench, Goal, Part, fastest

TENFOLD = 10
SHARES = (0.001, 0.01, 0.1)


def loads(bench: Bench, rows: int) -> Part:
    """First loads (files taken over, rewritten by day, with ten checks), then merges of more and more."""
    fewer = max(rows // TENFOLD, 1)
    best = {}
    for count in (fewer, rows):
        task = bench.task(bench.server.make_wide(count), count)
        best[count] = fastest(bench.measured("loading", task) for _ in range(bench.repeat))
    phases = {count: found.more["phases"] for count, found in best.items()}
    task = bench.task(bench.server.make_wide(rows), rows)
    peer = fastest(bench.measured("jdbc_merge", task) for _ in range(bench.repeat))
    return Part(
        "loads",
        f"Loads into the lake, {rows:,} rows of 9 columns: the best of {bench.repeat}",
        ("", "extract s", "load s", "rows", f"load s of {fewer:,}"),
        [*(_row(name, phases[rows], phases[fewer]) for name in _names()), *_peer(peer)],
        list(_goals(phases[rows], peer.more["phases"])),
        {**{str(count): asdict(found) for count, found in best.items()}, "peer": asdict(peer)},
    )


def _peer(peer: Measured) -> list[list[str]]:
    """What a script by hand takes: reading is part of it."""
    phases = peer.more["phases"]
    return [
        ["Spark JDBC, append by day", "", f"{phases['first']:.2f}", f"{peer.rows:,}", ""],
        ["Spark JDBC, MERGE of 10 %", "", f"{phases['merge']:.2f}", "", ""],
    ]


def _names() -> list[str]:
    return ["taken", "split", "checked", *(f"split_{share}" for share in SHARES)]


_LABELS = {
    "taken": "first load, the files taken over",
    "split": "first load, partitioned by day",
    "checked": "the same with ten checks",
    **{f"split_{share}": f"merge of {share:.1%}" for share in SHARES},
}


def _row(name: str, many: dict[str, float], few: dict[str, float]) -> list[str]:
    return [
        _LABELS[name],
        f"{many[f'{name}_extract']:.2f}",
        f"{many[f'{name}_load']:.2f}",
        f"{many[f'{name}_rows']:,.0f}",
        f"{few[f'{name}_load']:.2f}",
    ]


def _goals(phases: dict[str, float], peer: dict[str, float]) -> Iterable[Goal]:
    for name, most in (("taken", 1.7), ("split", 2.6)):
        extract, load = phases[f"{name}_extract"], phases[f"{name}_load"]
        ratio = (extract + load) / extract
        yield Goal(f"{_LABELS[name]}: run / export", f"at most {most}", ratio, ratio <= most)
    ratio = phases["checked_load"] / phases["split_load"]
    yield Goal("ten checks / none", "at most 1.1", ratio, ratio <= 1.1)
    ratio = phases["split_0.1_load"] / phases["split_load"]
    yield Goal("merge of 10 % / first load", "at most 0.5", ratio, ratio <= 0.5)
    whole = phases["split_extract"] + phases["split_load"]
    yield Goal("Spark JDBC + append / run", "told", peer["first"] / whole, peer["first"] > whole)
    whole = phases["split_0.1_extract"] + phases["split_0.1_load"]
    yield Goal("Spark JDBC + MERGE / run", "told", peer["merge"] / whole, peer["merge"] > whole)
