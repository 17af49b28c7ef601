"""Which dates of a pipeline are done, and how does somebody mark them, or have them run?"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from backhaul.control.backfills import Wish
from backhaul.control.dates import check_span
from backhaul.web.api.backfills import request_backfill
from backhaul.web.api.shapes import RequestShown, SlotShown
from backhaul.web.api.types import Day, Days, Given, Limit, Name, Page, Priority, Reason, Shown
from backhaul.web.auth import Asking, Role
from backhaul.web.problems import as_conflict, responses
from backhaul.web.route import GuardedRoute, Serving, needs

router = APIRouter(route_class=GuardedRoute, responses=responses(), tags=["dates"])
# A person who starts something by hand waits for it.
BY_HAND = 1_000


class DateShown(Shown):
    """A date: `state` is its `status`, or `late`, `missing`, `upcoming`, `queued` or `before`."""

    data_date: date
    slot: int
    state: str
    why: str
    scheduled_date: date | None
    scheduled_at: datetime | None
    status: str | None
    run_id: str | None
    sla_at: datetime | None
    sla_met: bool | None
    done_at: datetime | None


class Mark(Given):
    """Dates, and what a person says that they are."""

    dates: Days
    status: Literal["done", "skipped", "outdated", "due"]
    reason: Reason


class Start(Given):
    """Dates to be run now, in whatever state they are."""

    dates: Days
    reason: Reason = "by hand"
    priority: Priority = BY_HAND


class Marked(Shown):
    """The dates that this changed."""

    dates: list[SlotShown]


@router.get("/pipelines/{name}/dates", openapi_extra=needs(Role.VIEWER))
def list_dates(
    services: Serving,
    name: Name,
    first: Annotated[Day, Query(alias="from")],
    last: Annotated[Day, Query(alias="to")],
    cursor: Annotated[Day | None, Query()] = None,
    limit: Limit = 366,
) -> Page[DateShown]:
    """Every date from `from` to `to`, both included; a page has the slots of up to `limit` days."""
    check_span(first, last)
    begin = max(first, cursor) if cursor else first
    end = min(last, begin + timedelta(days=limit - 1))
    with as_conflict():
        views = services.dates.between(name, begin, end) if begin <= end else []
    following = str(end + timedelta(days=1)) if end < last else None
    return Page[DateShown](items=[DateShown.model_validate(one) for one in views], next=following)


@router.post("/pipelines/{name}/dates/mark", openapi_extra=needs(Role.OPERATOR))
def mark_dates(services: Serving, person: Asking, name: Name, given: Mark) -> Marked:
    """Say that dates are done, skipped, outdated, or due after all."""
    with as_conflict():
        slots = services.dates.mark(
            name, given.dates, given.status, actor=person.name, reason=given.reason
        )
    return Marked(dates=[SlotShown(data_date=day, slot=slot) for day, slot in slots])


@router.post("/pipelines/{name}/runs", status_code=202, openapi_extra=needs(Role.OPERATOR))
def start_runs(services: Serving, person: Asking, name: Name, given: Start) -> RequestShown:
    """Run these dates, before whatever else waits."""
    wish = Wish(
        pipeline=name,
        days=given.dates,
        only="all",
        priority=given.priority,
        reason=given.reason,
    )
    return request_backfill(services, wish, person.name)
