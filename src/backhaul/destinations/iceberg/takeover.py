"""How do staged Parquet files become a part of a table without being rewritten?

They are linked into the table's folder (a file has as many names as one likes; what the store does
with its own does not matter to the table), and an append of Iceberg's Java API names them. Their
columns are found by name: the files have no field ids, and the table says which name is which.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as parquet

from backhaul.destinations.base import LoadOrder, StagedFile
from backhaul.destinations.iceberg.client import Java, Statements, translated
from backhaul.destinations.iceberg.look import Description
from backhaul.destinations.iceberg.prepare import branch_of
from backhaul.destinations.iceberg.types import stored_type
from backhaul.schema.model import TableSchema
from backhaul.store.parquet import spark_type

_NAME_MAPPING = "schema.name-mapping.default"


def take_over(
    statements: Statements,
    order: LoadOrder,
    files: Sequence[StagedFile],
    there: Description,
    summary: Mapping[str, str],
    *,
    replace: bool,
) -> bool:
    """Whether the files are part of the load's branch now."""
    java, folder = statements.java(), _folder(there)
    local = [Path(file.local) for file in files if file.local is not None]
    if java is None or folder is None or there.partitioned or len(local) != len(files):
        return False
    if not all(_fits(path, order, there.schema) for path in local):
        return False
    linked = [_link(path, folder, order.load_id) for path in local]
    with translated(f"take staged files over into {order.target}"):
        _commit(java, order, linked, summary, replace=replace)
    return True


def _folder(there: Description) -> Path | None:
    """Where the table's files are, if that is a folder of this machine."""
    scheme, separator, path = there.location.partition(":")
    if not separator:
        return Path(there.location) / "data"
    return Path("/" + path.lstrip("/")) / "data" if scheme == "file" else None


def _fits(path: Path, order: LoadOrder, table: TableSchema) -> bool:
    """Whether the file has exactly the load's columns, in the types that the table has.

    History adds values to each row, which no file has.
    """
    if order.history is not None:
        return False
    try:
        schema = parquet.read_schema(path)
    except (OSError, pa.ArrowInvalid):
        return False
    types = {field.name: stored_type(spark_type(field.type)) for field in schema}
    wanted = {column.name: column.type for column in table.columns}
    return (
        len(types) == len(schema)
        and set(types) == set(order.schema.names)
        and all(wanted.get(name) == type_ for name, type_ in types.items())
    )


def _link(path: Path, folder: Path, load_id: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    name = folder / f"{load_id}-{uuid4().hex}.parquet"
    try:
        os.link(path, name)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, name)
    return name


def _commit(
    java: Java,
    order: LoadOrder,
    files: Sequence[Path],
    summary: Mapping[str, str],
    *,
    replace: bool,
) -> None:
    table = java.table(order.target)
    api = java.iceberg
    if table.properties().get(_NAME_MAPPING) is None:
        mapping = api.mapping.MappingUtil.create(table.schema())
        said = api.mapping.NameMappingParser.toJson(mapping)
        table.updateProperties().set(_NAME_MAPPING, said).commit()
    mapping = api.mapping.NameMappingParser.fromJson(table.properties().get(_NAME_MAPPING))
    metrics = api.MetricsConfig.forTable(table)
    change = table.newOverwrite() if replace else table.newAppend()
    if replace:
        change.overwriteByRowFilter(api.expressions.Expressions.alwaysTrue())
    for path in files:
        input_file = table.io().newInputFile(f"file:{path}")
        data = (
            api.DataFiles.builder(table.spec())
            .withInputFile(input_file)
            .withFormat("parquet")
            .withMetrics(api.parquet.ParquetUtil.fileMetrics(input_file, metrics, mapping))
            .build()
        )
        if replace:
            change.addFile(data)
        else:
            change.appendFile(data)
    for key, value in summary.items():
        change.set(key, value)
    change.toBranch(branch_of(order.load_id)).commit()
