"""Whatever is sent, the answer is a sentence: never a 5xx, and never what was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backhaul.control.tokens import Role
from backhaul.web.limits import MOST_BYTES
from tests.control.world import World
from tests.web.making import Api, a_run
from tests.web.test_access import RUN, operations

TEXTS = ["\0", "a\0b", "\ud800", "x" * 60_000, "‮", "'; DROP TABLE pipelines; --", "%00", "\x1b[2J"]
NUMBERS = [2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 1.5, -1, 0, True]
DAYS = ["0001-01-01", "9999-12-31", "10000-01-01", "-0001-01-01", "2026-02-30", "x", 0, 10**20]
BODIES = {
    "invalid UTF-8": b'{"pipeline": "\xff\xfe"}',
    "half a surrogate": b'{"pipeline": "\\ud800", "dates": ["2026-01-01"]}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep mapping": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "a huge number": b'{"priority": ' + b"9" * 5_000 + b"}",
    "not a number": b'{"priority": NaN}',
    "infinite": b'{"priority": 1e999}',
    "twice": b'{"priority": 1, "priority": 2}',
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "1 MB": b'{"reason": "' + b"x" * 1_000_000 + b'"}',
    "too long": b" " * (MOST_BYTES + 1),
    "NUL in a key": b'{"a\\u0000": 1}',
}
SETTINGS: list[Any] = [
    {"a": "\0"},
    {"\0": 1},
    {"a": "\ud800"},
    {"a": 10**400},
    {"a": {"b": [{"c": "\0"}]}},
    {"a": [[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]},
    {"a": list(range(20_000))},
    {"": ""},
    {"verb": "{{ " * 1_000},
    {"verb": "{% for a in b %}"},
    {"tables": {"a": 1}},
]


def said(answer: Any) -> dict[str, Any]:
    """The problem that it is answered with."""
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:200])
    found: dict[str, Any] = answer.json()
    assert found["error"] and set(found) == {"error", "remedy", "findings"}
    return found


@pytest.mark.parametrize("name", BODIES)
def test_no_body_is_a_fault_of_ours(shared: Api, name: str) -> None:
    run_id = shared.get("/runs")["items"][-1]["run_id"]
    for method, path in operations(shared):
        if method == "GET":
            continue
        filled = path.format(name="daily", run_id=run_id, token_name="ci")
        token = shared.services.callbacks.token(run_id, 1)
        client = shared.client(token) if path.endswith("callback") else shared.clients[Role.ADMIN]
        headers = {"Content-Type": "application/json"}
        answer = client.request(method, filled, content=BODIES[name], headers=headers)
        assert answer.status_code < 500, (method, path, answer.text[:200])


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_is_a_fault_of_ours(shared: Api, text: str) -> None:
    wish = {"pipeline": text, "dates": ["2026-01-01"], "reason": text}
    for path, body in {
        "/backfills": wish,
        "/backfills/preview": wish,
        "/backfills/cancel": {"pipeline": text, "reason": text},
        "/tokens": {"token_name": text, "role": text},
        f"/runs/{RUN}/quality": [{"check_name": text, "check_result": True}],
    }.items():
        answer = shared.ask("POST", path, content=json.dumps(body).encode())
        said(answer)
        said(shared.ask("POST", path, json=None, content=json.dumps(body).encode(), headers=JSON))
    for column in ("frequency", "timezone", "holidays", "retry_schedule", "notification_channel"):
        body = json.dumps({column: text, "schedule_type": "weekly"}).encode()
        answer = shared.ask("PUT", "/pipelines/x", content=body, headers=JSON)
        assert answer.status_code < 500, (column, answer.text[:200])
    if text.isprintable():
        for path in ("/runs", "/backfills", "/notifications", "/changes"):
            assert shared.ask("GET", path, params={"pipeline": text}).status_code < 500


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["/pipelines/%00", "/pipelines/%FF%FE", "/pipelines/a%00b/dates"])
def test_no_path_is_a_fault_of_ours(shared: Api, path: str) -> None:
    said(shared.ask("GET", path))
    said(shared.ask("GET", f"{path}/../../x"))


@pytest.mark.parametrize("query", ["cursor", "limit"])
@pytest.mark.parametrize("value", [*map(str, NUMBERS), "", "x", "\0", "é", "1e3"])
def test_no_number_of_a_query_is_a_fault_of_ours(shared: Api, query: str, value: str) -> None:
    for path in ("/pipelines", "/runs", "/backfills", "/quality", "/notifications", "/changes"):
        answer = shared.ask("GET", path, params={query: value})
        assert answer.status_code in (200, 422), (path, answer.text)


@pytest.mark.parametrize("number", NUMBERS)
def test_no_number_of_a_body_is_a_fault_of_ours(shared: Api, number: float) -> None:
    columns = ("priority", "date_offset", "max_dates_per_run", "backfill_rate", "timeout_seconds")
    for column in columns:
        body = json.dumps({column: number}).encode()
        answer = shared.ask("PUT", "/pipelines/x", content=body, headers=JSON)
        assert answer.status_code < 500, (column, answer.text)
    for path, body_of in {
        "/backfills/priority": {"pipeline": "daily", "priority": number},
        "/backfills/cancel": {"backfill_ids": [number]},
    }.items():
        content = json.dumps(body_of).encode()
        answer = shared.ask("POST", path, content=content, headers=JSON)
        assert answer.status_code < 500, (path, answer.text)


@pytest.mark.parametrize("day", DAYS)
def test_no_date_is_a_fault_of_ours(shared: Api, day: Any) -> None:
    said(shared.ask("GET", "/pipelines/daily/dates", params={"from": day, "to": day}))
    said(shared.post("/pipelines/daily/runs", {"dates": [day]}))
    said(
        shared.post(
            "/pipelines/daily/dates/mark", {"dates": [day], "status": "done", "reason": "x"}
        )
    )
    said(shared.post("/backfills", {"pipeline": "daily", "from": day, "to": day}))
    said(shared.ask("PUT", "/pipelines/x", json={"start_date": day}))


@pytest.mark.parametrize("day", ["1900-01-01", "2999-12-31"])
def test_the_first_and_the_last_date_are_dates(api: Api, world: World, day: str) -> None:
    world.add("daily", date_offset=3_660, schedule_type="manual")
    assert api.post("/pipelines/daily/runs", {"dates": [day]}).status_code == 202
    mark = {"dates": [day], "status": "done", "reason": "x"}
    assert api.post("/pipelines/daily/dates/mark", mark).status_code == 200
    api.get("/pipelines/daily/dates", **{"from": day, "to": day})
    world.tick()


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_no_settings_are_a_fault_of_ours(shared: Api, settings: Any) -> None:
    for body in ({"settings": settings}, {"signals": [settings]}):
        content = json.dumps({"platform": "http", **body}).encode()
        answer = shared.ask("PUT", "/pipelines/x", content=content, headers=JSON)
        assert answer.status_code in (200, 201, 422), answer.text[:200]


def test_a_body_without_a_length_is_counted(shared: Api) -> None:
    chunks = (b" " * 65_536 for _ in range(20))
    answer = shared.ask("POST", "/backfills", content=chunks, headers=JSON)
    assert answer.status_code == 413, answer.text
    said(answer)


def test_what_was_sent_is_not_said_back(shared: Api) -> None:
    secret = "hunter2-hunter2"
    body = {"settings": secret, "priority": secret, "trigger_url": [secret]}
    answer = shared.ask("PUT", "/pipelines/x", json=body)
    assert said(answer)["findings"]
    assert secret not in answer.text


def test_other_methods_and_paths_are_told(shared: Api) -> None:
    assert said(shared.ask("DELETE", "/runs"))["error"] == "Method Not Allowed"
    assert said(shared.ask("GET", "/nothing"))["error"] == "Not Found"
    assert shared.ask("GET", "/pipelines/").status_code == 404


def test_a_state_that_is_away_is_said_so(api: Api, world: World) -> None:
    import psycopg

    def away() -> Any:
        raise psycopg.OperationalError("connection refused")

    world.desk.connect = away
    for path in ("/pipelines", "/runs", "/pipelines/x"):
        answer = api.ask("GET", path)
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "5"
    assert api.nobody.get("/api/health").json() == {"status": "live"}


def test_a_state_machine_that_refuses_is_a_conflict(api: Api, world: World) -> None:
    world.connection.execute("DELETE FROM status_transitions WHERE to_status = 'cancelling'")
    run = a_run(world)
    answer = api.post(f"/runs/{run.run_id}/cancel")
    assert answer.status_code == 409
    assert answer.json()["error"] == "a run cannot go from running to cancelling"
