"""The project's own verbs: make one (`init`), is it right (`check`), what may it say (`schema`)?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Verbose
from backhaul.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from backhaul.cli.screen import Screen
    from backhaul.findings import Finding


class SchemaKind(StrEnum):
    """Whose schema."""

    PROJECT = "project"
    MANIFEST = "manifest"
    PIPELINES = "pipelines"


def init(folder: Folder = Path(), debug: Debug = False) -> None:
    """Make a project: commented files, nothing overwritten."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        from backhaul.project.scaffold import scaffold

        made = scaffold(folder)
        for path in made:
            screen.say(f"created {path}")
        if not made:
            screen.say("every file is there already; nothing was changed")
        option = "" if folder == Path() else f" --project {folder}"
        screen.say("next: put your connection into backhaul.yml and your tables into manifest/,")
        screen.say(f"then run `backhaul check{option}` and `backhaul plan{option}`")


def check(
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Check every file and connection, with remedies."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.observe.log import watched

        with watched("check", folder, verbose):
            code, findings = _checked(folder)
        if as_json:
            told = [finding.as_dict() for finding in findings]
            screen.document({"ok": code == ExitCode.OK, "findings": told, "exit_code": code})
        else:
            _show(screen, findings)
        raise typer.Exit(code)


def _checked(folder: Path) -> tuple[int, list[Finding]]:
    from backhaul.findings import Report
    from backhaul.project.loader import check_project

    project, findings = check_project(folder)
    report = Report(list(findings))
    if project is None or report.errors:
        return ExitCode.USAGE, report.findings
    from backhaul.wiring import open_workshop

    try:
        with open_workshop(folder) as workshop:
            report.extend(workshop.preflight())
    except ConfigError as error:
        return ExitCode.USAGE, [*report.findings, *error.findings]
    return (ExitCode.OK if report.ok else ExitCode.FAILED), report.findings


def _show(screen: Screen, findings: list[Finding]) -> None:
    from backhaul.cli.figures import count
    from backhaul.findings import Level

    for finding in findings:
        screen.finding(finding)
    tally = {level: sum(finding.level is level for finding in findings) for level in Level}
    found = [count(number, level.value) for level, number in tally.items() if number]
    if tally[Level.ERROR]:
        screen.say(", ".join(found), style="bold red")
    else:
        screen.say(f"the project is fine{': ' if found else ''}{', '.join(found)}", style="green")


def schema(
    kind: Annotated[
        SchemaKind,
        typer.Argument(
            help="backhaul.yml (project), the files of manifest/ (manifest) or of pipelines/ "
            "(pipelines)."
        ),
    ] = SchemaKind.PROJECT,
    debug: Debug = False,
) -> None:
    """Print the JSON Schema that editors use."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        from backhaul.project.jsonschema import json_schema

        screen.document(json_schema(kind.value))
