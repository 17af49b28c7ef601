"""Runs, dates and backfills through the API: seen, started, stopped, judged, reported by their jobs."""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.control.callbacks import Callbacks, attempt_of, callback_token
from backhaul.control.tokens import Role
from backhaul.control.triggers.base import Fate
from tests.control.world import World, failure
from tests.web.making import Api, a_run


def report(api: Api, run_id: str, attempt: int = 1, **body: Any) -> Any:
    client = api.client(api.services.callbacks.token(run_id, attempt))
    return client.post(f"/api/runs/{run_id}/callback", json={"status": "succeeded", **body})


def test_a_run_with_all_that_is_known_of_it(api: Api, world: World) -> None:
    run = a_run(world)
    world.end(run, failure("no such table"))
    whole = api.get(f"/runs/{run.run_id}")
    assert (whole["status"], whole["error_message"]) == ("retrying", "no such table")
    assert (whole["pipeline_name"], whole["dates"]) == ("daily", ["2026-01-02"])
    assert [one["status"] for one in whole["attempts"]] in ([], ["failed"])
    assert [one["to_status"] for one in whole["changes"]] == ["retrying", "running", "queued"]


def test_no_page_loses_a_run_of_the_same_instant(api: Api, world: World) -> None:
    for name in "abcdefg":
        world.add(name, start_date="2026-01-01")
    world.move_to("2026-01-02T00:00:01")
    world.tick()
    whole = [one["run_id"] for one in api.get("/runs")["items"]]
    assert len(whole) == len({one["created_at"] for one in api.get("/runs")["items"]}) * 7
    pages: list[str] = []
    page: dict[str, Any] = {"next": None}
    while not pages or page["next"]:
        cursor = {"cursor": page["next"]} if page["next"] else {}
        page = api.get("/runs", limit=2, **cursor)
        pages += [one["run_id"] for one in page["items"]]
    assert pages == whole


def test_runs_are_filtered(api: Api, world: World) -> None:
    run = a_run(world)
    assert [one["run_id"] for one in api.get("/runs", status="running")["items"]] == [run.run_id]
    assert api.get("/runs", status="queued")["items"] == []
    assert len(api.get("/runs", pipeline="daily", date="2026-01-02")["items"]) == 1
    assert api.get("/runs", date="2026-01-03")["items"] == []
    assert api.get("/runs", is_backfill="true")["items"] == []
    assert api.ask("GET", "/runs", params={"status": "x"}).status_code == 422
    cursor = {"cursor": f"2026-01-01T99:00:00Z_{run.run_id}"}
    assert api.ask("GET", "/runs", params=cursor).status_code == 422


def test_cancelled_and_again(api: Api, world: World) -> None:
    run = a_run(world)
    early = api.post(f"/runs/{run.run_id}/again")
    assert early.status_code == 409
    cancelled = api.post(f"/runs/{run.run_id}/cancel")
    assert cancelled.json() == {"run_id": run.run_id, "status": "cancelling"}
    world.end(run)
    assert api.post(f"/runs/{run.run_id}/cancel").status_code == 409
    again = api.post(f"/runs/{run.run_id}/again", {"reason": "once more"})
    assert again.status_code == 202
    assert again.json()["dates"] == [{"data_date": "2026-01-02", "slot": 0}]
    assert api.get("/backfills")["items"][0]["reason"] == "once more"


def test_dates_are_started_by_hand_before_what_else_waits(api: Api, world: World) -> None:
    world.add("daily", schedule_type="manual")
    first = api.post("/pipelines/daily/runs", {"dates": ["2025-05-01"]})
    assert (first.status_code, first.json()["count"]) == (202, 1)
    same = api.post("/pipelines/daily/runs", {"dates": ["2025-05-01"]}).json()
    assert (same["count"], same["request_id"], same["left"]) == (0, None, {"queued": 1})
    (queued,) = api.get("/backfills", pipeline="daily")["items"]
    assert (queued["priority"], queued["requested_by"]) == (1000, "the-operator")
    world.tick()
    assert api.get("/runs")["items"][0]["dates"] == ["2025-05-01"]


def test_dates_are_shown_page_by_page_and_marked(api: Api, world: World) -> None:
    world.add("daily", start_date="2025-12-25")
    page = api.get("/pipelines/daily/dates", **{"from": "2025-12-30", "to": "2026-01-02"}, limit=3)
    assert [one["data_date"] for one in page["items"]] == ["2025-12-30", "2025-12-31", "2026-01-01"]
    rest = api.get(
        "/pipelines/daily/dates",
        **{"from": "2025-12-30", "to": "2026-01-02"},
        cursor=page["next"],
    )
    assert ([one["data_date"] for one in rest["items"]], rest["next"]) == (["2026-01-02"], None)
    mark = {"dates": ["2025-12-30"], "status": "skipped", "reason": "no data that day"}
    marked = api.post("/pipelines/daily/dates/mark", mark)
    assert marked.json() == {"dates": [{"data_date": "2025-12-30", "slot": 0}]}
    shown = api.get("/pipelines/daily/dates", **{"from": "2025-12-30", "to": "2025-12-30"})
    assert (shown["items"][0]["state"], shown["items"][0]["why"]) == ("skipped", "no data that day")


@pytest.mark.parametrize(
    ("first", "last"), [("2026-01-02", "2026-01-01"), ("1900-01-01", "2999-12-31")]
)
def test_spans_that_cannot_be(api: Api, world: World, first: str, last: str) -> None:
    world.add("daily")
    query = {"from": first, "to": last}
    assert api.ask("GET", "/pipelines/daily/dates", params=query).status_code == 422
    wish = {"pipeline": "daily", "from": first, "to": last}
    assert api.post("/backfills/preview", wish).status_code == 422
    days = {"pipeline": "daily", "dates": [first, last]}
    assert api.post("/backfills", days).status_code == (422 if last > first else 202)


def test_backfills_are_steered(api: Api, world: World) -> None:
    world.add("daily", start_date="2025-12-01")
    wish = {"pipeline": "daily", "from": "2025-12-01", "to": "2025-12-05"}
    preview = api.post("/backfills/preview", wish, Role.VIEWER).json()
    assert (preview["count"], preview["by_state"]) == (5, {"missing": 5})
    made = api.post("/backfills", wish).json()
    assert made["count"] == 5
    which = {"request_id": made["request_id"]}
    assert api.post("/backfills/pause", which).json() == {"changed": 5}
    assert api.post("/backfills/priority", {**which, "priority": 3}).json() == {"changed": 5}
    ids = [one["backfill_id"] for one in api.get("/backfills", status="paused")["items"]]
    assert api.post("/backfills/resume", {"backfill_ids": ids[:2]}).json() == {"changed": 2}
    assert api.post("/backfills/cancel", {"pipeline": "daily"}).json() == {"changed": 5}
    assert api.post("/backfills/cancel", {}).status_code == 422
    assert api.post("/backfills/cancel", {"pipeline": "nobody"}).status_code == 404
    assert len(api.get("/backfills", request_id=made["request_id"], limit=2)["items"]) == 2


def test_checks_from_outside_are_judged(api: Api, world: World) -> None:
    run = a_run(world, data_quality_check=True)
    world.end(run)
    path = f"/runs/{run.run_id}/quality"
    good = [{"check_name": "rows", "check_result": True}]
    assert api.post(path, good).json()["data_quality_passed"] is True
    bad = [{"check_name": "sums", "check_result": False, "error_details": "off by 3"}]
    assert api.post(path, bad).json()["data_quality_passed"] is False
    assert world.states()["2026-01-02"] == "failed"
    names = [one["check_name"] for one in api.get("/quality", run_id=run.run_id)["items"]]
    assert names == ["sums", "rows"]
    assert len(api.get(f"/runs/{run.run_id}")["checks"]) == 2
    assert [one["notification_type"] for one in api.get("/notifications")["items"]] == ["quality"]
    assert api.post(path, []).status_code == 422


def test_a_job_reports_and_the_worker_hears_it(api: Api, world: World) -> None:
    run = a_run(world)
    heard = Callbacks(world.desk.connect, world.clock)
    assert heard.get(run.run_id, 1) is None
    assert report(api, run.run_id, status="running", message="half").status_code == 200
    first = heard.get(run.run_id, 1)
    assert first is not None and (first.fate, first.message) == (Fate.RUNNING, "half")
    checks = [{"check_name": "rows", "check_result": False, "bad_rows": 3}]
    answer = report(api, run.run_id, result={"rows": 5}, checks=checks)
    assert answer.json() == {"run_id": run.run_id, "attempt": 1}
    last = heard.get(run.run_id, 1)
    assert last is not None and last.fate is Fate.SUCCEEDED
    assert (last.result, last.checks[0].name, last.checks[0].bad_rows) == ({"rows": 5}, "rows", 3)


def test_an_end_is_final_and_may_be_repeated(api: Api, world: World) -> None:
    run = a_run(world)
    assert report(api, run.run_id, message="done").status_code == 200
    assert report(api, run.run_id, message="done").status_code == 200
    assert report(api, run.run_id, status="failed").status_code == 409
    assert len(api.changes("callback")) == 1


def test_a_report_of_an_attempt_that_is_over_is_refused(api: Api, world: World) -> None:
    run = a_run(world)
    world.end(run, failure())
    late = report(api, run.run_id)
    assert late.status_code == 409
    assert "attempt 1" in late.json()["error"]
    assert report(api, run.run_id, attempt=2).status_code == 200


def test_only_the_job_itself_reports(api: Api, world: World) -> None:
    run = a_run(world)
    path = f"/api/runs/{run.run_id}/callback"
    other = callback_token("00000000-0000-0000-0000-000000000000", 1, api.services.callbacks.key())
    right = api.services.callbacks.token(run.run_id, 1)
    wrong = [other, right[:-1], right.replace("bhc_1_", "bhc_2_"), "bhc_1_" + "x" * 43, "x"]
    for token in (*wrong, *api.tokens.values()):
        assert api.client(token).post(path, json={"status": "failed"}).status_code == 401
    assert api.local().post(path, json={"status": "failed"}).status_code == 401
    assert api.nobody.post(path, json={"status": "failed"}).status_code == 401
    # And with it nothing else can be done.
    assert api.client(right).get("/api/runs").status_code == 401
    assert api.changes("callback") == []


def test_a_callbacks_token_is_the_same_for_every_process(api: Api, world: World) -> None:
    one = Callbacks(world.desk.connect, world.clock)
    assert one.token("r", 3) == api.services.callbacks.token("r", 3)
    assert attempt_of(one.token("r", 3), "r", one.key()) == 3
    assert "callbacks" not in api.ask("GET", "/tokens").text
    assert api.client(one.key()).get("/api/runs").status_code == 401
    assert one.key() not in repr(one)
