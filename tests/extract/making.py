"""What do the pure tests of extraction begin with? Surveys, cases and specs, spelled once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from backhaul.extract.case import Circumstances, TableCase
from backhaul.extract.decide import Target
from backhaul.extract.recipe import rows_spec
from backhaul.extract.selection import Selection
from backhaul.extract.spec import ReadSpec
from backhaul.extract.survey import Ids, SourceSurvey, TableSurvey
from backhaul.findings import Finding, Place
from backhaul.postgres.catalog import LeafFacts, TableFacts
from backhaul.postgres.partition import TableStats
from backhaul.postgres.query import QueryForms
from backhaul.postgres.types import Attribute
from backhaul.postgres.window import SafeEnd
from backhaul.project.connection import PostgresConnection
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Relation
from backhaul.state.records import ExportRow, TableHistory, UnfinishedExport

NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
ORDERS = Relation("public", "orders")
PLACE = Place("manifest/shop.yml", 3, "tables.orders")

# Type names as the catalog spells them, with their name in pg_catalog.
_BASES = {
    "integer": "int4",
    "bigint": "int8",
    "text": "text",
    "uuid": "uuid",
    "date": "date",
    "timestamp with time zone": "timestamptz",
    "timestamp without time zone": "timestamp",
    "numeric": "numeric",
}


def attribute(name: str, type_name: str = "bigint", *, nullable: bool = False) -> Attribute:
    return Attribute(name, type_name, nullable=nullable, base=_BASES[type_name])


ATTRIBUTES = (
    attribute("id"),
    attribute("note", "text", nullable=True),
    attribute("updated_at", "timestamp with time zone", nullable=True),
)


def entry(name: str = "orders", **settings: Any) -> TableEntry:
    values: dict[str, Any] = {"source": "shop", "relation": ORDERS, "place": PLACE}
    return TableEntry(name, **{**values, **settings})


def leaf(relation: Relation = ORDERS, rows: int = 1000, **settings: Any) -> LeafFacts:
    stats = settings.pop("stats", TableStats(rows, blocks=rows // 10, bytes=rows * 100))
    values: dict[str, Any] = {
        "kind": "table",
        "filenode": 1,
        "write_mark": "1.0.0",
        "readable": True,
    }
    return LeafFacts(relation, stats=stats, **{**values, **settings})


def table_survey(
    attributes: Sequence[Attribute] = ATTRIBUTES,
    leaves: Sequence[LeafFacts] | None = None,
    primary_key: tuple[str, ...] = ("id",),
    facts: dict[str, Any] | None = None,
    **settings: Any,
) -> TableSurvey:
    """A table as the source shows it; `settings` are the manifest's."""
    known = {
        "kind": "table",
        "primary_key": primary_key,
        "leaves": tuple(leaves if leaves is not None else [leaf()]),
        **(facts or {}),
    }
    return TableSurvey(
        entry(**settings),
        tuple(attributes),
        TableFacts(ORDERS, attributes=tuple(attributes), **known),
    )


def query_survey(
    backfill: str = "SELECT * FROM orders",
    windowed: str | None = None,
    rows: int = 1000,
    attributes: Sequence[Attribute] = ATTRIBUTES,
    **settings: Any,
) -> TableSurvey:
    values = {"relation": None, "query": backfill, "windowed": windowed is not None, **settings}
    return TableSurvey(
        entry(**values),
        tuple(attributes),
        forms=QueryForms(backfill, windowed),
        estimated_rows=rows,
    )


def case(
    survey: TableSurvey | None = None,
    history: TableHistory | None = None,
    target: Target | None = None,
) -> TableCase:
    survey = survey or table_survey()
    return TableCase(
        survey=survey, history=history or TableHistory(), target=target, spec=rows_spec(survey)
    )


def known(watermark: str | None = None, kind: str = "time", **others: Any) -> TableHistory:
    """A table that was backfilled."""
    marked = kind if watermark else None
    return TableHistory(True, watermark=watermark, watermark_kind=marked, **others)


def target_of(spec: ReadSpec | None, waiting_since: datetime | None = None) -> Target:
    """The latest file has just the columns that the source has."""
    assert spec is not None
    return Target(spec.source_schema, "processed/backfill/orders/a.parquet", waiting_since)


def safe_end(at: datetime, why: str = "the source's clock", *findings: Finding) -> SafeEnd:
    return SafeEnd(at=at, why=why, findings=findings, overlap=timedelta(0))


def around(
    safe: datetime = NOW, ids: Ids | None = None, lanes: int = 4, **selection: Any
) -> Circumstances:
    connection = PostgresConnection(
        name="shop", host="localhost", database="shop", max_connections=lanes
    )
    source = SourceSurvey(connection, "server/1/shop", safe_end(safe))
    return Circumstances(source, Selection(**selection), NOW, ids or Ids())


def unfinished(
    fingerprint: str, age: timedelta = timedelta(hours=1), kind: str = "backfill"
) -> UnfinishedExport:
    """Two of five chunks are done."""
    names: dict[str, Any] = dict.fromkeys(ExportRow.__dataclass_fields__)
    values = {"id": 7, "kind": kind, "fingerprint": fingerprint, "folder": f"staging/{kind}/orders"}
    return UnfinishedExport(ExportRow(**{**names, **values}), NOW - age, 2, 5)


def fully_known(survey: TableSurvey, watermark: str, kind: str = "time") -> TableCase:
    """Backfilled, and its file has every column: what follows is the usual."""
    made = case(survey, known(watermark, kind))
    return replace(made, target=target_of(made.spec))
