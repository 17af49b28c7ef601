"""Is the SQL of a chunk exactly what we mean? Golden texts, and names that try to break out."""

from __future__ import annotations

import pytest

from backhaul.postgres.partition import Range
from backhaul.postgres.sql import (
    KeyColumn,
    chunk_select,
    count_select,
    quote_literal,
    quote_name,
    quote_relation,
    session_settings,
)
from backhaul.schema.model import Relation
from tests.servers import SourceDatabase

T = Relation("public", "T a")
ID = KeyColumn("id", "bigint")
PAIR = (KeyColumn("a", "uuid"), KeyColumn("b", "text", nullable=True))

NASTY = ('a"b', "a'b", "a\\b", "select", "with space", "ünï🚚", "x" * 63, "{0}", "%s", "a;--", "$1")


@pytest.mark.parametrize(
    ("key", "span", "where"),
    [
        ((ID,), Range(), ""),
        ((ID,), Range(None, ("5",)), """ WHERE (("id") < ('5'::bigint))"""),
        (
            (ID,),
            Range(("-1",), ("5",)),
            """ WHERE (("id") >= ('-1'::bigint)) AND (("id") < ('5'::bigint))""",
        ),
        ((ID,), Range(nulls=True), """ WHERE ("id" IS NULL)"""),
        (
            PAIR,
            Range(("u", "it's"), None),
            """ WHERE (("a", "b") >= ('u'::uuid, 'it''s'::text)) AND ("b" IS NOT NULL)""",
        ),
        (PAIR, Range(("u",), None), """ WHERE (("a") >= ('u'::uuid)) AND ("b" IS NOT NULL)"""),
        (PAIR, Range(nulls=True), """ WHERE ("a" IS NULL OR "b" IS NULL)"""),
        (
            (KeyColumn("ctid", "tid"),),
            Range(("(7,0)",), None),
            """ WHERE (("ctid") >= ('(7,0)'::tid))""",
        ),
    ],
)
def test_a_chunk_is_a_half_open_range(key: tuple[KeyColumn, ...], span: Range, where: str) -> None:
    assert chunk_select(T, ['"x" AS "y"'], key, span, ()) == (
        f'SELECT "x" AS "y" FROM "public"."T a"{where}'
    )


def test_conditions_hold_for_every_chunk() -> None:
    sql = count_select(T, (ID,), Range(None, ("5",)), ("a OR b", "c"))
    assert sql == (
        'SELECT count(*) AS rows FROM "public"."T a"'
        """ WHERE (("id") < ('5'::bigint)) AND (a OR b) AND (c)"""
    )


def test_a_query_keeps_its_last_comment_to_itself(source: SourceDatabase) -> None:
    sql = chunk_select("SELECT 1 AS id -- the end", ['"id"'], (ID,), Range(("1",), None), ())
    assert source.rows(sql) == [(1,)]


@pytest.mark.parametrize("name", NASTY)
def test_names_and_values_cannot_break_out(source: SourceDatabase, name: str) -> None:
    relation = Relation("public", name)
    column = quote_name(name)
    source.execute(f"CREATE TABLE {quote_relation(relation)} ({column} text)")
    source.connection.execute(
        f"INSERT INTO {quote_relation(relation)} VALUES ({quote_literal(name)})"
    )
    sql = chunk_select(
        relation, [column], (KeyColumn(name, "text"),), Range((name,), (name + "~",)), ()
    )
    assert source.connection.execute(sql).fetchall() == [(name,)]


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_a_backslash_is_itself_whatever_the_server_thinks(
    source: SourceDatabase, conforming: str
) -> None:
    source.execute(f"SET standard_conforming_strings = {conforming}")
    assert source.rows(f"SELECT {quote_literal(chr(92) + 'n it' + chr(39) + 's')}") == [
        ("\\n it's",)
    ]


def test_a_session_reads_the_same_text_everywhere(source: SourceDatabase) -> None:
    source.execute(
        "SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'; SET intervalstyle = 'sql_standard'"
    )
    source.execute(session_settings(1000, 2000))
    row = source.rows(
        "SELECT timestamptz '2020-01-01 00:00:00+00'::text, interval '1 day 1 hour'::text,"
        " current_setting('statement_timeout'), current_setting('lock_timeout')"
    )
    assert row == [("2020-01-01 00:00:00+00", "1 day 01:00:00", "1s", "2s")]
