"""Which dates are to be made again, in which order? Asked for, previewed, steered."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field, model_validator

from backhaul.control.backfills import Preview, Request, Which, Wish
from backhaul.control.dates import check_span
from backhaul.control.pages import pipeline_names
from backhaul.errors import ConfigError
from backhaul.web.api.paging import page_of
from backhaul.web.api.shapes import (
    BackfillShown,
    Changed,
    PreviewShown,
    RequestShown,
    SlotShown,
)
from backhaul.web.api.types import (
    MOST_LIMIT,
    Day,
    Days,
    Given,
    Id,
    IdCursor,
    Limit,
    NameQuery,
    NameText,
    Page,
    Priority,
    Reason,
)
from backhaul.web.auth import Asking, Person, Role
from backhaul.web.problems import as_conflict, responses
from backhaul.web.route import GuardedRoute, Serving, needs
from backhaul.web.services import Services

router = APIRouter(route_class=GuardedRoute, responses=responses(), tags=["backfills"])
Status = Literal["queued", "paused", "running", "done", "failed", "cancelled"]


class WishGiven(Given):
    """A span (`from`, `to`) or a list of data dates, and which of them."""

    pipeline: NameText
    first: Day | None = Field(default=None, alias="from")
    last: Day | None = Field(default=None, alias="to")
    dates: Days | None = None
    only: Literal["missing", "failed", "outdated", "open", "all"] = "open"
    newest_first: bool = False
    priority: Priority = 0
    reason: Reason = "by hand"

    @model_validator(mode="after")
    def _one_way(self) -> WishGiven:
        span = self.first is not None and self.last is not None
        some = self.first is not None or self.last is not None
        if (some and not span) or span == (self.dates is not None):
            raise ValueError("give `from` and `to`, or `dates`")
        return self

    def wish(self) -> Wish:
        return Wish(
            self.pipeline,
            self.first,
            self.last,
            self.dates or (),
            self.only,
            self.newest_first,
            self.priority,
            self.reason,
        )


class WhichGiven(Given):
    """The entries that are meant: of a pipeline, of a request, or some by their ids."""

    pipeline: NameText | None = None
    request_id: UUID | None = None
    backfill_ids: Annotated[tuple[Id, ...], Field(max_length=MOST_LIMIT)] = ()
    reason: Reason | None = None

    @model_validator(mode="after")
    def _some(self) -> WhichGiven:
        self.which().check_given()
        return self

    def which(self) -> _Which:
        request_id = str(self.request_id) if self.request_id else None
        return _Which(self.pipeline, request_id, self.backfill_ids)


class PriorityGiven(WhichGiven):
    """A point of priority is worth a minute of waiting."""

    priority: Priority


class _Which(Which):
    def check_given(self) -> None:
        try:
            self.check()
        except ConfigError as error:
            raise ValueError(f"{error.message} {error.remedy}") from None


@router.get("/backfills", openapi_extra=needs(Role.VIEWER))
def list_backfills(
    services: Serving,
    pipeline: NameQuery = None,
    status: Annotated[Status | None, Query()] = None,
    request_id: Annotated[UUID | None, Query()] = None,
    cursor: IdCursor = None,
    limit: Limit = 100,
) -> Page[BackfillShown]:
    """In the order in which they were queued."""
    rows = services.backfills.list(
        pipeline=pipeline,
        status=status,
        request_id=str(request_id) if request_id else None,
        after=cursor,
        limit=limit + 1,
    )
    names = pipeline_names(services.desk.connect, [row.pipeline_id for row in rows])
    return page_of(
        rows,
        limit,
        lambda row: BackfillShown.of(row, names.get(row.pipeline_id)),
        lambda row: row.backfill_id,
    )


@router.post("/backfills/preview", openapi_extra=needs(Role.VIEWER))
def preview_backfill(services: Serving, given: WishGiven) -> PreviewShown:
    """What `POST /backfills` would queue; nothing is changed."""
    wish = given.wish()
    _check(wish)
    with as_conflict():
        return PreviewShown(**_preview(services.backfills.preview(wish)))


@router.post("/backfills", status_code=202, openapi_extra=needs(Role.OPERATOR))
def add_backfill(services: Serving, person: Asking, given: WishGiven) -> RequestShown:
    """Queue it."""
    return request_backfill(services, given.wish(), person.name)


@router.post("/backfills/pause", openapi_extra=needs(Role.OPERATOR))
def pause_backfills(services: Serving, person: Asking, given: WhichGiven) -> Changed:
    """What is queued waits until it is resumed."""
    return _steer(services, person, "pause", given)


@router.post("/backfills/resume", openapi_extra=needs(Role.OPERATOR))
def resume_backfills(services: Serving, person: Asking, given: WhichGiven) -> Changed:
    """What is paused takes its place in the queue again."""
    return _steer(services, person, "resume", given)


@router.post("/backfills/cancel", openapi_extra=needs(Role.OPERATOR))
def cancel_backfills(services: Serving, person: Asking, given: WhichGiven) -> Changed:
    """What waits is cancelled; the runs of what is running are stopped."""
    return _steer(services, person, "cancel", given)


@router.post("/backfills/priority", openapi_extra=needs(Role.OPERATOR))
def prioritise_backfills(services: Serving, person: Asking, given: PriorityGiven) -> Changed:
    """Change the priority of what waits."""
    with as_conflict():
        changed = services.backfills.set_priority(
            given.priority, given.which(), actor=person.name, reason=given.reason
        )
    return Changed(changed=changed)


def request_backfill(services: Services, wish: Wish, actor: str) -> RequestShown:
    _check(wish)
    with as_conflict():
        return request_shown(services.backfills.request(wish, actor=actor))


def request_shown(request: Request) -> RequestShown:
    """What was queued: a date that somebody else had queued a moment before is not among it."""
    preview = _preview(request.preview) | {"count": len(request.queued)}
    preview["dates"] = _slots(request.queued)
    return RequestShown(**preview, request_id=request.request_id if request.queued else None)


def _check(wish: Wish) -> None:
    """A list of dates may be no wider than a span may be."""
    check_span(*wish.span)


def _steer(services: Services, person: Person, action: str, given: WhichGiven) -> Changed:
    with as_conflict():
        changed = services.backfills.steer(
            action, given.which(), actor=person.name, reason=given.reason
        )
    return Changed(changed=changed)


def _preview(preview: Preview) -> dict[str, Any]:
    return {
        "count": len(preview.slots),
        "dates": _slots(preview.slots),
        "by_state": dict(preview.by_state),
        "left": dict(preview.left),
        "not_scheduled": list(preview.not_scheduled),
    }


def _slots(slots: Any) -> list[SlotShown]:
    """The first thousand."""
    return [SlotShown(data_date=day, slot=slot) for day, slot in slots[:MOST_LIMIT]]
