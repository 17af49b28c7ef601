"""How does a task call backhaul? The command, its environment, and what its end means to Airflow."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from backhaul.airflow.outcome import Verdict, failure, read_document, summary, verdict
from backhaul.airflow.plan import data_date
from backhaul.airflow.process import Command
from backhaul.airflow.sdk import AirflowException, AirflowFailException

PYTHON_VARIABLE = "BACKHAUL_PYTHON"
DATES_VARIABLE = "BACKHAUL_DATA_DATES"
REASON_VARIABLE = "BACKHAUL_RUN_REASON"


class Caller:
    """Calls for one task; `log` is Airflow's logger of it."""

    def __init__(self, log: Any, python: str | None, environment: Mapping[str, str]) -> None:
        self._log = log
        self._python = python or os.environ.get(PYTHON_VARIABLE) or sys.executable
        self._environment = environment
        self._command: Command | None = None

    def call(self, module: str, verb: str, arguments: Sequence[str]) -> dict[str, Any]:
        """The document that the command prints; an exception that says whether a retry helps."""
        # -P: a file of the folder that Airflow runs in, named like the package, must not take its place.
        command = Command([self._python, "-P", "-m", module, *arguments], self._environment)
        self._command = command
        self._log.info("%s", command)
        try:
            ended = command.run(lambda line: self._log.info("%s", line))
        except OSError as error:
            raise AirflowFailException(
                f"cannot start {self._python} ({error.strerror}); set `python` or {PYTHON_VARIABLE} "
                "to the interpreter that backhaul is installed in"
            ) from error
        document = read_document(ended.stdout)
        if document is not None:
            self._log.info("%s", json.dumps(summary(document), default=str))
        judged = verdict(ended.exit_code, ended.last_line)
        if judged is not Verdict.DONE:
            kind = AirflowFailException if judged is Verdict.FAIL else AirflowException
            raise kind(failure(verb, ended.exit_code, ended.last_line, document))
        if document is None:
            raise AirflowException(f"backhaul {verb} ended well, but printed no JSON document")
        return document

    def stop(self) -> None:
        if self._command is not None:
            self._command.stop()


def date_of(context: Mapping[str, Any], date_offset: int | None) -> date | None:
    """The data date of a run, by the clock of its DAG."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    return data_date(start, end, context["dag"].timezone, date_offset)


def environment_of(
    context: Mapping[str, Any], own: Mapping[str, str] | None, date_offset: int | None
) -> dict[str, str]:
    """Airflow's environment, the task's own, and what run this is."""
    made = {**os.environ, **(own or {})}
    run = context["dag_run"]
    kind = getattr(run.run_type, "value", run.run_type)
    made[REASON_VARIABLE] = f"airflow {kind}: {run.dag_id} {run.run_id}"
    found = date_of(context, date_offset)
    made[DATES_VARIABLE] = found.isoformat() if found else ""
    return made
