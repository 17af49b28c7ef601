"""Which pipelines are there, and how does somebody change one? Columns of `pipelines`, in and out."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Response
from pydantic import Field

from backhaul.control.desk import Standing
from backhaul.control.edit import Whole
from backhaul.web.api.paging import page_of
from backhaul.web.api.shapes import Changed, PipelineShown
from backhaul.web.api.types import (
    Day,
    Given,
    Limit,
    Mapping,
    Name,
    NameQuery,
    NameText,
    Page,
    Priority,
    Reason,
    Text,
)
from backhaul.web.auth import Asking, Role
from backhaul.web.problems import as_conflict, responses
from backhaul.web.route import GuardedRoute, Serving, needs

router = APIRouter(route_class=GuardedRoute, responses=responses(), tags=["pipelines"])
Time = Annotated[str, Field(pattern=r"^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$")]
_DAYS = Field(default=0, ge=-3_660, le=3_660)


class StandingShown(PipelineShown):
    """A pipeline, and how it stands. `fresh_date`: the newest data date that is done."""

    next_at: datetime | None
    fresh_date: date | None
    failed_dates: int
    active_runs: int
    queued_backfills: int


class UpstreamGiven(Given):
    """A date waits for the upstream's dates from `first_offset` to `last_offset` days off."""

    upstream: NameText
    first_offset: int = _DAYS
    last_offset: int = _DAYS


class PipelineGiven(Given):
    """What is wanted of a pipeline; a column that is not there is as usual (PUT) or stays (PATCH)."""

    platform: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")] = "backhaul"
    trigger_url: Text | None = None
    platform_job_id: Text | None = None
    schedule_type: Literal["manual", "daily", "weekly", "monthly", "cron"] = "manual"
    frequency: Text | None = None
    date_offset: int = _DAYS
    multi_date_allowed: bool = False
    retry_enabled: bool = True
    retry_schedule: Text | None = None
    max_retry_attempts: int = Field(default=3, ge=0, le=100)
    auto_backfill: bool = False
    notification_channel: Text | None = None
    notification_details: Text | None = None
    data_quality_check: bool = False
    sla_time: Time | None = None
    sla_breach_notification: bool = True
    timezone: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9_+/-]*$")] = "UTC"
    schedule_time: Time = "00:00"
    start_date: Day | None = None
    end_date: Day | None = None
    month_rule: Literal["clamp", "skip"] = "clamp"
    holidays: Text | None = None
    on_holiday: Literal["run", "skip", "next", "previous"] = "run"
    blackout: Text | None = None
    max_dates_per_run: int = Field(default=31, ge=1, le=10_000)
    max_active_runs: int = Field(default=1, ge=1, le=1_000)
    backfill_concurrency: int = Field(default=1, ge=1, le=1_000)
    backfill_rate: int | None = Field(default=None, ge=1, le=2**31 - 1)
    priority: Priority = 0
    timeout_seconds: int | None = Field(default=None, ge=1, le=366 * 86_400)
    sla_days: int = Field(default=0, ge=0, le=366)
    settings: Mapping = Field(default_factory=dict)
    signals: Annotated[list[Mapping], Field(max_length=100)] = Field(default_factory=list)
    code_version: Text | None = None
    paused: bool | None = None
    parameters: Annotated[dict[NameText, Text], Field(max_length=1_000)] = Field(
        default_factory=dict
    )
    depends_on: Annotated[list[UpstreamGiven], Field(max_length=1_000)] = Field(
        default_factory=list
    )


class Paused(Given):
    """Why, for whoever wonders later."""

    reason: Reason | None = None


@router.get("/pipelines", openapi_extra=needs(Role.VIEWER))
def list_pipelines(
    services: Serving,
    archived: bool = False,
    cursor: NameQuery = None,
    limit: Limit = 100,
) -> Page[StandingShown]:
    """By name; `archived` adds those that were archived."""
    found = services.desk.pipelines(archived=archived, after=cursor, limit=limit + 1)
    wholes = services.editor.read([one.pipeline for one in found])
    return page_of(
        list(zip(found, wholes, strict=True)),
        limit,
        lambda pair: _standing(*pair),
        lambda pair: pair[0].pipeline.pipeline_name,
    )


@router.get("/pipelines/{name}", openapi_extra=needs(Role.VIEWER))
def read_pipeline(services: Serving, name: Name) -> StandingShown:
    """One pipeline, and how it stands."""
    standing = services.desk.standing(name)
    return _standing(standing, services.editor.read([standing.pipeline])[0])


@router.put(
    "/pipelines/{name}",
    openapi_extra=needs(Role.ADMIN),
    responses={201: {"model": PipelineShown, "description": "it is new"}},
)
def put_pipeline(
    services: Serving, person: Asking, name: Name, given: PipelineGiven, response: Response
) -> PipelineShown:
    """Make a pipeline, or make it be exactly this; brings one back from the archive."""
    whole, is_new = services.editor.put(name, _values(given), actor=person.name)
    response.status_code = 201 if is_new else 200
    return PipelineShown.of(whole)


@router.patch("/pipelines/{name}", openapi_extra=needs(Role.ADMIN))
def patch_pipeline(
    services: Serving, person: Asking, name: Name, given: PipelineGiven
) -> PipelineShown:
    """Change the columns that are named; each is replaced as a whole."""
    values = {key: one for key, one in _values(given).items() if key in given.model_fields_set}
    whole, _ = services.editor.put(name, values, actor=person.name, merge=True)
    return PipelineShown.of(whole)


@router.delete("/pipelines/{name}", openapi_extra=needs(Role.ADMIN))
def archive_pipeline(services: Serving, person: Asking, name: Name) -> Changed:
    """Archive it: nothing of it comes due any more, and what it did stays on record."""
    return Changed(changed=int(services.editor.archive(name, actor=person.name)))


@router.post("/pipelines/{name}/pause", openapi_extra=needs(Role.OPERATOR))
def pause_pipeline(
    services: Serving,
    person: Asking,
    name: Name,
    given: Annotated[Paused | None, Body()] = None,
) -> Changed:
    """Its dates come due, and wait."""
    return _set_paused(services, person, name, True, given)


@router.post("/pipelines/{name}/resume", openapi_extra=needs(Role.OPERATOR))
def resume_pipeline(
    services: Serving,
    person: Asking,
    name: Name,
    given: Annotated[Paused | None, Body()] = None,
) -> Changed:
    """What waits runs, in its order."""
    return _set_paused(services, person, name, False, given)


def _set_paused(
    services: Serving, person: Asking, name: str, paused: bool, given: Paused | None
) -> Changed:
    reason = given.reason if given else None
    with as_conflict():
        changed = services.desk.set_paused(name, paused, actor=person.name, reason=reason)
    return Changed(changed=int(changed))


def _standing(standing: Standing, whole: Whole) -> StandingShown:
    return StandingShown.model_validate(
        {
            **PipelineShown.of(whole).__dict__,
            "next_at": standing.next_at,
            "fresh_date": standing.fresh_date,
            "failed_dates": standing.failed_dates,
            "active_runs": standing.active_runs,
            "queued_backfills": standing.queued_backfills,
        }
    )


def _values(given: PipelineGiven) -> dict[str, Any]:
    values = given.model_dump()
    values["signals"] = list(values["signals"])
    return values
