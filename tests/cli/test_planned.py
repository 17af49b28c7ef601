"""Does the plan say what would happen, why, how much it is, and what is wrong?"""

from __future__ import annotations

from datetime import UTC, datetime

from backhaul.cli.planned import plans_dict, show_plans
from backhaul.cli.screen import Screen
from backhaul.errors import TableMissing
from backhaul.extract.decide import Action, Decision
from backhaul.extract.plan import TablePlan, WindowBounds
from backhaul.findings import Finding, Level
from backhaul.postgres.partition import ChunkPlan, Range
from tests.cli.making import ORDERS, console, plan, written

WARNING = Finding(Level.WARNING, "type-changed", "column total was int", "use --full", "orders")
WINDOW = WindowBounds(
    datetime(2026, 1, 1, 5, 30, tzinfo=UTC).isoformat(),
    datetime(2026, 1, 1, 9, 0, tzinfo=UTC).isoformat(),
    capped=True,
)


def shown(plans: list[TablePlan], *, with_chunks: bool = False) -> str:
    screen = Screen(console(), console())
    show_plans(screen, plans, {"shop": 4}, with_chunks=with_chunks)
    assert written(screen.err) == ""
    return written(screen.out)


def test_the_whole_picture() -> None:
    plans = [
        plan("orders", decision=Decision(Action.BACKFILL, "new table", discard=3)),
        plan(
            "customers",
            kind="incremental",
            count=1,
            rows=1_200,
            window=WINDOW,
            decision=Decision(Action.INCREMENTAL, "the next window", findings=(WARNING,)),
            findings=(WARNING,),
        ),
        plan("events", Action.RESUME, "interrupted 3 m ago", kind="load_by_id", count=2),
        plan("static", Action.NOTHING, "nothing above id 7", count=0),
        plan(
            "gone",
            count=0,
            error=TableMissing("public.gone is not in the source", remedy="drop the entry"),
        ),
    ]
    assert shown(plans) == (
        "orders     backfill\n"
        "    why     new table\n"
        "    first   the staged files of the interrupted export are deleted\n"
        "    work    4 chunks, about 200,000 rows, 20.0 MB, about a second\n"
        "customers  incremental\n"
        "    why     the next window\n"
        "    window  2026-01-01 05:30:00 UTC → 2026-01-01 09:00:00 UTC, capped: the next run"
        " goes on from there\n"
        "    work    1 chunk, about 1,200 rows, 120 kB, about a second\n"
        "    warning: orders: column total was int\n"
        "      → use --full\n"
        "events     resume load by id\n"
        "    why     interrupted 3 m ago\n"
        "    work    2 chunks left, about 100,000 rows, 10.0 MB, about a second\n"
        "static     nothing\n"
        "    why     nothing above id 7\n"
        "gone       cannot be planned\n"
        "    error: public.gone is not in the source\n"
        "      → drop the entry\n"
        "\n"
        "5 tables: 7 chunks, about 301,200 rows, 30.1 MB, about a second; "
        "1 table cannot be planned\n"
    )


def test_chunks_on_demand() -> None:
    spans = (
        Range(high=("a [b]", "2")),
        Range(low=("a [b]", "2"), high=("m", "1")),
        Range(low=("m", "1")),
        Range(nulls=True),
    )
    made = tuple(ChunkPlan(ORDERS, span, 10) for span in spans)
    table = TablePlan("orders", "shop", Decision(Action.BACKFILL, "new table"), chunks=made)
    lines = [line.strip() for line in shown([table], with_chunks=True).splitlines()[3:7]]
    assert lines == [
        "1  public.orders  from the start up to a [b], 2  ~10 rows",
        "2  public.orders  from a [b], 2 up to m, 1       ~10 rows",
        "3  public.orders  from m, 1 up to the end        ~10 rows",
        "4  public.orders  rows whose key is NULL         ~10 rows",
    ]


def test_no_tables() -> None:
    assert shown([]) == "no tables: manifest/ names none\n"


def test_a_long_time_is_told_in_units_and_tables_share_their_connections() -> None:
    big = 60_000_000 * 4 * 600
    plans = [plan(name, estimated_bytes=big) for name in ("a", "b")]
    assert "144 GB, about 10 m\n" in shown(plans)
    assert "288 GB, about 20 m\n" in shown(plans)
    assert plans_dict(plans, {"shop": 4})["estimated_seconds"] == 1200.0


def test_the_document_has_each_finding_once() -> None:
    decision = Decision(Action.INCREMENTAL, "the next window", findings=(WARNING,))
    told = plans_dict([plan(decision=decision, findings=(WARNING,))], {"shop": 4})
    (table,) = told["tables"]
    assert table["findings"] == [WARNING.as_dict()]
    assert table["action"] == "incremental"
    assert len(table["chunks"]) == 4
    assert told["estimated_rows"] == 200_000
