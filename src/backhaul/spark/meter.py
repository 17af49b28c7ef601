"""What has Spark used for a load so far? Read from its live status store, a few times a second.

The store is there with or without Spark's page. It knows the jobs of a tag; the jobs know their stages,
and only stages that still run are asked again. A running task reports with its executor's heartbeat
(every 10 s) and when it ends. A Spark Connect session shows none of this: only time is metered there.
Bytes that Spark reads or writes past Hadoop's statistics it does not count: Parquet's vectored reads
are such, and Iceberg's files. So whoever knows of them says so, and the larger figure holds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from py4j.protocol import Py4JError, Py4JJavaError

from backhaul.observe.budget import BudgetWatch
from backhaul.observe.cost import Usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_SECONDS = 0.5
# For the events of tasks that have just ended to reach the store.
_DRAIN_MILLISECONDS = 2000
_Figures = tuple[int, int, int, int, int]  # run time first: the larger of two readings is the later
_NOTHING: _Figures = (0, 0, 0, 0, 0)


class Meter:
    """Counts the jobs that the thread of the block starts; `tag` is the block's own.

    With a `watch`, what runs is cancelled as soon as the budget is used up, and whatever error that
    leads to leaves the block as a BudgetExceeded. usage() may be asked after the block, too.
    """

    def __init__(
        self,
        spark: SparkSession,
        tag: str,
        interval: float = INTERVAL_SECONDS,
        on_usage: Callable[[Usage], None] | None = None,
        *,
        watch: BudgetWatch | None = None,
    ) -> None:
        self._interval = interval
        self._on_usage = on_usage
        self._watch = watch
        self._began = time.monotonic()
        self._usage = Usage()
        self._known = (0, 0)
        self._counter = _counter(spark, tag)
        self._reading, self._over = threading.Lock(), threading.Event()
        self._thread = self._counter.thread(self._poll)

    def know(self, *, bytes_read: int = 0, bytes_written: int = 0) -> None:
        """At least so many bytes are read and written, whatever Spark says."""
        read, written = self._known
        self._known = (max(read, bytes_read), max(written, bytes_written))

    def usage(self) -> Usage:
        """Everything up to now."""
        self._counter.settle()
        return self._read()

    def check(self) -> Usage:
        """The last word before publishing: raises when the budget is used up. From here on nothing
        is stopped any more, only counted."""
        usage = self.usage()
        if self._watch is not None:
            with self._reading:
                self._watch.check()
                self._watch.end()
        return usage

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._counter.begin()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        with suppress(Py4JError, OSError):
            self._counter.end()
        if isinstance(error, Exception) and self._watch is not None:
            try:
                self._watch.check()
            except Exception as exceeded:
                if type(exceeded) is type(error):
                    return
                raise exceeded from error

    def _poll(self) -> None:
        while not self._over.wait(self._interval):
            usage = self._read()
            if self._on_usage is not None:
                self._on_usage(usage)
            if self._watch is not None and self._watch.exceeded:
                # Again each time: there may be a next job.
                with suppress(Py4JError, OSError):
                    self._counter.cancel()

    def _read(self) -> Usage:
        with self._reading:
            # A session that is going down tells nothing more; what is known stays.
            with suppress(Py4JError, OSError):
                self._usage = self._counter.read()
            self._usage = self._completed(self._usage)
            if self._watch is not None:
                self._watch.see(self._usage)
            return self._usage

    def _completed(self, counted: Usage) -> Usage:
        read, written = self._known
        return replace(
            counted,
            bytes_read=max(counted.bytes_read, read),
            bytes_written=max(counted.bytes_written, written),
            seconds=time.monotonic() - self._began,
        )


def cores_of(spark: Any) -> int:
    """Of one executor, as far as the settings tell; a local session is one executor."""
    named = spark.conf.get("spark.executor.cores", None)
    if named is not None:
        return max(int(named), 1)
    if not spark.conf.get("spark.master", "").startswith("local"):
        return 1
    return max(int(spark.sparkContext.defaultParallelism), 1)


class _Counter(Protocol):
    """How a kind of session is metered."""

    def begin(self) -> None: ...
    def end(self) -> None: ...
    def read(self) -> Usage: ...
    def settle(self) -> None: ...
    def cancel(self) -> None: ...
    def thread(self, work: Callable[[], None]) -> threading.Thread: ...


def _counter(spark: SparkSession, tag: str) -> _Counter:
    if "connect" in type(spark).__module__:
        return _Remote(spark, tag)
    return _StatusStore(spark, tag)


class _Remote:
    """Spark Connect: jobs can be cancelled, but not looked into."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._spark = spark
        self._tag = tag

    def begin(self) -> None:
        self._spark.addTag(self._tag)

    def end(self) -> None:
        self._spark.removeTag(self._tag)

    def read(self) -> Usage:
        return Usage()

    def settle(self) -> None: ...

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=work, name="backhaul-meter", daemon=True)


class _StatusStore:
    """A session with its driver here. The context's tags, for a session's are known to one thread only."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._context = spark.sparkContext
        self._tag = tag
        scala = self._context._jsc.sc()  # noqa: SLF001 - there is no public way to the store
        self._bus, self._store = scala.listenerBus(), scala.statusStore()
        self._tracker = scala.statusTracker()
        jvm: Any = self._context._jvm  # noqa: SLF001
        self._arrays = jvm.java.util.Arrays
        self._ended_jobs: set[int] = set()
        self._ended_stages: set[int] = set()
        self._stages: dict[int, _Figures] = {}
        self._cores = 0

    def begin(self) -> None:
        self._context.addJobTag(self._tag)

    def end(self) -> None:
        self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        self._context.cancelJobsWithTag(self._tag)

    def settle(self) -> None:
        with suppress(Py4JError, OSError):
            self._bus.waitUntilEmpty(_DRAIN_MILLISECONDS)

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        from pyspark import InheritableThread

        # Its end takes its JVM thread along.
        thread: threading.Thread = InheritableThread(
            target=work, name="backhaul-meter", daemon=True
        )
        return thread

    def read(self) -> Usage:
        # As one text: elements of a Java array cost a call each.
        found = self._arrays.toString(self._tracker.getJobIdsForTag(self._tag)).strip("[]")
        for job in sorted(set(_numbers(found)) - self._ended_jobs):
            self._read_job(job)
        run, read, written, shuffle, spill = _sum(self._stages.values())
        return Usage(read, written, run / 1000, shuffle, spill, cores=self._executor_cores())

    def _read_job(self, job: int) -> None:
        try:
            data = self._store.job(job)
        except Py4JJavaError:
            self._ended_jobs.add(job)  # the store has forgotten it
            return
        has_ended = data.status().toString() in ("SUCCEEDED", "FAILED")
        for stage in _numbers(data.stageIds().mkString(",")):
            self._read_stage(stage)
        if has_ended:
            self._ended_jobs.add(job)

    def _read_stage(self, stage: int) -> None:
        if stage in self._ended_stages:
            return
        try:
            attempts = self._store.stageData(stage, False, None, False, None)
        except Py4JJavaError:
            return
        found = [attempts.apply(number) for number in range(attempts.size())]
        figures = [_figures(attempt) for attempt in found]
        total = _sum(figures)
        # A stage that a later job skips is stored anew, with nothing in it.
        self._stages[stage] = max(self._stages.get(stage, _NOTHING), total)
        if found and all(attempt.status().toString() == "COMPLETE" for attempt in found):
            self._ended_stages.add(stage)

    def _executor_cores(self) -> int:
        if not self._cores:
            executors = self._store.executorList(True)
            found = [executors.apply(number).totalCores() for number in range(executors.size())]
            self._cores = max(found, default=0)
        return max(self._cores, 1)


def _figures(stage: Any) -> _Figures:
    return (
        stage.executorRunTime(),
        stage.inputBytes(),
        stage.outputBytes(),
        stage.shuffleWriteBytes(),
        stage.diskBytesSpilled(),
    )


def _sum(figures: Iterable[_Figures]) -> _Figures:
    run, read, written, shuffle, spill = map(sum, zip(_NOTHING, *figures, strict=True))
    return (run, read, written, shuffle, spill)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]
