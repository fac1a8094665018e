"""Airflow's home and settings in tests, chosen before anything imports it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from waybill.lake.settings import SHORT_RUNS

PROJECT = Path(__file__).resolve().parents[1]
HOME = Path(tempfile.mkdtemp(prefix="waybill-airflow-"))

os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
    "SPARK_SUBMIT_OPTS": SHORT_RUNS,
}
os.environ.pop("WAYBILL_MIGRATIONS", None)


def remove_home() -> None:
    """Remove it, with its database."""
    shutil.rmtree(HOME, ignore_errors=True)
