"""How does an attempt end? Its run, dates, backfills, dependents and messages, in one transaction.

So a worker that dies around it leaves either nothing, and the run is picked up by another that asks
the platform again, or all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from backhaul.control import carry, decide
from backhaul.control.frequency import ScheduleInvalid
from backhaul.control.gather import read_pipelines
from backhaul.control.ledger import LOOK, acting, rows_as, sql, wake
from backhaul.control.notices import About, Notices
from backhaul.control.notify.base import Kind
from backhaul.control.records import DateRow, Pipeline, RunRow, Slot
from backhaul.control.retry import RetryDecision, decide_retry, parse_retry
from backhaul.control.triggers.base import Fate, JobCheck, Progress
from backhaul.errors import BudgetExceeded
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain, plain_text
from backhaul.state.session import Connection

MOST_CHARACTERS = 4000


# How often a date that fails again and again is queued by itself.
MOST_REPEATS = 3


@dataclass(frozen=True)
class End:
    """How an attempt ended, as the worker saw it. `chance`: the randomness of a retry's jitter."""

    progress: Progress
    ended_at: datetime
    chance: float = 0.0

    @property
    def fate(self) -> Fate:
        return self.progress.fate


@dataclass(frozen=True)
class Verdict:
    """What the run's row says then."""

    status: str
    message: str | None
    quality: bool | None
    retry: RetryDecision | None = None
    schedule_used: str | None = None
    # Its job succeeded, and its checks did not.
    by_gate: bool = False


@dataclass
class Settling:
    """One end of one attempt. `worker`: whose claim it is."""

    connection: Connection
    notices: Notices
    pipeline: Pipeline
    run: RunRow
    worker: str
    now: datetime
    slots: list[Slot] = field(default_factory=list)
    late: bool = False

    def settle(self, end: End) -> str | None:
        """The run's new status; None if it is not ours any more, and nothing is written."""
        with (
            translated(f"write down the end of run {self.run.run_id}"),
            acting(self.connection, self.worker, self.now),
        ):
            self._do("lock_clocks")
            rows = rows_as(self.connection, RunRow, sql("runs", "lock_run"), self._values())
            if not rows or not self._ours(rows[0]):
                return None
            self.run = rows[0]
            self._add_checks(end.progress.checks)
            verdict = _bounded(self._verdict(end))
            self._write(verdict, end)
            wake(self.connection, LOOK)
            return verdict.status

    def _ours(self, row: RunRow) -> bool:
        claimed = (row.claimed_by, row.claim) == (self.worker, self.run.claim)
        return claimed and row.status in ("running", "cancelling")

    def _add_checks(self, checks: Sequence[JobCheck]) -> None:
        if checks:
            self._do("add_quality", rows=carry.check_rows(checks))

    def _verdict(self, end: End) -> Verdict:
        progress = end.progress
        if progress.fate is Fate.CANCELLED:
            return Verdict("cancelled", progress.message, None)
        quality, bad = self._quality()
        if progress.fate is Fate.SUCCEEDED:
            if quality is False:
                return Verdict("failed", f"quality: {bad}", False, by_gate=True)
            return Verdict("succeeded", None, quality)
        retry, used = self._retry(end)
        again = retry.again_at is not None and self.run.status == "running"
        message = progress.message or "the job failed"
        return Verdict("retrying" if again else "failed", message, quality, retry, used)

    def _quality(self) -> tuple[bool | None, str | None]:
        """Whether the gate lets it pass; None where nothing was checked, or nothing is asked for."""
        row = self._do("quality").fetchone()
        if not self.pipeline.data_quality_check or row is None or not row[0]:
            return None, None
        count, bad, first = row
        told = f"{bad} of {count} checks failed, first {first}"
        return not bad, told

    def _retry(self, end: End) -> tuple[RetryDecision, str | None]:
        pipeline = self.pipeline
        try:
            schedule = parse_retry(pipeline.retry_schedule)
        except ScheduleInvalid:
            schedule = parse_retry(None)  # told on the pipeline by the scheduler
        decision = decide_retry(
            schedule=schedule,
            enabled=pipeline.retry_enabled,
            attempts_made=self.run.retry_attempts + 1,
            max_attempts=pipeline.max_retry_attempts,
            retryable=end.progress.retryable,
            now=self.now,
            chance=end.chance,
            asked_delay=end.progress.retry_after,
        )
        return decision, str(schedule) if pipeline.retry_enabled else None

    def _write(self, verdict: Verdict, end: End) -> None:
        self._end_run(verdict, end)
        self._do("free_slots", run_ids=[self.run.run_id])
        if verdict.status == "retrying":
            assert verdict.retry is not None
            self._do("say_retry", why=f"failed; {verdict.retry.why}")
            self._notify(Kind.FAILURE, verdict.message)
            return
        self._end_dates(verdict, end)
        self._end_backfills(verdict)
        self._tell(verdict, end.progress)
        self._do("look_at_dependents")

    def _end_run(self, verdict: Verdict, end: End) -> None:
        progress, retrying = end.progress, verdict.status == "retrying"
        result = Jsonb(plain(progress.result)) if progress.result else None
        self._do(
            "end_attempt",
            status="failed" if retrying else verdict.status,
            error_message=verdict.message,
            result=result,
        )
        self._do(
            "end_run",
            status=verdict.status,
            end_time=None if retrying else end.ended_at,
            retry_attempts=self.run.retry_attempts + retrying,
            retry_schedule_used=verdict.schedule_used or self.run.retry_schedule_used,
            error_message=verdict.message,
            data_quality_passed=verdict.quality,
            sla_met=None,
            ready_at=verdict.retry.again_at if verdict.retry and retrying else self.now,
            result=result,
            external_url=plain_text(progress.url) if progress.url else None,
        )

    def _end_dates(self, verdict: Verdict, end: End) -> None:
        if verdict.status == "succeeded":
            rows = self._end_dates_done(end)
        else:
            block = "end_dates_cancelled" if verdict.status == "cancelled" else "end_dates_failed"
            rows = self._do(block, why=verdict.message or "cancelled").fetchall()
        self.slots = [(row[0], row[1]) for row in rows]
        met = [row[2] for row in rows if row[2] is not None]
        self.late = not self.run.is_backfill and not all(met)
        if met and not self.run.is_backfill:
            self.connection.execute(
                "UPDATE pipeline_run_log SET sla_met = %s WHERE run_id = %s",
                [all(met), self.run.run_id],
            )

    def _end_dates_done(self, end: End) -> list[Any]:
        statement = sql("runs", "late_dates")
        values = self._values() | {"ended_at": end.ended_at}
        late: list[DateRow] = rows_as(self.connection, DateRow, statement, values)
        values["code_version"] = self.pipeline.code_version
        rows: list[Any] = self.connection.execute(sql("runs", "end_dates_done"), values).fetchall()
        # The scheduler looks for what is late and not done; these it would not see any more.
        self.notices.breached(
            self.connection, [replace(one, why="it is done since") for one in late], self.now
        )
        self._freshen([row[0] for row in rows])
        self._outdate_stale()
        return rows

    def _outdate_stale(self) -> None:
        """Done, and outdated at once: what it was made from changed while it was made."""
        stale = [(row[0], row[1]) for row in self._do("outdate_stale").fetchall()]
        if stale and self._wanted([self.pipeline.pipeline_id]):
            carry.queue_by_itself(
                self.connection, self.pipeline, sorted(stale), decide.STALE, self.now
            )

    def _freshen(self, days: Sequence[Any]) -> None:
        if not days:
            return
        self._do("freshen", day=max(days))
        row = self._do("changed_schemas").fetchone()
        if row and row[0]:
            # Not only what was made from these dates lacks the new columns.
            done = [one[0] for one in self._do("done_days").fetchall()]
            self._outdate(done, f"the schema of {row[0]} changed")
        else:
            self._outdate(days, f"{self.pipeline.pipeline_name} was made anew")

    def _outdate(self, days: Sequence[Any], why: str) -> None:
        """What was made from an earlier version of these dates; made anew by itself where wanted."""
        rows = self._do("outdate_dependents", days=list(days), why=why).fetchall()
        self._do("mark_stale", days=list(days), why=why)
        by_pipeline: dict[int, list[Slot]] = {}
        for pipeline_id, day, slot in rows:
            by_pipeline.setdefault(pipeline_id, []).append((day, slot))
        for one in self._wanted(list(by_pipeline)):
            slots = sorted(by_pipeline[one.pipeline_id])
            carry.queue_by_itself(self.connection, one, slots, decide.UPSTREAM, self.now)

    def _wanted(self, ids: Sequence[int]) -> list[Pipeline]:
        """Those of them that have their dates made anew by themselves."""
        found = read_pipelines(self.connection, ids) if ids else {}
        return [one for one in found.values() if one.auto_backfill and one.archived_at is None]

    def _end_backfills(self, verdict: Verdict) -> None:
        """The queue's entries; and a scheduled date that failed for good is queued once by itself."""
        status = {"succeeded": "done"}.get(verdict.status, verdict.status)
        requests = {
            row[0]
            for row in self._do(
                "end_backfills",
                status=status,
                retry_attempts=self.run.retry_attempts,
                error_message=verdict.message,
            ).fetchall()
            if row[0]
        }
        if requests:
            done = self._do("requests_done", requests=sorted(requests)).fetchall()
            self.notices.backfills_done(self.connection, self.pipeline, done, self.now)
        if self.pipeline.auto_backfill and not self.run.is_backfill:
            slots = self.slots if status == "failed" else self._left_failed(status)
            carry.queue_by_itself(self.connection, self.pipeline, slots, decide.FAILED, self.now)

    def _left_failed(self, status: str) -> list[Slot]:
        """A pipeline that works again is asked for what failed while it did not; not for ever."""
        if status != "done":
            return []
        rows = self._do("left_failed", reason=decide.FAILED, most=MOST_REPEATS).fetchall()
        return [(row[0], row[1]) for row in rows]

    def _tell(self, verdict: Verdict, progress: Progress) -> None:
        if verdict.status == "failed" and verdict.quality is False:
            self._notify(Kind.QUALITY, verdict.message)
        if verdict.status == "failed" and not verdict.by_gate:
            over_budget = BudgetExceeded.__name__ in progress.result.get("error_kinds", ())
            self._notify(Kind.BUDGET if over_budget else Kind.RETRY_EXHAUSTED, verdict.message)
        elif verdict.status == "succeeded" and (self.late or self._failed_before()):
            self._notify(Kind.RECOVERY)

    def _notify(self, kind: Kind, why: str | None = None) -> None:
        about = About(self.connection, self.pipeline, self.run, self.now)
        self.notices.of_run(kind, about, why)

    def _failed_before(self) -> bool:
        row = self._do("failed_before", dates=list(self.run.dates), slot=self.run.slot).fetchone()
        return bool(row and row[0])

    def _values(self) -> dict[str, Any]:
        return {
            "run_id": self.run.run_id,
            "pipeline_id": self.pipeline.pipeline_id,
            "now": self.now,
            "worker": self.worker,
            "claim": self.run.claim,
            "attempt": self.run.attempt,
        }

    def _do(self, block: str, **more: Any) -> Any:
        return self.connection.execute(sql("runs", block), {**self._values(), **more})


def _bounded(verdict: Verdict) -> Verdict:
    """What a platform says may be anything; a text that the state refuses would hold the run for ever."""
    said = verdict.message
    return replace(verdict, message=plain_text(said)[:MOST_CHARACTERS] if said else None)


def failed(message: str, *, retryable: bool, after: timedelta | None = None) -> Progress:
    """An attempt that failed on our side."""
    return Progress(Fate.FAILED, message, retryable=retryable, retry_after=after)
