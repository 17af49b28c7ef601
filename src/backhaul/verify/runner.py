"""Is this table equal to its source? Read both at one instant, compare segments, then keys.

A load that is published while we read would make the position and the rows two different instants: then
all is done again, under a new snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from backhaul.clock import Clock
from backhaul.destinations.base import DELETED_AT, Destination, History, Target, details
from backhaul.errors import BackhaulError, DestinationRefused, DestinationUnavailable, TerminalError
from backhaul.postgres.partition import ChunkPlan, Range
from backhaul.postgres.snapshot import SnapshotHolder, SnapshotInfo
from backhaul.postgres.sql import quote_literal, quote_name
from backhaul.project.connection import PostgresConnection
from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.verify import job
from backhaul.verify.columns import Comparison, compare_columns
from backhaul.verify.compare import KeyCounts, Kind, differing_segments, shown_kinds
from backhaul.verify.result import Difference, VerifyResult
from backhaul.verify.segment import segment_count, total_rows
from backhaul.verify.source import ReadJob, SourceTable, read_job, survey_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ATTEMPTS = 3

T = TypeVar("T")
Position = Callable[[], Mapping[str, str] | None]


@dataclass(frozen=True)
class VerifyCase:
    """A table and one of its targets. `position` asks how far it is: load-id, snapshot, watermark."""

    entry: TableEntry
    load: LoadEntry
    connection: PostgresConnection
    destination: Destination
    position: Position
    variables: Mapping[str, str]

    @property
    def target(self) -> Target:
        return Target(self.load.namespace, self.load.name)


def verify_table(case: VerifyCase, clock: Clock, *, show: int = 0) -> VerifyResult:
    """Compare; an error is the result's. `show`: how many differing keys to name, with their values."""
    started, began = clock.now(), time.monotonic()
    result = VerifyResult(
        table=case.entry.name,
        source=case.entry.source,
        destination=case.load.to,
        target=str(case.target),
        started_at=started,
        finished_at=started,
        deletes=case.load.deletes,
    )
    try:
        result = _settled(case, result, show)
    except BackhaulError as error:
        result = replace(result, error=error)
    return replace(result, finished_at=clock.now(), seconds=time.monotonic() - began)


def _settled(case: VerifyCase, result: VerifyResult, show: int) -> VerifyResult:
    _check_loaded(case)
    for _ in range(ATTEMPTS):
        position = case.position()
        found = _Comparison(case, position, show).run(result)
        if case.position() == position:
            return found
    raise DestinationUnavailable(
        f"{case.target} was loaded again each of the {ATTEMPTS} times that it was compared",
        remedy="run the command again when its loads are less frequent",
    )


def _check_loaded(case: VerifyCase) -> None:
    if _asked(case, lambda: case.destination.facts(case.target)) is None:
        raise TerminalError(
            f"{case.load.to} has no table {case.target}",
            remedy=f"load it first: backhaul run {case.entry.name}",
        )


def _asked(case: VerifyCase, question: Callable[[], T]) -> T:
    """A destination's own errors are ours already; what its libraries throw is made one."""
    try:
        return question()
    except BackhaulError:
        raise
    except Exception as error:
        raise DestinationRefused(
            f"{case.load.to} cannot read {case.target}: {details(error)}",
            remedy="look at the destination's connection and rights: `backhaul check`",
        ) from error


@dataclass(frozen=True)
class _Comparison:
    """One attempt: one snapshot of the source, one read of the destination."""

    case: VerifyCase
    position: Mapping[str, str] | None
    show: int

    def run(self, result: VerifyResult) -> VerifyResult:
        case = self.case
        source = survey_table(case.connection, case.entry, case.variables)
        target = self._target()
        comparison = self._columns(source, target)
        with SnapshotHolder(case.connection.conninfo(replica=True)) as holder:
            try:
                return self._compared(result, source, target, comparison, holder.info)
            except DestinationRefused:
                # A task that cannot adopt the snapshot says so in the server's words; the reason is here.
                holder.check()
                raise

    def _target(self) -> DataFrame:
        load = self.case.load
        frame = _asked(self.case, lambda: self.case.destination.read(self.case.target))
        history = History() if load.history else None
        return job.live_rows(frame, soft=load.deletes == "soft", history=history)

    def _columns(self, source: SourceTable, target: DataFrame) -> Comparison:
        load = self.case.load
        origins = None
        if load.select is not None:
            from backhaul.verify.passing import passed_through  # sqlglot takes a while to import

            origins = passed_through(load.select, source.schema.names)
        ours = (DELETED_AT, *(column.name for column in History().columns if load.history))
        return compare_columns(
            source.schema,
            job.schema_of(target),
            (load.merge_on, _key_in_target(source.schema.key.columns, origins)),
            origins=origins,
            casts=load.allow_casts,
            technical=ours,
        )

    def _compared(
        self,
        result: VerifyResult,
        source: SourceTable,
        target: DataFrame,
        comparison: Comparison,
        snapshot: SnapshotInfo,
    ) -> VerifyResult:
        fresh = source.freshness(self.position, snapshot.snapshot)
        names = [one.source for one in comparison.all]
        reading = read_job(self.case.connection, snapshot, source, names, fresh)
        count = segment_count(source.estimated_rows)
        read = job.source_frame(target.sparkSession, reading)
        pairs = job.Pairs(read, target, comparison, count, named=bool(self.show))
        try:
            ours, theirs = pairs.sums()
            differing = differing_segments(ours, theirs)
            counts = KeyCounts.of(pairs.kinds(differing) if differing else {})
            shown = self._shown(pairs, differing, counts)
        finally:
            pairs.close()
        return replace(
            result,
            rows_source=total_rows(ours.values()),
            rows_destination=total_rows(theirs.values()),
            counts=counts,
            segments=count,
            segments_differing=len(differing),
            compared=tuple(one.target for one in comparison.all),
            not_compared=comparison.left_out,
            notes=tuple(_notes(self.case, comparison, counts, fresh.note)),
            position=self.position,
            snapshot=snapshot.snapshot,
            differences=self._with_values(shown, source, target, comparison, snapshot),
        )

    def _shown(
        self, pairs: job.Pairs, differing: Sequence[int], counts: KeyCounts
    ) -> list[job.Named]:
        deletes = self.case.load.deletes
        if not self.show or not counts.differing(deletes):
            return []
        return pairs.named(differing, shown_kinds(deletes), self.show)

    def _with_values(
        self,
        shown: Sequence[job.Named],
        source: SourceTable,
        target: DataFrame,
        comparison: Comparison,
        snapshot: SnapshotInfo,
    ) -> tuple[Difference, ...]:
        changed = [one for one in shown if one.kind == Kind.CHANGED]
        ours: dict[int, job.Texts] = {}
        theirs: dict[int, job.Texts] = {}
        if changed:
            hashes = [one.hash for one in changed]
            reading = self._rows_of(changed, source, comparison, snapshot)
            frame = job.source_frame(target.sparkSession, reading)
            ours = job.values(frame, comparison, hashes, in_source=True)
            theirs = job.values(target, comparison, hashes, in_source=False)
        return tuple(
            _difference(one, comparison, ours.get(one.hash), theirs.get(one.hash)) for one in shown
        )

    def _rows_of(
        self,
        keys: Sequence[job.Named],
        source: SourceTable,
        comparison: Comparison,
        snapshot: SnapshotInfo,
    ) -> ReadJob:
        """The source's rows with these keys, as they were in the same snapshot."""
        condition = keys_condition(source, [one.source for one in comparison.key], keys)
        narrow = replace(
            source,
            spec=source.spec.narrowed((condition,)),
            chunks=(ChunkPlan(None, Range(), len(keys)),),
        )
        fresh = source.freshness(None, snapshot.snapshot)
        names = [one.source for one in comparison.all]
        return read_job(self.case.connection, snapshot, narrow, names, fresh)


def keys_condition(source: SourceTable, names: Sequence[str], keys: Sequence[job.Named]) -> str:
    """True for the rows with one of these keys."""
    types = {column.name: column.source_type for column in source.schema.columns}
    return " OR ".join(
        "("
        + " AND ".join(
            _is(name, text, types[name]) for name, text in zip(names, one.key, strict=True)
        )
        + ")"
        for one in keys
    )


def _is(name: str, text: str | None, type_: str | None) -> str:
    if text is None:
        return f"{quote_name(name)} IS NULL"
    return f"{quote_name(name)} = {quote_literal(text)}::{type_}"


def _difference(
    one: job.Named, comparison: Comparison, ours: job.Texts | None, theirs: job.Texts | None
) -> Difference:
    names = [column.target for column in comparison.key]
    key = dict(zip(names, one.key, strict=True))
    if ours is None or theirs is None:
        return Difference(one.kind, key)
    all_names = [column.target for column in comparison.all]
    both = zip(all_names, ours, theirs, strict=True)
    return Difference(
        one.kind, key, {name: (left, right) for name, left, right in both if left != right}
    )


def _key_in_target(key: Sequence[str], origins: Mapping[str, str] | None) -> tuple[str, ...]:
    """The source's key by the target's names; a column that is not passed through keeps its own."""
    if origins is None:
        return tuple(key)
    renamed = {source: target for target, source in origins.items()}
    return tuple(renamed.get(name, name) for name in key)


def _notes(
    case: VerifyCase, comparison: Comparison, counts: KeyCounts, fresh: str | None
) -> list[str]:
    """What a reader of the counts has to know; no values."""
    found = [fresh] if fresh else []
    if comparison.whole_rows:
        found.append(
            "it has no key: whole rows were compared, so a changed row is one missing and one extra"
        )
    if case.load.select is not None:
        found.append(
            "the load has a `select`: rows that it leaves out or adds count as differences"
        )
    if counts.extra and case.load.deletes == "ignore":
        found.append(f"{counts.extra:,} keys are in the destination only: `deletes` is `ignore`")
    elif counts.extra:
        found.append(
            "rows that were deleted in the source since its last key export count as extra; "
            f"`backhaul deletes {case.entry.name}` and a load bring them"
        )
    if counts.folded:
        found.append(
            f"{counts.folded:,} keys have several rows in the source and one in the destination"
        )
    return found
