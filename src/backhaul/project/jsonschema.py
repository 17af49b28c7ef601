"""What may stand in the project's files, as editors want to know it?

`backhaul schema project`, `… manifest` and `… pipelines` print these. They are made from the very
models that check the files, with what the models do not say by themselves: any value may be a
template, a connection's keys have `_path` twins, a manifest may be in GitLab's form, and many a part
of a pipeline may be written in a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from backhaul.control.notify.config import CHANNELS
from backhaul.project.connection import PostgresConnection
from backhaul.project.connections import PATH_KEYS
from backhaul.project.destined import EXTERNAL, BudgetSettings, LoadSettings
from backhaul.project.gitlab import GitlabSettings
from backhaul.project.manifest import TableSettings
from backhaul.project.models import (
    ApiConfig,
    ControlConfig,
    ExtractSettings,
    LakeConfig,
    PlatformLimits,
    PricesSettings,
    QualitySettings,
    SparkConfig,
    StateConfig,
    StoreConfig,
)
from backhaul.project.pipeline import (
    BackfillSettings,
    DependencySettings,
    MultiDateSettings,
    NotifySettings,
    PipelineSettings,
    RetrySettings,
    ScheduleSettings,
    SignalSettings,
    SlaSettings,
)
from backhaul.project.settings import Settings
from backhaul.quality.checks import OnFail, Scope, Severity
from backhaul.quality.kinds import KINDS
from backhaul.quality.settings import COMMON

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEMPLATE = {"type": "string", "pattern": r"\{\{.*\}\}"}
Schema = dict[str, Any]
_FLAG: Schema = {"anyOf": [{"type": "boolean"}, TEMPLATE]}
_NAMES: Schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_ISO_DURATION = re.compile(r"P(?=[\dT])[\dDTHMS.]+")


def json_schema(kind: Literal["project", "manifest", "pipelines"]) -> Schema:
    """The JSON Schema of `backhaul.yml`, of a manifest or of a file in `pipelines/`."""
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
        "control": _control(),
        "notify": _notify(),
    }
    return _closed(properties)


def _control() -> Schema:
    schema = _model(ControlConfig)
    schema.pop("$defs", None)
    platforms = {"type": "object", "additionalProperties": _model(PlatformLimits)}
    own = {"platforms": platforms, "api": _model(ApiConfig)}
    return {**schema, "properties": {**schema["properties"], **own}}


def _notify() -> Schema:
    """Each type of channel has settings of its own."""
    channels = [_channel(name, model) for name, model in CHANNELS.items()]
    properties = {
        "channels": {"type": "object", "additionalProperties": {"anyOf": channels}},
        "default": _NAMES,
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _inline(schema: Schema) -> Schema:
    """The schema without definitions beside it: it stands deep inside another one."""
    defined = schema.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return {"enum": defined[part["$ref"].rpartition("/")[2]]["enum"]}
        return {key: inlined(one) for key, one in part.items()}

    found: Schema = inlined(schema)
    return found


def _channel(name: str, model: type[Settings]) -> Schema:
    keys: tuple[str, ...] = getattr(model, "path_keys", ())
    schema = _inline(_model(model, keys))
    schema["properties"]["type"] = {"const": name}
    # A key that must be there may be there as a file.
    required = [key for key in schema.pop("required", []) if key not in keys]
    return {**schema, "required": ["type", *required]}


def _pipelines() -> Schema:
    pipeline = _model(PipelineSettings)
    properties = {**pipeline["properties"], **_pipeline_parts()}
    entry = {**pipeline, "type": ["object", "null"], "properties": properties}
    return _closed({"pipelines": {"type": ["object", "null"], "additionalProperties": entry}})


def _pipeline_parts() -> Schema:
    """The parts that are mappings, or short for one."""
    word: Schema = {"type": "string"}
    return {
        "settings": {"type": ["object", "null"]},
        "tables": _NAMES,
        "schedule": _any(word, _model(ScheduleSettings)),
        "retry": _any({"type": ["string", "boolean"]}, _model(RetrySettings)),
        "sla": _any(word, _model(SlaSettings)),
        "backfill": _any(_FLAG, _model(BackfillSettings)),
        "notify": _any(_NAMES, _inline(_model(NotifySettings))),
        "depends_on": _list_of(word, _model(DependencySettings)),
        "wait_for": _list_of(_model(SignalSettings)),
        "parameters": {
            "type": ["object", "null"],
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        },
        "multi_date": _any(_FLAG, _model(MultiDateSettings)),
    }


def _any(*schemas: Schema) -> Schema:
    return {"anyOf": [*schemas, {"type": "null"}]}


def _list_of(*schemas: Schema) -> Schema:
    """A list of these, or one of them alone."""
    return _any(*schemas, {"type": "array", "items": {"anyOf": list(schemas)}})


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


_MAKERS: dict[str, Callable[[], Schema]] = {
    "project": _project,
    "manifest": _manifest,
    "pipelines": _pipelines,
}
