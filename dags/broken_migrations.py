"""Shows migration files that cannot become a DAG as an import error in Airflow.

It is apart from the DAGs because Airflow hides every DAG of a file that has an import error.
"""

from __future__ import annotations

from waybill_airflow.factory import check_migrations

check_migrations()
