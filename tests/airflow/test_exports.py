"""What can be imported without Airflow? What does not need it; the rest says what to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import backhaul.airflow
from backhaul.errors import ExtraMissing


def test_the_names_are_all_there() -> None:
    assert "build_dags" in backhaul.airflow.__all__
    with pytest.raises(AttributeError):
        _ = backhaul.airflow.no_such_thing


@pytest.mark.skipif(importlib.util.find_spec("airflow") is not None, reason="Airflow is here")
@pytest.mark.parametrize("name", backhaul.airflow.__all__)
def test_without_airflow_the_extra_is_named(name: str) -> None:
    with pytest.raises(ExtraMissing) as caught:
        getattr(backhaul.airflow, name)
    assert "pip install 'backhaul[airflow]'" in str(caught.value)


def test_the_pure_parts_bring_neither_airflow_nor_spark() -> None:
    code = (
        "import sys, backhaul.airflow.plan, backhaul.airflow.process, backhaul.airflow.outcome;"
        "print(sorted({'airflow', 'pyspark', 'sqlalchemy', 'psycopg'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
