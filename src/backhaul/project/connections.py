"""Which connections does a project have? Those of `backhaul.yml`, and those of GitLab's form.

A connection with a mistake keeps its name in `names`, so that the tables that use it do not add to
the findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from backhaul.project.connection import ADAPTERS, URL_KEYS, PostgresConnection
from backhaul.project.document import Node
from backhaul.project.gitlab import NamedVariables, is_gitlab_entry
from backhaul.project.load import LAKE
from backhaul.project.reading import Files
from backhaul.project.secret import shown
from backhaul.project.translate import Section, is_mapping, validate

REPLICA_KEYS = ("replica_host", "replica_port", "replica_db", "replica_user", "replica_pass")
PATH_KEYS = (*URL_KEYS, *REPLICA_KEYS, "url", "sslmode")
CONNECTION_KEYS = (*PostgresConnection.keys(), "url")


class Connections:
    """The connections so far, by name."""

    def __init__(self, files: Files) -> None:
        self.found: dict[str, PostgresConnection] = {}
        self.names: dict[str, None] = {}
        self._files = files

    def read(self, section: Section) -> None:
        """The `connections:` section: a list with names, or a mapping of names."""
        if isinstance(section.node.value, list):
            for position in range(len(section.node.items())):
                self._listed(section.below(position))
        elif section.node.value is not None and not isinstance(section.node.value, dict):
            section.find("wrong_type", "`connections` must be a list or a mapping of names")
        else:
            for name in section.node.entries():
                self._named(name, section.below(name))

    def read_variables(self, named: Iterable[NamedVariables], environ: Mapping[str, str]) -> None:
        """Connections whose parts are in environment variables; the project's own go first."""
        for one in named:
            if one.name in self.names:
                continue
            self.names[one.name] = None
            _refuse_lake(one.name, one.section)
            if missing := one.missing(environ):
                message = f"not set in the environment: {', '.join(missing)}"
                remedy = f"set them, or define the connection {one.name!r} in backhaul.yml"
                one.section.find("env_missing", message, remedy)
            elif connection := validate(PostgresConnection, _filled(one, environ),
                                        one.settings(environ), CONNECTION_KEYS):  # fmt: skip
                self.found[one.name] = connection

    def _listed(self, section: Section | None) -> None:
        if section and is_mapping(section):
            name = section.node.get("name")
            self._one(name.text if name else None, section)

    def _named(self, name: str, section: Section | None) -> None:
        if section and is_mapping(section):
            said = section.node.get("name")
            if said and said.text != name:
                message = f"`name` is {shown(said)}, and the key above is {name!r}"
                section.find("contradiction", message, "remove `name`", "name")
            self._one(name, section)

    def _one(self, name: str | None, section: Section) -> None:
        if name in self.names:
            section.find("duplicate_connection", f"the connection {name!r} is defined already",
                         "give one of them another name", "name")  # fmt: skip
            return
        if name is not None:
            self.names[name] = None
            _refuse_lake(name, section, *(("name",) if section.node.get("name") else ()))
        model = self._model(section)
        settings = self._files.settings(section, PATH_KEYS)
        if name is not None:
            settings["name"] = name
        self._refuse_url_and_parts(section, settings)
        connection = validate(model, section, settings, CONNECTION_KEYS)
        if connection:
            self.found[connection.name] = connection

    def _model(self, section: Section) -> type[PostgresConnection]:
        """The adapter's model; for an adapter that there is not, one whose validation says so."""
        adapter = section.node.get("adapter")
        return ADAPTERS.get(adapter.text if adapter else "postgres", PostgresConnection)

    def _refuse_url_and_parts(self, section: Section, settings: dict[str, object]) -> None:
        if settings.get("url") is None:
            return
        for key in URL_KEYS:
            if key in settings:
                del settings[key]
                given = key if section.node.get(key) else f"{key}_path"
                message = f"`url` and `{given}` are both given"
                section.find("contradiction", message, "keep one of them", given)


def _refuse_lake(name: str, section: Section, *steps: str) -> None:
    if name == LAKE:
        message = f"{name!r} cannot name a connection: it is the project's lake in every `load:`"
        section.find("reserved_name", message, "give the connection another name", *steps)


def _filled(one: NamedVariables, environ: Mapping[str, str]) -> Section:
    """The section with values instead of variables' names, marked as coming from outside."""
    nodes = {
        part: Node(environ[name], node.line, environ[name], origin=name)
        for part, name in one.variables.items()
        if (node := one.section.node.get(part)) is not None
    }
    section = one.section
    return Section(
        section.file, Node(dict(nodes), section.node.line), section.path, section.findings
    )


def collect(found: list[NamedVariables], named: dict[str, NamedVariables]) -> None:
    for one in found:
        first = named.setdefault(one.name, one)
        if first.variables != one.variables:
            message = f"the connection {one.name!r} is defined already, at {first.section.place()}"
            one.section.find("duplicate_connection", message, "keep one of them")


def used_of(named: Mapping[str, NamedVariables], entries: list[Section]) -> list[NamedVariables]:
    """Only these need their variables: a machine that extracts `ci` has no login for `main`."""
    used: set[str | None] = set()
    for entry in entries:
        if is_gitlab_entry(entry):
            node = entry.node.get("database_type")
            used.add(node.text if node and node.value else flat_name(entry.file, named))
        elif node := entry.node.get("source"):
            used.add(node.text)
        used.update(_destinations(entry))
    return [one for one in named.values() if one.name in used]


def _destinations(entry: Section) -> Iterator[str]:
    load = entry.node.get("load")
    for target in [load, *load.items()] if load else []:
        if to := target.get("to"):
            yield to.text


def flat_name(file: str, named: Mapping[str, NamedVariables]) -> str | None:
    """The connection of a manifest whose `connection_info` names only one."""
    stem = Path(file).stem
    return stem if stem in named and named[stem].section.file == file else None
