"""How fast is dlt with its fastest backend? connectorx, as a stream of Arrow, to Parquet files."""

from __future__ import annotations

import os

from benchmarks.subjects.subject import Stopwatch, Task, parquet_rows

BATCH_ROWS = 100_000


def main() -> None:
    task, watch = Task.given(), Stopwatch()
    os.environ["DLT_DATA_DIR"] = str(task.work / "dlt")
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    import dlt
    from dlt.sources.sql_database import sql_table

    schema, table = task.schema_and_table
    source = sql_table(
        credentials=task.url,
        schema=schema,
        table=table,
        backend="connectorx",
        chunk_size=BATCH_ROWS,
        backend_kwargs={"conn": task.url, "return_type": "arrow_stream"},
    )
    out = task.work / "out"
    out.mkdir()
    pipeline = dlt.pipeline(
        pipeline_name="bench",
        pipelines_dir=str(task.work / "pipelines"),
        destination=dlt.destinations.filesystem(bucket_url=str(out)),
        dataset_name="bench",
    )
    watch.begin()
    pipeline.run(source, loader_file_format="parquet", write_disposition="replace")
    rows, size = parquet_rows(out / "bench" / table)
    watch.end(rows=rows, bytes=size)


if __name__ == "__main__":
    main()
