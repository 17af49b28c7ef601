"""Is every endpoint, with its role, and every metric in the reference?"""

from __future__ import annotations

import re
from pathlib import Path

from backhaul.control.tokens import Role
from tests.web.making import Api
from tests.web.test_access import ENDPOINTS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


def documented() -> dict[tuple[str, str], str]:
    """`POST /backfills/pause`, `/resume`: what follows has the same beginning."""
    found = {}
    for cell, role in re.findall(r"^\| (`[A-Z]+ /.*?) \| ([a-z ]+) \|", PAGE, flags=re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", cell)
        method, path = first.partition("?")[0].split(" ")
        found[method, path] = role
        found |= {(method, path.rpartition("/")[0] + one): role for one in others}
    return found


def test_every_endpoint_and_its_role_are_in_the_reference() -> None:
    words = {"job": "the job"}
    expected = {
        (method, path.removeprefix("/api")): role.value
        if isinstance(role, Role)
        else words.get(role, role)
        for (method, path), role in ENDPOINTS.items()
    }
    assert documented() == expected


def test_every_metric_is_in_the_reference(api: Api) -> None:
    text = api.ask("GET", "/metrics").text
    names = set(re.findall(r"^# HELP (\S+)", text, flags=re.MULTILINE))
    assert names == set(re.findall(r"`(backhaul_[a-z_]+)`", PAGE))


def test_every_field_that_is_taken_is_in_the_reference(api: Api) -> None:
    schemas = api.app.openapi()["components"]["schemas"]
    taken = [
        name for name in schemas if name.endswith("Given") or name in ("Mark", "Start", "Report")
    ]
    fields = {
        field for name in taken if name != "PipelineGiven" for field in schemas[name]["properties"]
    }
    assert {one for one in fields if f"`{one}`" not in PAGE} == set()
