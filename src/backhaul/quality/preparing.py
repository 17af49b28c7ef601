"""Can all checks be asked? Spark analyses what they say, and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from backhaul.quality.checks import Check, Problem
from backhaul.quality.compile import PLACES, Compiled
from backhaul.quality.frames import Read, with_flags
from backhaul.quality.literal import is_numeric
from backhaul.quality.predicates import count_where, enclosed, type_of
from backhaul.quality.queries import named, one_query
from backhaul.schema.model import TableSchema
from backhaul.spark.sql import quote_literal, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Calls, and gives Spark's reason if it refuses.
Attempt = Callable[[Callable[[], object]], str | None]
Observe = Callable[["DataFrame", dict[str, str]], "DataFrame"]


class Preparation:
    """One pass over the checks; `observe` refuses what cannot be counted while rows are written."""

    def __init__(
        self,
        spark: SparkSession,
        compiled: Compiled,
        read: Read,
        attempt: Attempt,
        observe: Observe,
    ) -> None:
        self._spark, self._compiled, self._read = spark, compiled, read
        self._attempt, self._observe = attempt, observe

    def problems(self, batch: DataFrame) -> list[Problem]:
        frames = {"batch": batch, "target": empty(self._spark, self._compiled.target_schema)}
        found = list(self._compiled.problems)
        broken = {problem.index for problem in found}
        for index, check in enumerate(self._compiled.checks):
            if index not in broken:
                found += self._of_one(index, check, frames)
        return found

    def _of_one(self, index: int, check: Check, frames: dict[str, DataFrame]) -> Iterator[Problem]:
        frame = frames[check.on]
        if check.kind == "referential":
            yield from self._reference(index, check)
        elif "query" in check.params:
            yield from self._query(index, check, frames)
        elif check.kind == "regex":
            yield from self._pattern(index, check)
        for key, sql in (("filter", check.filter), ("condition", check.params.get("condition"))):
            if sql is not None:
                yield from self._condition(index, check, frame, key, sql)

    def _reference(self, index: int, check: Check) -> Iterator[Problem]:
        to = check.params["to"]
        shape, said = self._shape(lambda: self._read(to))
        if said:
            remedy = "name a table of the same destination that is there already"
            yield Problem(
                index, f"{check.name}: the table {to} cannot be read: {said}", remedy, "to"
            )
            return
        types = dict(shape)
        for name, key in zip(check.columns, check.params["key"], strict=True):
            kind = type_of(self._compiled.schema_of(check), name)
            if key not in types:
                remedy = f"columns: {', '.join(types)}"
                yield Problem(index, f"{check.name}: {to} has no column `{key}`", remedy, "key")
            elif not _alike(kind, types[key]):
                message = f"{check.name}: `{name}` is {kind}, and `{key}` of {to} is {types[key]}"
                yield Problem(index, message, "compare columns of one type", "key")

    def _query(self, index: int, check: Check, frames: dict[str, DataFrame]) -> Iterator[Problem]:
        with named(self._spark, frames) as prefix:
            sql = one_query(prefix, check)
            shape, said = self._shape(lambda: self._spark.sql(sql))
        types = [kind for _, kind in shape]
        if said:
            remedy = "write one query over `batch` or `target`"
            yield Problem(index, f"{check.name}: Spark refuses the query: {said}", remedy, "query")
        elif len(types) != 1 or not (types[0] == "boolean" or is_numeric(types[0])):
            message = f"{check.name}: the query returns {', '.join(types)}"
            yield Problem(index, message, "return one number or one boolean", "query")

    def _shape(self, make: Callable[[], DataFrame]) -> tuple[list[tuple[str, str]], str | None]:
        """The columns and their types, or Spark's reason why there are none."""
        fields: list[tuple[str, str]] = []

        def look() -> None:
            fields.extend((field.name, field.dataType.simpleString()) for field in make().schema)

        said = self._attempt(look)
        return fields, said

    def _pattern(self, index: int, check: Check) -> Iterator[Problem]:
        """A pattern is only compiled when it is used; on a single constant that costs no job."""
        tried = f"'' RLIKE {quote_literal(check.params['pattern'])}"
        said = self._attempt(lambda: self._spark.sql("VALUES (1)").selectExpr(tried).collect())
        if said:
            remedy = "write a Java regular expression"
            yield Problem(index, f"{check.name}: the pattern is wrong: {said}", remedy, "pattern")

    def _condition(
        self, index: int, check: Check, frame: DataFrame, key: str, sql: str
    ) -> Iterator[Problem]:
        said = self._attempt(lambda: frame.where(sql).schema)
        remedy = f"put the `{key}` right: Spark SQL over the columns {', '.join(frame.columns)}"
        if said is None:
            counted = {"n": count_where(enclosed(sql))}
            # A plain aggregate refuses what differs from one evaluation to the next (rand, uuid).
            said = self._attempt(
                lambda: (
                    frame.selectExpr(counted["n"]).schema,
                    self._observe(frame, counted).schema,
                )
            )
            remedy = (
                f"a `{key}` looks at one row, and always says the same of it; else write a query"
            )
        if said:
            yield Problem(index, f"{check.name}: Spark refuses the {key}: {said}", remedy, key)

    def whole(self, batch: DataFrame) -> str | None:
        """Everything together, as it will be asked; after problems() this is a second look."""
        frames = {"target": empty(self._spark, self._compiled.target_schema)}

        def analyse() -> None:
            for place in PLACES:
                frame = frames.get(place, batch)
                flagged = with_flags(frame, self._compiled.rules[place], self._read)
                self._observe(flagged, self._compiled.aggregates(place)).schema  # noqa: B018

        return self._attempt(analyse)


def empty(spark: SparkSession, schema: TableSchema) -> DataFrame:
    ddl = ", ".join(f"{quote_name(column.name)} {column.type}" for column in schema.columns)
    return spark.createDataFrame([], ddl)


def _alike(one: str, other: str) -> bool:
    """Whether an equality compares values as they are, and does not read text as numbers."""
    return one == other or (is_numeric(one) and is_numeric(other))
