"""Who may do what? Each endpoint for each role, and what is enough on this machine."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from backhaul.control.tokens import Role
from backhaul.web.auth import is_loopback
from tests.web.making import Api

LOOK, RUN_IT, ALL = Role.VIEWER, Role.OPERATOR, Role.ADMIN
# Whoever adds an endpoint says here whom it is for.
ENDPOINTS: dict[tuple[str, str], Role | str] = {
    ("GET", "/api/pipelines"): LOOK,
    ("GET", "/api/pipelines/{name}"): LOOK,
    ("PUT", "/api/pipelines/{name}"): ALL,
    ("PATCH", "/api/pipelines/{name}"): ALL,
    ("DELETE", "/api/pipelines/{name}"): ALL,
    ("POST", "/api/pipelines/{name}/pause"): RUN_IT,
    ("POST", "/api/pipelines/{name}/resume"): RUN_IT,
    ("GET", "/api/pipelines/{name}/dates"): LOOK,
    ("POST", "/api/pipelines/{name}/dates/mark"): RUN_IT,
    ("POST", "/api/pipelines/{name}/runs"): RUN_IT,
    ("GET", "/api/runs"): LOOK,
    ("GET", "/api/runs/{run_id}"): LOOK,
    ("POST", "/api/runs/{run_id}/cancel"): RUN_IT,
    ("POST", "/api/runs/{run_id}/again"): RUN_IT,
    ("POST", "/api/runs/{run_id}/quality"): RUN_IT,
    ("POST", "/api/runs/{run_id}/callback"): "job",
    ("GET", "/api/backfills"): LOOK,
    ("POST", "/api/backfills"): RUN_IT,
    ("POST", "/api/backfills/preview"): LOOK,
    ("POST", "/api/backfills/pause"): RUN_IT,
    ("POST", "/api/backfills/resume"): RUN_IT,
    ("POST", "/api/backfills/cancel"): RUN_IT,
    ("POST", "/api/backfills/priority"): RUN_IT,
    ("GET", "/api/quality"): LOOK,
    ("GET", "/api/notifications"): LOOK,
    ("GET", "/api/changes"): LOOK,
    ("GET", "/api/workers"): LOOK,
    ("GET", "/api/health"): "anybody",
    ("GET", "/api/health/ready"): LOOK,
    ("GET", "/api/metrics"): LOOK,
    ("GET", "/api/tokens"): ALL,
    ("POST", "/api/tokens"): ALL,
    ("DELETE", "/api/tokens/{token_name}"): ALL,
}
RUN = "00000000-0000-0000-0000-000000000000"
CROSS_SITE: list[dict[str, str]] = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "https://127.0.0.1:8642"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


def operations(api: Api) -> dict[tuple[str, str], dict[str, Any]]:
    paths = api.app.openapi()["paths"]
    return {(verb.upper(), path): one for path in paths for verb, one in paths[path].items()}


def asked(client: TestClient, method: str, path: str) -> int:
    filled = path.format(name="none", run_id=RUN, token_name="none")
    status: int = client.request(method, filled).status_code
    return status


def test_every_endpoint_is_in_the_matrix(shared: Api) -> None:
    roles = {key: one["x-role"] for key, one in operations(shared).items()}
    assert roles == {key: str(role) for key, role in ENDPOINTS.items()}


def test_each_role_may_do_what_it_may_and_nothing_else(shared: Api) -> None:
    for (method, path), needed in ENDPOINTS.items():
        status = asked(shared.nobody, method, path)
        assert (status == 401) is (needed != "anybody"), (method, path, status)
        if not isinstance(needed, Role):
            continue
        for role, client in shared.clients.items():
            status = asked(client, method, path)
            assert (status == 403) is not role.includes(needed), (method, path, role, status)
            assert status < 500 and status != 401


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "Basic abc", "Bearer bh_short", f"Bearer bh_{'x' * 43}", "bh_x", "é"],
)
def test_no_token_that_is_none(shared: Api, header: str) -> None:
    headers = {"Authorization": header.encode("latin-1")}
    answer = shared.nobody.get("/api/pipelines", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    # A wrong token is none on this machine either.
    assert shared.local().get("/api/pipelines", headers=headers).status_code == 401


def test_a_revoked_token_is_none(api: Api) -> None:
    assert api.ask("DELETE", "/tokens/the-viewer").json() == {"changed": 1}
    assert api.ask("GET", "/pipelines", LOOK).status_code == 401
    assert api.ask("DELETE", "/tokens/the-viewer").status_code == 404


def test_on_this_machine_no_token_is_needed_where_that_is_trusted(api: Api) -> None:
    client = api.local()
    assert client.put("/api/pipelines/mine", json={}).status_code == 201
    assert api.changes("local:ada")[0]["subject"] == "mine"
    untrusting = TestClient(api.app, base_url="http://127.0.0.1", client=("127.0.0.1", 1))
    assert untrusting.get("/api/pipelines").status_code == 401


@pytest.mark.parametrize("host", ["localhost", "localhost:8642", "127.0.0.1", "[::1]:8642"])
def test_this_machine_has_several_names(shared: Api, host: str) -> None:
    assert shared.local().get("/api/pipelines", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8642",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil@127.0.0.1",
        "127.0.0.1:evil",
        "127.0.0.1/x",
        "127.0.0.1#x",
        "",
        "[::1",
        "2130706433",
        "0.0.0.0",
    ],
)
def test_a_name_that_was_pointed_at_this_machine_is_refused(shared: Api, host: str) -> None:
    answer = shared.local().get("/api/pipelines", headers={"Host": host})
    assert answer.status_code == 403, host


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"]
)
def test_a_proxy_makes_nobody_local(shared: Api, header: str) -> None:
    answer = shared.local().get("/api/pipelines", headers={header: "127.0.0.1"})
    assert answer.status_code == 401


def test_another_machine_is_not_local_whatever_it_says(shared: Api) -> None:
    assert shared.local(peer="203.0.113.9").get("/api/pipelines").status_code == 401


@pytest.mark.parametrize("headers", CROSS_SITE)
def test_another_sites_page_changes_nothing(shared: Api, headers: dict[str, str]) -> None:
    client = shared.local()
    for (method, path), needed in ENDPOINTS.items():
        if method == "GET" or needed == "job":
            continue
        filled = path.format(name="none", run_id=RUN, token_name="none")
        assert client.request(method, filled, headers=headers).status_code == 403
    assert shared.changes("local:ada") == []


def test_our_own_page_and_programs_may(api: Api) -> None:
    client = api.local()
    own = {"Origin": "http://127.0.0.1:8642", "Sec-Fetch-Site": "same-origin"}
    assert client.put("/api/pipelines/a", json={}, headers=own).status_code == 201
    # With a token, where a page comes from does not matter: no browser adds one by itself.
    remote = api.clients[ALL].put(
        "/api/pipelines/b", json={}, headers={"Origin": "https://tools.example"}
    )
    assert remote.status_code == 201
    assert "access-control-allow-origin" not in remote.headers


def test_answers_are_kept_by_nobody(shared: Api) -> None:
    answer = shared.ask("GET", "/pipelines", LOOK)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_schema_is_served_and_nothing_from_elsewhere(shared: Api) -> None:
    assert shared.nobody.get("/api/openapi.json").json()["openapi"].startswith("3.")
    assert shared.nobody.get("/docs").status_code == 404
    assert shared.nobody.get("/redoc").status_code == 404


def test_what_is_this_machine() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"]))
    assert not any(map(is_loopback, ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "local"]))
