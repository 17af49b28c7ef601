"""Which project is in this folder? Everything read, every mistake reported at once, or a `Project`.

load_project(folder)  -> Project                      raises ConfigError with every finding
check_project(folder) -> (Project | None, findings)   None if one of them is an error
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from backhaul.errors import ConfigError
from backhaul.findings import Finding, Level, Place
from backhaul.project.channels import read_notify
from backhaul.project.check import cap_mistake, check_tables
from backhaul.project.check_load import check_loads
from backhaul.project.check_pipeline import Known, check_pipelines
from backhaul.project.connections import Connections, collect, flat_name, used_of
from backhaul.project.declared import Declarations, Sections
from backhaul.project.gitlab import (
    GitlabSettings,
    NamedVariables,
    connection_info,
    gitlab_entry,
    is_gitlab_entry,
)
from backhaul.project.manifest import TableEntry, TableSettings, table_entry
from backhaul.project.models import (
    ControlConfig,
    ExtractSettings,
    LakeConfig,
    PricesSettings,
    Project,
    QualitySettings,
    SparkConfig,
    StateConfig,
    StoreConfig,
)
from backhaul.project.pipeline import PipelineEntry
from backhaul.project.pipelines import PIPELINE_KEYS, read_pipelines
from backhaul.project.reading import PROJECT_FILES, Files
from backhaul.project.settings import Settings
from backhaul.project.template import Templates
from backhaul.project.translate import Section, did_you_mean, is_mapping, validate
from backhaul.project.variables import filled, read_variables

PROJECT_KEYS = (
    "name", "connections", "store", "state", "spark", "lake", "extract", "prices", "quality",
    "variables", "control", "notify",
)  # fmt: skip
MANIFEST_KEYS = ("tables", "connection_info")
# Keys for the reader's own use, such as anchors: `x-usual: &usual {...}`.
FREE_PREFIX = "x-"
_SECRET_KEYS = {
    "store": ("access_key_id", "secret_access_key"),
    "state": ("url",),
}
Model = TypeVar("Model", bound=Settings)


def load_project(folder: Path, environ: Mapping[str, str] | None = None) -> Project:
    """The project; ConfigError carries every finding of every file."""
    project, findings = check_project(folder, environ)
    if project is None:
        errors = [finding for finding in findings if finding.level is Level.ERROR]
        count = "one mistake" if len(errors) == 1 else f"{len(errors)} mistakes"
        said = "\n".join(str(finding) for finding in errors)
        raise ConfigError(f"{count} in the project:\n{said}", findings=findings)
    return project


def check_project(
    folder: Path, environ: Mapping[str, str] | None = None
) -> tuple[Project | None, list[Finding]]:
    """The project, if nothing prevents it, and all that was found."""
    environ = os.environ if environ is None else environ
    loading = _Loading(Path(folder).absolute(), environ)
    project = loading.project()
    return project, sorted(loading.findings, key=_position)


def _position(finding: Finding) -> tuple[bool, str, int]:
    """backhaul.yml first, then the manifests by name, each from top to bottom."""
    file = finding.place.file if finding.place else ""
    line = finding.place.line if finding.place else None
    return file not in PROJECT_FILES, file, line or 0


class _Loading:
    """One reading of one folder."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._files = Files(folder, Templates(environ))
        self._connections = Connections(self._files)
        self._sections: Sections = {}

    @property
    def findings(self) -> list[Finding]:
        return self._files.findings

    def project(self) -> Project | None:
        root = self._files.project()
        if root is None or not is_mapping(root):
            return None
        _refuse_unknown(root, PROJECT_KEYS)
        extract = self._extract(root)
        variables = read_variables(root.below("variables"))
        if section := root.below("connections"):
            self._connections.read(section)
        store = self._section(StoreConfig, root, "store")
        state = self._section(StateConfig, root, "state")
        spark = self._section(SparkConfig, root, "spark")
        lake = self._section(LakeConfig, root, "lake")
        prices = self._section(PricesSettings, root, "prices").prices()
        quality = self._section(QualitySettings, root, "quality")
        tables = self._tables(extract, variables)
        names = self._connections.names
        checked = check_tables(tables, names, variables, extract)
        checked += check_loads(tables, names, prices)
        self.findings.extend(self._at_key(finding) for finding in checked)
        control = self._section(ControlConfig, root, "control")
        notify, channels = read_notify(root.below("notify"), self._files)
        pipelines = self._pipelines(Known(tables, list(names), channels))
        if any(finding.level is Level.ERROR for finding in self.findings):
            return None
        tables = [_with_values(table, variables) for table in tables]
        return Project(
            folder=self._folder,
            name=_name(root) or self._folder.name,
            connections=self._connections.found,
            store=store,
            state=state,
            spark=spark,
            lake=lake,
            extract=extract,
            prices=prices,
            quality=quality,
            variables=variables,
            tables=tuple(tables),
            control=control,
            notify=notify,
            pipelines=tuple(pipelines),
            findings=tuple(self.findings),
        )

    def _section(self, model: type[Model], root: Section, key: str) -> Model:
        """A section's model; its defaults where it is missing, or wrong and reported."""
        section = root.below(key)
        if section is None or not is_mapping(section):
            return model()
        settings = self._files.settings(section, _SECRET_KEYS.get(key, ()))
        return validate(model, section, settings) or model()

    def _extract(self, root: Section) -> ExtractSettings:
        extract = self._section(ExtractSettings, root, "extract")
        if mistake := cap_mistake(extract.window_cap, extract.overlap):
            root.find("window_cap", *mistake, "extract", "window_cap")
        return extract

    def _tables(self, extract: ExtractSettings, variables: Mapping[str, str]) -> list[TableEntry]:
        manifests = [one for one in self._files.manifests() if is_mapping(one)]
        named: dict[str, NamedVariables] = {}
        entries: list[Section] = []
        for manifest in manifests:
            _refuse_unknown(manifest, MANIFEST_KEYS)
            if section := manifest.below("connection_info"):
                collect(connection_info(section), named)
            entries += _entries(manifest)
        self._connections.read_variables(used_of(named, entries), self._environ)
        onward = Declarations(self._files, variables, self._sections)
        tables = [(entry, self._table(entry, extract, named)) for entry in entries]
        return [onward.added(entry, table) for entry, table in tables if table]

    def _pipelines(self, known: Known) -> list[PipelineEntry]:
        files = [one for one in self._files.pipelines() if is_mapping(one)]
        for file in files:
            _refuse_unknown(file, PIPELINE_KEYS)
        found = read_pipelines(files, self._files.templates, known)
        self.findings.extend(check_pipelines(found))
        return [entry for _, _, entry in found if entry]

    def _table(
        self, section: Section, extract: ExtractSettings, named: Mapping[str, NamedVariables]
    ) -> TableEntry | None:
        if not is_mapping(section):
            return None
        name, place = str(section.path[-1]), section.place()
        self._sections[place.file, place.key_path or ""] = section
        if is_gitlab_entry(section):
            return self._gitlab(section, name, extract, named, place)
        settings = validate(TableSettings, section)
        if settings is None or not _one_thing(section, settings):
            return None
        source = settings.source or self._only_source(section, "source")
        if source is None:
            return None
        try:
            return table_entry(name, settings, source, extract, place)
        except ValueError as error:
            step = ("table",) if settings.table else ()
            section.find("table_name", f"{settings.table or name!r}: {error}", None, *step)
            return None

    def _gitlab(
        self,
        section: Section,
        name: str,
        extract: ExtractSettings,
        named: Mapping[str, NamedVariables],
        place: Place,
    ) -> TableEntry | None:
        settings = validate(GitlabSettings, section)
        if settings is None:
            return None
        source = settings.database_type or flat_name(section.file, named)
        source = source or self._only_source(section, "database_type")
        if source is None:
            return None
        return gitlab_entry(name, settings, source, extract, place)

    def _only_source(self, section: Section, key: str) -> str | None:
        """Where there is one connection, nobody needs to name it."""
        names = list(self._connections.names)
        if len(names) == 1:
            return names[0]
        known = f"one of {', '.join(names)}" if names else "define one in `connections:` first"
        section.find(
            "missing_key", f"`{key}` is missing", f"add `{key}:` with the connection; {known}"
        )
        return None

    def _at_key(self, finding: Finding) -> Finding:
        """A check's finding with the line of the very key instead of its entry's."""
        place = finding.place
        parent, _, step = (place.key_path or "").rpartition(".") if place else ("", "", "")
        section = self._sections.get((place.file, parent)) if place else None
        return replace(finding, place=section.place(step)) if section else finding


def _refuse_unknown(section: Section, valid: tuple[str, ...]) -> None:
    for key in section.node.entries():
        if key not in valid and not key.startswith(FREE_PREFIX):
            remedy = did_you_mean(key, valid)
            section.find("unknown_key", f"`{key}` is not a setting here", remedy, key)


def _entries(manifest: Section) -> list[Section]:
    tables = manifest.below("tables")
    if tables is None or not is_mapping(tables):
        return []
    below = [tables.below(name) for name in tables.node.entries()]
    return [section for section in below if section]


def _with_values(table: TableEntry, variables: Mapping[str, str]) -> TableEntry:
    """`where` with its variables; a query keeps its own until its window is known."""
    return replace(table, where=filled(table.where, variables)) if table.where else table


def _one_thing(section: Section, settings: TableSettings) -> bool:
    if settings.table and settings.query:
        message = "`table` and `query` are both given"
        section.find("contradiction", message, "keep one of them", "query")
        return False
    return True


def _name(root: Section) -> str | None:
    node = root.node.get("name")
    return node.text if node and node.value is not None else None
