"""Exports, files and entries for the pure tests of loads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Column, Key, TableSchema
from backhaul.state.load_records import LoadFile, LoadRow, WaitingExport
from backhaul.state.records import ExportRow

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
ORDERS = TableSchema(
    (Column("id", "bigint", False), Column("total", "decimal(12,2)")), Key(("id",))
)


def entry(**settings: Any) -> TableEntry:
    return TableEntry(**{"name": "orders", "source": "shop", **settings})


def load(**settings: Any) -> LoadEntry:
    return LoadEntry(**{"to": "lake", "namespace": "analytics", "name": "orders", **settings})


def export(number: int, kind: str = "backfill", **settings: Any) -> ExportRow:
    """The export with this id, an hour after the one before it."""
    values: dict[str, Any] = dict.fromkeys(ExportRow.__dataclass_fields__)
    at = NOON + timedelta(hours=number)
    values |= {
        "id": number,
        "run_id": "run",
        "table_name": "orders",
        "source_name": "shop",
        "database_name": "shop",
        "kind": kind,
        "initial_load_start_date": at,
        "folder": f"staging/{kind}/orders/initial_load_start_{number}",
        "file_schema": ORDERS.as_dict(),
        "source_schema": ORDERS.as_dict(),
        "status": "complete",
        "snapshot_lsn": f"0/{number}",
        "snapshot": f"{number}:{number}:",
        "snapshot_at": at,
        "started_at": at,
        "past_window": False,
        "replaced": {},
    }
    return ExportRow(**{**values, **settings})


def waiting(number: int, kind: str = "backfill", files: int = 1, **settings: Any) -> WaitingExport:
    one = export(number, kind, **settings)
    return WaitingExport(
        one,
        tuple(LoadFile(number, f"{one.folder}/{part}.parquet", 10, 100) for part in range(files)),
    )


def loaded(until: datetime, **settings: Any) -> LoadRow:
    values: dict[str, Any] = dict.fromkeys(LoadRow.__dataclass_fields__)
    values |= {"load_id": 1, "status": "complete", "last_loaded_timestamp": until, "position": {}}
    return LoadRow(**{**values, **settings})
