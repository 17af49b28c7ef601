"""Which instant of the source does each target of a table show? One JSON document, for the sensor.

`backhaul status --json` says it too, but lists the store on the way; a sensor asks every minute.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backhaul.errors import BackhaulError, ConfigError, ExitCode


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m backhaul.airflow.ask", description=__doc__)
    parser.add_argument("table")
    parser.add_argument("--project", type=Path, default=Path())
    parser.add_argument("--to", metavar="NAME", help="only this destination")
    asked = parser.parse_args(arguments)
    code: int = ExitCode.OK
    document: dict[str, Any]
    try:
        document = {"loads": shown(asked.project, asked.table, asked.to)}
    except BackhaulError as error:
        code = error.exit_code
        told = {"message": error.message, "remedy": error.remedy, "retry": error.retry.value}
        document = {"error": told}
    sys.stdout.write(json.dumps({**document, "exit_code": code}) + "\n")
    return code


def shown(folder: Path, table: str, to: str | None) -> list[dict[str, Any]]:
    """Each target that the manifest names, with the last load that its readers see."""
    from backhaul.wiring import open_workshop

    with open_workshop(folder) as workshop:
        loads = [
            (entry, load)
            for entry in workshop.entries((table,))
            for load in entry.loads
            if to in (None, load.to)
        ]
        if not loads:
            where = f" into {to}" if to else ""
            raise ConfigError(
                f"{table} is not loaded{where}, so that there is nothing to wait for",
                remedy="see `load:` in docs/reference/manifest.md",
            )
        rows = [(e, load, workshop.state.loads.last(load.to, load.target)) for e, load in loads]
    return [
        {
            "table": entry.name,
            "destination": load.to,
            "target": load.target,
            "load_id": row.load_id if row else None,
            "shows": _instant(row.last_loaded_timestamp if row else None),
            "loaded_at": _instant(row.published_at if row else None),
        }
        for entry, load, row in rows
    ]


def _instant(moment: Any) -> str | None:
    return moment.isoformat() if moment else None


if __name__ == "__main__":
    sys.exit(main())
