"""The driver that stays (`waybill driver`), where Airflow has a connection to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from waybill.driver.client import ask
from waybill.errors import Code, DriverError
from waybill_airflow import places

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.spec.migration import Migration


class Driver(NamedTuple):
    """Where it listens, and what it wants to be shown."""

    url: str
    token: str

    def run(self, order: dict[str, Any], tell: Callable[[str, str], None]) -> dict[str, Any]:
        """Have a stage run; see `waybill.driver.client.ask`."""
        return ask(self.url, self.token, order, tell)


def find_driver() -> Driver | None:
    """The driver of the connection `waybill_driver`, None where Airflow has no such connection.

    Raises:
        DriverError: the connection's host is not the name or address of a host.
    """
    name = places.driver_connection()
    try:
        found = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None
    host = (found.host or "").strip()
    if not host or "/" in host or "@" in host:
        message = (
            f"the host of the connection {name} is empty or no host's name: write the name alone, "
            "and http or https as schema"
        )
        raise DriverError(message, False, code=Code.DRIVER_CONNECTION)
    # The address of a host in IPv6 has colons of its own.
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    # A secret out of a file often ends in a newline, which no request can carry.
    token = (found.password or "").strip()
    return Driver(f"{found.schema or 'http'}://{place}:{found.port or 8190}", token)


def fits(spec: Migration) -> bool:
    """Whether the running Spark of a driver will do: other settings need a Spark of their own."""
    return all(name.startswith("spark.sql.") for name in spec.spark)
