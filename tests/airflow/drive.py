"""Runs in Airflow's environment: `drive.py FILE DAG_ID TIME REPORT` is `dag.test()` of a file's DAG."""

from __future__ import annotations

import json
import runpy
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.models.xcom import XComModel
from airflow.settings import Session


def main() -> None:
    file, dag_id, at, report = sys.argv[1:]
    dags = [one for one in runpy.run_path(file).values() if getattr(one, "dag_id", "") == dag_id]
    run = dags[0].test(logical_date=datetime.fromisoformat(at))
    results = _results(dag_id, run.run_id)
    tasks = {
        ti.task_id: {
            "state": str(ti.state),
            "tries": ti.try_number,
            "result": results.get(ti.task_id),
        }
        for ti in run.get_task_instances()
    }
    Path(report).write_text(json.dumps({"state": str(run.state), "tasks": tasks}))


def _results(dag_id: str, run_id: str) -> dict[str, Any]:
    """What the tasks returned."""
    rows = Session().query(XComModel).filter_by(dag_id=dag_id, run_id=run_id, key="return_value")
    return {row.task_id: XComModel.deserialize_value(row) for row in rows}


if __name__ == "__main__":
    main()
