"""Do editors accept what the loader accepts, and refuse what it refuses?"""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from backhaul.project.connections import CONNECTION_KEYS
from backhaul.project.document import read_text
from backhaul.project.gitlab import GitlabSettings
from backhaul.project.jsonschema import json_schema
from backhaul.project.loader import MANIFEST_KEYS, PROJECT_KEYS
from backhaul.project.manifest import TableSettings
from backhaul.project.models import ExtractSettings
from backhaul.project.pipeline import PipelineSettings
from tests.project.test_gitlab import INFO, TABLES

# A library that the tests' fake S3 brings along; nothing of ours imports it.
Draft202012Validator = pytest.importorskip("jsonschema").Draft202012Validator
PROJECT = Draft202012Validator(json_schema("project"))
MANIFEST = Draft202012Validator(json_schema("manifest"))
PIPELINES = Draft202012Validator(json_schema("pipelines"))


def plain(text: str) -> Any:
    document, findings = read_text(dedent(text), "f.yml")
    assert document is not None
    assert not findings
    return document.root.plain()


def test_the_schemas_are_schemas() -> None:
    for kind in (PROJECT, MANIFEST, PIPELINES):
        Draft202012Validator.check_schema(kind.schema)


@pytest.mark.parametrize(
    "text",
    [
        "connections: [{name: a, url: 'postgresql://h/d'}]",
        "connections: {a: {host: h, port: 5, database: d, pass_path: p, options: {sslsni: 1}}}",
        "connections: {a: {host: h, port: '{{ env(\"P\") }}', database: d}}",
        "extract: {overlap: 30m, chunk_rows: 5, window_cap: 90, out_of_range: null}",
        "x-mine: {anything: [1]}",
        "prices: {currency: EUR, executor_hour: 0.12, read_tb: 5, write_tb: 5}",
        "quality: {history: 5}",
        "lake: {format_version: 2, properties: {a: b}, conf: {c: d}, batch_rows: 5}",
        "control: {max_runs: 5, platforms: {dbt: {max_runs: 2}}, poll: 5s, api: {port: 80}}",
        "notify: {channels: {a: {type: slack, url_path: x, types: [failure]}}, default: a}",
    ],
)
def test_projects_that_are_right(text: str) -> None:
    value = plain(text)
    if "options" in text:
        value["connections"]["a"]["options"] = {"sslsni": "1"}
    assert [error.message for error in PROJECT.iter_errors(value)] == []


@pytest.mark.parametrize(
    "text",
    [
        "conections: {}",
        "connections: [{host: h}]",
        "connections: {a: {hots: h}}",
        "connections: {a: {adapter: oracle}}",
        "extract: {chunk_rows: 0}",
        "extract: {numeric: decimal}",
        "lake: 5",
        "lake: {format_version: 4}",
        "prices: {hour: 1}",
        "quality: {history: 0}",
        "control: {max_runs: 0}",
        "control: {platforms: {dbt: 5}}",
        "control: {api: {prot: 5}}",
        "notify: {channels: {a: {type: slak}}}",
        "notify: {channels: {a: {type: slack, url: x, types: [failed]}}}",
        "notify: {chanels: {}}",
    ],
)
def test_projects_that_are_wrong(text: str) -> None:
    assert not PROJECT.is_valid(plain(text))


@pytest.mark.parametrize(
    "text",
    [
        "tables: {a: , b: {key: id, exclude: [x], out_of_range: null}}",
        TABLES,
        INFO,
        "tables: {a: {load: external, checks_from: s.json}, b: {load: {}}, c: {load: [{to: x}, {}]}}",
        "tables: {a: {load: , checks: , budget: {max_bytes: 5GB, max_usd: 0.5, max_runtime: 90}}}",
        "tables: {a: {load: {partition_by: [days(at)], update: x, deletes: soft, history: scd2}}}",
        "tables: {a: {checks: [row_count, {not_null: [a], severity: warn, on_fail: drop}]}}",
        "tables: {a: {import_query: SELECT 1, load: {}, checks: [{sql: a}], budget: {max_usd: 1}}}",
        "connection_info: {host: H, database: D}",
    ],
)
def test_manifests_that_are_right(text: str) -> None:
    assert [error.message for error in MANIFEST.iter_errors(plain(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "table: {}",
        "tables: {a: {kye: id}}",
        "tables: {a: {chunk_rows: x}}",
        "tables: {a: {load: extrnal}}",
        "tables: {a: {load: {tabel: x}}}",
        "tables: {a: {load: [{deletes: later}]}}",
        "tables: {a: {load: [{max_delete_share: 2}]}}",
        "tables: {a: {budget: {max_byte: 5}}}",
        "tables: {a: {checks: [{betwen: x}]}}",
        "tables: {a: {checks: [{not_null: x, unique: y}]}}",
        "tables: {a: {checks: [{not_null: x, severity: bad}]}}",
    ],
)
def test_manifests_that_are_wrong(text: str) -> None:
    assert not MANIFEST.is_valid(plain(text))


@pytest.mark.parametrize(
    "text",
    [
        "pipelines: ",
        "pipelines: {a: , b: {tables: x, schedule: daily}}",
        "pipelines: {a: {schedule: {weekly: [mon], at: '06:00'}, retry: false, sla: '08:00'}}",
        "pipelines: {a: {backfill: true, multi_date: {max: 5}, notify: {types: [failure]}}}",
        "pipelines: {a: {depends_on: [b, {pipeline: c, window: [-1, 0]}], wait_for: {file: x}}}",
        "pipelines: {a: {parameters: {n: 5}, settings: {any: [thing]}, timeout: 90, paused: true}}",
        "pipelines: {a: {priority: '{{ env(\"P\") }}', checks: '{{ env(\"C\") }}'}}",
        "x-mine: 1",
    ],
)
def test_pipelines_that_are_right(text: str) -> None:
    assert [error.message for error in PIPELINES.iter_errors(plain(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "pipeline: {}",
        "pipelines: {a: {schedle: daily}}",
        "pipelines: {a: {schedule: {wekly: mon}}}",
        "pipelines: {a: {retry: {atempts: 1}}}",
        "pipelines: {a: {notify: {types: [failed]}}}",
        "pipelines: {a: {depends_on: [{offset: 1}]}}",
        "pipelines: {a: {wait_for: file}}",
        "pipelines: {a: {concurrency: 0}}",
    ],
)
def test_pipelines_that_are_wrong(text: str) -> None:
    assert not PIPELINES.is_valid(plain(text))


def test_every_setting_is_there() -> None:
    project, manifest = json_schema("project"), json_schema("manifest")
    assert set(project["properties"]) == set(PROJECT_KEYS)
    assert set(manifest["properties"]) == set(MANIFEST_KEYS)
    connection = project["properties"]["connections"]["oneOf"][1]["additionalProperties"]
    assert set(CONNECTION_KEYS) < set(connection["properties"])
    own, gitlab, _ = manifest["properties"]["tables"]["additionalProperties"]["anyOf"]
    assert set(own["properties"]) == set(TableSettings.keys())
    assert set(gitlab["properties"]) == set(GitlabSettings.keys())
    entry = json_schema("pipelines")["properties"]["pipelines"]["additionalProperties"]
    assert set(entry["properties"]) == set(PipelineSettings.keys())
    assert set(project["properties"]["extract"]["properties"]) == set(ExtractSettings.keys())


def test_defaults_are_written_as_users_write_them() -> None:
    extract = json_schema("project")["properties"]["extract"]["properties"]
    assert extract["overlap"]["default"] == "1800s"
