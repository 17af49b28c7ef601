"""What does a person, a pipe or a program see while tables arrive?"""

from __future__ import annotations

import threading
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from backhaul.cli import watch as watching
from backhaul.cli.live import LiveWatch, draw
from backhaul.cli.screen import Screen
from backhaul.cli.tally import Tally
from backhaul.cli.watch import Lines, Unseen, choose_watch, heartbeat
from backhaul.findings import Finding, Level
from tests.cli.making import console, plan, progress, result, written


class Announcing(StringIO):
    """Tells when a text has been written."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self._awaited = awaited
        self.came = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._awaited in self.getvalue():
            self.came.set()
        return count


def test_a_pipe_gets_a_line_per_table() -> None:
    out, err = console(), console()
    with Lines(out, err) as watch:
        watch.planned([plan("orders"), plan("events")])
        watch.progressed(progress("orders", 50_000))
        watch.finished(result("orders"))
        watch.noticed(Finding(Level.NOTE, "snapshot-age", "the snapshot is 2 h old"))
        watch.finished(result("events"))
    assert written(out).splitlines() == [
        "2 tables, about 400,000 rows",
        "orders: complete, 200,000 rows, 21.4 MB, 4 files, 3.1 s (backfill: new table)",
        "note: the snapshot is 2 h old",
        "events: complete, 200,000 rows, 21.4 MB, 4 files, 3.1 s (backfill: new table)",
    ]
    assert [one.table for one in watch.results] == ["orders", "events"]


def test_a_pipe_gets_a_heartbeat_even_when_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "HEARTBEAT_SECONDS", 0.01)
    file = Announcing("… 0 of 1 table, 50,000 rows")
    with Lines(Console(file=file, width=80), console()) as watch:
        watch.planned([plan("orders")])
        watch.progressed(progress("orders", 50_000))
        assert file.came.wait(30)
    after = file.getvalue()
    assert after.splitlines()[-1].endswith("; now orders")
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]


def test_the_heartbeat_names_a_few_of_many() -> None:
    tally = Tally()
    tally.begin([plan(f"t{i}") for i in range(9)], at=0.0)
    for i in range(5):
        tally.move(progress(f"t{i}", 0), at=0.5)
        tally.move(progress(f"t{i}", 10_000), at=10.0)
    tally.end(result("t0"), at=10.0)
    assert heartbeat(tally, 10.0) == (
        "… 1 of 9 tables, 240,000 rows, 24.0 k/s, 25.4 MB, 65 s left; now t1, t2, t3 and 1 more"
    ).replace("65 s", "1 m 5 s")


def picture(tally: Tally, at: float, *, width: int = 80, room: int = 4) -> list[str]:
    made = console(width, terminal=True)
    made.print(draw(tally, at, width, room))
    return [line for line in written(made).splitlines() if line.strip()]


def busy(count: int) -> Tally:
    tally = Tally()
    tally.begin([plan(f"table_{i}") for i in range(count)], at=0.0)
    for i in range(count):
        tally.move(progress(f"table_{i}", 0), at=0.5)
        tally.move(progress(f"table_{i}", 123_456, bytes=345_678_901, chunks_done=1), at=10.0)
    return tally


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_picture_fits_and_says_everything(width: int) -> None:
    lines = picture(busy(3), 10.0, width=width)
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) == 4
    first = lines[0].split()
    assert first[0] == "table_0"
    assert [part for part in first if "━" not in part and "╸" not in part and "╺" not in part] == [
        "table_0", "62%", "123", "k", "12.3", "k/s", "346", "MB", "0:06",
    ]  # fmt: skip
    assert lines[-1].startswith("0 of 3 tables")
    assert "62%" in lines[-1]


def test_many_tables_show_the_active_ones_and_a_total() -> None:
    lines = picture(busy(1000), 10.0)
    assert [line.split()[0] for line in lines[:4]] == [f"table_{i}" for i in range(4)]
    assert lines[4].strip() == "… and 996 more"
    assert lines[5].startswith("0 of 1,000 tables")


def test_a_long_or_wild_name_breaks_nothing() -> None:
    tally = Tally()
    name = "a_very_long_table_name_that_nobody_would_type[bold]\x1b[31m"
    tally.begin([plan(name)], at=0.0)
    tally.move(progress(name, 10), at=1.0)
    lines = picture(tally, 2.0)
    assert len(lines) == 2
    assert lines[0].startswith("a_very_long")
    assert "…" in lines[0]
    assert all(cell_len(line) <= 80 for line in lines)


def test_before_the_plan_there_is_a_word() -> None:
    assert [line.strip() for line in picture(Tally(), 0.0)] == ["starting"]


def test_the_terminal_lists_what_ended_and_leaves_no_picture_behind() -> None:
    out = console(terminal=True)
    with LiveWatch(out, console()) as watch:
        watch.planned([plan("orders")])
        watch.progressed(progress("orders", 50_000))
        watch.finished(result("orders"))
    assert "orders: complete, 200,000 rows" in written(out)


def test_a_thousand_finished_tables_are_counted_not_listed() -> None:
    out = console(terminal=True)
    with LiveWatch(out, console()) as watch:
        watch.planned([plan(f"t{i}") for i in range(1000)])
        watch.finished(result("t1"))
        watch.finished(result("t2", "failed"))
    assert "t1: complete" not in written(out)
    assert "t2: failed" in written(out)


@pytest.mark.parametrize(
    ("terminal", "quiet", "as_json", "kind"),
    [
        (True, False, False, LiveWatch),
        (False, False, False, Lines),
        (True, True, False, watching.Watch),
        (True, False, True, LiveWatch),
        (False, False, True, Unseen),
        (True, True, True, Unseen),
    ],
)
def test_who_watches(terminal: bool, quiet: bool, as_json: bool, kind: type) -> None:
    screen = Screen(console(terminal=terminal), console(terminal=terminal))
    chosen = choose_watch(screen, quiet=quiet, as_json=as_json)
    assert type(chosen) is kind
    assert chosen.out is (screen.err if as_json else screen.out)
