"""Which commands are there? Importing one brings its signature; what it needs comes later."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Annotated

import typer

from backhaul.cli import (
    backfills,
    dates,
    demo,
    export,
    load,
    loads,
    notify,
    pipeline,
    project,
    runs,
    serve,
    status,
    steering,
    token,
    verify,
)

# Plain help: rich's takes longer to import than a whole command's start-up may.
app = typer.Typer(
    name="backhaul",
    help="PostgreSQL tables to lakehouses and warehouses, completely and correctly.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from backhaul import __version__

        typer.echo(f"backhaul {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """PostgreSQL tables to lakehouses and warehouses, completely and correctly."""


app.command("init")(project.init)
app.command("demo")(demo.demo)
app.command("check")(project.check)
app.command("schema")(project.schema)
app.command("plan")(export.plan)
app.command("extract")(export.extract)
app.command("deletes")(export.deletes)
app.command("status")(status.status)
app.command("run")(load.run)
app.command("load")(load.load)
app.command("loads")(loads.loads)
app.command("rollback")(loads.rollback)
app.command("maintain")(loads.maintain)
app.command("verify")(verify.verify)
for verb, function in steering.VERBS.items():
    pipeline.app.command(verb)(function)
app.add_typer(pipeline.app, name="pipeline")
app.command("dates")(dates.dates)
app.command("backfill")(backfills.backfill)
app.add_typer(backfills.app, name="backfills")
app.add_typer(runs.app, name="runs")
app.add_typer(notify.app, name="notify")
app.add_typer(token.app, name="token")
app.command("serve")(serve.serve)
app.command("scheduler")(serve.scheduler)
app.command("worker")(serve.worker)


def main() -> None:
    """The entry point of the wheel."""
    # A scheduler's stop is as clean as a person's Ctrl-C.
    signal.signal(signal.SIGTERM, _terminated)
    app()


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
