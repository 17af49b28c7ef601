"""How do the checks of one batch run on Spark, along with its write? The one Spark job of this room.

    audit = Audit(spark, checks, schema, now=now, past=profiles, read=read)
    audit.prepare(batch)                  # every mistake at once, before anything is written
    written = stage(audit.watch(batch))   # counts while it is written, leaves rejected rows out
    audit.results(written, target)        # what could be counted is counted; the rest is asked now
    audit.rejected()                      # the rows to set aside, if there are any

A batch that is taken over from files is not watched: from_files() takes what their footers say.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from backhaul.errors import BackhaulError, CheckInvalid
from backhaul.quality import frames
from backhaul.quality.checks import Check, CheckResult
from backhaul.quality.compile import Rule, compile_checks, needs_target
from backhaul.quality.distribution import profile_key
from backhaul.quality.judge import Evidence, judge, profile_of
from backhaul.quality.known import FileFacts, from_footers
from backhaul.quality.predicates import type_of
from backhaul.quality.preparing import Preparation
from backhaul.quality.queries import answers
from backhaul.schema.model import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_TARGET = (
    "this destination cannot show a table before it is published: check the batch (leave out "
    "`on: target`, and `target` in queries)"
)
# Spark hands observations over when the write is done; should that news be lost, we count anew.
_PATIENCE_SECONDS = 60.0


class Audit:
    """The checks of one batch. `schema` is the batch's, `target_schema` that of the table after the load.

    `past` are profiles of earlier loads, newest first. `unique_by` are keys of which the load itself
    makes sure that there is one row of each, so that nobody has to look again.
    """

    def __init__(
        self,
        spark: SparkSession,
        checks: Sequence[Check],
        schema: TableSchema,
        *,
        now: datetime,
        past: Sequence[Mapping[str, Any]] = (),
        read: Callable[[str], DataFrame],
        target_schema: TableSchema | None = None,
        unique_by: Sequence[Sequence[str]] = (),
    ) -> None:
        self._compiled = compile_checks(
            checks, schema, target_schema=target_schema, unique_by=unique_by
        )
        self._spark, self._now, self._past, self._read = spark, now, past, read
        self._batch: DataFrame | None = None
        self._observations: dict[str, Observation] = {}
        self._told: dict[str, Any] | None = None
        self._values: dict[str, Any] = {}

    def prepare(self, batch: DataFrame) -> None:
        """Raises CheckInvalid with all that is wrong; runs no job."""
        preparation = Preparation(self._spark, self._compiled, self._read, _attempt, _observed)
        problems = preparation.problems(batch)
        if not problems and (said := preparation.whole(batch)):
            raise CheckInvalid(f"the checks cannot be asked: {said}", remedy="put them right")
        if problems:
            listed = "\n".join(f"  {problem.message}" for problem in problems)
            remedies = dict.fromkeys(problem.remedy for problem in problems)
            count = f"{len(problems)} mistakes" if len(problems) > 1 else "a mistake"
            raise CheckInvalid(f"{count} in the checks:\n{listed}", remedy="; ".join(remedies))

    def watch(self, batch: DataFrame) -> DataFrame:
        """The frame to write: counted on its way, without the rows that rules reject."""
        assert self._batch is None, "one audit is for one batch"
        self._batch = batch
        frame = batch
        if self._compiled.rejecting:
            flagged = self._flagged(batch, self._compiled.rejecting)
            frame = self._accepted(self._watched("seen", flagged))
        return self._watched("kept", frame)

    def known(self, facts: FileFacts) -> dict[str, Any] | None:
        """The numbers that footers tell; None where they do not prove that no rule rejects a row, so
        that the files have to be rewritten."""
        told = from_footers(self._compiled, facts)
        proven = not self._compiled.rejecting or told.get("seen_quarantined") == 0
        return told if proven else None

    def from_files(self, values: Mapping[str, Any]) -> None:
        """The batch is files that are taken over as they are; `values` are what known() gave."""
        self._told = dict(values)

    def results(self, batch: DataFrame | None, target: DataFrame | None) -> list[CheckResult]:
        """After the write: one result per check. `batch` is what was written, to be read again only
        for what could not be counted; without it the frame that was watched is. `target` is the table
        as it would be. Without any batch only checks of the target are asked."""
        written = self._again() if batch is None or batch is self._batch else batch
        present = {"batch": written, "target": target}
        self._count(written)
        if target is not None:
            self._measure("target", target)
        left_out = frozenset() if written is not None else self._of_batch()
        unanswered = self._out_of_reach(target)
        for scope, frame in present.items():
            self._find_duplicates(scope, frame)
        asked = [one for one in self._compiled.queries if one[0] not in {*unanswered, *left_out}]
        queried, refused = answers(self._spark, present, asked, _attempt_to_run)
        evidence = Evidence(
            values=self._values,
            now=self._now,
            past=self._past,
            queried=queried,
            samples=self._samples(present),
            unanswered=unanswered | refused,
            left_out=left_out,
        )
        return judge(self._compiled, evidence)

    def rejected(self) -> DataFrame | None:
        """After the write: the rows to set aside with `_reasons`, or None where there are none."""
        if self._batch is None or not self.rejected_rows:
            return None
        rules = self._compiled.rejecting
        return frames.rejected_rows(self._flagged(self._batch, rules), rules, self._batch.columns)

    @property
    def rows(self) -> int:
        """All rows that came, the rejected ones too."""
        return self._counted("seen_rows" if self._compiled.rejecting else "kept_rows")

    @property
    def rejected_rows(self) -> int:
        """The rows to set aside."""
        return self._counted("seen_quarantined") if self._compiled.rejecting else 0

    @property
    def dropped_rows(self) -> int:
        return self._counted("seen_dropped") if self._compiled.rejecting else 0

    def profile(self) -> dict[str, Any]:
        """What later loads are compared with, JSON-able; after results()."""
        columns = {}
        for index, check in enumerate(self._compiled.checks):
            uses = self._compiled.uses.get(index, {})
            rows = self._values.get(uses.get("rows", ""))
            if check.kind == "distribution" and rows is not None:
                kind = type_of(self._compiled.schema_of(check), check.columns[0])
                roles = {role: self._values.get(name) for role, name in uses.items()}
                columns[profile_key(check)] = profile_of(roles.get, int(rows), kind)
        return {"rows": self._counted("kept_rows"), "columns": columns}

    def _out_of_reach(self, target: DataFrame | None) -> dict[int, str]:
        checks = enumerate(self._compiled.checks) if target is None else ()
        return {
            index: _NO_TARGET
            for index, check in checks
            if needs_target(check) and check.kind != "schema"
        }

    def _of_batch(self) -> frozenset[int]:
        checks = enumerate(self._compiled.checks)
        return frozenset(index for index, check in checks if check.on == "batch")

    def _watched(self, place: str, frame: DataFrame) -> DataFrame:
        self._observations[place] = Observation()
        return _observed(frame, self._compiled.aggregates(place), self._observations[place])

    def _flagged(self, frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
        return frames.with_flags(frame, rules, self._read)

    def _accepted(self, flagged: DataFrame) -> DataFrame:
        assert self._batch is not None
        kept = frames.kept_rows(flagged, self._compiled.rejecting)
        return frames.only(kept, self._batch.columns)

    def _again(self) -> DataFrame | None:
        """What was written, computed once more without being counted."""
        if self._batch is None or not self._compiled.rejecting:
            return self._batch
        return self._accepted(self._flagged(self._batch, self._compiled.rejecting))

    def _counted(self, name: str) -> int:
        self._count(None)
        return int(self._values.get(name) or 0)

    def _count(self, written: DataFrame | None) -> None:
        """The numbers of the batch: observed, told by footers, or else counted now."""
        if self._told is not None:
            self._values |= self._told
            if written is not None:
                self._measure("kept", written)
        elif self._batch is not None:
            for place in list(self._observations):
                self._values |= _news(self._observations.pop(place)) or {}
            if self._compiled.rejecting:
                self._measure("seen", self._batch)
            again = self._again()
            assert again is not None
            self._measure("kept", again)
        if written is not None:
            self._measure("later", written)

    def _measure(self, place: str, frame: DataFrame) -> None:
        """What of this place is not known yet, in one job; none where all is."""
        asked = self._compiled.aggregates(place)
        unknown = {name: sql for name, sql in asked.items() if name not in self._values}
        if unknown:
            flagged = self._flagged(frame, self._compiled.rules[place])
            self._values |= frames.measure(flagged, unknown)

    def _find_duplicates(self, scope: str, frame: DataFrame | None) -> None:
        uniques = [one for one in self._compiled.uniques if one.check.on == scope]
        unknown = [one for one in uniques if one.name not in self._values]
        if frame is not None and unknown:
            self._values |= frames.duplicates(frame, unknown)

    def _samples(self, present: Mapping[str, DataFrame | None]) -> dict[int, tuple[str, ...]]:
        """Keys of bad rows; asked only for the checks that found some."""
        samples: dict[int, tuple[str, ...]] = {}
        written, target = present["batch"], present["target"]
        places = {"seen": self._batch, "kept": written, "later": written, "target": target}
        for place, frame in places.items():
            rules = [one for one in self._compiled.rules[place] if self._found_bad(one.index)]
            if frame is not None and rules:
                failed = [(rule.index, rule.predicate) for rule in rules]
                samples |= frames.sampled(self._flagged(frame, rules), failed, self._key(place))
        for scope, frame in present.items():
            uniques = [one for one in self._compiled.uniques if one.check.on == scope]
            shared = [one for one in uniques if self._found_bad(one.index)]
            if frame is not None:
                samples |= frames.sampled_duplicates(frame, shared, self._key(scope))
        return samples

    def _key(self, place: str) -> tuple[str, ...]:
        on_target = place == "target"
        schema = self._compiled.target_schema if on_target else self._compiled.schema
        return tuple(name for name in schema.key.columns if schema.column(name))

    def _found_bad(self, index: int) -> bool:
        return bool(self._values.get(self._compiled.uses.get(index, {}).get("bad", "")))


def _observed(
    frame: DataFrame, aggregates: Mapping[str, str], observation: Observation | None = None
) -> DataFrame:
    columns = [F.expr(sql).alias(name) for name, sql in aggregates.items()]
    return frame.observe(observation or Observation(), *columns) if columns else frame


def _news(observation: Observation) -> dict[str, Any] | None:
    """What was observed; None where Spark has nothing to say, as when it saw that no row can come."""
    told: list[dict[str, Any]] = []

    def listen() -> None:
        try:
            told.append(observation.get)
        except Exception:  # noqa: BLE001 - whatever it is, the rows can be counted again
            told.clear()

    listener = threading.Thread(target=listen, name="backhaul-observation", daemon=True)
    listener.start()
    listener.join(_PATIENCE_SECONDS)
    return told[0] if told else None


def _attempt(call: Callable[[], object]) -> str | None:
    """Spark's reason, or ours, why something cannot be analysed."""
    try:
        call()
    except BackhaulError as error:
        return error.message
    except PySparkException as error:
        return _said(error)
    return None


def _attempt_to_run(call: Callable[[], object]) -> str | None:
    """The name of what went wrong: the message of a query that ran may hold a row's values."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - py4j's, too; whatever it is, the check has no answer
        named = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", str(error))
        return named[1] if named else type(error).__name__
    return None


def _said(error: PySparkException) -> str:
    """Spark's reason in one sentence, without the plan. Only of analysis, which has seen no row."""
    text = str(error).split("\n\n")[0].split("SQLSTATE")[0].split(";\n")[0]
    return " ".join(text.split())[:400].rstrip(" ;.")
