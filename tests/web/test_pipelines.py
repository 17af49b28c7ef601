"""Pipelines through the API: made, changed, archived; by the rules of the project's files."""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.control.tokens import Role
from backhaul.project.secret import MASK
from tests.control.world import World
from tests.web.making import Api

WANTED = {
    "platform": "http",
    "trigger_url": "https://jobs.example/start/s3cr3t?key=1",
    "schedule_type": "weekly",
    "frequency": "mon,thu",
    "schedule_time": "06:00",
    "timezone": "Europe/Berlin",
    "start_date": "2026-01-01",
    "retry_schedule": "5m,30m",
    "sla_time": "08:00",
    "settings": {"method": "POST", "auth": {"token": '{{ env("TOKEN") }}'}},
    "parameters": {"region": "eu"},
}


def put(api: Api, name: str, /, **columns: Any) -> Any:
    return api.ask("PUT", f"/pipelines/{name}", json=columns)


def test_one_is_made_read_and_listed(api: Api) -> None:
    made = put(api, "orders", **WANTED)
    assert made.status_code == 201, made.text
    read = api.get("/pipelines/orders")
    for column in ("schedule_type", "frequency", "timezone", "start_date", "parameters"):
        assert read[column] == WANTED[column]
    assert (read["sla_time"], read["schedule_time"]) == ("08:00:00", "06:00:00")
    assert read["managed_by"] == "api"
    assert read["next_at"] == "2026-01-01T05:00:00Z"
    assert [one["pipeline_name"] for one in api.get("/pipelines")["items"]] == ["orders"]


def test_the_same_again_changes_nothing(api: Api) -> None:
    put(api, "orders", **WANTED)
    before = api.changes()
    again = put(api, "orders", **WANTED)
    assert again.status_code == 200
    assert api.changes() == before


def test_what_is_not_named_is_as_usual_or_stays(api: Api) -> None:
    put(api, "orders", **WANTED)
    patched = api.ask("PATCH", "/pipelines/orders", json={"priority": 5})
    assert patched.status_code == 200, patched.text
    assert (patched.json()["priority"], patched.json()["frequency"]) == (5, "mon,thu")
    assert patched.json()["parameters"] == {"region": "eu"}
    replaced = put(api, "orders", platform="http", trigger_url="https://jobs.example")
    assert (replaced.json()["priority"], replaced.json()["frequency"]) == (0, None)
    assert replaced.json()["parameters"] == {}


def test_what_changed_is_on_record(api: Api) -> None:
    put(api, "orders", **WANTED)
    api.ask("PATCH", "/pipelines/orders", json={"frequency": "tue"})
    change = api.changes("the-admin")[0]
    assert (change["kind"], change["subject"]) == ("pipeline", "orders")
    assert change["details"] == {
        "action": "update",
        "from": {"frequency": "mon,thu"},
        "to": {"frequency": "tue"},
    }


def test_secrets_are_masked_and_survive_being_written_back(api: Api, world: World) -> None:
    world.add(
        "old",
        platform="http",
        trigger_url="https://jobs.example/hook/s3cr3t",
        settings='{"auth": {"token": "s3cr3t"}, "headers": {"X-Key": "s3cr3t"}}',
    )
    read = api.get("/pipelines/old")
    assert read["settings"] == {"auth": {"token": MASK}, "headers": {"X-Key": MASK}}
    assert read["trigger_url"] == f"https://jobs.example/{MASK}"
    back = {"trigger_url": read["trigger_url"], "priority": 3}
    assert api.ask("PATCH", "/pipelines/old", json=back).status_code == 422  # a kept plain secret
    world.connection.execute("UPDATE pipelines SET settings = '{}'")
    answer = api.ask("PATCH", "/pipelines/old", json=back)
    assert answer.status_code == 200, answer.text
    assert world.one("SELECT trigger_url FROM pipelines") == "https://jobs.example/hook/s3cr3t"
    assert "s3cr3t" not in api.ask("GET", "/pipelines").text
    assert "s3cr3t" not in api.ask("GET", "/changes").text


def test_a_mask_that_stands_for_nothing_is_refused(api: Api) -> None:
    answer = put(api, "new", platform="http", trigger_url=f"https://x.example/{MASK}")
    assert answer.status_code == 422
    assert answer.json()["findings"][0]["code"] == "masked"


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"platform": "nowhere"}, "unknown_platform"),
        ({"schedule_type": "cron", "frequency": "99 * * * *"}, "schedule_invalid"),
        ({"timezone": "Europe/Nowhere"}, "schedule_invalid"),
        ({"start_date": "2026-02-01", "end_date": "2026-01-01"}, "schedule_invalid"),
        ({"retry_schedule": "soon"}, "retry_invalid"),
        ({"notification_channel": "nobody"}, "unknown_channel"),
        ({"depends_on": [{"upstream": "nobody"}]}, "unknown_pipeline"),
        ({"depends_on": [{"upstream": "me"}]}, "dependency_cycle"),
        ({"depends_on": [{"upstream": "me", "first_offset": 1}]}, "wrong_value"),
        ({"signals": [{"load": "a", "file": "b"}]}, "wrong_value"),
        ({"settings": {"password": "s3cr3t"}}, "secret_in_text"),
        ({"settings": {"verb": "{{ nothing }}"}}, None),
        (
            {"sla_time": "00:00", "schedule_type": "daily", "schedule_time": "06:00"},
            "sla_too_early",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_whole(
    api: Api, columns: dict[str, Any], code: str | None
) -> None:
    answer = put(api, "me", **columns)
    assert answer.status_code == 422, answer.text
    assert code is None or code in [one["code"] for one in answer.json()["findings"]]
    assert api.get("/pipelines")["items"] == []


@pytest.mark.parametrize("name", ["-x", "a b", "x" * 101, "ORDERS"])
def test_names_that_cannot_be(api: Api, name: str) -> None:
    put(api, "orders")
    assert put(api, name).status_code == 422


def test_a_circle_across_pipelines_is_refused(api: Api) -> None:
    put(api, "first")
    put(api, "second", depends_on=[{"upstream": "first"}])
    circle = put(api, "first", depends_on=[{"upstream": "second"}])
    assert circle.status_code == 422
    assert "first → second → first" in circle.text or "second → first → second" in circle.text
    past = [{"upstream": "second", "first_offset": -1, "last_offset": -1}]
    assert put(api, "first", depends_on=past).status_code == 200


def test_the_projects_own_are_changed_in_its_files(api: Api, world: World) -> None:
    world.add("ours", managed_by="project")
    for answer in (
        put(api, "ours"),
        api.ask("PATCH", "/pipelines/ours", json={"priority": 1}),
        api.ask("DELETE", "/pipelines/ours"),
    ):
        assert answer.status_code == 409
        assert "pipelines/*.yml" in answer.json()["remedy"]


def test_archived_and_back(api: Api) -> None:
    put(api, "orders", **WANTED)
    assert api.ask("DELETE", "/pipelines/orders").json() == {"changed": 1}
    assert api.ask("DELETE", "/pipelines/orders").json() == {"changed": 0}
    assert api.get("/pipelines")["items"] == []
    assert len(api.get("/pipelines", archived=True)["items"]) == 1
    assert api.ask("PATCH", "/pipelines/orders", json={"priority": 1}).status_code == 409
    assert put(api, "orders", **WANTED).status_code == 200
    assert [one["details"]["action"] for one in api.changes("the-admin")] == [
        "unarchive",
        "archive",
        "create",
    ]


def test_pages_of_pipelines(api: Api) -> None:
    for name in "abcde":
        put(api, name)
    seen: list[str] = []
    cursor = None
    while True:
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = api.get("/pipelines", **query)
        seen += [one["pipeline_name"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == list("abcde")


def test_paused_and_resumed(api: Api) -> None:
    put(api, "orders")
    assert api.post("/pipelines/orders/pause", {"reason": "night"}).json() == {"changed": 1}
    assert api.get("/pipelines/orders")["paused"] is True
    assert api.post("/pipelines/orders/pause").json() == {"changed": 0}
    put(api, "orders", priority=1)
    assert api.get("/pipelines/orders")["paused"] is True
    assert api.post("/pipelines/orders/resume").json() == {"changed": 1}


def test_unknown_names_are_told_apart_from_mistakes(api: Api) -> None:
    put(api, "orders")
    missing = api.ask("GET", "/pipelines/order")
    assert missing.status_code == 404
    assert "orders" in missing.json()["remedy"]
    assert api.ask("PATCH", "/pipelines/nobody", json={}).status_code == 404
    assert api.ask("GET", "/runs", params={"pipeline": "nobody"}).status_code == 404
    assert api.ask("GET", "/pipelines", params={"limt": 3}).status_code == 422
    assert api.ask("GET", "/pipelines", Role.VIEWER, params={"limit": 0}).status_code == 422


@pytest.mark.parametrize("column", ["settings", "signals"])
@pytest.mark.parametrize("json", ['[1, "a"]', '"text"', "7", "null", '{"a": [{"b": null}]}'])
def test_any_json_of_a_person_at_psql_can_be_read_and_put_right(
    api: Api, world: World, column: str, json: str
) -> None:
    world.add("odd", platform="http", trigger_url="https://x.example", **{column: json})
    assert api.ask("GET", "/pipelines").status_code == 200
    patched = api.ask("PATCH", "/pipelines/odd", json={"priority": 1})
    assert patched.status_code in (200, 422), patched.text
    anew: dict[str, Any] = {"settings": {}, "signals": []}
    assert api.ask("PATCH", "/pipelines/odd", json=anew).status_code == 200


def test_what_a_person_at_psql_wrote_wrong_is_shown_and_named(api: Api, world: World) -> None:
    world.add("odd", schedule_type="sometimes", retry_schedule="soon", platform="nowhere")
    assert api.get("/pipelines/odd")["next_at"] is None
    dates = api.ask(
        "GET", "/pipelines/odd/dates", params={"from": "2026-01-01", "to": "2026-01-02"}
    )
    assert dates.status_code == 409
    codes = [
        one["code"]
        for one in api.ask("PATCH", "/pipelines/odd", json={"priority": 1}).json()["findings"]
    ]
    assert codes == ["schedule_invalid", "retry_invalid", "unknown_platform"]
