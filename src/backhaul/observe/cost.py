"""What does a load use, what does that cost, and how much of its budget is that? Pure.

An estimate is made before anything is read, from the files' sizes; the meter counts what was used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from backhaul.project.load import Budget, Prices

TERABYTE = 1000**4
HOUR = 3600.0
# Of one core, measured (docs/reference/cost.md): rows are typed and encoded, bytes scanned and put.
SECONDS_PER_ROW_WRITTEN = 4e-6
SECONDS_PER_BYTE_READ = 1 / 100_000_000
# A merge looks each row's key up and writes what it replaces; a query over the batch is anyone's guess.
MERGE_FACTOR, SELECT_FACTOR = 2.0, 1.5


@dataclass(frozen=True)
class Usage:
    """What Spark did. `cores` are one executor's, `seconds` those that went by.

    `bytes_read` are of files, `shuffle_bytes` what tasks wrote for one another, `spill_bytes` what
    did not fit into memory.
    """

    bytes_read: int = 0
    bytes_written: int = 0
    task_seconds: float = 0.0
    shuffle_bytes: int = 0
    spill_bytes: int = 0
    cores: int = 1
    seconds: float = 0.0

    @property
    def executor_seconds(self) -> float:
        """An executor works on as many tasks at once as it has cores."""
        return self.task_seconds / max(self.cores, 1)


@dataclass(frozen=True)
class Estimate:
    """What a load is expected to use at the most: a merge may find most of its target untouched."""

    bytes_read: int
    bytes_written: int
    executor_seconds: float
    money: float
    currency: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def usage(self) -> Usage:
        """To be judged by a budget before the load begins."""
        return Usage(self.bytes_read, self.bytes_written, self.executor_seconds)


class Share(NamedTuple):
    """How much of a budget is used, by the limit that is nearest; `limit` is empty without any."""

    share: float = 0.0
    limit: str = ""
    said: str = ""


def estimate(
    bytes_in: int,
    rows: int,
    mode: str,
    target_bytes: int,
    selects: bool,
    prices: Prices,
    *,
    cores: int = 1,
) -> Estimate:
    """Of a load of so many staged bytes and rows into a target of that size.

    A merge writes its batch twice (staging, then the target), and reads it twice and the target once.
    """
    merges = mode == "merge"
    read = 2 * bytes_in + target_bytes if merges else bytes_in
    written = 2 * bytes_in if merges else bytes_in
    work = rows * SECONDS_PER_ROW_WRITTEN * (MERGE_FACTOR if merges else 1.0)
    seconds = (work + read * SECONDS_PER_BYTE_READ) * (SELECT_FACTOR if selects else 1.0)
    usage = Usage(read, written, seconds, cores=cores)
    return Estimate(read, written, usage.executor_seconds, cost_of(usage, prices), prices.currency)


def cost_of(usage: Usage, prices: Prices) -> float:
    """In the currency of the prices; nothing where there are none."""
    return (
        usage.executor_seconds / HOUR * prices.executor_hour
        + usage.bytes_read / TERABYTE * prices.read_tb
        + usage.bytes_written / TERABYTE * prices.write_tb
    )


def share_used(usage: Usage, elapsed: float, budget: Budget, prices: Prices) -> Share:
    """Of the limit that is nearest to its end."""
    return max(_shares(usage, elapsed, budget, prices), default=Share())


def _shares(usage: Usage, elapsed: float, budget: Budget, prices: Prices) -> Iterator[Share]:
    if budget.max_bytes is not None:
        used = usage.bytes_read + usage.bytes_written
        said = f"{_size(used)} of {_size(budget.max_bytes)}"
        yield Share(_ratio(used, budget.max_bytes), "max_bytes", said)
    if budget.max_usd is not None:
        money = cost_of(usage, prices)
        said = f"{money:.2f} of {budget.max_usd:.2f} {prices.currency}"
        yield Share(_ratio(money, budget.max_usd), "max_usd", said)
    if budget.max_runtime is not None:
        limit = budget.max_runtime.total_seconds()
        said = f"{_time(elapsed)} of {_time(limit)}"
        yield Share(_ratio(elapsed, limit), "max_runtime", said)


def _ratio(used: float, limit: float) -> float:
    return used / limit if limit else float(used > 0) * 2


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.4g} TB"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
