"""What is done before an endpoint? Who asks is admitted, before a byte of what they sent is read.

An endpoint says whom it is for with `openapi_extra=needs(Role.VIEWER)`; one that does not is a mistake
that shows when the application is made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from backhaul.web.auth import Role, admit, attempt_of_job
from backhaul.web.problems import Refused
from backhaul.web.services import Services

ROLE = "x-role"
# Open to everybody, or only to the job of a run.
ANYBODY, JOB = "anybody", "job"
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


def needs(role: Role | str) -> dict[str, Any]:
    """For `openapi_extra`."""
    word = role.value if isinstance(role, Role) else role
    return {ROLE: word, "security": [] if word == ANYBODY else [{"token": []}]}


class GuardedRoute(APIRoute):
    """A route that admits before it reads, and takes no parameter that it does not know."""

    def get_route_handler(self) -> Handler:
        answer = super().get_route_handler()
        role = (self.openapi_extra or {})[ROLE]
        known = frozenset(_query_names(self.dependant))

        async def guarded(request: Request) -> Response:
            services = request.app.state.services
            if role == JOB:
                request.state.attempt = await run_in_threadpool(attempt_of_job, request, services)
            elif role != ANYBODY:
                person = await run_in_threadpool(admit, request, services, Role(role))
                request.state.person = person
            _only_known(request, known)
            return await answer(request)

        return guarded


def _only_known(request: Request, known: frozenset[str]) -> None:
    """A filter with a slip in its name would list everything."""
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        valid = ", ".join(sorted(known)) or "none"
        raise Refused(422, f"unknown query parameter {unknown[0][:60]!r}", f"valid: {valid}")


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (one.alias for one in dependant.query_params)
    for below in dependant.dependencies:
        yield from _query_names(below)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Serving = Annotated[Services, Depends(_services)]
