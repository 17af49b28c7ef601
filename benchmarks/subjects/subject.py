"""How does a measured process learn what to do, and tell when it begins and how it ended?

The task comes as one JSON argument. Lines of JSON go back: `begin`, so that whoever measures knows
when the preparation is over, and `end` with the numbers.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Task:
    """Read `relation` of `url` into `folder`, which is empty."""

    url: str
    relation: str
    rows: int
    folder: str
    cores: int = 2
    connections: int = 4

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def given(cls) -> Self:
        return cls(**json.loads(sys.argv[1]))

    @property
    def work(self) -> Path:
        return Path(self.folder)

    @property
    def schema_and_table(self) -> tuple[str, str]:
        schema, _, table = self.relation.partition(".")
        return schema, table

    def address(self) -> dict[str, Any]:
        parts = urlsplit(self.url)
        return {
            "host": parts.hostname,
            "port": parts.port,
            "database": parts.path.lstrip("/"),
            "user": parts.username,
            "pass": parts.password,
        }


class Stopwatch:
    """Tells the measuring process what is counted."""

    def __init__(self) -> None:
        self._born = time.monotonic()
        self._began = self._born

    def begin(self) -> None:
        print(json.dumps({"event": "begin"}), flush=True)
        self._began = time.monotonic()

    def end(self, **numbers: Any) -> None:
        now = time.monotonic()
        times = {"seconds": now - self._began, "preparation_seconds": self._began - self._born}
        print(json.dumps({"event": "end", **times, **numbers}), flush=True)


def parquet_rows(folder: Path) -> tuple[int, int]:
    """Rows and bytes of the Parquet files below a folder: was everything brought?"""
    import pyarrow.parquet as pq

    files = [path for path in folder.rglob("*.parquet") if not path.name.startswith(".")]
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in files)
    return rows, sum(path.stat().st_size for path in files)
