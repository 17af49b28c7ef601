"""backhaul in Apache Airflow 3: operators, a sensor, and a DAG for each table or pipeline of a project.

Nothing of Airflow is imported before one of these names is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "BackhaulCheckOperator": "operators",
    "BackhaulDeletesOperator": "operators",
    "BackhaulExtractOperator": "operators",
    "BackhaulLoadOperator": "operators",
    "BackhaulMaintainOperator": "operators",
    "BackhaulOperator": "operators",
    "BackhaulRunOperator": "operators",
    "BackhaulTableSensor": "sensors",
    "BackhaulVerifyOperator": "operators",
    "build_dags": "dags",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
