"""The driver that stays (`waybill driver`), where Airflow has a connection to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from waybill.driver.client import ask
from waybill_airflow import places

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.spec import Migration


class Driver(NamedTuple):
    """Where it listens, and what it wants to be shown."""

    url: str
    token: str

    def run(self, order: dict[str, Any], tell: Callable[[str, str], None]) -> dict[str, Any]:
        """Have a stage run; see `waybill.driver.client.ask`."""
        return ask(self.url, self.token, order, tell)


def find_driver() -> Driver | None:
    """The driver of the connection `waybill_driver`, None where Airflow has no such connection."""
    try:
        found = BaseHook.get_connection(places.driver_connection())
    except AirflowNotFoundException:
        return None
    scheme = found.schema or "http"
    return Driver(f"{scheme}://{found.host}:{found.port or 8190}", found.password or "")


def fits(spec: Migration) -> bool:
    """Whether the running Spark of a driver will do: other settings need a Spark of their own."""
    return all(name.startswith("spark.sql.") for name in spec.spark)
