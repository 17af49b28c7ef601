"""From what the user asked and what the survey found to the frozen list that `extract` runs.

Looks, and touches nothing: `plan` prints what this returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from backhaul.clock import Clock
from backhaul.errors import BackhaulError
from backhaul.extract import assemble, survey
from backhaul.extract.case import Circumstances, TableCase
from backhaul.extract.cut import is_worth_cutting
from backhaul.extract.plan import TablePlan
from backhaul.extract.recipe import by_blocks, keys_spec, rows_spec, wants_blocks
from backhaul.extract.selection import Selection, by_source, choose, expand, refuse_collisions
from backhaul.extract.spec import ReadSpec
from backhaul.extract.survey import SourceSurvey, TableSurvey, TargetSurvey
from backhaul.postgres.catalog import expand_glob
from backhaul.postgres.partition import ChunkPlan, range_from_dict
from backhaul.postgres.sql import KeyColumn
from backhaul.project.connection import PostgresConnection
from backhaul.project.manifest import TableEntry
from backhaul.project.models import Project
from backhaul.state.database import State
from backhaul.state.records import TableHistory
from backhaul.store.store import Store

Resolve = Callable[[str], PostgresConnection]


@dataclass(frozen=True)
class Planner:
    """Plans a project's extraction. `resolve` gives a connection's address as it is now."""

    project: Project
    state: State
    store: Store
    clock: Clock
    resolve: Resolve

    def plan(self, selection: Selection) -> list[TablePlan]:
        """One plan per selected table, in the manifest's order; a table's error is its plan's."""
        entries, failed = self.entries(selection)
        if selection.deletes:
            entries = [entry for entry in entries if entry.deletes or selection.patterns]
        histories = self.state.exports.history((e.source, e.name) for e in entries)
        targets = self._targets(entries, histories, selection)
        plans = {
            plan.table: plan
            for source, own in by_source(entries).items()
            for plan in self._plan_source(source, own, histories, targets, selection)
        }
        return [*failed, *(plans[entry.name] for entry in entries)]

    def entries(self, selection: Selection) -> tuple[list[TableEntry], list[TablePlan]]:
        """The selected tables, globs expanded; and a failed plan for a glob whose source is away."""
        expanded: list[TableEntry] = []
        failed: list[TablePlan] = []
        for entry in self.project.tables:
            if entry.glob is None:
                expanded.append(entry)
                continue
            try:
                expanded.extend(self._expanded(entry))
            except BackhaulError as error:
                failed.append(assemble.failed(entry.name, entry.source, error))
        refuse_collisions(expanded)
        return choose(expanded, selection.patterns) if expanded or not failed else [], failed

    def _expanded(self, entry: TableEntry) -> list[TableEntry]:
        relations = survey.list_relations(self.resolve(entry.source))
        taken = [
            other.relation
            for other in self.project.tables
            if other.source == entry.source and other.relation is not None
        ]
        matching = expand_glob(entry.glob or "", entry.exclude, relations)
        return expand(entry, matching, taken)

    def _targets(
        self,
        entries: Sequence[TableEntry],
        histories: Mapping[tuple[str, str], TableHistory],
        selection: Selection,
    ) -> TargetSurvey:
        if selection.deletes or selection.full:
            # Nothing depends on them; and --full is the way out when the newest cannot be read.
            return TargetSurvey({}, {})
        unfinished = [
            known.unfinished.export.folder for known in histories.values() if known.unfinished
        ]
        known = [e.name for e in entries if histories[(e.source, e.name)].has_backfill]
        return survey.survey_targets(self.store, known, unfinished)

    def _plan_source(
        self,
        source: str,
        entries: Sequence[TableEntry],
        histories: Mapping[tuple[str, str], TableHistory],
        targets: TargetSurvey,
        selection: Selection,
    ) -> list[TablePlan]:
        connection = self.resolve(source)
        settings = self.project.extract
        found = survey.survey_source(connection, entries, self.project.variables, settings.overlap)
        if found.error is not None:
            return [assemble.failed(entry.name, source, found.error) for entry in entries]
        cases = self._cases(found, entries, histories, targets, selection)
        try:
            return _Assembly(self, found, selection, self.clock.now()).plans(cases)
        except BackhaulError as error:  # the source went away between two questions
            return [assemble.failed(entry.name, source, error) for entry in entries]

    def _cases(
        self,
        found: SourceSurvey,
        entries: Sequence[TableEntry],
        histories: Mapping[tuple[str, str], TableHistory],
        targets: TargetSurvey,
        selection: Selection,
    ) -> list[TableCase]:
        return [
            TableCase(
                survey=found.tables[entry.name],
                left=self._left(histories[(entry.source, entry.name)], selection),
                history=histories[(entry.source, entry.name)],
                target=targets.targets.get(entry.name),
                error=found.tables[entry.name].error or targets.errors.get(entry.name),
            )
            for entry in entries
        ]

    def _left(self, history: TableHistory, selection: Selection) -> tuple[ChunkPlan, ...]:
        known = history.unfinished_deletes if selection.deletes else history.unfinished
        if known is None:
            return ()
        return tuple(
            ChunkPlan(chunk.relation, range_from_dict(chunk.range), chunk.estimated_rows)
            for chunk in self.state.exports.chunks(known.export.id)
            if chunk.status == "waiting"
        )


@dataclass(frozen=True)
class _Assembly:
    """The tables of one source, all planned under the same circumstances."""

    planner: Planner
    found: SourceSurvey
    selection: Selection
    now: datetime

    def plans(self, cases: Sequence[TableCase]) -> list[TablePlan]:
        prepared = [self._prepared(case) for case in cases]
        prepared = self._with_stats(prepared)
        ids = self._ids(prepared)
        prepared = [replace(c, error=c.error or ids.errors.get(c.name)) for c in prepared]
        around = Circumstances(self.found, self.selection, self.now, ids)
        return [assemble.plan_table(case, around) for case in prepared]

    def _prepared(self, case: TableCase) -> TableCase:
        if case.error is not None:
            return case
        try:
            return replace(case, spec=self._spec(case.survey))
        except BackhaulError as error:
            return replace(case, error=error)

    def _spec(self, table: TableSurvey) -> ReadSpec:
        return keys_spec(table) if self.selection.deletes else rows_spec(table)

    def _with_stats(self, cases: Sequence[TableCase]) -> list[TableCase]:
        """Statistics for the chunk keys of all tables at once; then the ones that want blocks get them."""
        keys = {
            case.survey.entry.name: case.spec.chunk_key[0].name if case.spec.chunk_key else ""
            for case in cases
            if case.spec is not None
        }
        surveys = {case.survey.entry.name: case.survey for case in cases}
        enriched = survey.with_stats(self.found.connection, surveys, keys)
        enriched = survey.with_query_stats(self.found.connection, enriched, self._large(cases))
        return [_chunked(replace(c, survey=enriched[c.survey.entry.name])) for c in cases]

    def _large(self, cases: Sequence[TableCase]) -> dict[str, KeyColumn]:
        """The queries that are worth cutting, with the column to cut them by."""
        lanes = self.found.connection.max_connections
        return {
            case.name: case.spec.chunk_key[0]
            for case in cases
            if case.spec is not None
            and case.spec.chunk_key
            and is_worth_cutting(case.survey, case.spec, lanes)
        }

    def _ids(self, cases: Sequence[TableCase]) -> survey.Ids:
        wanted = [
            case.survey
            for case in cases
            if case.error is None and case.survey.entry.load_by_id and not self.selection.deletes
        ]
        return survey.survey_ids(self.found.connection, wanted)


def _chunked(case: TableCase) -> TableCase:
    spec = case.spec
    if spec is not None and wants_blocks(case.survey, spec):
        return replace(case, spec=by_blocks(spec))
    return case
