"""Runs of DAGs, from outside."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stack.server import ServerError

if TYPE_CHECKING:
    from waybill_airflow.local_airflow import LocalAirflow


def run_dag(
    airflow: LocalAirflow, dag: str, patience: float, conf: Mapping[str, Any] | None = None
) -> str:
    """Trigger a DAG and wait for its end.

    Args:
        airflow: where.
        dag: its id.
        patience: seconds to wait.
        conf: parameters of the run.

    Returns:
        The state that the run ended in.

    Raises:
        ServerError: it has not ended in time.
    """
    client = airflow.client
    client.patch("dags", dag, body={"is_paused": False})
    body = {"logical_date": None, "conf": dict(conf or {})}
    run = client.post("dags", dag, "dagRuns", body=body)["dag_run_id"]
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        airflow.check()
        state: str = client.get("dags", dag, "dagRuns", run)["state"]
        if state in ("success", "failed"):
            return state
        time.sleep(0.5)
    message = f"the run {run} of {dag} has not ended within {patience:.0f} s"
    raise ServerError(message)
