"""What is known of a table when it is planned, and what do all tables of its source share?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from backhaul.errors import BackhaulError
from backhaul.extract.decide import Mode, Target
from backhaul.extract.recipe import mode_of
from backhaul.extract.selection import Selection
from backhaul.extract.spec import ReadSpec
from backhaul.extract.survey import Ids, SourceSurvey, TableSurvey
from backhaul.findings import Finding
from backhaul.postgres.partition import ChunkPlan
from backhaul.state.records import TableHistory


@dataclass(frozen=True)
class TableCase:
    """Everything that is known of one table. `left`: the chunks of an unfinished export still to be read."""

    survey: TableSurvey
    history: TableHistory
    left: tuple[ChunkPlan, ...] = ()
    target: Target | None = None
    spec: ReadSpec | None = None
    error: BackhaulError | None = None

    @property
    def name(self) -> str:
        return self.survey.entry.name

    @property
    def mode(self) -> Mode:
        return mode_of(self.survey.entry)


@dataclass(frozen=True)
class Circumstances:
    """What all tables of a source share."""

    source: SourceSurvey
    selection: Selection
    now: datetime
    ids: Ids = Ids()

    @property
    def lanes(self) -> int:
        return self.source.connection.max_connections

    @property
    def safe(self) -> datetime:
        """Up to where a window may read."""
        assert self.source.safe_end is not None  # a source that answered has one
        return self.source.safe_end.at

    @property
    def why_safe(self) -> str:
        return self.source.safe_end.why if self.source.safe_end else ""

    @property
    def end_findings(self) -> tuple[Finding, ...]:
        return self.source.safe_end.findings if self.source.safe_end else ()

    def overlap(self, case: TableCase) -> timedelta:
        """The table's own; wider by as much as the source's safe end is uncertain."""
        return case.survey.entry.overlap + self.source.uncertainty
