"""What is a task in Airflow? One command of backhaul, in a process of its own, told by its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar

from backhaul.airflow.caller import Caller, environment_of
from backhaul.airflow.outcome import summary
from backhaul.airflow.sdk import AirflowFailException, BaseOperator


class BackhaulOperator(BaseOperator):  # type: ignore[misc]
    """One verb for `tables` (names, or globs; none: every table) of the project in the folder `project`.

    `python`: the interpreter that backhaul is installed in; else BACKHAUL_PYTHON, else Airflow's own.
    `env`: more variables for the command. `date_offset`: the data date is the date on which the data
    interval ends, minus so many days; without it the date on which the interval starts.
    """

    verb: ClassVar[str]
    template_fields: Sequence[str] = ("project", "tables", "python", "env")
    ui_color = "#e4efe7"

    def __init__(
        self,
        *,
        project: str | PathLike[str],
        tables: Sequence[str] | str = (),
        python: str | None = None,
        env: Mapping[str, str] | None = None,
        date_offset: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.project = str(project)
        self.tables = [tables] if isinstance(tables, str) else list(tables)
        self.python = python
        self.env = dict(env) if env else None
        self.date_offset = date_offset
        self._caller: Caller | None = None

    def options(self, _context: Mapping[str, Any]) -> list[str]:
        """The verb's own options, for this run."""
        return []

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any]:
        environment = environment_of(context, self.env, self.date_offset)
        self._caller = Caller(self.log, self.python, environment)
        options = ["--project", self.project, "--json", *self.options(context)]
        tables = ["--", *self.tables] if self.tables else []
        return summary(self._caller.call("backhaul", self.verb, [self.verb, *options, *tables]))

    def on_kill(self) -> None:
        if self._caller is not None:
            self._caller.stop()


class BackhaulCheckOperator(BackhaulOperator):
    """`backhaul check`: are the project's files right, and does each connection answer?"""

    verb = "check"

    def __init__(self, **kwargs: Any) -> None:
        if kwargs.get("tables"):
            raise ValueError("`backhaul check` checks the whole project; leave `tables` out")
        super().__init__(**kwargs)


class BackhaulExtractOperator(BackhaulOperator):
    """`backhaul extract`. `window`: only the rows of the data interval, whatever was brought before."""

    verb = "extract"

    def __init__(self, *, window: bool = False, full: bool = False, **kwargs: Any) -> None:
        if window and full:
            raise ValueError(
                "`full` brings every row, `window` those of the data interval: one of them"
            )
        super().__init__(**kwargs)
        self.window = window
        self.full = full

    def options(self, context: Mapping[str, Any]) -> list[str]:
        if self.full:
            return ["--full"]
        return _window(context) if self.window else []


class BackhaulDeletesOperator(BackhaulOperator):
    """`backhaul deletes`: the keys that the source has, for loads that follow deletes."""

    verb = "deletes"


class _Onward(BackhaulOperator):
    """Into one destination, where `to` names it."""

    template_fields: Sequence[str] = (*BackhaulOperator.template_fields, "to")

    def __init__(self, *, to: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to = to

    def options(self, _context: Mapping[str, Any]) -> list[str]:
        return ["--to", self.to] if self.to else []


class BackhaulLoadOperator(_Onward):
    """`backhaul load`: what is staged, checked and published."""

    verb = "load"


class BackhaulVerifyOperator(_Onward):
    """`backhaul verify`: are the destinations equal to the source? Fails where they differ."""

    verb = "verify"


class BackhaulMaintainOperator(_Onward):
    """`backhaul maintain`: keep the targets in shape."""

    verb = "maintain"


class BackhaulRunOperator(BackhaulOperator):
    """`backhaul run`: extract, the keys of deleted rows and load; one failed table stops no other."""

    verb = "run"

    def __init__(self, *, full: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.full = full

    def options(self, _context: Mapping[str, Any]) -> list[str]:
        return ["--full"] if self.full else []


def _window(context: Mapping[str, Any]) -> list[str]:
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is None or end is None or start >= end:
        raise AirflowFailException(
            f"window=True, and the run's data interval is {start} to {end}: empty; "
            "schedule the DAG with a CronDataIntervalTimetable (in Airflow 3 a cron line alone has none)"
        )
    return ["--from", start.isoformat(), "--to", end.isoformat()]
