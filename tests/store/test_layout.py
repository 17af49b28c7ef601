"""Where does each file belong, and is every path read back as it was written?"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.errors import StoreRefused
from backhaul.store import layout

STARTED = datetime(2026, 11, 19, 5, 56, 0, 123456, UTC)
UPLOADED = datetime(2026, 11, 19, 6, 1, 2, 3, UTC)
TIMES = st.datetimes(timezones=st.just(UTC))
NUMBERS = st.from_regex(r"[0-9]{1,5}(\.[0-9]{1,3}){0,2}", fullmatch=True).filter(str.isascii)


def test_a_chunk_has_the_promised_path() -> None:
    path = layout.chunk_path("backfill", "users", STARTED, UPLOADED, "7")
    assert path == (
        "staging/backfill/users/initial_load_start_20261119t055600.123456z"
        "/20261119t060102.000003z_users_7.parquet"
    )
    assert path.startswith(layout.export_folder("backfill", "users", STARTED) + "/")
    assert layout.processed_path(path) == "processed" + path.removeprefix("staging")


def test_times_are_utc() -> None:
    there = STARTED.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert layout.format_time(there) == layout.format_time(STARTED)
    with pytest.raises(ValueError, match="no time zone"):
        layout.format_time(STARTED.replace(tzinfo=None))


@given(TIMES, TIMES)
def test_times_sort_as_text(one: datetime, other: datetime) -> None:
    assert (one < other) == (layout.format_time(one) < layout.format_time(other))
    assert layout.parse_time(layout.format_time(one)) == one


@given(st.sampled_from(layout.KINDS), st.text(max_size=300), TIMES, TIMES, NUMBERS)
def test_every_path_is_read_back(
    kind: str, table: str, started: datetime, uploaded: datetime, number: str
) -> None:
    path = layout.chunk_path(kind, table, started, uploaded, number)
    slug = layout.table_slug(table)
    expected = layout.ParsedPath("staging", kind, slug, started, uploaded, number)
    assert layout.parse_path(path) == expected
    assert layout.check_path(path) == path == path.lower()
    assert path.startswith(layout.table_prefix("staging", kind, table) + "/")
    assert all(len(os.fsencode(part)) <= 200 for part in path.split("/"))


@pytest.mark.parametrize(
    "name", ["users", "public.users", "ci_builds", "a-b", "_x", "0", "a.b-c_d"]
)
def test_plain_names_stay(name: str) -> None:
    assert layout.table_slug(name) == name


ODD = [
    "Users",
    "USERS",
    "users ",
    "users/",
    "../users",
    "Üsers",
    "üsers",
    "a b",
    "a/b",
    "a_b",
    "a\tb",
]


@pytest.mark.parametrize(
    "name", ["Users", "..", ".", "", "-x", "a--b", "x" * 101, "a/b", "名前", "\ud800"]
)
def test_odd_names_carry_a_hash(name: str) -> None:
    slug = layout.table_slug(name)
    assert "--" in slug and layout.check_path(slug) == slug and "/" not in slug


def test_a_slug_is_the_same_in_every_release() -> None:
    # Files of years ago are found by it.
    assert layout.table_slug("Users") == "users--6b0cc904d081"
    assert layout.table_slug("Bestellung (alt)") == "bestellung_alt_--57040a64c92e"


def test_no_two_names_share_a_slug() -> None:
    names = [*ODD, "users", *(layout.table_slug(name) for name in ODD)]
    slugs = [layout.table_slug(name) for name in dict.fromkeys(names)]
    assert len(set(slugs)) == len(set(names))


@given(st.lists(st.text(alphabet="aAbB-_./ ü", max_size=6), unique=True, max_size=30))
def test_slugs_differ_where_names_do(names: list[str]) -> None:
    assert len({layout.table_slug(name) for name in names}) == len(names)


START_FOLDER = "initial_load_start_20261119t055600.123456z"
FILE = "20261119t060102.000003z_users_7.parquet"


@pytest.mark.parametrize(
    "path",
    [
        "processed/backfill/users/export.parquet",
        f"staging/other/users/{START_FOLDER}/{FILE}",
        f"elsewhere/backfill/users/{START_FOLDER}/{FILE}",
        f"staging/backfill/others/{START_FOLDER}/{FILE}",
        f"staging/backfill/users/{START_FOLDER}/{FILE}.tmp",
        f"staging/backfill/users/{START_FOLDER.replace('1119', '1399')}/{FILE}",
    ],
)
def test_others_files_are_not_ours(path: str) -> None:
    assert layout.parse_path(f"staging/backfill/users/{START_FOLDER}/{FILE}") is not None
    assert layout.parse_path(path) is None


def test_what_has_no_place_is_refused() -> None:
    with pytest.raises(ValueError, match="staging/other"):
        layout.table_prefix("staging", "other", "users")
    with pytest.raises(ValueError, match="a chunk's number"):
        layout.chunk_path("backfill", "users", STARTED, UPLOADED, "../1")
    for path in ("processed/x", "staging", "x"):
        with pytest.raises(ValueError, match="not under staging"):
            layout.processed_path(path)


def test_a_prefix_may_end_with_a_slash() -> None:
    assert layout.check_prefix("staging/users/") == "staging/users"
    assert layout.check_prefix("") == ""
    for prefix in ("/", "//", "a//", "../a", "a/.."):
        with pytest.raises(StoreRefused):
            layout.check_prefix(prefix)
