"""What is the sensor told? A real state; the loads in it are written as a loader writes them."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backhaul.airflow.ask import main
from backhaul.state.database import State
from backhaul.state.load_records import LoadOutcome, NewLoad
from tests.servers import SourceDatabase

SHOWN = datetime(2026, 3, 5, 6, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path, source: SourceDatabase, state: State) -> Path:
    (tmp_path / "manifest").mkdir()
    (tmp_path / "backhaul.yml").write_text(
        f"connections:\n  shop: {{adapter: postgres, url: '{source.url}'}}\n"
        f"  warehouse: {{adapter: postgres, url: '{source.url}'}}\n"
        f"state: {{url: '{state.url}'}}\n"
    )
    (tmp_path / "manifest" / "shop.yml").write_text(
        "tables:\n"
        "  orders:\n"
        "    source: shop\n"
        "    key: id\n"
        "    load:\n"
        "      - {to: warehouse, table: analytics.orders}\n"
        "      - {to: lake, table: analytics.orders}\n"
        "  notes: {source: shop}\n"
    )
    return tmp_path


def loaded(state: State, to: str, shows: datetime) -> int:
    row = state.loads.begin(
        NewLoad(
            run_id=str(uuid.uuid4()),
            source_name="shop",
            table_name="orders",
            destination=to,
            target="analytics.orders",
            mode="append",
            last_loaded_timestamp=shows,
        )
    )
    state.loads.published(row.load_id, LoadOutcome())
    return row.load_id


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main([str(one) for one in arguments])
    return code, json.loads(capsys.readouterr().out)


def test_every_target_is_told(
    folder: Path, state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    load_id = loaded(state, "warehouse", SHOWN)
    code, told = asked(capsys, "orders", "--project", folder)
    assert code == told["exit_code"] == 0
    warehouse, lake = told["loads"]
    assert (warehouse["load_id"], warehouse["shows"]) == (load_id, SHOWN.isoformat())
    assert (lake["destination"], lake["load_id"], lake["shows"]) == ("lake", None, None)


def test_one_destination_may_be_meant(
    folder: Path, state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    _, told = asked(capsys, "--project", folder, "--to", "lake", "--", "orders")
    assert [one["destination"] for one in told["loads"]] == ["lake"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["order"], "no table is named order"),
        (["notes"], "notes is not loaded"),
        (["orders", "--to", "nowhere"], "orders is not loaded into nowhere"),
    ],
)
def test_what_nobody_can_wait_for(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, told = asked(capsys, *arguments, "--project", folder)
    assert code == told["exit_code"] == 2
    assert said in told["error"]["message"]
    assert told["error"]["remedy"]
