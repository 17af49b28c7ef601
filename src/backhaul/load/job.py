"""How do staged files become a DataFrame? The one file of this room that knows Spark.

A folder is read by Spark itself. Files of an object store are fetched by the tasks with our own store
client, as the exports put them there: no further jars, and the same credentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from backhaul.errors import BackhaulError, QueryInvalid
from backhaul.load.batch import ORDER, aligned, ddl, fitted, newest
from backhaul.load.plan import FileGroup, LoadPlan
from backhaul.load.select import STAGED, looked_up, rewritten
from backhaul.postgres.arrow import arrow_type
from backhaul.schema.model import Column, TableSchema
from backhaul.spark.sql import quote_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from backhaul.destinations.base import Target
    from backhaul.store.store import Store

_BATCH_ROWS = 65_536


def staged_frame(spark: SparkSession, store: Store, plan: LoadPlan, prefix: str) -> DataFrame:
    """The rows of the plan's files, each key once where several groups may hold it.

    `prefix` keeps the names of this load's temporary views apart from all others.
    """
    frame = _union(spark, store, plan.groups, plan.staged.columns, with_order=plan.newest_only)
    if not plan.newest_only:
        return frame
    view = f"{prefix}_all"
    frame.createOrReplaceTempView(view)
    return spark.sql(newest(view, plan.staged.names, plan.key or plan.merge_on))


def key_frame(spark: SparkSession, store: Store, plan: LoadPlan) -> DataFrame:
    """The keys that there are, by the key export, or by the full copy among the rows."""
    columns = [column for column in plan.staged.columns if column.name in plan.key]
    if plan.keys is not None:
        schema = TableSchema.from_dict(plan.keys.export.file_schema)
        groups: Sequence[FileGroup] = (FileGroup(0, schema, plan.keys.files),)
        columns = [column for column in schema.columns if column.name in plan.key]
    else:
        groups = plan.groups
    return _union(spark, store, groups, columns, with_order=False)


def selected(
    spark: SparkSession,
    staged: DataFrame,
    select: str,
    prefix: str,
    read: Callable[[Target], DataFrame],
) -> DataFrame:
    """The user's query over the staged rows and the destination's other tables; only analysed here."""
    views: dict[tuple[str, ...], str] = {(STAGED,): f"{prefix}_staged"}
    staged.createOrReplaceTempView(views[STAGED,])
    for number, target in enumerate(looked_up(select)):
        name = f"{prefix}_{number}"
        read(target).createOrReplaceTempView(name)
        views[target.namespace, target.name] = name
    try:
        return spark.sql(rewritten(select, views))
    except BackhaulError:
        raise
    except Exception as error:
        raise QueryInvalid(
            f"Spark refuses the select: {_said(error)}", remedy="put the SQL file right"
        ) from error


def in_shape(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The frame with the target's columns in the target's types."""
    return frame.selectExpr(*fitted(columns, schema_of(frame)))


def schema_of(frame: DataFrame) -> TableSchema:
    """A frame's columns in our words."""
    return TableSchema(
        tuple(Column(field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    )


def empty_frame(spark: SparkSession, schema: TableSchema) -> DataFrame:
    nothing = [f"CAST(NULL AS {one.type}) AS {quote_name(one.name)}" for one in schema.columns]
    return spark.sql(f"SELECT {', '.join(nothing)} WHERE false")


def local_frame(
    spark: SparkSession, rows: Sequence[Sequence[Any]], schema: TableSchema
) -> DataFrame:
    """A few rows of the driver's own, by Arrow: no Python worker has to start for them."""
    import pyarrow

    columns = zip(*rows, strict=True) if rows else [() for _ in schema.columns]
    arrays = [
        pyarrow.array(values, arrow_type(column.type))
        for values, column in zip(columns, schema.columns, strict=True)
    ]
    return spark.createDataFrame(pyarrow.table(arrays, names=list(schema.names)))


def _union(
    spark: SparkSession,
    store: Store,
    groups: Sequence[FileGroup],
    columns: Sequence[Column],
    *,
    with_order: bool,
) -> DataFrame:
    wanted = TableSchema(tuple(columns))
    frames = []
    for group in groups:
        paths = [file.path for file in group.files]
        if paths:
            expressions = aligned(columns, group.schema, group.order if with_order else None)
            frames.append(_read(spark, store, paths, group.schema).selectExpr(*expressions))
    if not frames:
        order = (Column(ORDER, "int"),) if with_order else ()
        return empty_frame(spark, TableSchema((*wanted.columns, *order)))
    return reduce(lambda one, other: one.unionAll(other), frames)


def _read(
    spark: SparkSession, store: Store, paths: Sequence[str], schema: TableSchema
) -> DataFrame:
    root = store.location
    if root.scheme == "file":
        files = [_hadoop_path(f"{root.root}/{path}") for path in paths]
        return spark.read.schema(ddl(schema)).parquet(*files)
    column = TableSchema((Column("path", "string"),))
    listed = local_frame(spark, [(path,) for path in paths], column)
    spread = listed.repartition(len(paths))
    # mapInArrow finds columns by their bare names, and a name may hold dots and backticks.
    bare = TableSchema(
        tuple(replace(one, name=f"c{number}") for number, one in enumerate(schema.columns))
    )
    fetched = spread.mapInArrow(_fetch(store, schema.names), ddl(bare))
    named = zip(bare.names, schema.names, strict=True)
    return fetched.selectExpr(*(f"{one} AS {quote_name(name)}" for one, name in named))


def _hadoop_path(path: str) -> str:
    """Hadoop reads patterns, not URIs: what would be a wildcard is escaped, and blanks stay blanks."""
    return "file://" + re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def _fetch(
    store: Store, names: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fetch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        import pyarrow.parquet as parquet

        bare = [f"c{number}" for number in range(len(names))]
        for batch in batches:
            for path in batch.column(0).to_pylist():
                file = parquet.ParquetFile(store.open(path))
                for read in file.iter_batches(batch_size=_BATCH_ROWS):
                    columns = [read.column(name) for name in names]
                    yield pyarrow.RecordBatch.from_arrays(columns, names=bare)

    return fetch


def _said(error: Any) -> str:
    """Spark's own words without its plan."""
    return " ".join(str(error).split("\n\n")[0].split())[:600]
