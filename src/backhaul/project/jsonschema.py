"""What may stand in the project's files, as editors want to know it?

`backhaul schema project` and `backhaul schema manifest` print these. They are made from the very
models that check the files, with what the models do not say by themselves: any value may be a
template, a connection's keys have `_path` twins, and a manifest may be in GitLab's form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from backhaul.project.connection import PostgresConnection
from backhaul.project.connections import PATH_KEYS
from backhaul.project.destined import EXTERNAL, BudgetSettings, LoadSettings
from backhaul.project.gitlab import GitlabSettings
from backhaul.project.manifest import TableSettings
from backhaul.project.models import (
    ExtractSettings,
    LakeConfig,
    PricesSettings,
    QualitySettings,
    SparkConfig,
    StateConfig,
    StoreConfig,
)
from backhaul.project.settings import Settings
from backhaul.quality.checks import OnFail, Scope, Severity
from backhaul.quality.kinds import KINDS
from backhaul.quality.settings import COMMON

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEMPLATE = {"type": "string", "pattern": r"\{\{.*\}\}"}
Schema = dict[str, Any]
_ISO_DURATION = re.compile(r"P(?=[\dT])[\dDTHMS.]+")


def json_schema(kind: Literal["project", "manifest"]) -> Schema:
    """The JSON Schema of `backhaul.yml` or of a manifest."""
    schema = _MAKERS[kind]()
    return {"$schema": DIALECT, "title": f"backhaul {kind}", "type": "object", **schema}


def _project() -> Schema:
    connection = _connection()
    named = {**connection, "required": ["name"]}
    properties = {
        "name": {"type": "string"},
        "connections": {
            "oneOf": [
                {"type": "array", "items": named},
                {"type": "object", "additionalProperties": connection},
            ]
        },
        "store": _model(StoreConfig, ("access_key_id", "secret_access_key")),
        "state": _model(StateConfig, ("url",)),
        "spark": _model(SparkConfig),
        "lake": _model(LakeConfig),
        "extract": _model(ExtractSettings),
        "prices": _model(PricesSettings),
        "quality": _model(QualitySettings),
        "variables": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        },
    }
    return _closed(properties)


def _manifest() -> Schema:
    table: Schema = {"anyOf": [_entry(TableSettings), _entry(GitlabSettings), {"type": "null"}]}
    variables = {"type": "object", "additionalProperties": {"type": "string"}}
    properties = {
        "tables": {"type": ["object", "null"], "additionalProperties": table},
        "connection_info": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "string"}, variables]},
        },
    }
    return _closed(properties)


def _entry(model: type[Settings]) -> Schema:
    """An entry's settings, with those parts that are models of their own."""
    target = _model(LoadSettings)
    load = [{"const": EXTERNAL}, target, {"type": "array", "items": target}, {"type": "null"}]
    own = {"load": {"anyOf": load}, "checks": _checks(), "budget": _model(BudgetSettings)}
    schema = _model(model)
    return {**schema, "properties": {**schema["properties"], **own}}


def _checks() -> Schema:
    """The kinds and what they have in common; a kind's own settings are checked by us."""
    common: Schema = dict.fromkeys(COMMON, True)
    common |= {
        "severity": {"enum": list(get_args(Severity))},
        "on": {"enum": list(get_args(Scope))},
    }
    common["on_fail"] = {"enum": list(get_args(OnFail))}
    kinds: Schema = dict.fromkeys(KINDS, True)
    check = {
        "type": "object",
        "properties": {**kinds, **common},
        "additionalProperties": False,
        "oneOf": [{"required": [kind]} for kind in KINDS],
    }
    return {"type": ["array", "null"], "items": {"anyOf": [check, {"enum": list(KINDS)}]}}


def _connection() -> Schema:
    schema = _model(PostgresConnection, PATH_KEYS)
    schema["properties"]["url"] = {"type": "string", "pattern": r"^postgres(ql)?://|\{\{.*\}\}"}
    # The name is the key in a mapping, and the parts may be in a url or in files.
    schema.pop("required", None)
    return schema


def _closed(properties: Schema) -> Schema:
    return {
        "properties": properties,
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
    }


def _model(model: type[Settings], path_keys: Iterable[str] = ()) -> Schema:
    schema = model.model_json_schema(by_alias=True)
    schema.pop("title", None)
    properties = {key: _value(value) for key, value in schema["properties"].items()}
    for key in path_keys:
        said = f"a file that holds `{key}`"
        properties[f"{key}_path"] = {"type": "string", "description": said}
    return {**schema, "properties": properties}


def _value(schema: Schema) -> Schema:
    """A setting's own schema, or a template in its place."""
    default = {"default": _plain(schema.pop("default"))} if "default" in schema else {}
    schema.pop("title", None)
    if schema.get("type") in ("object", "array"):
        return {**schema, **default}
    return {"anyOf": [schema, TEMPLATE], **default}


def _plain(default: Any) -> Any:
    """A default as users would write it; pydantic writes durations in ISO 8601."""
    if isinstance(default, str) and _ISO_DURATION.fullmatch(default):
        seconds = TypeAdapter(timedelta).validate_python(default).total_seconds()
        return f"{seconds:g}s"
    return default


_MAKERS: dict[str, Callable[[], Schema]] = {"project": _project, "manifest": _manifest}
