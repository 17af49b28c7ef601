"""Is it alive, and what is counted? For load balancers and monitoring."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from backhaul.control.tokens import Role
from tests.control.world import World, failure
from tests.web.making import Api, a_run


def worker(world: World, name: str) -> None:
    world.connection.execute(
        "INSERT INTO workers VALUES (%s, 'here', 1, 4, '{http}', %s, %s)",
        [name, world.now, world.now],
    )


def samples(api: Api) -> dict[tuple[str, str], float]:
    answer = api.ask("GET", "/metrics", Role.VIEWER)
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (one.name, next(iter(one.labels.values()), "")): one.value
        for family in text_string_to_metric_families(answer.text)
        for one in family.samples
    }


def test_live_says_nothing_else(api: Api) -> None:
    assert api.nobody.get("/api/health").json() == {"status": "live"}


def test_ready_says_what_does_not_work(api: Api, world: World) -> None:
    assert api.get("/health/ready")["problems"] == ["no worker shows signs of life"]
    worker(world, "one")
    assert api.get("/health/ready") == {
        "ready": True,
        "problems": [],
        "overdue_seconds": 0.0,
        "workers": 1,
    }
    world.move(minutes=2)
    worker(world, "two")
    assert api.get("/health/ready")["problems"] == ["silent workers: one"]
    world.add("daily")
    world.move(days=1, minutes=3)
    found = api.get("/health/ready")
    assert found["overdue_seconds"] > 120
    assert found["problems"][0].startswith("no scheduler looks")
    assert [one["worker"] for one in api.get("/workers")["items"]] == ["one", "two"]


def test_metrics_count_what_is_open_and_what_has_ended(api: Api, world: World) -> None:
    worker(world, "one")
    run = a_run(world, sla_time="08:00", retry_enabled=False)
    found = samples(api)
    assert found["backhaul_runs", "running"] == 1
    assert found["backhaul_runs", "queued"] == 0
    assert found["backhaul_slas_open", ""] >= 1
    assert found["backhaul_worker_lanes", "one"] == 4
    assert found["backhaul_worker_silent_seconds", "one"] > 0
    world.end(run, failure())
    after = samples(api)
    assert (after["backhaul_runs", "running"], after["backhaul_runs_ended_day", "failed"]) == (0, 1)
    assert after["backhaul_dates", "failed"] == 1
    # Nothing comes and goes: an alert on a series that is not there never fires.
    assert {key for key, _ in found} == {key for key, _ in after}


def test_metrics_need_a_viewer(api: Api) -> None:
    assert api.nobody.get("/api/metrics").status_code == 401
