"""How are the users' own queries asked over `batch` and `target`?

Their words are not touched: the two names are common table expressions over views of names that no
other load has, so loads that run at the same time in one session do not see each other's rows.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from backhaul.quality.checks import Check
from backhaul.spark.sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextlib.contextmanager
def named(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[str]:
    """Frames by the names that queries use, as the WITH clause to begin a statement with."""
    views = {name: f"_backhaul_{name}_{uuid.uuid4().hex}" for name in frames}
    for name, view in views.items():
        frames[name].createOrReplaceTempView(view)
    parts = [f"{name} AS (SELECT * FROM {quote_name(view)})" for name, view in views.items()]
    try:
        yield f"WITH {', '.join(parts)} " if parts else ""
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


def one_query(prefix: str, check: Check) -> str:
    """A query as a statement; what is no query is no table either, and does not parse."""
    return f"{prefix}SELECT * FROM (\n{check.params['query']}\n)"


def answers(
    spark: SparkSession,
    frames: Mapping[str, DataFrame | None],
    queries: Sequence[tuple[int, Check]],
    attempt: Callable[[Callable[[], object]], str | None],
) -> tuple[dict[int, Any], dict[int, str]]:
    """What each query returned, and why some returned nothing; by the checks' index.

    All of them are one statement; one by one only to learn which it is that Spark stumbles over.
    """
    if not queries:
        return {}, {}
    there = {name: frame for name, frame in frames.items() if frame is not None}
    with named(spark, there) as prefix:
        rows: list[Any] = []
        sql = all_queries(prefix, queries)
        if attempt(lambda: rows.extend(spark.sql(sql).collect())) is None:
            return {index: rows[0][f"q{index}"] for index, _ in queries}, {}
        return _one_by_one(spark, prefix, queries, attempt)


def _one_by_one(
    spark: SparkSession,
    prefix: str,
    queries: Sequence[tuple[int, Check]],
    attempt: Callable[[Callable[[], object]], str | None],
) -> tuple[dict[int, Any], dict[int, str]]:
    values: dict[int, Any] = {}
    refused: dict[int, str] = {}
    for index, check in queries:
        rows: list[Any] = []
        sql = one_query(prefix, check)
        said = attempt(partial(_fetch, spark, sql, rows))
        if said:
            refused[index] = f"Spark could not answer it: {said}"
        elif len(rows) > 1:
            refused[index] = "the query returned several rows: return one"
        else:
            values[index] = rows[0][0] if rows else None
    return values, refused


def _fetch(spark: SparkSession, sql: str, rows: list[Any]) -> None:
    rows.extend(spark.sql(sql).take(2))


def all_queries(prefix: str, queries: Sequence[tuple[int, Check]]) -> str:
    """Several of them as one statement with one row."""
    parts = [f"(SELECT * FROM (\n{check.params['query']}\n)) AS q{i}" for i, check in queries]
    return f"{prefix}SELECT {', '.join(parts)}"
