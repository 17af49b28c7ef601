"""How is one table read, whatever the chunk? The picklable recipe that every task carries.

Pure. The same recipe serves a plain table, its partitions (a chunk names the one it reads) and a
query; a window and a key-only export differ in their conditions and columns, nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from backhaul.postgres.partition import Range
from backhaul.postgres.sql import KeyColumn, boundaries_select, chunk_select, quote_name
from backhaul.postgres.types import Carrier, Conversion
from backhaul.schema.model import Column, Key, Relation, TableSchema

# Columns that `advanced_metadata` adds to every row.
UPLOADED_AT, TASK_INSTANCE = "_uploaded_at", "_task_instance"
_ADVANCED = (
    Column(UPLOADED_AT, "timestamp", nullable=False),
    Column(TASK_INSTANCE, "string", nullable=False),
)


@dataclass(frozen=True)
class ReadSpec:
    """`source` is a relation or the SQL of a subquery; `conditions` hold for every chunk."""

    table: str
    kind: str
    source: Relation | str
    carriers: tuple[Carrier, ...]
    chunk_key: tuple[KeyColumn, ...]
    chunk_rows: int
    key: Key = Key()
    conditions: tuple[str, ...] = ()
    advanced_metadata: bool = False

    @property
    def source_schema(self) -> TableSchema:
        """What the source has, and so what two files are compared by."""
        return TableSchema(tuple(carrier.column for carrier in self.carriers), self.key)

    @property
    def file_schema(self) -> TableSchema:
        """What a file holds: the source's columns and, where asked for, ours."""
        added = _ADVANCED if self.advanced_metadata else ()
        return TableSchema(self.source_schema.columns + added, self.key)

    def select(self, relation: Relation | None, span: Range) -> str:
        """The SQL of one chunk."""
        return chunk_select(
            relation or self.source, self._selects(), self.chunk_key, span, self.conditions
        )

    def boundaries(self, relation: Relation | None, span: Range) -> str:
        """The SQL that finds where a chunk must be cut so that each piece has `chunk_rows` rows."""
        return boundaries_select(
            relation or self.source, self.chunk_key, span, self.conditions, self.chunk_rows
        )

    def as_dict(self) -> dict[str, Any]:
        """As it is stored with its export, for the lanes and for the run that resumes it."""
        return {
            "table": self.table,
            "kind": self.kind,
            "source": asdict(self.source) if isinstance(self.source, Relation) else self.source,
            "carriers": [asdict(carrier) for carrier in self.carriers],
            "chunk_key": [asdict(column) for column in self.chunk_key],
            "chunk_rows": self.chunk_rows,
            "key": list(self.key.columns),
            "conditions": list(self.conditions),
            "advanced_metadata": self.advanced_metadata,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        source = value["source"]
        return cls(
            table=value["table"],
            kind=value["kind"],
            source=source if isinstance(source, str) else Relation(**source),
            carriers=tuple(_carrier(one) for one in value["carriers"]),
            chunk_key=tuple(KeyColumn(**one) for one in value["chunk_key"]),
            chunk_rows=value["chunk_rows"],
            key=Key(tuple(value["key"])),
            conditions=tuple(value["conditions"]),
            advanced_metadata=value["advanced_metadata"],
        )

    def narrowed(self, conditions: tuple[str, ...]) -> ReadSpec:
        return replace(self, conditions=self.conditions + conditions)

    def _selects(self) -> list[str]:
        selects = [
            f"{carrier.select} AS {quote_name(carrier.column.name)}" for carrier in self.carriers
        ]
        checks = [
            f"{carrier.check} AS {quote_name(carrier.check_name)}"
            for carrier in self.carriers
            if carrier.check is not None
        ]
        return selects + checks


def _carrier(value: Mapping[str, Any]) -> Carrier:
    return Carrier(
        Column(**value["column"]), value["select"], value["check"], Conversion(value["arrow"])
    )


def fingerprint(
    spec: ReadSpec, leaves: tuple[Relation, ...], server: str, marks: tuple[str, ...] = ()
) -> str:
    """The same for two exports that read the same thing, so that one may continue the other.

    `marks` say what must not have changed in between where chunks are block ranges. Not part of it:
    the window's bounds (a resumed export keeps its own) and how large a chunk is.
    """
    said = {
        "source": str(spec.source),
        "columns": [(c.column.name, c.column.type, c.select) for c in spec.carriers],
        "chunk_key": [column.name for column in spec.chunk_key],
        "conditions": spec.conditions,
        "leaves": sorted(str(leaf) for leaf in leaves),
        "advanced_metadata": spec.advanced_metadata,
        "server": server,
        "marks": sorted(marks),
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
