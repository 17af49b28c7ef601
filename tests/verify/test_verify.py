"""Does verify name exactly what differs, and nothing that a later load brings?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from backhaul.clock import SystemClock
from backhaul.errors import TerminalError
from backhaul.verify.runner import verify_table
from tests.servers import SourceDatabase
from tests.verify.conftest import MakeCopy
from tests.verify.making import kinds

pytestmark = pytest.mark.spark

ORDERS = """
CREATE TABLE orders (id bigint PRIMARY KEY, note text, amount numeric(12,2), at timestamptz);
INSERT INTO orders SELECT i, nullif('note ' || i % 7, 'note 3'), i / 100.0,
    timestamptz '2024-01-01 UTC' + i * interval '1 second' FROM generate_series(1, {rows}) AS i
"""


def orders(source: SourceDatabase, rows: int = 1000) -> None:
    source.execute(ORDERS.format(rows=rows))
    source.execute("ANALYZE orders")


def test_a_copy_is_equal(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    result = copy("orders").verify()
    assert (result.status, result.equal) == ("equal", True)
    assert (result.rows_source, result.rows_destination) == (1000, 1000)
    assert result.segments_differing == 0
    assert result.compared == ("id", "note", "amount", "at")
    assert result.notes == ()


def test_one_row_of_each_kind_among_100_000_is_named(
    source: SourceDatabase, copy: MakeCopy
) -> None:
    orders(source, 100_000)
    made = copy("orders")
    made.change("note", "'other'", "id = 4711")
    made.edit(where="id <> 815")
    assert made.frame is not None
    extra = made.frame.where("id = 1").selectExpr("id + 1000000 AS id", "note", "amount", "at")
    again = made.frame.where("id = 17")
    made.frame = made.frame.unionAll(extra).unionAll(again)
    result = made.verify(show=10)
    assert kinds(result) == {"missing": 1, "extra": 1, "changed": 1, "repeated": 1}
    assert (result.status, result.differing) == ("differs", 4)
    assert result.segments_differing == 4
    named = {one.kind: dict(one.key) for one in result.differences}
    assert named == {
        "changed": {"id": "4711"},
        "missing": {"id": "815"},
        "extra": {"id": "1000001"},
        "repeated": {"id": "17"},
    }
    (changed,) = [one for one in result.differences if one.kind == "changed"]
    assert changed.columns == {"note": ("note 0", "other")}


def test_values_that_changed_places_are_seen(source: SourceDatabase, copy: MakeCopy) -> None:
    source.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
    source.execute("INSERT INTO t VALUES (1, 'x', NULL), (2, 'y', NULL), (3, '', NULL)")
    made = copy("t")
    made.edit("id", "CASE id WHEN 1 THEN 'y' WHEN 2 THEN 'x' END AS a", "b")
    assert kinds(made.verify()) == {"changed": 3}  # the third: '' is not NULL
    made.take()
    made.edit("id", "b AS a", "a AS b")
    assert kinds(made.verify()) == {"changed": 3}


def test_nothing_of_the_values_is_told_unasked(source: SourceDatabase, copy: MakeCopy) -> None:
    source.execute("CREATE TABLE t (id text PRIMARY KEY, secret text)")
    source.execute("INSERT INTO t VALUES ('key-4711', 'hush-1'), ('key-4712', 'hush-2')")
    made = copy("t")
    made.edit("id", "'told' AS secret")
    result = made.verify()
    assert kinds(result) == {"changed": 2}
    told = json.dumps(result.as_dict()) + repr(result)
    assert not any(word in told for word in ("key-", "hush", "told"))
    # What is stored holds no values even where they are shown.
    shown = made.verify(show=2)
    assert "hush-1" in json.dumps(shown.as_dict())
    assert "hush-1" not in json.dumps(shown.report())


def test_what_changed_since_the_load_is_pending(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    made = copy("orders")
    source.execute("UPDATE orders SET note = 'new' WHERE id <= 3")
    source.execute("INSERT INTO orders VALUES (2000, 'new', 1, now())")
    result = made.verify()
    assert kinds(result) == {"pending": 4}
    assert (result.status, result.equal, result.differing) == ("pending", True, 0)
    # Real differences are told apart from what is merely newer.
    made.change("note", "'lost'", "id IN (3, 4)")
    result = made.verify(show=5)
    assert kinds(result) == {"pending": 4, "changed": 1}
    assert [dict(one.key) for one in result.differences] == [{"id": "4"}]


def test_a_transaction_that_was_open_at_the_export_is_pending(
    source: SourceDatabase, copy: MakeCopy
) -> None:
    orders(source)
    with source.connect() as writer:
        writer.execute("BEGIN")
        writer.execute("UPDATE orders SET note = 'late' WHERE id = 1")
        writer.execute("SAVEPOINT one")
        writer.execute("UPDATE orders SET note = 'later' WHERE id = 2")
        # Somebody else commits in between, so that the snapshot lists the writer as running.
        source.execute("INSERT INTO orders VALUES (3000, 'seen', 1, now())")
        made = copy("orders")
        writer.execute("COMMIT")
    assert kinds(made.verify()) == {"pending": 2}


def test_without_a_position_changes_count(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    made = copy("orders")
    made.position = None
    source.execute("UPDATE orders SET note = 'new' WHERE id = 3")
    result = made.verify()
    assert kinds(result) == {"changed": 1}
    assert "no load of it is recorded" in result.notes[0]


def test_rows_above_the_watermark_are_pending(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    made = copy("orders", watermark="at")
    assert made.position is not None
    made.position["watermark"] = "2024-01-01T00:10:00+00:00"
    made.edit(where="id < 600")
    assert kinds(made.verify()) == {"pending": 401}
    made.edit(where="id < 599")
    assert kinds(made.verify()) == {"pending": 401, "missing": 1}


def test_extra_rows_are_as_they_should_be_where_deletes_are_ignored(
    source: SourceDatabase, copy: MakeCopy
) -> None:
    orders(source)
    made = copy("orders")
    source.execute("DELETE FROM orders WHERE id = 5")
    ignored = made.verify(deletes="ignore", show=5)
    assert (ignored.status, kinds(ignored)) == ("equal", {"extra": 1})
    assert "`deletes` is `ignore`" in ignored.notes[0]
    assert ignored.differences == ()
    assert made.verify(deletes="hard").status == "differs"


def test_soft_deleted_rows_are_left_out(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    made = copy("orders")
    source.execute("DELETE FROM orders WHERE id <= 5")
    made.edit("*", "CASE WHEN id <= 5 THEN current_timestamp() END AS `_deleted_at`")
    result = made.verify(deletes="soft")
    assert (result.status, result.rows_destination) == ("equal", 995)
    assert result.not_compared == {}


def test_of_a_history_only_current_rows_count(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    made = copy("orders")
    made.edit("*", "at AS valid_from", "CAST(NULL AS timestamp) AS valid_to", "true AS is_current")
    assert made.frame is not None
    old = made.frame.where("id < 10").selectExpr(
        "id", "'old' AS note", "amount", "at", "valid_from", "at AS valid_to", "false AS is_current"
    )
    made.frame = made.frame.unionAll(old)
    result = made.verify(history="scd2")
    assert (result.status, result.rows_destination) == ("equal", 1000)
    assert result.not_compared == {}


def test_a_select_is_compared_by_what_it_hands_through(
    source: SourceDatabase, copy: MakeCopy
) -> None:
    orders(source)
    made = copy("orders")
    select = "SELECT id AS order_id, upper(note) AS note, s.amount, 1 AS one FROM staged AS s"
    made.edit("id AS order_id", "upper(note) AS note", "amount", "1 AS one")
    result = made.verify(select=select)
    assert (result.status, result.compared) == ("equal", ("order_id", "amount"))
    assert set(result.not_compared) == {"note", "one", "at"}
    made.change("amount", "amount + 1", "order_id = 7")
    result = made.verify(show=1, select=select)
    (one,) = result.differences
    assert (one.key, one.columns) == ({"order_id": "7"}, {"amount": ("0.07", "1.07")})


def test_a_merge_by_other_columns_keeps_one_of_several(
    source: SourceDatabase, copy: MakeCopy
) -> None:
    source.execute("CREATE TABLE t (id int PRIMARY KEY, who text, v int)")
    source.execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3)")
    made = copy("t")
    made.edit(where="id > 1")
    result = made.verify(merge_on=("who",))
    assert (result.status, kinds(result)) == ("equal", {"folded": 1})
    made.change("v", "5", "who = 'a'")
    assert kinds(made.verify(merge_on=("who",))) == {"changed": 1}


def test_types_that_were_widened_are_the_same_values(
    source: SourceDatabase, copy: MakeCopy
) -> None:
    source.execute(
        "CREATE TABLE t (id int PRIMARY KEY, f real, n numeric(6,2), a int[], ts timestamp)"
    )
    source.execute("INSERT INTO t VALUES (1, 1.1, 2.5, '{1,NULL}', '2024-01-01 10:00')")
    made = copy("t")
    made.edit(
        "CAST(id AS bigint) AS id",
        "CAST(f AS double) AS f",
        "CAST(n AS decimal(20,4)) AS n",
        "CAST(a AS array<bigint>) AS a",
        "CAST(ts AS timestamp) AS ts",
    )
    result = made.verify()
    assert (result.status, len(result.compared)) == ("equal", 5)
    made.edit("id", "CAST(f AS string) AS f", "CAST(n AS int) AS n", "a", "ts")
    result = made.verify()
    assert result.not_compared == {"f": "float in the source, string in the destination"}
    assert kinds(result) == {"changed": 1}
    assert made.verify(allow_casts=("n",)).status == "equal"


def test_a_table_without_a_key_is_compared_by_whole_rows(
    source: SourceDatabase, copy: MakeCopy
) -> None:
    source.execute("CREATE TABLE t (a int, b text, c int[])")
    source.execute("INSERT INTO t VALUES (1, 'x', '{1}'), (1, 'x', '{1}'), (2, NULL, NULL)")
    made = copy("t")
    assert made.verify().status == "equal"
    assert made.frame is not None
    made.frame = made.frame.distinct()
    result = made.verify(show=2)
    assert kinds(result) == {"missing": 1}
    assert dict(result.differences[0].key) == {"a": "1", "b": "x", "c": "[1]"}


def test_the_condition_of_the_entry_counts(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    made = copy("orders", where="note = 'note 1' -- only these")
    result = made.verify()
    assert (result.status, result.rows_source) == ("equal", 143)


def test_a_query_has_no_row_versions(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source)
    made = copy("some", query="SELECT id, note FROM orders WHERE id < 100", key=["id"])
    assert made.verify().status == "equal"
    source.execute("UPDATE orders SET note = 'new' WHERE id = 3")
    result = made.verify()
    assert kinds(result) == {"changed": 1}
    assert "do not say when they were written" in result.notes[0]


def test_partitions_and_odd_names(source: SourceDatabase, copy: MakeCopy) -> None:
    source.execute(
        'CREATE TABLE "Odd Töpfe" ("select" text, "a.b" int, "c d" int, "tick`et" date,'
        ' PRIMARY KEY ("select", "a.b")) PARTITION BY RANGE ("a.b");'
        'CREATE TABLE p1 PARTITION OF "Odd Töpfe" FOR VALUES FROM (0) TO (10);'
        'CREATE TABLE p2 PARTITION OF "Odd Töpfe" DEFAULT;'
        """INSERT INTO "Odd Töpfe" SELECT 'it''s \\ ' || i, i, i + 1, '2024-01-01'"""
        " FROM generate_series(1, 20) AS i"
    )
    made = copy("odd", table='"public"."Odd Töpfe"')
    assert made.verify().status == "equal"
    source.execute("""UPDATE "Odd Töpfe" SET "c d" = 0 WHERE "a.b" IN (3, 13)""")
    assert kinds(made.verify()) == {"pending": 2}
    made.position = None
    result = made.verify(show=5)
    assert kinds(result) == {"changed": 2}
    found = {one.key["select"]: one.columns for one in result.differences}
    assert found == {"it's \\ 3": {"c d": ("0", "4")}, "it's \\ 13": {"c d": ("0", "14")}}


def test_an_empty_table_is_equal(source: SourceDatabase, copy: MakeCopy) -> None:
    source.execute("CREATE TABLE t (id int PRIMARY KEY)")
    result = copy("t").verify()
    assert (result.status, result.rows_source, result.rows_destination) == ("equal", 0, 0)


def test_a_target_that_is_not_there(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source, 10)
    made = copy("orders")
    made.frame = None
    error = made.attempt().error
    assert isinstance(error, TerminalError)
    assert error.message == "lake has no table shop.copy"
    assert error.remedy == "load it first: backhaul run orders"


def test_a_key_that_the_select_computes(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source, 10)
    made = copy("orders")
    error = made.attempt(select="SELECT id + 1 AS id, note FROM staged").error
    assert isinstance(error, TerminalError)
    assert "id is not the same column on both sides" in error.message


def test_a_source_that_refuses(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source, 10)
    made = copy("orders", where="1 / (id - 5 + abs(id - 5)) >= 0 OR true")
    source.execute("ALTER TABLE orders RENAME TO gone")
    error = made.attempt().error
    assert error is not None
    assert "no table public.orders" in error.message


def test_an_error_in_a_task_keeps_its_words(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source, 10)
    made = copy("orders", where="1 / (id - 11) <= 0")
    source.execute("INSERT INTO orders VALUES (11, 'x', 1, now())")
    error = made.attempt().error
    assert error is not None
    assert "division by zero" in error.message
    assert "22012" in error.message


def test_a_load_in_between_begins_anew(source: SourceDatabase, copy: MakeCopy) -> None:
    orders(source, 10)
    made = copy("orders")
    asked: list[int] = []

    def moving() -> dict[str, str]:
        asked.append(len(asked))
        return {**(made.position or {}), "load-id": str(min(len(asked), 3))}

    result = verify_table(replace(made.case(), position=moving), SystemClock())
    assert result.status == "equal"
    assert len(asked) == 4
    asked.clear()

    def restless() -> dict[str, str]:
        asked.append(len(asked))
        return {"load-id": str(len(asked))}

    stuck = verify_table(replace(made.case(), position=restless), SystemClock())
    assert stuck.error is not None
    assert "each of the 3 times" in stuck.error.message
