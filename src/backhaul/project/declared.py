"""What does an entry say of its way onward? Each target, check and limit read where it stands.

Findings have the line of the very item; files that an entry names are read here, once for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from backhaul.findings import Finding, Level, Place
from backhaul.project.destined import (
    EXTERNAL,
    BudgetSettings,
    LoadSettings,
    load_entry,
    target_of,
)
from backhaul.project.document import Node, read_text
from backhaul.project.load import Budget, LoadEntry, Transform
from backhaul.project.manifest import TableEntry
from backhaul.project.reading import Beside, Files
from backhaul.project.secret import shown
from backhaul.project.sparksql import Mistake, read_condition, read_query
from backhaul.project.template import UNSET
from backhaul.project.transform import parse_transform
from backhaul.project.translate import Section, validate
from backhaul.quality.checks import Check, Problem
from backhaul.quality.parse import parse_checks, with_unique_names
from backhaul.quality.suite import parse_suite

Sections = dict[tuple[str, str], Section]


class Declarations:
    """Reads what follows the export. `sections` gets every mapping read, for findings made later."""

    def __init__(self, files: Files, variables: Mapping[str, str], sections: Sections) -> None:
        self._files = files
        self._variables = variables
        self._sections = sections
        # Many tables may name one file.
        self._queries: dict[str, tuple[str, list[Mistake]]] = {}
        self._suites: dict[str, list[Check]] = {}

    def added(self, section: Section, entry: TableEntry) -> TableEntry:
        """The entry with its loads, checks and budget; a mistake leaves its part out."""
        external, loads = self._loads(section, entry)
        deletes = entry.deletes or any(load.deletes != "ignore" for load in loads)
        return replace(
            entry,
            loads=tuple(loads),
            external=external,
            deletes=deletes,
            checks=tuple(with_unique_names([*self._checks(section), *self._suite(section)])),
            budget=self._budget(section),
        )

    def _loads(self, section: Section, entry: TableEntry) -> tuple[bool, list[LoadEntry]]:
        load = section.below("load")
        if load is None or load.node.value is None or UNSET in load.node.text:
            return False, []
        if load.node.text == EXTERNAL:
            return True, []
        if not isinstance(load.node.value, dict | list):
            seen = shown(load.node, "load")
            message = f"`load` must be a list of targets, one target, or `{EXTERNAL}`, not {seen}"
            remedy = f"write `load: {EXTERNAL}`, or a target's settings below `load:`"
            section.find("wrong_type", message, remedy, "load")
            return False, []
        found = [self._load(target, entry) for target in _targets(load)]
        return False, [one for one in found if one]

    def _load(self, section: Section, entry: TableEntry) -> LoadEntry | None:
        settings = validate(LoadSettings, section)
        if settings is None:
            return None
        place = section.place()
        self._sections[place.file, place.key_path or ""] = section
        try:
            target = target_of(settings, entry)
        except ValueError as error:
            section.find("table_name", f"`table`: {error}", None, "table")
            return None
        load = load_entry(settings, entry, target, _partitions(section, settings), place)
        select, path = self._select(section)
        condition = self._condition(section, settings)
        return replace(load, select=select, select_path=path, update_when=condition)

    def _select(self, section: Section) -> tuple[str | None, str | None]:
        beside = self._files.beside(section, "select")
        if beside is None:
            return None, None
        if beside.file not in self._queries:
            self._queries[beside.file] = read_query(beside.text, self._variables)
        sql, mistakes = self._queries[beside.file]
        key_path = section.place("select").key_path
        for one in mistakes:
            place = Place(beside.file, one.line or 1, key_path)
            self._files.findings.append(_finding(one, place))
        return sql, beside.file

    def _condition(self, section: Section, settings: LoadSettings) -> str | None:
        if settings.update_when is None or UNSET in settings.update_when:
            return None
        condition, mistakes = read_condition(settings.update_when, self._variables)
        for one in mistakes:
            section.find(one.code, f"`update_when`: {one.message}", one.remedy, "update_when")
        return condition

    def _budget(self, section: Section) -> Budget:
        below = section.below("budget")
        if below is None or UNSET in below.node.text:
            return Budget()
        place = below.place()
        self._sections[place.file, place.key_path or ""] = below
        settings = validate(BudgetSettings, below)
        return settings.budget() if settings else Budget()

    def _checks(self, section: Section) -> list[Check]:
        node = section.node.get("checks")
        if node is None or node.value is None or UNSET in node.text:
            return []
        if not isinstance(node.value, list):
            message = f"`checks` must be a list, not {shown(node, 'checks')}"
            section.find("wrong_type", message, "begin each check with `- `", "checks")
            return []
        checks, problems = parse_checks(node.plain())
        _report(section, "checks", problems)
        return checks

    def _suite(self, section: Section) -> list[Check]:
        beside = self._files.beside(section, "checks_from")
        if beside is None:
            return []
        if beside.file not in self._suites:
            checks, problems = parse_suite(beside.text)
            self._suites[beside.file] = checks
            if problems:
                _report(self._suite_section(beside), "expectations", problems)
        return self._suites[beside.file]

    def _suite_section(self, beside: Beside) -> Section:
        """The suite with its lines: JSON is YAML."""
        document, _ = read_text(beside.text, beside.file)
        root = document.root if document else Node({}, 1)
        return Section(beside.file, root, (), self._files.findings)


def _targets(load: Section) -> list[Section]:
    """A list's items; a mapping is one target."""
    if isinstance(load.node.value, dict):
        return [load]
    items = [load.below(position) for position in range(len(load.node.items()))]
    return [item for item in items if item]


def _partitions(section: Section, settings: LoadSettings) -> tuple[Transform, ...]:
    found: list[Transform] = []
    for position, text in enumerate(settings.partition_by):
        steps: tuple[str | int, ...] = ("partition_by", position)
        node = section.node.get(*steps)
        if node is None:  # one item, without a list around it
            steps, node = steps[:1], section.node.get("partition_by")
        try:
            one = parse_transform(text)
        except ValueError as error:
            seen = shown(node, "partition_by") if node else repr(text)
            section.find("wrong_value", f"{seen} is no partitioning", str(error), *steps)
            continue
        if one in found:
            section.find("contradiction", f"`{one}` is given twice", "keep one of them", *steps)
        found.append(one)
    return tuple(found)


def _report(section: Section, above: str, problems: Iterable[Problem]) -> None:
    for one in problems:
        steps: tuple[str | int, ...] = (above, one.index)
        if section.node.get(above) is None:  # a suite that is none
            steps = ()
        elif one.key:
            steps += _to_key(section.node.get(*steps), one.key)
        section.find("check_invalid", one.message, one.remedy, *steps, level=one.level)


def _to_key(check: Node | None, key: str) -> tuple[str, ...]:
    """A key stands beside the check's kind, or below it."""
    entries = check.entries() if check else {}
    below = (name for name, node in entries.items() if key in node.entries())
    return (key,) if key in entries else (*(name for name in list(below)[:1]), key)


def _finding(mistake: Mistake, place: Place) -> Finding:
    return Finding(Level.ERROR, mistake.code, mistake.message, mistake.remedy, place=place)
