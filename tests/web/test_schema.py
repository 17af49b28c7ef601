"""Does the API keep to its own schema, whatever is asked? Generated requests against a real state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from backhaul.control.tokens import Role
from tests.control.world import World
from tests.web.making import Api, a_run

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.fixture
def busy(api: Api, world: World) -> tuple[Api, str]:
    """An API with something of everything in its state; and the id of a run."""
    run = a_run(world, data_quality_check=True)
    api.post("/backfills", {"pipeline": "daily", "dates": ["2025-12-30", "2025-12-31"]})
    checks = [{"check_name": "rows", "check_result": False}]
    api.post(f"/runs/{run.run_id}/quality", checks)
    return api, run.run_id


def test_what_is_asked_at_random_is_answered_as_promised(busy: tuple[Api, str]) -> None:
    assert fuzz(*busy, examples=2) > 120


@pytest.mark.all
@pytest.mark.timeout(1800)
def test_the_same_for_longer(busy: tuple[Api, str]) -> None:
    fuzz(*busy, examples=100)


def fuzz(api: Api, run_id: str, examples: int) -> int:
    """How many requests were made; a failure is a test's failure, with the request as curl."""
    count = 0
    for operation in operations(api):
        for path in paths(operation.path, run_id):
            for mode in MODES:
                strategy = operation.as_strategy(mode, **path)
                count += ask(strategy, headers(api, operation.path, run_id), examples)
    return count


def operations(api: Api) -> Iterator[Any]:
    schema: Any = schemathesis.openapi.from_asgi("/api/openapi.json", api.app)
    for result in schema.get_all_operations():
        operation = result.ok()
        # Its token would be gone for all that come after it.
        if operation.label != "DELETE /api/tokens/{token_name}":
            yield operation


def paths(path: str, run_id: str) -> list[dict[str, Any]]:
    """Names that are made up, and one that is there: most made-up ones end at 404."""
    if "{name}" in path:
        return [{}, {"path_parameters": {"name": "daily"}}]
    if "{run_id}" in path:
        return [{}, {"path_parameters": {"run_id": run_id}}]
    return [{}]


def headers(api: Api, path: str, run_id: str) -> dict[str, str]:
    is_job = path.endswith("/callback")
    token = api.services.callbacks.token(run_id, 1) if is_job else api.tokens[Role.ADMIN]
    return {"Authorization": f"Bearer {token}"}


def ask(strategy: Any, given_headers: dict[str, str], examples: int) -> int:
    count = 0

    @seed(20260101)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def asked(case: Case[Any]) -> None:
        nonlocal count
        count += 1
        case.call_and_validate(headers=given_headers, checks=CHECKS)

    try:
        asked()
    except Exception as error:
        if type(error).__name__ != "Unsatisfiable":  # nothing wrong can be sent there
            raise
    return count
