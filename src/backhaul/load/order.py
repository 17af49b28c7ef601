"""In which order are tables loaded? Those that others look up come first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from backhaul.destinations.base import Target
from backhaul.errors import ConfigError
from backhaul.load.select import looked_up
from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry

Job = tuple[TableEntry, LoadEntry]
Name = tuple[str, Target]


def in_order(jobs: Sequence[Job]) -> list[Job]:
    """Dimensions before the facts whose `select` or checks mention them; else the manifest's order."""
    by_name = {_name(load): (entry, load) for entry, load in jobs}
    graph: TopologicalSorter[Name] = TopologicalSorter()
    for name, (entry, load) in by_name.items():
        needed = [(load.to, target) for target in _needs(entry, load)]
        graph.add(name, *(one for one in needed if one in by_name and one != name))
    try:
        return [by_name[name] for name in graph.static_order()]
    except CycleError as error:
        circle = " → ".join(str(target) for _, target in error.args[1])
        raise ConfigError(
            f"loads look each other up in a circle: {circle}",
            remedy="take one of the look-ups out of its select",
        ) from error


def _name(load: LoadEntry) -> Name:
    return load.to, Target(load.namespace, load.name)


def _needs(entry: TableEntry, load: LoadEntry) -> list[Target]:
    needed = looked_up(load.select) if load.select else []
    referred = [check.params.get("to") for check in entry.checks if check.kind == "referential"]
    return [*needed, *(Target(*str(name).split(".", 1)) for name in referred if name)]
