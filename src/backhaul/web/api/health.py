"""Is it alive, and how much of everything is there? For load balancers and for monitoring."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from backhaul import __version__
from backhaul.control.health import Condition, Counts
from backhaul.web.api.shapes import WorkerShown
from backhaul.web.api.types import Page, Shown
from backhaul.web.auth import Role
from backhaul.web.problems import responses
from backhaul.web.route import ANYBODY, GuardedRoute, Serving, needs

router = APIRouter(route_class=GuardedRoute, responses=responses(), tags=["health"])
# A status that nothing has is 0: an alert on a series that comes and goes never fires.
STATUSES = {
    "runs": ("queued", "running", "retrying", "cancelling"),
    "dates": ("due", "failed", "outdated"),
    "notifications": ("pending", "sending"),
}
ENDED = ("succeeded", "failed", "cancelled")


class Live(Shown):
    """The process answers."""

    status: str = "live"


class Ready(Shown):
    """Whether the control plane does its work; `problems` say what does not."""

    ready: bool
    problems: list[str]
    overdue_seconds: float
    workers: int


@router.get("/health", openapi_extra=needs(ANYBODY))
def live() -> Live:
    """The process answers; nothing else is looked at."""
    return Live()


@router.get("/health/ready", openapi_extra=needs(Role.VIEWER))
def ready(services: Serving) -> Ready:
    """Does the state answer (503 if not), does a scheduler look, do workers show signs of life?"""
    found = services.health.condition()
    return Ready(
        ready=found.ready,
        problems=list(found.problems),
        overdue_seconds=found.overdue.total_seconds(),
        workers=len(found.workers),
    )


@router.get("/workers", openapi_extra=needs(Role.VIEWER))
def list_workers(services: Serving) -> Page[WorkerShown]:
    """The workers that are there, and when they last showed it."""
    return Page(items=[WorkerShown.model_validate(one) for one in services.health.workers()])


@router.get(
    "/metrics",
    openapi_extra=needs(Role.VIEWER),
    response_class=Response,
    responses={200: {"content": {CONTENT_TYPE_PLAIN_0_0_4: {"schema": {"type": "string"}}}}},
)
def metrics(services: Serving) -> Response:
    """Prometheus' text format; counted by the state at each scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(services.health.condition(), services.health.counts()))
    return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


class _Scrape:
    """One answer's numbers."""

    def __init__(self, condition: Condition, counts: Counts) -> None:
        self._condition, self._counts = condition, counts

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("backhaul_info", "The version.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        for kind, statuses in STATUSES.items():
            open_ = {one: self._counts.open.get((kind, one), 0) for one in statuses}
            yield _by_status(f"backhaul_{kind}", f"The {kind} that are open, by status.", open_)
        ended = {one: self._counts.ended.get(one, 0) for one in ENDED}
        yield _by_status("backhaul_runs_ended_day", "Runs of the last 24 hours, by end.", ended)
        open_slas = self._counts.open.get(("sla", "open"), 0)
        yield _one("backhaul_slas_open", "Dates with a promise that is still open.", open_slas)
        late = self._condition.overdue.total_seconds()
        yield _one("backhaul_scheduler_overdue_seconds", "How late the oldest look is.", late)
        yield from self._workers()

    def _workers(self) -> Iterator[Metric]:
        workers = self._condition.workers
        yield _one("backhaul_workers", "The workers that are there.", len(workers))
        lanes = GaugeMetricFamily("backhaul_worker_lanes", "Its lanes.", labels=["worker"])
        silent = GaugeMetricFamily(
            "backhaul_worker_silent_seconds", "Since its last sign of life.", labels=["worker"]
        )
        for one in workers:
            lanes.add_metric([one.worker], one.lanes)
            age = (self._condition.now - one.heartbeat_at).total_seconds()
            silent.add_metric([one.worker], max(age, 0.0))
        yield from (lanes, silent)


def _by_status(name: str, text: str, values: dict[str, int]) -> Metric:
    found = GaugeMetricFamily(name, text, labels=["status"])
    for status, value in values.items():
        found.add_metric([status], value)
    return found


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
