"""Is every change through the API on record, in the name of whoever made it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from httpx import Response

from backhaul.control.tokens import Role
from tests.web.making import Api, a_run
from tests.web.test_access import operations

DATES = {"dates": ["2026-01-01"], "reason": "said so"}
WISH = {"pipeline": "daily", "dates": ["2025-12-30", "2025-12-31"]}


def _with_run(change: Callable[[Api, str], Response]) -> Callable[[Api], Response]:
    return lambda api: change(api, a_run(api.world).run_id)


def _ended(api: Api) -> Response:
    run = a_run(api.world)
    api.world.end(run)
    return api.post(f"/runs/{run.run_id}/again")


def _reported(api: Api, run_id: str) -> Response:
    token = api.services.callbacks.token(run_id, 1)
    path = f"/api/runs/{run_id}/callback"
    answer: Response = api.client(token).post(path, json={"status": "succeeded"})
    return answer


def _queued(action: str, **body: Any) -> Callable[[Api], Response]:
    def change(api: Api) -> Response:
        api.world.add("daily", backfill_concurrency=1)
        assert api.post("/backfills", WISH, Role.ADMIN).status_code == 202
        if action == "resume":
            api.post("/backfills/pause", {"pipeline": "daily"}, Role.ADMIN)
        return api.post(f"/backfills/{action}", {"pipeline": "daily", **body})

    return change


def _with_pipeline(method: str, path: str, body: Any) -> Callable[[Api], Response]:
    def change(api: Api) -> Response:
        api.world.add("daily")
        role = Role.OPERATOR if method == "POST" else Role.ADMIN
        return api.ask(method, f"/pipelines/daily{path}", role, json=body)

    return change


def _resumed(api: Api) -> Response:
    api.world.add("daily", paused=True)
    return api.post("/pipelines/daily/resume")


# What each of them leaves: the kind of change, and who is named.
CHANGES: dict[tuple[str, str], tuple[Callable[[Api], Response], str, str]] = {
    ("PUT", "/api/pipelines/{name}"): (
        lambda api: api.ask("PUT", "/pipelines/new", json={}),
        "pipeline",
        "the-admin",
    ),
    ("PATCH", "/api/pipelines/{name}"): (
        _with_pipeline("PATCH", "", {"priority": 7}),
        "pipeline",
        "the-admin",
    ),
    ("DELETE", "/api/pipelines/{name}"): (
        _with_pipeline("DELETE", "", None),
        "pipeline",
        "the-admin",
    ),
    ("POST", "/api/pipelines/{name}/pause"): (
        _with_pipeline("POST", "/pause", None),
        "pipeline",
        "the-operator",
    ),
    ("POST", "/api/pipelines/{name}/resume"): (_resumed, "pipeline", "the-operator"),
    ("POST", "/api/pipelines/{name}/dates/mark"): (
        _with_pipeline("POST", "/dates/mark", {**DATES, "status": "done"}),
        "dates",
        "the-operator",
    ),
    ("POST", "/api/pipelines/{name}/runs"): (
        _with_pipeline("POST", "/runs", DATES),
        "request",
        "the-operator",
    ),
    ("POST", "/api/runs/{run_id}/cancel"): (
        _with_run(lambda api, run_id: api.post(f"/runs/{run_id}/cancel", {"reason": "enough"})),
        "run",
        "the-operator",
    ),
    ("POST", "/api/runs/{run_id}/again"): (_ended, "request", "the-operator"),
    ("POST", "/api/runs/{run_id}/quality"): (
        _with_run(
            lambda api, run_id: api.post(
                f"/runs/{run_id}/quality", [{"check_name": "rows", "check_result": False}]
            )
        ),
        "quality",
        "the-operator",
    ),
    ("POST", "/api/runs/{run_id}/callback"): (_with_run(_reported), "callback", "callback"),
    ("POST", "/api/backfills"): (
        lambda api: (api.world.add("daily"), api.post("/backfills", WISH))[1],
        "request",
        "the-operator",
    ),
    ("POST", "/api/backfills/pause"): (_queued("pause"), "backfill", "the-operator"),
    ("POST", "/api/backfills/resume"): (_queued("resume"), "backfill", "the-operator"),
    ("POST", "/api/backfills/cancel"): (_queued("cancel"), "backfill", "the-operator"),
    ("POST", "/api/backfills/priority"): (
        _queued("priority", priority=9),
        "backfill",
        "the-operator",
    ),
    ("POST", "/api/tokens"): (
        lambda api: api.ask("POST", "/tokens", json={"token_name": "ci", "role": "viewer"}),
        "token",
        "the-admin",
    ),
    ("DELETE", "/api/tokens/{token_name}"): (
        lambda api: api.ask("DELETE", "/tokens/the-viewer"),
        "token",
        "the-admin",
    ),
}
# It only looks, and has a body to say at what.
LOOKS = {("POST", "/api/backfills/preview")}


def test_every_endpoint_that_changes_something_has_its_audit_test(api: Api) -> None:
    changing = {key for key in operations(api) if key[0] != "GET"}
    assert changing == set(CHANGES) | LOOKS


@pytest.mark.parametrize("endpoint", sorted(CHANGES), ids=lambda key: f"{key[0]} {key[1]}")
def test_a_change_is_on_record(api: Api, endpoint: tuple[str, str]) -> None:
    change, kind, actor = CHANGES[endpoint]
    answer = change(api)
    assert answer.status_code < 300, answer.text
    rows = api.world.rows("SELECT kind, actor FROM changes WHERE actor = %s", actor)
    assert (kind, actor) in rows


def test_a_preview_leaves_nothing(api: Api) -> None:
    api.world.add("daily")
    before = api.changes()
    answer = api.post("/backfills/preview", WISH, Role.VIEWER)
    assert (answer.status_code, answer.json()["count"]) == (200, 2)
    assert api.changes() == before
    assert api.get("/backfills")["items"] == []


def test_a_change_that_fails_leaves_no_trace(api: Api) -> None:
    api.world.add("daily")
    before = api.changes()
    body = {**DATES, "status": "done"}
    assert api.post("/pipelines/nobody/dates/mark", body).status_code == 404
    checks = [{"check_name": "rows", "check_result": True}]
    assert api.post("/runs/00000000-0000-0000-0000-000000000000/quality", checks).status_code == 404
    assert api.changes() == before
