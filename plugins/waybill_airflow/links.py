"""Buttons on a task's page."""

from __future__ import annotations

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


def gate_path(dag_id: str, batch: str) -> str:
    """Path of a batch's gate report, below the plugin's mount."""
    return f"/gate/{quote(dag_id, safe='')}/{quote(batch, safe='')}"


class GateReportLink(BaseOperatorLink):
    """Opens what the gate measured for this batch."""

    name = "Gate report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Path of the page; empty, which greys the button out, where the gate did not run."""
        batch = getattr(operator, "submitted_batch", None)
        if not batch:
            return ""
        return f"{base_path()}{MOUNT}{gate_path(ti_key.dag_id, batch)}"
