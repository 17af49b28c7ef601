"""Do the files fit together? What no single entry can know, and what one entry says against itself.

Pure: entries in, findings out. What only the source can tell (does the column exist?) is the
preflight's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from backhaul.findings import Finding, Level
from backhaul.project.manifest import TableEntry
from backhaul.project.models import ExtractSettings
from backhaul.project.translate import did_you_mean
from backhaul.project.variables import unknown_names

MAX_NAME_BYTES = 200


def check_tables(
    tables: Sequence[TableEntry],
    connections: Collection[str],
    variables: Mapping[str, str],
    defaults: ExtractSettings,
) -> list[Finding]:
    """Every mistake of every entry. Places have the entry's line; the loader knows the key's."""
    findings = [*_duplicates(tables)]
    usual = (defaults.window_cap, defaults.overlap)
    for table in tables:
        findings += _name(table)
        findings += _source(table, connections)
        findings += _contradictions(table)
        findings += _columns(table)
        findings += _incremental(table)
        # A cap that the project's section got wrong is one mistake there, not one for each table.
        if (table.window_cap, table.overlap) != usual:
            findings += _cap(table)
        findings += _variables(table, variables)
    return findings


def _duplicates(tables: Sequence[TableEntry]) -> Iterator[Finding]:
    """Names are paths in the store, and there letter case does not tell two apart."""
    first: dict[str, TableEntry] = {}
    for table in tables:
        other = first.setdefault(table.name.casefold(), table)
        if other is not table:
            same = "" if other.name == table.name else f" as {other.name!r} (letter case aside)"
            message = f"the table {table.name!r} is defined already{same}, at {other.place}"
            yield _error(table, "duplicate_table", message, "give one of them another name")


def _name(table: TableEntry) -> Iterator[Finding]:
    name = table.name
    if not name.strip() or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        message = f"{name[:60]!r} cannot name a table"
        remedy = f"use printable characters, at most {MAX_NAME_BYTES} bytes"
        yield _error(table, "table_name", message, remedy)


def _source(table: TableEntry, connections: Collection[str]) -> Iterator[Finding]:
    if table.source in connections:
        return
    step = "source" if table.form == "own" else "database_type"
    message = f"no connection is named {table.source!r}"
    remedy = did_you_mean(table.source, connections)
    yield _error(table, "unknown_connection", message, remedy, step)


def _contradictions(table: TableEntry) -> Iterator[Finding]:
    if table.glob and table.columns is not None:
        message = "`columns` cannot be given for a pattern of tables"
        remedy = "list the table in an entry of its own; `exclude` names tables to leave out"
        yield _error(table, "contradiction", message, remedy, "columns")
    elif table.columns is not None and table.exclude:
        message = "`columns` and `exclude` are both given"
        yield _error(table, "contradiction", message, "keep one of them", "exclude")
    if table.columns is not None and not table.columns:
        yield _error(table, "no_columns", "`columns` names no column", "remove it", "columns")
    if table.watermark and table.load_by_id:
        message = "`watermark` and `load_by_id` are both given"
        yield _error(table, "contradiction", message, "keep one of them", "load_by_id")
    # Deletes that a load asks for are reported there.
    implied = any(load.deletes != "ignore" for load in table.loads)
    if table.query and table.deletes and not table.key and not implied:
        message = "`deletes` needs a key, and a query has none in the catalog"
        step = "deletes" if table.form == "own" else "export_table_primary_key"
        yield _error(table, "key_missing", message, "name the query's columns in `key`", step)


def _columns(table: TableEntry) -> Iterator[Finding]:
    """A key that is not in the file tells no row from another."""
    for setting, names in (("key", table.key), ("columns", table.columns or ())):
        for name in sorted({name for name in names if names.count(name) > 1}):
            message = f"the column {name!r} is in `{setting}` twice"
            yield _error(table, "duplicate_column", message, "name it once", setting)
    left_out = () if table.glob else table.exclude
    for name in dict.fromkeys(table.key):
        if name in left_out or (table.columns is not None and name not in table.columns):
            where = "is in `exclude`" if name in left_out else "is not in `columns`"
            message = f"the key's column {name!r} {where}"
            yield _error(
                table, "key_left_out", message, "a key must be exported with its rows", "key"
            )


def cap_mistake(cap: timedelta | None, overlap: timedelta) -> tuple[str, str] | None:
    """Message and remedy, if a window of this length would never get ahead."""
    if cap is None or cap > overlap:
        return None
    message = f"`window_cap` {cap} is not longer than the overlap {overlap}"
    return message, "a window would never get ahead; make the cap longer"


def _cap(table: TableEntry) -> Iterator[Finding]:
    if mistake := cap_mistake(table.window_cap, table.overlap):
        yield _error(table, "window_cap", *mistake, "window_cap")


def _incremental(table: TableEntry) -> Iterator[Finding]:
    if table.form == "gitlab":
        yield from _gitlab_incremental(table)
    elif not table.incremental and (table.watermark or table.load_by_id):
        said = "watermark" if table.watermark else "load_by_id"
        message = f"`{said}` has no effect with `incremental: false`"
        yield _error(table, "no_effect", message, f"remove `{said}`", said, Level.WARNING)


def _gitlab_incremental(table: TableEntry) -> Iterator[Finding]:
    if table.extras.get("incremental_type") == "load_by_id" and not table.key:
        message = "`incremental_type: load_by_id` needs `export_table_primary_key`"
        yield _error(table, "key_missing", message, "name the ascending id", "incremental_type")
    if table.incremental and not table.windowed and not table.load_by_id:
        message = "`is_incremental: true`, and the query has no '{BEGIN_TIMESTAMP}'"
        remedy = "without a window it is copied whole each time"
        yield _error(table, "no_window", message, remedy, "is_incremental", Level.WARNING)


def _variables(table: TableEntry, variables: Mapping[str, str]) -> Iterator[Finding]:
    """`{NAME}` in SQL is filled from `variables:`; without a value it is no SQL."""
    gitlab = table.form == "gitlab"
    texts = {
        "import_query" if gitlab else "query": table.query,
        "additional_filtering": table.additional_filtering,
        "where": table.where,
    }
    for setting, text in texts.items():
        for name in unknown_names(text or "", variables):
            message = f"no variable is named {name!r}"
            remedy = f"add it to `variables:` in backhaul.yml; {did_you_mean(name, variables)}"
            yield _error(table, "unknown_variable", message, remedy, setting)


def _error(
    table: TableEntry,
    code: str,
    message: str,
    remedy: str,
    step: str | None = None,
    level: Level = Level.ERROR,
) -> Finding:
    place = table.place
    if step:
        place = replace(place, key_path=f"{place.key_path}.{step}" if place.key_path else step)
    return Finding(level, code, message, remedy, subject=table.name, place=place)
