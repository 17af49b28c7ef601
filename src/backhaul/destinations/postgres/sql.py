"""Which SQL makes, fills and publishes tables? Pure; every name and every literal is quoted here.

`t` is the target and `s` what was staged, as in the user's own conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from backhaul.destinations.postgres.config import POSITIONS, POSITIONS_KEPT
from backhaul.destinations.postgres.types import Carried, compared
from backhaul.postgres.sql import quote_literal, quote_name, quote_relation
from backhaul.schema.model import Relation


@dataclass(frozen=True)
class Defined:
    """A column of a table that is made. `default` is SQL."""

    name: str
    type: str
    not_null: bool = False
    default: str | None = None

    def __str__(self) -> str:
        parts = [quote_name(self.name), self.type]
        if self.not_null:
            parts.append("NOT NULL")
        if self.default is not None:
            parts.append(f"DEFAULT {self.default}")
        return " ".join(parts)


def names(columns: Sequence[str]) -> str:
    return ", ".join(quote_name(column) for column in columns)


def instant(at: datetime) -> str:
    return f"{quote_literal(at.isoformat())}::timestamptz"


# Tables.


def create_schema(name: str) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {quote_name(name)}"


def create_table(table: Relation, columns: Sequence[Defined], *, unlogged: bool = False) -> str:
    kind = "UNLOGGED TABLE" if unlogged else "TABLE"
    return f"CREATE {kind} {quote_relation(table)} ({', '.join(map(str, columns))})"


def drop_tables(tables: Sequence[Relation]) -> str:
    return f"DROP TABLE IF EXISTS {', '.join(quote_relation(table) for table in tables)}"


def add_columns(table: Relation, columns: Sequence[Defined]) -> str:
    added = ", ".join(f"ADD COLUMN {column}" for column in columns)
    return f"ALTER TABLE {quote_relation(table)} {added}"


def widen_columns(table: Relation, columns: Sequence[Defined]) -> str:
    changes = ", ".join(
        f"ALTER COLUMN {quote_name(column.name)} TYPE {column.type}"
        f" USING {quote_name(column.name)}::{column.type}"
        for column in columns
    )
    return f"ALTER TABLE {quote_relation(table)} {changes}"


def add_primary_key(table: Relation, columns: Sequence[str], name: str) -> str:
    added = f"ADD CONSTRAINT {quote_name(name)} PRIMARY KEY ({names(columns)})"
    return f"ALTER TABLE {quote_relation(table)} {added}"


def create_index(table: Relation, columns: Sequence[str], name: str) -> str:
    return f"CREATE INDEX {quote_name(name)} ON {quote_relation(table)} ({names(columns)})"


def rename_index(schema: str, before: str, after: str) -> str:
    index = quote_relation(Relation(schema, before))
    return f"ALTER INDEX {index} RENAME TO {quote_name(after)}"


def adopt_table(staging: Relation, target: Relation, defaults: Sequence[str]) -> list[str]:
    """The staging table becomes the target; what filled its technical columns goes."""
    dropped = ", ".join(f"ALTER COLUMN {quote_name(name)} DROP DEFAULT" for name in defaults)
    statements = [f"ALTER TABLE {quote_relation(staging)} {dropped}"] if defaults else []
    rename = f"ALTER TABLE {quote_relation(staging)} RENAME TO {quote_name(target.name)}"
    return [*statements, rename]


def lock_writers(table: Relation) -> str:
    """Readers go on; nobody else writes, so that what is looked for and not found stays away."""
    return f"LOCK TABLE {quote_relation(table)} IN SHARE ROW EXCLUSIVE MODE"


# Parts: which Spark partitions are in.


def create_parts(table: Relation) -> str:
    """Unlogged even beside logged rows: a crash of the server empties it, and the load is repeated."""
    columns = (
        "batch integer, part integer, rows bigint NOT NULL DEFAULT 0, PRIMARY KEY (batch, part)"
    )
    return f"CREATE UNLOGGED TABLE {quote_relation(table)} ({columns})"


def claim_part(table: Relation, batch: int, part: int) -> str:
    """Waits for another attempt's transaction; no row comes back where that one committed."""
    values = f"(batch, part) VALUES ({batch}, {part})"
    return f"INSERT INTO {quote_relation(table)} {values} ON CONFLICT DO NOTHING RETURNING part"


def count_part(table: Relation, batch: int, part: int, rows: int) -> str:
    where = f"WHERE batch = {batch} AND part = {part}"
    return f"UPDATE {quote_relation(table)} SET rows = {rows} {where}"


def part_rows(table: Relation, batch: int, part: int | None = None) -> str:
    """Parts and rows that are in, of a batch or of one of its parts."""
    one = "" if part is None else f" AND part = {part}"
    counts = "SELECT count(*), coalesce(sum(rows), 0)::bigint"
    return f"{counts} FROM {quote_relation(table)} WHERE batch = {batch}{one}"


# Keys.


def key_faults(staging: Relation, key: Sequence[str], worst: int) -> str:
    """Rows with NULL in their key, keys that several rows have, and the largest of those counts."""
    nulls = " OR ".join(f"{quote_name(name)} IS NULL" for name in key)
    table = quote_relation(staging)
    return (
        f"SELECT (SELECT count(*) FROM {table} WHERE {nulls}), count(*),"
        f" (array_agg(d.n ORDER BY d.n DESC))[:{worst}]"
        f" FROM (SELECT count(*) AS n FROM {table} WHERE NOT ({nulls})"
        f" GROUP BY {names(key)} HAVING count(*) > 1) AS d"
    )


# Publishing.


def source_item(staging: Relation, columns: Sequence[Carried]) -> str:
    """What was staged as `s`, in the target's types."""
    if all(column.direct for column in columns):
        return f"{quote_relation(staging)} AS s"
    selected = ", ".join(f"{one.cast('r')} AS {quote_name(one.name)}" for one in columns)
    return f"(SELECT {selected} FROM {quote_relation(staging)} AS r) AS s"


def same_key(key: Sequence[str], left: str = "t", right: str = "s") -> str:
    return " AND ".join(f"{left}.{quote_name(one)} = {right}.{quote_name(one)}" for one in key)


def insert_rows(
    table: Relation,
    source: str,
    columns: Sequence[str],
    extra: Mapping[str, str],
    where: str | None = None,
) -> str:
    """`extra` are further columns with their SQL."""
    into = names([*columns, *extra])
    values = ", ".join([*(f"s.{quote_name(name)}" for name in columns), *extra.values()])
    condition = f" WHERE {where}" if where else ""
    insert = f"INSERT INTO {quote_relation(table)} AS t ({into}) OVERRIDING SYSTEM VALUE"
    return f"{insert} SELECT {values} FROM {source}{condition}"


def missing_in(table: Relation, key: Sequence[str], where: str | None = None) -> str:
    """That no row of the table has the key of `s`."""
    condition = f" AND {where}" if where else ""
    return f"NOT EXISTS (SELECT FROM {quote_relation(table)} AS t WHERE {same_key(key)}{condition})"


def update_rows(
    table: Relation, source: str, key: Sequence[str], values: Mapping[str, str], where: str | None
) -> str:
    """`values` are the columns that are set, with their SQL over t and s."""
    changes = ", ".join(f"{quote_name(name)} = {value}" for name, value in values.items())
    condition = f" AND ({where})" if where else ""
    update = f"UPDATE {quote_relation(table)} AS t SET {changes}"
    return f"{update} FROM {source} WHERE {same_key(key)}{condition}"


def differs(columns: Sequence[Carried]) -> str:
    """That a row of `s` says something else than its row of `t`."""
    parts = (
        f"{compared(one.target, f't.{quote_name(one.name)}')} IS DISTINCT FROM"
        f" {compared(one.target, f's.{quote_name(one.name)}')}"
        for one in columns
    )
    return " OR ".join(parts) or "false"


def gone(key: Sequence[str], keys: str, kept: Sequence[str], live: str | None) -> str:
    """That a live row of `t` is in none of these: the keys that the source has, and later batches."""
    conditions = [live] if live else []
    conditions += [
        f"NOT EXISTS (SELECT FROM {source} WHERE {same_key(key)})" for source in (keys, *kept)
    ]
    return " AND ".join(conditions)


def delete_rows(table: Relation, where: str | None = None) -> str:
    condition = f" WHERE {where}" if where else ""
    return f"DELETE FROM {quote_relation(table)} AS t{condition}"


def change_rows(table: Relation, values: Mapping[str, str], where: str) -> str:
    changes = ", ".join(f"{quote_name(name)} = {value}" for name, value in values.items())
    return f"UPDATE {quote_relation(table)} AS t SET {changes} WHERE {where}"


def count_gone(table: Relation, where: str, live: str | None) -> str:
    """How many rows would go, and how many there are."""
    condition = f" WHERE {live}" if live else ""
    return f"SELECT count(*) FILTER (WHERE {where}), count(*) FROM {quote_relation(table)} AS t{condition}"


# Positions.

CREATE_POSITIONS = f"""\
CREATE TABLE IF NOT EXISTS {quote_relation(POSITIONS)} (
    target text NOT NULL,
    load_id bigint NOT NULL,
    exports bigint[] NOT NULL DEFAULT '{{}}',
    lsn pg_lsn,
    snapshot text,
    snapshot_at timestamptz,
    watermark text,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    rows_inserted bigint NOT NULL,
    rows_updated bigint NOT NULL,
    rows_deleted bigint NOT NULL,
    bytes_written bigint NOT NULL,
    PRIMARY KEY (target, load_id)
)"""


def read_position(target: str, load_id: int) -> str:
    return (
        "SELECT exports, lsn::text, snapshot, snapshot_at, watermark,"
        " rows_inserted, rows_updated, rows_deleted, bytes_written"
        f" FROM {quote_relation(POSITIONS)}"
        f" WHERE target = {quote_literal(target)} AND load_id = {load_id}"
    )


def write_position(target: str, load_id: int, values: Mapping[str, str | int | None]) -> str:
    columns = ["target", "load_id", *values]
    literals = [quote_literal(target), str(load_id), *map(_literal, values.values())]
    return (
        f"INSERT INTO {quote_relation(POSITIONS)} ({names(columns)}) VALUES ({', '.join(literals)})"
    )


def forget_positions(target: str) -> str:
    """All but the newest of a table."""
    table, own = quote_relation(POSITIONS), f"target = {quote_literal(target)}"
    newest = f"SELECT load_id FROM {table} WHERE {own} ORDER BY load_id DESC OFFSET {POSITIONS_KEPT} LIMIT 1"
    return f"DELETE FROM {table} WHERE {own} AND load_id <= ({newest})"


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else quote_literal(value)
