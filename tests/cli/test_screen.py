"""Can a table's name or a server's message do anything but be read?"""

from __future__ import annotations

import json

from backhaul.cli.screen import Screen, aligned, harmless
from backhaul.findings import Finding, Level, Place
from tests.cli.making import console, written


def make(width: int = 80, *, terminal: bool = False) -> Screen:
    return Screen(console(width, terminal=terminal), console(width, terminal=terminal))


def test_markup_is_text() -> None:
    screen = make()
    screen.say("[red]orders[/red] [/] :smile:")
    assert written(screen.out) == "[red]orders[/red] [/] :smile:\n"


def test_control_characters_are_shown_not_obeyed() -> None:
    screen = make()
    screen.error("table \x1b[31mred\x1b]0;title\x07 is missing", "drop \x9b2J")
    said = written(screen.err)
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "\x9b" not in said
    assert "\\x1b[31mred" in said
    assert harmless("a\tb\nc\rd") == "a\tb\nc\\x0dd"


def test_what_failed_and_what_to_do() -> None:
    screen = make()
    screen.error("cannot reach db:5432\nit said: refused", "start the server")
    assert written(screen.err) == (
        "error: cannot reach db:5432\nit said: refused\n  → start the server\n"
    )
    assert written(screen.out) == ""


def test_a_pipe_gets_one_long_line_and_a_terminal_wrapped_ones() -> None:
    long = "word " * 60
    pipe, terminal = make(), make(terminal=True)
    pipe.say(long.strip())
    terminal.say(long.strip(), indent=4)
    assert written(pipe.out).count("\n") == 1
    lines = written(terminal.out).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("    word")
    assert lines[1].startswith("      word")


def test_a_finding_names_its_place_before_its_subject() -> None:
    screen = make()
    place = Place("backhaul.yml", 7, "connections.shop.port")
    screen.finding(Finding(Level.ERROR, "port", "no port", "give one", "shop", place))
    screen.finding(Finding(Level.NOTE, "wal", "wal_level is replica", subject="shop"), trouble=True)
    assert written(screen.out) == (
        "error: backhaul.yml:7 connections.shop.port: no port\n  → give one\n"
    )
    assert written(screen.err) == "note: shop: wal_level is replica\n"


def test_a_document_is_json_and_nothing_else() -> None:
    screen = make(width=20)
    screen.document({"table": "größe [b]", "long": "x" * 100})
    assert json.loads(written(screen.out)) == {"table": "größe [b]", "long": "x" * 100}


def test_columns_stand_under_each_other_in_wide_letters_too() -> None:
    assert aligned([("a", "1"), ("日本", "22")], right=(1,)) == ["a      1", "日本  22"]
    assert aligned([]) == []


def test_the_last_column_of_a_table_is_wrapped_under_itself() -> None:
    rows = [("id", "why"), ("1", "it waits for the upstream of yesterday"), ("2", "two\nlines")]
    narrow = make(30, terminal=True)
    narrow.table(rows, right=(0,))
    assert written(narrow.out).splitlines() == [
        "id  why",
        " 1  it waits for the upstream",
        "    of yesterday",
        " 2  two …",
    ]
    piped = make(30)
    piped.table(rows, right=(0,))
    assert written(piped.out).splitlines()[1] == " 1  it waits for the upstream of yesterday"
    tiny = make(10, terminal=True)
    tiny.table(rows, right=(0,))
    assert " 1  it waits for the upstream of yesterday" in written(tiny.out)


def test_documents_have_instants_as_iso() -> None:
    from datetime import UTC, date, datetime

    screen = make()
    screen.document({"at": datetime(2026, 1, 2, 3, tzinfo=UTC), "day": date(2026, 1, 2)})
    told = json.loads(written(screen.out))
    assert told == {"at": "2026-01-02T03:00:00+00:00", "day": "2026-01-02"}
