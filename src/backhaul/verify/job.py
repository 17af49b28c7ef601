"""How do both sides become segments, and segments keys? The one file of this room that knows Spark.

Both sides are hashed by one expression to (side, hash of the key, hash of the row); what of the source
differs is then found without reading it twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backhaul import errors
from backhaul.destinations.base import DELETED_AT, History, details
from backhaul.errors import BackhaulError, DestinationRefused
from backhaul.schema.model import Column, TableSchema
from backhaul.verify.columns import Compared, Comparison
from backhaul.verify.compare import Kind
from backhaul.verify.segment import Segment
from backhaul.verify.source import ReadJob, read_lane

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from backhaul.verify.segment import Segments

Texts = tuple[str | None, ...]

_OURS = re.compile(r"backhaul\.errors\.(\w+): ([^\n]*)(?:\n\s*→ ([^\n]*))?")
# More than these are not worth asking for: then all rows are looked at.
_MANY_SEGMENTS = 4096


@dataclass(frozen=True)
class Named:
    """A key that differs: its kind, its hash, and its columns as text."""

    kind: str
    hash: int
    key: Texts


def schema_of(frame: DataFrame) -> TableSchema:
    """A frame's columns in our words."""
    return TableSchema(
        tuple(Column(field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    )


def live_rows(frame: DataFrame, *, soft: bool, history: History | None) -> DataFrame:
    """The rows that stand for a row of the source: no deleted ones, and no earlier versions."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

    numbered = frame.toDF(*(f"t{number}" for number in range(len(frame.columns))))
    if history is not None:
        if history.is_current in frame.columns:
            numbered = numbered.filter(_numbered(frame, history.is_current))
    elif soft and DELETED_AT in frame.columns:
        numbered = numbered.filter(F.isnull(_numbered(frame, DELETED_AT)))
    return numbered.toDF(*frame.columns)


def source_frame(spark: SparkSession, job: ReadJob) -> DataFrame:
    """The source's rows, read by as many tasks as there are lanes; columns c0, c1, …, and freshness."""
    count = len(job.lanes)
    types = ", ".join(f"c{number} {one.column.type}" for number, one in enumerate(job.carriers))
    return spark.range(0, count, 1, count).mapInArrow(_task(job), types)


def _task(job: ReadJob) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for lane in batch.column(0).to_pylist():
                yield from read_lane(job, lane)

    return read


class Pairs:
    """Both sides as hashes; close it in the end.

    The source's are kept between the questions. The destination is scanned again where some segments
    differ: that costs a seventh of reading the source, and less than keeping its rows would.
    `named`: keep the keys themselves too, so that some can be named.
    """

    def __init__(
        self,
        source: DataFrame,
        target: DataFrame,
        comparison: Comparison,
        segments: int,
        *,
        named: bool,
    ) -> None:
        self.comparison, self.segments = comparison, segments
        one = _hashed(_source_side(source, comparison), comparison, in_source=True, named=named)
        other = _hashed(_target_side(target, comparison), comparison, in_source=False, named=named)
        self._source = one.persist()
        self._pairs = self._source.unionAll(other)

    def close(self) -> None:
        self._source.unpersist()

    def sums(self) -> tuple[Segments, Segments]:
        """Every segment of the source and of the destination."""
        from pyspark.sql import functions as F  # noqa: N812

        row = F.col("row_hash")
        summed = self._pairs.groupBy(self._segment().alias("segment"), "in_source").agg(
            F.count(F.lit(1)).alias("rows"),
            # Halves, because a sum of 64-bit numbers is an error or wraps, as a setting says.
            F.sum(F.shiftrightunsigned(row, 32)).alias("high"),
            F.sum(row.bitwiseAND(F.lit(0xFFFFFFFF))).alias("low"),
            F.bit_xor(row).alias("xor"),
        )
        sides: tuple[dict[int, Segment], dict[int, Segment]] = ({}, {})
        with telling():
            for number, in_source, *values in summed.collect():
                sides[0 if in_source else 1][number] = Segment(*values)
        return sides

    def kinds(self, segments: Sequence[int]) -> dict[str, int]:
        """How many keys of each kind the segments hold."""
        with telling():
            return dict(self._keys(segments).groupBy("kind").count().collect())

    def named(self, segments: Sequence[int], kinds: Sequence[Kind], limit: int) -> list[Named]:
        """Some keys of these kinds."""
        from pyspark.sql import functions as F  # noqa: N812

        wanted = self._keys(segments).filter(F.col("kind").isin([str(kind) for kind in kinds]))
        with telling():
            found: dict[int, str] = dict(wanted.orderBy("kind", "key_hash").limit(limit).collect())
            hashed = self._pairs.filter(F.col("key_hash").isin(list(found)))
            rows = hashed.select("key_hash", *self._texts()).collect()
        keys = {row[0]: tuple(row[1:]) for row in rows}
        named = [Named(kind, key_hash, keys[key_hash]) for key_hash, kind in found.items()]
        return sorted(named, key=lambda one: (one.kind, [text or "" for text in one.key]))

    def _texts(self) -> list[Expression]:
        from pyspark.sql import functions as F  # noqa: N812

        numbered = enumerate(self.comparison.key)
        return [as_text(F.col(f"k{number}"), one.type) for number, one in numbered]

    def _segment(self) -> Expression:
        from pyspark.sql import functions as F  # noqa: N812

        return F.col("key_hash").bitwiseAND(F.lit(self.segments - 1))

    def _keys(self, segments: Sequence[int]) -> DataFrame:
        """`key_hash` and `kind` of each key of the segments that is not equal.

        Numbers only, and rows that are equal on both sides are paired first: a set of each key's
        rows, or its columns, would make Spark sort where it now hashes.
        """
        from pyspark.sql import functions as F  # noqa: N812

        pairs = self._pairs
        if len(segments) < min(self.segments, _MANY_SEGMENTS):
            pairs = pairs.filter(self._segment().isin(list(segments)))
        rows = (
            pairs.repartition("key_hash")
            .groupBy("key_hash", "row_hash")
            .agg(
                F.count_if(F.col("in_source")).alias("s"),
                F.count_if(~F.col("in_source")).alias("t"),
                F.max("fresh").alias("fresh"),
            )
        )
        keys = rows.groupBy("key_hash").agg(
            F.sum("s").alias("s"),
            F.sum("t").alias("t"),
            F.max(F.col("s") != F.col("t")).alias("differs"),
            F.max((F.col("s") > 0) & (F.col("t") > 0)).alias("shared"),
            F.max("fresh").alias("fresh"),
        )
        kind = _kind(whole_rows=self.comparison.whole_rows)
        return keys.filter("differs").select("key_hash", kind.alias("kind"))


def _kind(*, whole_rows: bool) -> Expression:
    from pyspark.sql import functions as F  # noqa: N812

    s, t = F.col("s"), F.col("t")
    # A merge by other columns than the source's key keeps one of several rows.
    folded = (t == 1) & F.col("shared") & F.lit(not whole_rows)
    return (
        F.when(s == 0, str(Kind.EXTRA))
        .when(folded, str(Kind.FOLDED))
        .when(t > s, str(Kind.REPEATED))
        .when(F.col("fresh"), str(Kind.PENDING))
        .when((t == 0) | F.lit(whole_rows), str(Kind.MISSING))
        .otherwise(str(Kind.CHANGED))
    )


def values(
    frame: DataFrame, comparison: Comparison, hashes: Sequence[int], *, in_source: bool
) -> dict[int, Texts]:
    """The compared columns of these keys as text; `frame` is one side as it is."""
    from pyspark.sql import functions as F  # noqa: N812

    side = _source_side if in_source else _target_side
    columns = comparison.all
    sided = side(frame, comparison)
    key_hash = _hash([F.col(f"v{n}") for n in range(len(comparison.key))], comparison.key)
    texts = [as_text(F.col(f"v{number}"), one.type) for number, one in enumerate(columns)]
    wanted = sided.filter(key_hash.isin(list(hashes))).select(key_hash.alias("key_hash"), *texts)
    with telling():
        return {row[0]: tuple(row[1:]) for row in wanted.collect()}


def _source_side(frame: DataFrame, comparison: Comparison) -> DataFrame:
    """v0, v1, … in the order of the comparison, and freshness."""
    from pyspark.sql import functions as F  # noqa: N812

    typed = dict(frame.dtypes)
    names = [f"c{number}" for number in range(len(comparison.all))]
    casts = [
        _as(F.col(name), typed[name], one.type).alias(f"v{number}")
        for number, (name, one) in enumerate(zip(names, comparison.all, strict=True))
    ]
    return frame.select(*casts, F.col(f"c{len(names)}").alias("fresh"))


def _target_side(frame: DataFrame, comparison: Comparison) -> DataFrame:
    """By number: names that differ in letter case only, or hold dots, are nothing to Spark."""
    from pyspark.sql import functions as F  # noqa: N812

    numbered = frame.toDF(*(f"t{number}" for number in range(len(frame.columns))))
    types = [field.dataType.simpleString() for field in frame.schema.fields]
    casts = []
    for number, one in enumerate(comparison.all):
        place = frame.columns.index(one.target)
        casts.append(_as(F.col(f"t{place}"), types[place], one.type).alias(f"v{number}"))
    return numbered.select(*casts, F.lit(False).alias("fresh"))


def _as(column: Expression, is_type: str, wanted: str) -> Expression:
    return column if is_type == wanted else column.try_cast(wanted)


def _hashed(side: DataFrame, comparison: Comparison, *, in_source: bool, named: bool) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    key = [F.col(f"v{number}") for number in range(len(comparison.key))]
    rest = [F.col(f"v{number}") for number in range(len(comparison.key), len(comparison.all))]
    keyed = side.withColumn("key_hash", _hash(key, comparison.key))
    # The key is in the row's hash, so that values which changed places are seen.
    row_hash = _hash(rest, comparison.columns, F.col("key_hash"))
    names = [column.alias(f"k{number}") for number, column in enumerate(key) if named]
    return keyed.select(
        F.lit(in_source).alias("in_source"), "key_hash", row_hash.alias("row_hash"), "fresh", *names
    )


def _hash(
    columns: Sequence[Expression], compared: Sequence[Compared], *seed: Expression
) -> Expression:
    """64 bits of all the values. Spark's hash passes over NULLs, in arrays too; ours must not."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [*seed]
    for column, one in zip(columns, compared, strict=True):
        parts += [F.isnull(column), column]
        if one.type.startswith("array<"):
            parts.append(F.transform(column, F.isnull))
    return F.xxhash64(*parts) if parts else F.lit(0).cast("bigint")


def as_text(column: Expression, type_: str) -> Expression:
    """As Postgres would read it again, where it can; for a person otherwise."""
    from pyspark.sql import functions as F  # noqa: N812

    if type_ == "binary":
        return F.concat(F.lit("\\x"), F.lower(F.hex(column)))
    text = column.cast("string")
    if type_.startswith(("date", "timestamp")):
        # Spark puts a sign before years of five digits.
        return F.ltrim(text, F.lit("+"))
    return text


def _numbered(frame: DataFrame, name: str) -> Expression:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(f"t{frame.columns.index(name)}")


@contextmanager
def telling() -> Iterator[None]:
    """An error of a task is ours, if it says so, in the words in which the task had it."""
    try:
        yield
    except BackhaulError:
        raise
    except Exception as error:
        raise _ours(str(error)) or DestinationRefused(
            f"reading it back failed: {details(error)}",
            remedy="run the command again; if it fails again, look at the destination's files or server",
        ) from error


def _ours(said: str) -> BackhaulError | None:
    found = _OURS.search(said)
    kind: Any = getattr(errors, found[1], None) if found else None
    if found is None or not (isinstance(kind, type) and issubclass(kind, BackhaulError)):
        return None
    return kind(found[2], remedy=found[3])
