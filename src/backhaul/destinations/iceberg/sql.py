"""Which SQL makes, changes and maintains a table of the lake? Pure; every name and literal is quoted here.

Values that do not come from a table are text casts (`CAST('…' AS timestamp)`): exact, folded by Spark
before it plans, and understood by Iceberg when it chooses files. How rows meet is in merge.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from backhaul.destinations.base import Target
from backhaul.project.load import Transform
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_literal, quote_name

_PLAIN = re.compile(r"[a-z0-9_]{1,100}")
_ARRAY = re.compile(r"array<(.+)>")
# More partitions than this at a time, and a writer for each would need too much memory.
_MANY_BUCKETS = 64


def quote_names(names: Iterable[str], alias: str = "") -> str:
    return ", ".join(f"{alias}{quote_name(name)}" for name in names)


def typed(value: str, type_: str) -> str:
    """A value of any type, from its text."""
    return f"CAST({quote_literal(value)} AS {type_})"


def instant(at: datetime) -> str:
    return typed(at.astimezone(UTC).isoformat(sep=" "), "timestamp")


def table(catalog: str, target: Target, part: str | None = None) -> str:
    """The table, or one of its branches or metadata tables."""
    names = [catalog, target.namespace, target.name, *([part] if part else [])]
    return ".".join(map(quote_name, names))


def branch_part(branch: str) -> str:
    """How a branch is spelled as a part of the table's name."""
    return f"branch_{branch}"


def create_namespace(catalog: str, namespace: str) -> str:
    return f"CREATE NAMESPACE IF NOT EXISTS {quote_name(catalog)}.{quote_name(namespace)}"


def create_table(
    name: str,
    columns: Sequence[Column],
    partition_by: Sequence[Transform] = (),
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> str:
    """A new, empty table. No column is NOT NULL: a value that a policy replaced is NULL in any."""
    parts = [f"CREATE TABLE {name} ({column_list(columns)}) USING iceberg"]
    if partition_by:
        parts.append(f"PARTITIONED BY ({', '.join(map(transform, partition_by))})")
    if location is not None:
        parts.append(f"LOCATION {quote_literal(location)}")
    if properties:
        said = [f"{quote_literal(k)} = {quote_literal(v)}" for k, v in sorted(properties.items())]
        parts.append(f"TBLPROPERTIES ({', '.join(said)})")
    return " ".join(parts)


def column_list(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quote_name(column.name)} {column.type}" for column in columns)


def transform(part: Transform) -> str:
    column = quote_name(part.column)
    if part.kind == "identity":
        return column
    return f"{part.kind}({column if part.argument is None else f'{part.argument}, {column}'})"


def add_columns(name: str, columns: Sequence[Column]) -> str:
    return f"ALTER TABLE {name} ADD COLUMNS ({column_list(columns)})"


def widen_column(name: str, column: Column) -> str:
    column_name, type_ = quote_name(column.name), column.type
    while element := _ARRAY.fullmatch(type_):
        column_name, type_ = f"{column_name}.element", element[1]
    return f"ALTER TABLE {name} ALTER COLUMN {column_name} TYPE {type_}"


def write_order(name: str, partition_by: Sequence[Transform], cluster_by: Sequence[str]) -> str:
    """How tasks lay out what they write: sorted by `cluster_by`, each task for itself.

    A partition's rows are brought together only where they are likely to be very many partitions:
    else a task has a writer open for each (fan-out), which saves the shuffle.
    """
    order = f"LOCALLY ORDERED BY {quote_names(cluster_by)}" if cluster_by else "UNORDERED"
    if gathers(partition_by):
        order = f"DISTRIBUTED BY PARTITION {order if cluster_by else ''}".rstrip()
    return f"ALTER TABLE {name} WRITE {order}"


def gathers(partition_by: Sequence[Transform]) -> bool:
    return any(
        part.kind in ("hours", "truncate")
        or (part.kind == "bucket" and (part.argument or 0) > _MANY_BUCKETS)
        for part in partition_by
    )


def create_branch(name: str, branch: str) -> str:
    return f"ALTER TABLE {name} CREATE BRANCH {quote_name(branch)}"


def drop_branch(name: str, branch: str) -> str:
    return f"ALTER TABLE {name} DROP BRANCH IF EXISTS {quote_name(branch)}"


def drop_table(name: str) -> str:
    return f"DROP TABLE IF EXISTS {name} PURGE"


def call(catalog: str, procedure: str, target: Target, **arguments: str) -> str:
    """A procedure of Iceberg on a table; the arguments are SQL."""
    name = f"{quote_name(target.namespace)}.{quote_name(target.name)}"
    said = [f"table => {quote_literal(name)}"]
    said += [f"{key} => {value}" for key, value in arguments.items()]
    return f"CALL {quote_name(catalog)}.system.{procedure}({', '.join(said)})"


def options(values: Mapping[str, str]) -> str:
    """A map argument of a procedure."""
    said = [f"{quote_literal(key)}, {quote_literal(value)}" for key, value in values.items()]
    return f"map({', '.join(said)})"


def select_as(columns: Sequence[Column], given: Iterable[str]) -> list[str]:
    """The table's columns out of a batch that may lack some: these are NULL."""
    have = set(given)
    return [
        quote_name(column.name)
        if column.name in have
        else f"CAST(NULL AS {column.type}) AS {quote_name(column.name)}"
        for column in columns
    ]


def slug(name: str) -> str:
    """A folder's name for a table's: two names never share one, whatever the file system folds."""
    if _PLAIN.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9_]+", "_", name.lower())[:60]
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def location(warehouse: str, target: Target) -> str | None:
    """Where an oddly named table's files are; None for the place that the catalog gives by itself."""
    if _PLAIN.fullmatch(target.namespace) and _PLAIN.fullmatch(target.name):
        return None
    return f"{warehouse.rstrip('/')}/{slug(target.namespace)}/{slug(target.name)}"


def snapshots_select(catalog: str, target: Target) -> str:
    """Every snapshot, and on each row where the branches are."""
    refs, snapshots = (table(catalog, target, part) for part in ("refs", "snapshots"))
    return (
        "SELECT s.snapshot_id, s.parent_id, s.operation, s.summary, r.refs "
        "FROM (SELECT map_from_entries(collect_list(struct(name, snapshot_id))) AS refs "
        f"FROM {refs}) AS r LEFT JOIN {snapshots} AS s ON true"
    )


def newer_rows(
    catalog: str, target: Target, branch: str, columns: Sequence[str], snapshots: Sequence[int]
) -> str:
    """The keys of rows that the snapshots wrote: each row of a v3 table knows its last change."""
    entries = table(catalog, target, "all_entries")
    said = ", ".join(map(str, snapshots))
    return (
        f"SELECT {quote_names(columns)} FROM {branch} WHERE _last_updated_sequence_number IN "
        f"(SELECT sequence_number FROM {entries} WHERE snapshot_id IN ({said}))"
    )
