"""An Airflow DAG for every file in the migrations folder."""

from __future__ import annotations

from waybill_airflow.factory import migration_dags

globals().update(migration_dags())
