"""Where in the store does each file belong? Every path that we write, and how to read one back.

Pure. Everything is lower case, because some stores and many people do not tell `Users` from
`users`; so a table's name is slugged, and a slug that lost something carries a hash of the name.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from backhaul.errors import StoreRefused

KINDS = ("backfill", "incremental", "deletes", "load_by_id")
STAGING, PROCESSED = "staging", "processed"
AREAS = (STAGING, PROCESSED)

# A file's name holds a time, the slug and a number: together they stay below 255 bytes.
_SLUG_LENGTH = 100
_HASH_LENGTH = 12
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]*")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_ISO = r"\d{8}t\d{6}\.\d{6}z"
_PATH = re.compile(
    rf"(?P<area>{'|'.join(AREAS)})/(?P<kind>{'|'.join(KINDS)})/(?P<table>[^/]+)"
    rf"/initial_load_start_(?P<started>{_ISO})"
    rf"/(?P<uploaded>{_ISO})_(?P=table)_(?P<number>{_NUMBER.pattern})\.parquet"
)


@dataclass(frozen=True)
class ParsedPath:
    """What the path of a chunk says; `table` is the slug, not the manifest's name."""

    area: str
    kind: str
    table: str
    started: datetime
    uploaded: datetime
    number: str


def table_slug(table: str) -> str:
    """The table's name as paths spell it; two names never share one.

    A plain name has no `--` and stays as it is; every other gets `--` and a hash of the whole name.
    """
    if _PLAIN.fullmatch(table) and "--" not in table and len(table) <= _SLUG_LENGTH:
        return table
    readable = re.sub(r"[^a-z0-9_]+", "_", table.lower())[: _SLUG_LENGTH - _HASH_LENGTH - 2]
    digest = hashlib.sha256(table.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{readable or '_'}--{digest[:_HASH_LENGTH]}"


def format_time(at: datetime) -> str:
    """A time as paths spell it: UTC, without colons, of one width, so that text sorts as time."""
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no time zone")
    utc = at.astimezone(UTC)
    # strftime does not pad years below 1000.
    return f"{utc.year:04d}{utc:%m%dt%H%M%S.%fz}"


def parse_time(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dt%H%M%S.%fz").replace(tzinfo=UTC)


def table_prefix(area: str, kind: str, table: str) -> str:
    """The folder under which all files of one table and kind are."""
    if area not in AREAS or kind not in KINDS:
        raise ValueError(f"no such place in the store: {area}/{kind}")
    return f"{area}/{kind}/{table_slug(table)}"


def export_folder(kind: str, table: str, started: datetime) -> str:
    """The folder that all files of one load share."""
    return f"{table_prefix(STAGING, kind, table)}/initial_load_start_{format_time(started)}"


def chunk_path(kind: str, table: str, started: datetime, uploaded: datetime, number: str) -> str:
    """The final name of one chunk's file."""
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"a chunk's number is like 7 or 7.2, not {number!r}")
    name = f"{format_time(uploaded)}_{table_slug(table)}_{number}.parquet"
    return f"{export_folder(kind, table, started)}/{name}"


def processed_path(staging_path: str) -> str:
    """Where a loaded file goes: the same place under `processed/`."""
    area, _, rest = staging_path.partition("/")
    if area != STAGING or not rest:
        raise ValueError(f"{staging_path} is not under {STAGING}/")
    return f"{PROCESSED}/{rest}"


def parse_path(path: str) -> ParsedPath | None:
    """What a path says; None for a file that we did not name."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    said = match.groupdict()
    try:
        started, uploaded = parse_time(said.pop("started")), parse_time(said.pop("uploaded"))
    except ValueError:
        return None
    return ParsedPath(started=started, uploaded=uploaded, **said)


def check_path(path: str) -> str:
    """The path, if it stays inside the store and is one that every store can hold.

    A part that begins with a dot is ours alone: unfinished files hide behind it.
    """
    parts = path.split("/")
    if any(_bad_part(part) for part in parts):
        raise StoreRefused(
            f"not a path inside the store: {path!r}",
            remedy="use a relative path with / between its parts, none of which is empty, begins "
            "with a dot, or has a backslash or control character",
        )
    return path


def check_prefix(prefix: str) -> str:
    """A folder inside the store, without the closing slash; empty for the whole store."""
    return check_path(prefix.removesuffix("/")) if prefix else ""


def is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _bad_part(part: str) -> bool:
    return not part or part.startswith(".") or "\\" in part or any(map(_is_control, part))


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"
