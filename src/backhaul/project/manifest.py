"""What is to be read? A manifest's entry in our own form, and `TableEntry`, which each becomes.

    tables:
      orders:
        source: shop            # may be left out where the project has one connection
        table: public.orders    # or `query`; left out, it is the entry's name

Names are as the catalog spells them: no folding to lower case. A part in double quotes may hold
dots, `*` and `?`; without quotes these two make a glob. The schema defaults to `public`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from backhaul.findings import Place
from backhaul.project.load import Budget, LoadEntry
from backhaul.project.settings import Duration, Names, RangePolicy, Settings, null_is_a_word
from backhaul.quality.checks import Check
from backhaul.schema.model import Relation

if TYPE_CHECKING:
    from backhaul.project.models import ExtractSettings

ChunkBy = Literal["auto", "key", "blocks"]
NumericPolicy = Literal["text", "double"]

# What a query may hold in braces besides the project's variables.
PLACEHOLDERS = ("BEGIN_TIMESTAMP", "END_TIMESTAMP", "EXECUTION_DATE", "HOURS", "DAYS")
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".\s]+)')
DEFAULT_SCHEMA = "public"


@dataclass(frozen=True)
class TableEntry:
    """One entry of a manifest. Exactly one of `relation`, `glob` and `query` is set.

    `external`: somebody else loads the staged files, and moves them. A load that deletes sets `deletes`.
    """

    name: str
    source: str
    relation: Relation | None = None
    glob: str | None = None
    query: str | None = None
    key: tuple[str, ...] = ()
    watermark: str | None = None
    where: str | None = None
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    deletes: bool = False
    load_by_id: str | None = None
    incremental: bool = True
    chunk_rows: int = 5_000_000
    chunk_by: ChunkBy = "auto"
    overlap: timedelta = timedelta(minutes=30)
    window_cap: timedelta | None = None
    resume_within: timedelta = timedelta(hours=24)
    advanced_metadata: bool = False
    numeric: NumericPolicy = "text"
    out_of_range: RangePolicy = "null"
    windowed: bool = False
    additional_filtering: str | None = None
    form: Literal["own", "gitlab"] = "own"
    loads: tuple[LoadEntry, ...] = ()
    external: bool = False
    checks: tuple[Check, ...] = ()
    budget: Budget = field(default_factory=Budget)
    extras: Mapping[str, Any] = field(default_factory=dict)
    place: Place = field(default_factory=lambda: Place(""))


class OnwardSettings(Settings):
    """Where a table goes, in either form. Read and checked part by part: see destined.py."""

    load: Any = None
    checks: Any = None
    checks_from: str | None = Field(default=None, min_length=1)
    budget: Any = None


class TableSettings(OnwardSettings):
    """An entry as it is written; what is left out comes from the project's `extract:` section."""

    source: str | None = None
    table: str | None = Field(default=None, min_length=1)
    query: str | None = Field(default=None, min_length=1)
    key: Names = ()
    watermark: str | None = None
    where: str | None = None
    columns: Names | None = None
    exclude: Names = ()
    deletes: bool = False
    load_by_id: str | None = None
    incremental: bool = True
    chunk_rows: int | None = Field(default=None, ge=1)
    chunk_by: ChunkBy = "auto"
    overlap: Duration | None = None
    window_cap: Duration | None = None
    resume_within: Duration | None = None
    advanced_metadata: bool | None = None
    numeric: NumericPolicy | None = None
    out_of_range: Annotated[RangePolicy | None, BeforeValidator(null_is_a_word)] = None


@dataclass(frozen=True)
class TableName:
    """What `table:` names: one relation, or a glob over relations."""

    relation: Relation | None = None
    glob: str | None = None


def is_windowed(query: str | None) -> bool:
    """Whether the query itself says where the window goes."""
    return bool(query and _PLACEHOLDER.search(query))


def parse_table_name(text: str) -> TableName:
    """`orders`, `shop.orders`, `"My Schema"."T.1"`, `shop.*`; ValueError for anything else."""
    parts = split_name(text)
    if len(parts) == 1:
        parts = [(DEFAULT_SCHEMA, False), *parts]
    if any(not quoted and ("*" in part or "?" in part) for part, quoted in parts):
        if any(quoted for _, quoted in parts):
            raise ValueError("a pattern cannot hold a quoted name")
        return TableName(glob=".".join(part for part, _ in parts))
    (schema, _), (name, _) = parts
    return TableName(relation=Relation(schema, name))


def split_name(text: str) -> list[tuple[str, bool]]:
    """One or two parts, each with whether it stood in quotes; ValueError for anything else."""
    text = text.strip()
    parts: list[tuple[str, bool]] = []
    position = 0
    while match := _PART.match(text, position):
        quoted = match[1] is not None
        parts.append((match[1].replace('""', '"') if quoted else match[2], quoted))
        position = match.end() + 1
        if match.end() == len(text) or text[match.end()] != ".":
            break
    if not parts or position != len(text) + 1 or len(parts) > 2:
        raise ValueError('a table is named `table`, `schema.table` or `"Quoted"."name"`')
    return parts


def table_entry(
    name: str, settings: TableSettings, source: str, defaults: ExtractSettings, place: Place
) -> TableEntry:
    """The entry with the project's defaults filled in; ValueError if `table` names nothing."""
    named = TableName() if settings.query else parse_table_name(settings.table or name)
    elsewhere = {"source", "table", *OnwardSettings.model_fields}
    given = settings.model_dump(exclude=elsewhere, exclude_unset=True)
    # `window_cap: null` lifts the project's cap; for any other key null is the same as no key.
    said = {key: value for key, value in given.items() if value is not None or key == "window_cap"}
    return TableEntry(
        **{**_defaults(defaults), **said},
        name=name,
        source=source,
        relation=named.relation,
        glob=named.glob,
        windowed=is_windowed(settings.query),
        place=place,
    )


def _defaults(extract: ExtractSettings) -> dict[str, Any]:
    """The section's values under the names that an entry has for them: they are the same."""
    return {name: getattr(extract, name) for name in type(extract).model_fields}
