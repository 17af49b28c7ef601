"""Are costs what the prices say, and is a budget judged by the limit that is nearest?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from backhaul.errors import BudgetExceeded
from backhaul.observe.budget import BudgetWatch
from backhaul.observe.cost import Estimate, Share, Usage, cost_of, estimate, share_used
from backhaul.project.load import Budget, Prices

PRICES = Prices("EUR", executor_hour=2.0, read_tb=5.0, write_tb=10.0)
FREE = Prices()
USAGE = Usage(2 * 1000**4, 1000**4, task_seconds=4 * 3600, cores=4)
MEGABYTE = 1000**2


def test_cost_is_executor_time_and_bytes_by_their_prices() -> None:
    assert cost_of(USAGE, PRICES) == pytest.approx(2.0 + 10.0 + 10.0)
    assert cost_of(USAGE, FREE) == 0
    assert cost_of(Usage(), PRICES) == 0
    assert Usage(task_seconds=10, cores=0).executor_seconds == 10


@pytest.mark.parametrize(
    ("mode", "read", "written"),
    [("append", 100, 100), ("replace", 100, 100), ("merge", 1200, 200)],
)
def test_an_estimate_reads_the_batch_and_what_it_is_merged_into(
    mode: str, read: int, written: int
) -> None:
    found = estimate(100 * MEGABYTE, 1_000_000, mode, 1000 * MEGABYTE, False, PRICES)
    assert (found.bytes_read, found.bytes_written) == (read * MEGABYTE, written * MEGABYTE)
    usage = Usage(found.bytes_read, found.bytes_written, found.executor_seconds)
    assert found.usage == usage
    assert (found.money, found.currency) == (cost_of(usage, PRICES), "EUR")
    assert found.as_dict()["executor_seconds"] == found.executor_seconds


def test_an_estimate_grows_with_rows_select_and_target_and_shrinks_with_cores() -> None:
    def seconds(
        rows: int = 1000, mode: str = "append", selects: bool = False, cores: int = 1
    ) -> float:
        return estimate(MEGABYTE, rows, mode, MEGABYTE, selects, FREE, cores=cores).executor_seconds

    assert seconds() < seconds(rows=10_000) and seconds() < seconds(mode="merge")
    assert seconds() < seconds(selects=True) and seconds(cores=2) == pytest.approx(seconds() / 2)
    assert estimate(0, 0, "append", 0, False, PRICES) == Estimate(0, 0, 0.0, 0.0, "EUR")


def test_an_estimate_is_of_the_size_that_was_measured() -> None:
    # 5.5 M rows, 2 cores: 10.5 s to append; 10 % of them merged: 5.1 s.
    append = estimate(300 * MEGABYTE, 5_500_000, "append", 0, False, FREE, cores=2)
    merge = estimate(30 * MEGABYTE, 550_000, "merge", 300 * MEGABYTE, False, FREE, cores=2)
    assert 5 < append.executor_seconds < 21
    assert 2.5 < merge.executor_seconds < 10


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Budget(), Share()),
        (Budget(max_bytes=6 * 1000**4), Share(0.5, "max_bytes", "3 TB of 6 TB")),
        (Budget(max_usd=88.0), Share(0.25, "max_usd", "22.00 of 88.00 EUR")),
        (
            Budget(max_runtime=timedelta(hours=2)),
            Share(0.75, "max_runtime", "1:30:00 of 2:00:00"),
        ),
        (
            Budget(6 * 1000**4, 88.0, timedelta(hours=2)),
            Share(0.75, "max_runtime", "1:30:00 of 2:00:00"),
        ),
    ],
)
def test_the_nearest_limit_counts(budget: Budget, expected: Share) -> None:
    assert share_used(USAGE, 5400, budget, PRICES) == expected


def test_money_does_not_count_where_there_are_no_prices() -> None:
    assert share_used(USAGE, 0, Budget(max_usd=1.0), FREE).share == 0
    assert share_used(Usage(1), 0, Budget(max_bytes=0), FREE).share >= 1
    assert share_used(Usage(), 0, Budget(max_bytes=0), FREE).share == 0


def watch(heard: list[str]) -> BudgetWatch:
    budget = Budget(max_bytes=1000)
    return BudgetWatch(budget, FREE, about="load of a.b", on_alert=heard.append)


def test_the_alert_is_told_once() -> None:
    heard: list[str] = []
    watching = watch(heard)
    for used in (100, 799, 800, 900):
        watching.see(Usage(used))
    assert heard == ["load of a.b has used 80% of its budget: max_bytes, 800 B of 1 kB"]
    watching.check()
    assert not watching.exceeded


def test_what_is_used_up_stays_so() -> None:
    heard: list[str] = []
    watching = watch(heard)
    watching.see(Usage(600, 400))
    watching.see(Usage(0))
    assert watching.exceeded and heard == []
    with pytest.raises(
        BudgetExceeded, match="max_bytes, 1 kB of 1 kB; nothing was published"
    ) as caught:
        watching.check()
    assert "`budget.max_bytes`" in (caught.value.remedy or "")


def test_after_the_last_check_nothing_is_stopped() -> None:
    watching = watch([])
    watching.end()
    watching.see(Usage(5000))
    watching.check()
