"""Does a table show the source as it was at an instant, or later? The sensor that waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from typing import Any

from backhaul.airflow.caller import Caller, environment_of
from backhaul.airflow.outcome import summary
from backhaul.airflow.sdk import AirflowFailException, BaseSensorOperator, PokeReturnValue


class BackhaulTableSensor(BaseSensorOperator):  # type: ignore[misc]
    """Waits until every target of `table` (or its target in `destination`) shows the source at `since`.

    `since`: an instant, or its ISO form (UTC where it has no offset); without it the end of the run's
    data interval. Between two looks the worker is free (`mode="reschedule"`).
    """

    template_fields: Sequence[str] = ("project", "table", "destination", "since", "python", "env")
    ui_color = "#e4efe7"

    def __init__(
        self,
        *,
        project: str | PathLike[str],
        table: str,
        destination: str | None = None,
        since: datetime | str | None = None,
        python: str | None = None,
        env: Mapping[str, str] | None = None,
        mode: str = "reschedule",
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.project = str(project)
        self.table = table
        self.destination = destination
        self.since = since
        self.python = python
        self.env = dict(env) if env else None
        self._caller: Caller | None = None

    def poke(self, context: Mapping[str, Any]) -> Any:
        since = wanted_instant(self.since, context)
        self._caller = Caller(self.log, self.python, environment_of(context, self.env, None))
        to = ["--to", self.destination] if self.destination else []
        arguments = ["--project", self.project, *to, "--", self.table]
        document = self._caller.call("backhaul.airflow.ask", "airflow.ask", arguments)
        behind = [one for one in document["loads"] if not _shows(one["shows"], since)]
        for one in behind:
            self.log.info(
                "%s %s shows the source of %s, not yet of %s",
                one["destination"], one["target"], one["shows"] or "no time", since.isoformat(),
            )  # fmt: skip
        return PokeReturnValue(is_done=not behind, xcom_value=summary(document))

    def on_kill(self) -> None:
        if self._caller is not None:
            self._caller.stop()


def wanted_instant(since: datetime | str | None, context: Mapping[str, Any]) -> datetime:
    """What `since` means in this run."""
    wanted = since or context.get("data_interval_end")
    try:
        wanted = datetime.fromisoformat(wanted) if isinstance(wanted, str) else wanted
    except ValueError:
        wanted = None
    if not isinstance(wanted, datetime):
        raise AirflowFailException(
            f"`since` is {since!r}, and the run has no data interval: give it an instant, such as "
            "2026-01-31T06:00+02:00"
        )
    return wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)


def _shows(shown: str | None, since: datetime) -> bool:
    return shown is not None and datetime.fromisoformat(shown) >= since
