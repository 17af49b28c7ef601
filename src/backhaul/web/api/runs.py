"""What became of each run, and how does somebody, or its own job, step in?"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Body, Query
from pydantic import Field

from backhaul.control.pages import RunFilter, pipeline_names, runs_page
from backhaul.control.records import RunRow
from backhaul.control.triggers.base import Fate, JobCheck, Progress
from backhaul.web.api.backfills import request_shown
from backhaul.web.api.paging import page_of
from backhaul.web.api.shapes import (
    AttemptShown,
    ChangeShown,
    CheckShown,
    RequestShown,
    RunShown,
    RunWhole,
)
from backhaul.web.api.types import (
    MOST_LIMIT,
    Day,
    Given,
    Limit,
    Mapping,
    NameQuery,
    NameText,
    Page,
    Reason,
    RunId,
    Shown,
    Text,
)
from backhaul.web.auth import Asking, Reporting, Role
from backhaul.web.problems import Refused, as_conflict, responses
from backhaul.web.route import JOB, GuardedRoute, Serving, needs
from backhaul.web.services import one_transaction, record

router = APIRouter(route_class=GuardedRoute, responses=responses(), tags=["runs"])
Status = Literal["queued", "running", "retrying", "cancelling", "succeeded", "failed", "cancelled"]
Cursor = Annotated[str | None, Query(max_length=100, pattern=r"^[0-9TZ:.+-]+_[0-9a-fA-F-]{36}$")]


class ReasonGiven(Given):
    """Why, for whoever wonders later."""

    reason: Reason | None = None


class CheckGiven(Given):
    """What a check said; `check_result`: whether it passed."""

    check_name: NameText
    check_result: bool
    error_details: Text | None = None
    severity: Literal["error", "warn"] = "error"
    kind: NameText | None = None
    bad_rows: int = Field(default=0, ge=0, le=2**63 - 1)

    def check(self) -> JobCheck:
        return JobCheck(
            self.check_name,
            self.check_result,
            self.error_details,
            self.severity,
            self.kind,
            self.bad_rows,
        )


Checks = Annotated[list[CheckGiven], Field(max_length=MOST_LIMIT)]
SomeChecks = Annotated[list[CheckGiven], Body(min_length=1, max_length=MOST_LIMIT)]


class Report(Given):
    """What a job says of itself. `running` may be said again and again, an end once."""

    status: Literal["running", "succeeded", "failed", "cancelled"]
    message: Text | None = None
    result: Mapping = Field(default_factory=dict)
    checks: Checks = Field(default_factory=list)

    def progress(self) -> Progress:
        checks = tuple(one.check() for one in self.checks)
        return Progress(Fate(self.status), self.message, checks=checks, result=self.result)


class RunStatus(Shown):
    """What a run is now."""

    run_id: str
    status: str


class Gate(Shown):
    """Whether the run's checks let it pass; null where its pipeline does not ask for that."""

    run_id: str
    data_quality_passed: bool | None


class Received(Shown):
    """The attempt that the report is of."""

    run_id: str
    attempt: int


@router.get("/runs", openapi_extra=needs(Role.VIEWER))
def list_runs(
    services: Serving,
    pipeline: NameQuery = None,
    status: Annotated[Status | None, Query()] = None,
    day: Annotated[Day | None, Query(alias="date")] = None,
    is_backfill: Annotated[bool | None, Query()] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[RunShown]:
    """Newest first."""
    wanted = RunFilter(pipeline, status, day, is_backfill)
    rows = runs_page(services.desk, wanted, _after(cursor), limit + 1)
    names = pipeline_names(services.desk.connect, [row.pipeline_id for row in rows])
    return page_of(rows, limit, lambda row: RunShown.of(row, names.get(row.pipeline_id or 0)), _at)


@router.get("/runs/{run_id}", openapi_extra=needs(Role.VIEWER))
def read_run(services: Serving, run_id: RunId) -> RunWhole:
    """A run with its attempts, its changes and its checks."""
    name, desk = str(run_id), services.desk
    row = desk.run(name)
    names = pipeline_names(desk.connect, [row.pipeline_id])
    checks = desk.quality(run_id=name, limit=MOST_LIMIT)
    changes = desk.changes(subject=name, limit=MOST_LIMIT)
    return RunWhole(
        **RunShown.of(row, names.get(row.pipeline_id or 0)).__dict__,
        attempts=[AttemptShown.model_validate(one) for one in desk.attempts(name)],
        changes=[ChangeShown.of(one) for one in changes],
        checks=[CheckShown.model_validate(one) for one in checks],
    )


@router.post("/runs/{run_id}/cancel", openapi_extra=needs(Role.OPERATOR))
def cancel_run(
    services: Serving,
    person: Asking,
    run_id: RunId,
    given: Annotated[ReasonGiven | None, Body()] = None,
) -> RunStatus:
    """`cancelled`, or `cancelling` where its platform has to stop it first."""
    reason = given.reason if given else None
    with as_conflict():
        status = services.steering.cancel(str(run_id), actor=person.name, reason=reason)
    return RunStatus(run_id=str(run_id), status=status)


@router.post("/runs/{run_id}/again", status_code=202, openapi_extra=needs(Role.OPERATOR))
def run_again(
    services: Serving,
    person: Asking,
    run_id: RunId,
    given: Annotated[ReasonGiven | None, Body()] = None,
) -> RequestShown:
    """The dates of a run that has ended, once more."""
    reason = given.reason if given else None
    with as_conflict():
        request = services.steering.again(str(run_id), actor=person.name, reason=reason)
    return request_shown(request)


@router.post("/runs/{run_id}/quality", openapi_extra=needs(Role.OPERATOR))
def add_quality(services: Serving, person: Asking, run_id: RunId, given: SomeChecks) -> Gate:
    """Results of checks from outside; a run that has ended is judged again."""
    name, checks = str(run_id), [one.check() for one in given]
    with as_conflict(), one_transaction(services) as (bound, connection):
        gate = bound.steering.add_quality(name, checks, actor=person.name)
        failed = sum(not one.passed for one in checks)
        more = {
            "pipeline_id": bound.desk.run(name).pipeline_id,
            "details": {"checks": len(checks), "failed": failed},
        }
        record(services, connection, person.name, "quality", name, **more)
    return Gate(run_id=name, data_quality_passed=gate)


@router.post("/runs/{run_id}/callback", openapi_extra=needs(JOB))
def receive_callback(
    services: Serving, attempt: Reporting, run_id: RunId, given: Report
) -> Received:
    """What the job of a run reports, with the token that it was handed for this very attempt."""
    name = str(run_id)
    services.callbacks.put(name, attempt, given.progress())
    return Received(run_id=name, attempt=attempt)


def _at(row: RunRow) -> str:
    return f"{row.created_at.isoformat().replace('+00:00', 'Z')}_{row.run_id}"


def _after(cursor: str | None) -> tuple[datetime, str] | None:
    if cursor is None:
        return None
    at, _, run_id = cursor.rpartition("_")
    try:
        instant = datetime.fromisoformat(at)
        if instant.tzinfo is None:
            raise ValueError
        return instant, str(UUID(run_id))
    except ValueError:
        raise Refused(422, "this is no cursor", "take it from `next` of the page before") from None
