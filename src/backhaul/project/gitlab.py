"""What does a manifest of GitLab's data team say, in our words?

    connection_info:                     in the manifest, or in a file of its own beside it
      postgres_source_connection_main:   the connection `main`
        host: GITLAB_COM_DB_HOST         the values name environment variables
    tables:
      users: {import_query, export_table_primary_key, database_type: main, ...}

Theirs and ours differ in this: `database_type` is the connection's name, `deletes_exempt` the
opposite of `deletes`, and a query holds its window itself. Older manifests have one connection, flat
in `connection_info` or as `postgres_source_connection`: it is named after the file. A connection of
the same name in `backhaul.yml` wins, because it can say more (replica, limits). What only their
loader and dbt use is kept in `extras`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from backhaul.findings import Place
from backhaul.project.manifest import OnwardSettings, TableEntry, is_windowed
from backhaul.project.settings import Names
from backhaul.project.translate import Section, did_you_mean, is_mapping

if TYPE_CHECKING:
    from backhaul.project.models import ExtractSettings

# Any of these keys tells the form; no key of ours is among them.
MARKS = frozenset({"import_db", "import_query", "export_table", "export_table_primary_key"})
SOURCE_PREFIX = "postgres_source_connection_"
_ONLY_SOURCE = "postgres_source_connection"
# A column as SQL has it: theirs put the key into queries.
_NAME = re.compile(r"[^\W\d][\w$]*")
_QUOTED = re.compile(r'"(?:[^"]|"")+"')
# Where their pipeline keeps its metadata; ours is the state database.
_METADATA = "postgres_metadata_connection"
_PARTS = ("host", "port", "database", "user", "pass")
_EXTRAS = (
    "import_db",
    "import_schema",
    "export_db",
    "export_schema",
    "export_table",
    "database_type",
    "incremental_type",
    "dbt_source_model",
    "dbt_snapshots",
)


class GitlabSettings(OnwardSettings):
    """An entry as GitLab's manifests write it."""

    import_db: str | None = None
    import_schema: str | None = None
    import_query: str = Field(min_length=1)
    export_db: str | None = None
    export_schema: str | None = None
    export_table: str | None = None
    export_table_primary_key: Annotated[Names, WithJsonSchema({})] = ()
    database_type: str | None = None
    additional_filtering: str | None = None
    incremental_type: Literal["load_by_id", "load_by_date"] | None = None
    is_incremental: bool | None = None
    deletes_exempt: bool = False
    dbt_source_model: bool | None = None
    dbt_snapshots: bool | None = None
    advanced_metadata: bool | None = None


@dataclass(frozen=True)
class NamedVariables:
    """A connection of `connection_info`: which variables hold its parts."""

    name: str
    variables: Mapping[str, str]
    section: Section

    def missing(self, environ: Mapping[str, str]) -> list[str]:
        return sorted({name for name in self.variables.values() if not environ.get(name)})

    def settings(self, environ: Mapping[str, str]) -> dict[str, Any]:
        parts = {part: environ[name] for part, name in self.variables.items()}
        return {"name": self.name, **parts}


def is_gitlab_entry(section: Section) -> bool:
    return not MARKS.isdisjoint(section.node.entries())


def gitlab_entry(
    name: str, settings: GitlabSettings, source: str, defaults: ExtractSettings, place: Place
) -> TableEntry:
    """Their entry as ours."""
    key = _key(settings)
    windowed = is_windowed(settings.import_query)
    by_id = key[0] if settings.incremental_type == "load_by_id" and key else None
    incremental = settings.is_incremental
    if incremental is None:
        incremental = windowed or by_id is not None
    advanced = settings.advanced_metadata
    extras = settings.model_dump(include=set(_EXTRAS), exclude_none=True)
    return TableEntry(
        name=name,
        source=source,
        query=settings.import_query,
        key=key,
        # A table that is copied whole shows its deletes by itself.
        deletes=incremental and not settings.deletes_exempt,
        load_by_id=by_id,
        incremental=incremental,
        chunk_rows=defaults.chunk_rows,
        overlap=defaults.overlap,
        window_cap=defaults.window_cap,
        resume_within=defaults.resume_within,
        advanced_metadata=defaults.advanced_metadata if advanced is None else advanced,
        numeric=defaults.numeric,
        out_of_range=defaults.out_of_range,
        windowed=windowed,
        additional_filtering=settings.additional_filtering,
        form="gitlab",
        extras=extras,
        place=place,
    )


def _key(settings: GitlabSettings) -> tuple[str, ...]:
    return tuple(_column(one, settings.import_query) for one in settings.export_table_primary_key)


def _column(part: str, query: str) -> str:
    """A part of a key as a column's name; an expression that is not selected stays as it is, and
    planning will say so."""
    if _NAME.fullmatch(part):
        return part.lower()
    if _QUOTED.fullmatch(part):
        return part[1:-1].replace('""', '"')
    return selected_as(part, query) or part


def selected_as(expression: str, query: str) -> str | None:
    """The column as which a query selects an expression; None if it does not.

    Theirs has `CONCAT(deployment_id,'_',merge_request_id)` as a key: chunks need the column's name.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        wanted = parse_one(expression, dialect="postgres").sql("postgres")
        tree = parse_one(query.replace("%%", "%"), dialect="postgres")
        selects = tree.selects if isinstance(tree, exp.Query) else []
        named = {select.unalias().sql("postgres"): select.alias_or_name for select in selects}
    except (SqlglotError, RecursionError):
        named, wanted = {}, expression
    return named.get(wanted) or None


def connection_info(section: Section) -> list[NamedVariables]:
    """The connections of a `connection_info`, by parts or flat."""
    if not is_mapping(section):
        return []
    entries = section.node.entries()
    only = PurePosixPath(section.file).stem
    if entries and not any(isinstance(node.value, dict) for node in entries.values()):
        return _named(only, section)
    found: list[NamedVariables] = []
    for key in entries:
        below = section.below(key)
        if below is None or key == _METADATA:
            continue
        name = only if key == _ONLY_SOURCE else key.removeprefix(SOURCE_PREFIX)
        if name in ("", key):
            remedy = f"name it {SOURCE_PREFIX}<database_type>"
            section.find("unknown_key", f"`{key}` is not a connection here", remedy, key)
        elif is_mapping(below):
            found += _named(name, below)
    return found


def _named(name: str, section: Section) -> list[NamedVariables]:
    variables: dict[str, str] = {}
    for key, node in section.node.entries().items():
        if key not in _PARTS:
            section.find(
                "unknown_key", f"`{key}` is not a setting here", did_you_mean(key, _PARTS), key
            )
        elif not isinstance(node.value, str):
            section.find("wrong_type", f"`{key}` must name an environment variable", None, key)
        else:
            variables[key] = node.text
    for key in ("host", "database"):
        if key not in section.node.entries():
            section.find(
                "missing_key", f"`{key}` is missing", f"add `{key}:` with a variable's name"
            )
    return [NamedVariables(name, variables, section)]
