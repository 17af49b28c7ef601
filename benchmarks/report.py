"""How are the numbers shown and kept? A table per part, its goals below, and JSON beside the code."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.parts import Part

RESULTS = Path(__file__).resolve().parent / "results"


def show(console: Console, part: Part) -> None:
    table = Table(title=part.title, title_justify="left", title_style="bold")
    for number, name in enumerate(part.columns):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in part.rows:
        table.add_row(*row)
    console.print(table)
    for goal in part.goals:
        mark = "[green]met[/]" if goal.met else "[red]missed[/]"
        console.print(f"  {goal.name}: {goal.found:.2f} ({goal.wanted}) {mark}")
    console.print()


def surroundings() -> dict[str, Any]:
    """What the numbers depend on; the load tells whether the machine had other work."""
    import adbc_driver_postgresql
    import pyarrow
    import pyspark

    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "pyarrow": pyarrow.__version__,
        "pyspark": pyspark.__version__,
        "adbc": adbc_driver_postgresql.__version__,
    }


def keep(parts: Sequence[Part], before: dict[str, Any]) -> Path:
    """One file per run."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{before['at'].replace(':', '').replace('+0000', 'Z')}.json"
    after = {"load_after": [round(load, 2) for load in os.getloadavg()]}
    content = {**before, **after, "parts": [asdict(part) for part in parts]}
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path
