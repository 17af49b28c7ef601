"""What is taken from Airflow? The only file that imports it; without it, the extra is named."""

from __future__ import annotations

from backhaul.errors import ExtraMissing

try:
    from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, PokeReturnValue

    try:
        from airflow.sdk import CronDataIntervalTimetable
        from airflow.sdk.exceptions import AirflowException, AirflowFailException
    except ImportError:  # Airflow 3.0 has them in its core
        from airflow.exceptions import AirflowException, AirflowFailException
        from airflow.timetables.interval import CronDataIntervalTimetable
except ImportError as error:
    raise ExtraMissing(
        f"Apache Airflow 3 is not installed here ({error.name or error})",
        remedy="pip install 'backhaul[airflow]'",
    ) from error

__all__ = [
    "DAG",
    "AirflowException",
    "AirflowFailException",
    "BaseOperator",
    "BaseSensorOperator",
    "CronDataIntervalTimetable",
    "PokeReturnValue",
]
