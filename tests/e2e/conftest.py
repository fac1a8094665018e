"""Airflow gets a home of its own before anything imports it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from waybill.lake.settings import SHORT_RUNS

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="waybill-airflow-"))

os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
    "SPARK_SUBMIT_OPTS": SHORT_RUNS,
}


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """Airflow's home, with its database; made here, where Airflow is imported already."""
    from airflow.utils.db import initdb

    initdb()
    return HOME
