"""What the plugin adds to Airflow."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from waybill_airflow.links import MOUNT, ROUTE, BatchLink, GateReportLink
from waybill_airflow.places import base_path, tabs_shown


def views() -> list[dict[str, Any]]:
    """The pages in Airflow's menu, and as tabs of DAGs and runs."""
    ours = f"{base_path()}{MOUNT}"
    icons = {
        "icon": f"{ours}/static/waybill.svg",
        "icon_dark_mode": f"{ours}/static/waybill-dark.svg",
    }
    found: list[dict[str, Any]] = [
        {
            "name": "Migrations",
            "href": f"{ours}/migrations",
            "destination": "nav",
            "url_route": ROUTE,
            "nav_top_level": True,
            **icons,
        }
    ]
    if tabs_shown():
        places = {"dag": "dags/{DAG_ID}", "dag_run": "runs/{DAG_ID}/{RUN_ID}"}
        found += [
            {
                "name": "Waybill",
                "href": f"{ours}/{place}",
                "destination": destination,
                "url_route": f"{ROUTE}_{destination}",
                **icons,
            }
            for destination, place in places.items()
        ]
    return found


class WaybillPlugin(AirflowPlugin):
    """Pages behind Airflow's login, and the buttons that open them."""

    name = "waybill"
    operator_extra_links = [BatchLink(), GateReportLink()]  # noqa: RUF012 - as Airflow declares it
    # Made with the class: an error then leaves out this plugin, later it would hide all of them.
    external_views = views()

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The web application, made only where Airflow asks for it: in its web server."""
        from waybill_airflow.web.app import make_app

        return [{"name": "waybill", "app": make_app(), "url_prefix": MOUNT}]
