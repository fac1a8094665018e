"""Buttons on a task's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from waybill_airflow.places import base_path

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

MOUNT = "/waybill"
"""Where the plugin's pages live on Airflow's web server."""


ROUTE = "waybill"
"""What Airflow's menu calls the page of all migrations in addresses."""

MIGRATIONS = f"/plugin/{ROUTE}"
"""Where Airflow shows the page of all migrations, below its own path."""


def migration_path(dag_id: str) -> str:
    """Path of a migration's page, below the plugin's mount."""
    return f"/dags/{quote(dag_id, safe='')}"


def batch_path(dag_id: str, batch: str) -> str:
    """Path of a batch's page, below the plugin's mount."""
    return f"/batches/{quote(dag_id, safe='')}/{quote(batch, safe='')}"


def gate_path(dag_id: str, batch: str) -> str:
    """Path of a batch's gate report, below the plugin's mount."""
    return f"/gate/{quote(dag_id, safe='')}/{quote(batch, safe='')}"


def _page(operator: Any, path: Callable[[str, str], str], dag_id: str) -> str:
    """Path of a page about a task's batch; empty, for a grey button, where it did not begin."""
    batch = getattr(operator, "submitted_batch", None)
    return f"{base_path()}{MOUNT}{path(dag_id, batch)}" if batch else ""


class BatchLink(BaseOperatorLink):
    """Opens the account of the batch, stage by stage."""

    name = "Waybill batch"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Path of the page; empty where the stage did not begin."""
        return _page(operator, batch_path, ti_key.dag_id)


class GateReportLink(BaseOperatorLink):
    """Opens what the gate measured for this batch."""

    name = "Gate report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Path of the page; empty where the gate did not run."""
        return _page(operator, gate_path, ti_key.dag_id)
