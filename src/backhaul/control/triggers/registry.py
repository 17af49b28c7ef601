"""Which platforms are there? A literal: adding one is its file, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from backhaul.clock import Clock
from backhaul.control.desk import Connect
from backhaul.control.triggers.base import Trigger
from backhaul.errors import ConfigError
from backhaul.project.translate import did_you_mean


@dataclass(frozen=True)
class Parts:
    """What triggers are made of."""

    folder: Path
    logs: Path
    clock: Clock
    connect: Connect


def _local(parts: Parts) -> tuple[Any, ...]:
    return (parts.folder, parts.logs, parts.clock)


def _remote(parts: Parts) -> tuple[Any, ...]:
    return (parts.clock,)


def _called_back(parts: Parts) -> tuple[Any, ...]:
    from backhaul.control.callbacks import Callbacks

    callbacks = Callbacks(parts.connect, parts.clock)
    return (parts.clock, callbacks.get, callbacks.token)


# Module and class under this folder, and what the class is made with. Imported when a worker starts,
# as `backhaul --help` needs none of them.
_PLATFORMS: Mapping[str, tuple[str, str, Callable[[Parts], tuple[Any, ...]]]] = {
    "backhaul": ("own", "OwnTrigger", _local),
    "command": ("command", "CommandTrigger", _local),
    "dbt": ("dbt_core", "DbtCoreTrigger", _local),
    "dbt_cloud": ("dbt_cloud", "DbtCloudTrigger", _remote),
    "databricks": ("databricks", "DatabricksTrigger", _remote),
    "snowflake": ("snowflake", "SnowflakeTrigger", _remote),
    "airflow": ("airflow", "AirflowTrigger", _remote),
    "http": ("http", "HttpTrigger", _called_back),
}
PLATFORMS = tuple(_PLATFORMS)


def open_triggers(
    folder: Path, logs: Path, clock: Clock, connect: Connect, only: tuple[str, ...] = ()
) -> Mapping[str, Trigger]:
    """By platform; `only` some of them, where a machine is to run nothing else."""
    for name in only:
        if name not in _PLATFORMS:
            raise ConfigError(
                f"there is no platform {name!r}", remedy=did_you_mean(name, _PLATFORMS)
            )
    parts = Parts(folder, logs, clock, connect)
    return {name: _open(name, parts) for name in only or PLATFORMS}


def _open(name: str, parts: Parts) -> Trigger:
    module, kind, arguments = _PLATFORMS[name]
    made: Trigger = getattr(import_module(f"backhaul.control.triggers.{module}"), kind)(
        *arguments(parts)
    )
    return made
