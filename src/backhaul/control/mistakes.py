"""What is wrong with a pipeline's other columns? Told on the pipeline; none of it stops its dates."""

from __future__ import annotations

from dataclasses import dataclass, field

from backhaul.control.frequency import ScheduleInvalid
from backhaul.control.notify.config import NotifyConfig
from backhaul.control.notify.recipients import recipients
from backhaul.control.records import Pipeline
from backhaul.control.retry import parse_retry

_Said = tuple[str, str | None, str | None, str | None]


@dataclass
class Mistakes:
    """Looked for once per pipeline and change. `platforms`: those that a worker may have."""

    config: NotifyConfig
    platforms: tuple[str, ...]
    _known: dict[int, tuple[_Said, str | None]] = field(default_factory=dict)

    def of(self, pipeline: Pipeline) -> str | None:
        said = (
            pipeline.platform,
            pipeline.retry_schedule,
            pipeline.notification_channel,
            pipeline.notification_details,
        )
        known = self._known.get(pipeline.pipeline_id)
        if known is None or known[0] != said:
            known = (said, "\n".join(self._look(pipeline)) or None)
            self._known[pipeline.pipeline_id] = known
        return known[1]

    def _look(self, pipeline: Pipeline) -> list[str]:
        found = []
        if pipeline.platform not in self.platforms:
            valid = ", ".join(self.platforms)
            found.append(f"platform: there is no {pipeline.platform!r}; valid: {valid}")
        try:
            parse_retry(pipeline.retry_schedule)
        except ScheduleInvalid as error:
            found.append(f"retry_schedule: {error}")
        told = recipients(pipeline.notification_channel, pipeline.notification_details, self.config)
        return [*found, *told.problems]
