"""Airflow's command, with everything loaded that the DAG files of the migrations need.

    python -m waybill_airflow.preloaded scheduler

The scheduler (with the LocalExecutor) and the DAG processor fork a process for every task and for
every reading of a DAG file. Loading the library takes most of the processor time of each, and
nothing where the process that forks has loaded it already.
"""

from __future__ import annotations

# Before any other part of Airflow, as it settles the configuration first.
from airflow.__main__ import main  # isort: skip

from waybill_airflow.factory import migration_dags

if __name__ == "__main__":
    # What is loaded depends on the migrations: their envelopes, their alerts.
    migration_dags()
    main()  # type: ignore[no-untyped-call]
