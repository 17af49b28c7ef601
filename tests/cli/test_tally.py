"""Are the speed and the time that is left right, whatever the executor tells?"""

from __future__ import annotations

from backhaul.cli.tally import Pace, Tally
from backhaul.extract.decide import Action
from tests.cli.making import plan, progress, result


def begun() -> Tally:
    tally = Tally()
    tally.begin([plan("orders"), plan("events"), plan("idle", Action.NOTHING, count=0)], at=100.0)
    return tally


def test_only_tables_with_work_count() -> None:
    tally = begun()
    assert tally.planned == {"orders": 200_000, "events": 200_000}
    assert tally.share == 0.0
    assert tally.seconds_left(100.0) is None


def test_rate_and_time_left() -> None:
    tally = begun()
    tally.move(progress("orders", 0), at=100.0)
    tally.move(progress("orders", 50_000, chunks_done=1), at=110.0)
    (track,) = tally.active()
    assert track.pace.rows_per_second(110.0) == 5_000
    assert track.seconds_left(110.0) == 30.0
    assert tally.pace.rows_per_second(110.0) == 5_000
    assert tally.seconds_left(110.0) == 70.0
    assert tally.share == 0.125


def test_rows_of_an_earlier_attempt_are_not_speed() -> None:
    tally = Tally()
    tally.begin([plan("orders", Action.RESUME, count=1)], at=100.0)
    tally.move(progress("orders", 150_000, chunks_done=3), at=105.0)
    (track,) = tally.active()
    assert track.pace.rows_per_second(105.0) is None
    assert tally.pace.rows_per_second(105.0) is None
    tally.move(progress("orders", 160_000, chunks_done=3), at=110.0)
    assert track.pace.rows_per_second(110.0) == 1_000
    tally.end(result("orders", rows=200_000), at=120.0)
    assert tally.pace.rows_per_second(120.0) == 2_500


def test_the_rate_forgets() -> None:
    tally = begun()
    for second in range(11):
        tally.move(progress("orders", second * 1_000), at=100.0 + second)
    for second in range(60):
        tally.move(progress("orders", 10_000 + second * 10), at=111.0 + second)
    (track,) = tally.active()
    rate = track.pace.rows_per_second(170.0)
    assert rate is not None
    assert rate < 15


def test_the_seconds_in_which_spark_starts_are_soon_forgotten() -> None:
    pace = Pace()
    pace.add(0.0, 0)
    pace.add(60.0, 100_000)
    assert pace.rows_per_second(60.0) == 5_000
    assert pace.rows_per_second(70.0) == 5_000


def test_chunks_that_take_long_still_have_a_speed() -> None:
    pace = Pace()
    pace.add(0.0, 0)
    pace.add(50.0, 5_000_000)
    assert pace.rows_per_second(100.0) == 50_000


def test_more_rows_than_estimated_never_look_finished() -> None:
    tally = begun()
    tally.move(progress("orders", 500_000, chunks_done=3), at=101.0)
    (track,) = tally.active()
    assert track.share == 0.99
    assert tally.estimated_rows == 700_000
    tally.move(progress("orders", 500_000, chunks_done=4), at=102.0)
    assert track.share == 1.0


def test_a_table_without_an_estimate_is_counted_by_its_chunks() -> None:
    tally = Tally()
    tally.begin([plan("orders", count=2, rows=0)], at=0.0)
    tally.move(progress("orders", 0, chunks_total=2, estimated_rows=0), at=1.0)
    assert tally.active()[0].share == 0.0
    tally.end(result("orders"), at=2.0)
    assert tally.share == 1.0
    assert tally.active() == []


def test_what_resumes_is_what_did_not_end() -> None:
    tally = begun()
    assert tally.unfinished == ["orders", "events"]
    tally.end(result("orders"), at=2.0)
    tally.end(result("events", "interrupted"), at=3.0)
    assert tally.unfinished == ["events"]
    assert tally.ended_count == 2
    assert tally.rows == 400_000
