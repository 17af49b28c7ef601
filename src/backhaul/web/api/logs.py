"""What happened? The results of checks, the notifications, and who changed what."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from backhaul.web.api.paging import page_of
from backhaul.web.api.shapes import ChangeShown, CheckShown, NotificationShown
from backhaul.web.api.types import IdCursor, Limit, NameQuery, Page
from backhaul.web.auth import Role
from backhaul.web.problems import responses
from backhaul.web.route import GuardedRoute, Serving, needs

router = APIRouter(route_class=GuardedRoute, responses=responses(), tags=["logs"])


@router.get("/quality", openapi_extra=needs(Role.VIEWER))
def list_quality(
    services: Serving,
    run_id: Annotated[UUID | None, Query()] = None,
    cursor: IdCursor = None,
    limit: Limit = 100,
) -> Page[CheckShown]:
    """The results of checks, newest first."""
    name = str(run_id) if run_id else None
    rows = services.desk.quality(run_id=name, before=cursor, limit=limit + 1)
    return page_of(rows, limit, CheckShown.model_validate, lambda row: row["quality_check_id"])


@router.get("/notifications", openapi_extra=needs(Role.VIEWER))
def list_notifications(
    services: Serving,
    pipeline: NameQuery = None,
    cursor: IdCursor = None,
    limit: Limit = 100,
) -> Page[NotificationShown]:
    """Who was told of what, newest first."""
    rows = services.desk.notifications(pipeline=pipeline, before=cursor, limit=limit + 1)
    return page_of(
        rows, limit, NotificationShown.model_validate, lambda row: row["notification_id"]
    )


@router.get("/changes", openapi_extra=needs(Role.VIEWER))
def list_changes(
    services: Serving,
    kind: NameQuery = None,
    subject: NameQuery = None,
    pipeline: NameQuery = None,
    cursor: IdCursor = None,
    limit: Limit = 100,
) -> Page[ChangeShown]:
    """Who changed what, when and why, newest first."""
    rows = services.desk.changes(
        kind=kind, subject=subject, pipeline=pipeline, before=cursor, limit=limit + 1
    )
    return page_of(rows, limit, ChangeShown.of, lambda row: row.change_id)
