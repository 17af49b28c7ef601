"""What is asked of a frame in one query of its own? Counts, duplicates, references, a few keys.

Every function takes and gives DataFrames, and leaves the numbers to Spark SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from backhaul.quality.compile import Rule, Unique, any_of, quarantined
from backhaul.spark.sql import quote_literal, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASONS = "_reasons"
SAMPLES = 5
Read = Callable[[str], "DataFrame"]


def measure(frame: DataFrame, aggregates: Mapping[str, str]) -> dict[str, Any]:
    """All of them in one job."""
    if not aggregates:
        return {}
    asked = [f"{sql} AS {quote_name(name)}" for name, sql in aggregates.items()]
    return dict(frame.selectExpr(*asked).collect()[0].asDict())


def with_flags(frame: DataFrame, rules: Sequence[Rule], read: Read) -> DataFrame:
    """A column for each rule that needs another table: NULL where the row has no counterpart there.

    The other side has each key once, so no row appears twice.
    """
    for rule in rules:
        if rule.flag is None:
            continue
        pairs = zip(rule.check.params["key"], rule.check.columns, strict=True)
        keys = [f"{quote_name(key)} AS {quote_name(name)}" for key, name in pairs]
        there = read(rule.check.params["to"]).selectExpr(*keys).distinct()
        flagged = there.selectExpr("*", f"true AS {quote_name(rule.flag)}")
        frame = frame.join(flagged, list(rule.check.columns), "left")
    return frame


def only(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    return frame.select(*[quote_name(name) for name in names])


def kept_rows(flagged: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    return flagged.where(f"NOT {any_of(rules)}")


def rejected_rows(flagged: DataFrame, rules: Sequence[Rule], names: Sequence[str]) -> DataFrame:
    """The rows to be set aside, each with the names of the checks that it does not pass."""
    cases = [
        f"CASE WHEN {rule.predicate} THEN {quote_literal(rule.check.name)} END" for rule in rules
    ]
    reasons = f"array_compact(array({', '.join(cases)})) AS {REASONS}"
    chosen = [quote_name(name) for name in names]
    return flagged.where(quarantined(rules)).selectExpr(*chosen, reasons)


def duplicates(frame: DataFrame, uniques: Sequence[Unique]) -> dict[str, Any]:
    """How many rows share a key with another, for all of them over one scan.

    A grouping set gives rows in which every other key is NULL, so the key that is there tells whose
    row it is.
    """
    if not uniques:
        return {}
    names = [f"k{number}" for number in range(len(uniques))]
    keys = frame.selectExpr(*[f"{u.key} AS {n}" for u, n in zip(uniques, names, strict=True)])
    present = keys.where(" OR ".join(f"{name} IS NOT NULL" for name in names))
    if len(names) == 1:
        grouped = present.groupBy(*names).count()
    else:
        grouped = present.groupingSets([[name] for name in names], *names).count()
    sums = {
        unique.name: f"coalesce(sum(CASE WHEN {name} IS NOT NULL THEN `count` END), 0)"
        for unique, name in zip(uniques, names, strict=True)
    }
    return measure(grouped.where("`count` > 1"), sums)


def sampled(
    flagged: DataFrame, failed: Sequence[tuple[int, str]], key: Sequence[str]
) -> dict[int, tuple[str, ...]]:
    """At most five keys of rows for each predicate, in one query; never anything but the key."""
    if not failed or not key:
        return {}
    parts = [
        flagged.where(predicate)
        .limit(SAMPLES)
        .selectExpr(f"{index} AS check_index", f"{_key_text(key)} AS row_key")
        for index, predicate in failed
    ]
    return _gathered(reduce(lambda one, other: one.unionAll(other), parts))


def sampled_duplicates(
    frame: DataFrame, failed: Sequence[Unique], key: Sequence[str]
) -> dict[int, tuple[str, ...]]:
    """At most five keys of rows that share what should be theirs alone."""
    if not failed or not key:
        return {}
    parts = []
    for unique in failed:
        keyed = frame.selectExpr(f"{unique.key} AS k", f"{_key_text(key)} AS row_key")
        grouped = keyed.where("k IS NOT NULL").groupBy("k").agg({"row_key": "min", "*": "count"})
        shared = grouped.where("`count(1)` > 1").limit(SAMPLES)
        parts.append(
            shared.selectExpr(f"{unique.index} AS check_index", "`min(row_key)` AS row_key")
        )
    return _gathered(reduce(lambda one, other: one.unionAll(other), parts))


def _key_text(key: Sequence[str]) -> str:
    return f"to_json(struct({', '.join(quote_name(name) for name in key)}))"


def _gathered(found: DataFrame) -> dict[int, tuple[str, ...]]:
    keys: dict[int, list[str]] = {}
    for row in found.collect():
        keys.setdefault(row["check_index"], []).append(row["row_key"])
    return {index: tuple(sorted(texts)) for index, texts in keys.items()}
