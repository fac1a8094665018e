"""What the plugin adds to Airflow."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from waybill_airflow.links import MOUNT, GateReportLink


class WaybillPlugin(AirflowPlugin):
    """Pages behind Airflow's login, and the buttons that open them."""

    name = "waybill"
    operator_extra_links = [GateReportLink()]  # noqa: RUF012 - as Airflow declares it

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The web application, made only where Airflow asks for it: in its web server."""
        from waybill_airflow.web.app import make_app

        return [{"name": "waybill", "app": make_app(), "url_prefix": MOUNT}]
