"""The properties of a migration's catalog, whichever kind it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.connections import get_connection
from waybill.errors import Code, ConfigurationError
from waybill.lake.object_storage import file_properties, warehouse_place

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

POSTGRES = {
    # Seconds; without these a server that is gone would be waited for without end.
    "jdbc.connectTimeout": "10",
    "jdbc.socketTimeout": "60",
    "jdbc.tcpKeepAlive": "true",
    # A connection of the pool that the server has ended is made again, not given up.
    "retryable_status_codes": "57P01,57P02,57P03",
}


def catalog_properties(spec: Migration) -> dict[str, str]:
    """The properties of the migration's catalog, as Spark takes them below the catalog's name.

    Where the migration says nothing about the catalog it is a SQLite file in the warehouse folder.
    Keys and passwords of connections are among them: they are for Spark's eyes only.

    Raises:
        ConfigurationError: the embedded catalog cannot lie in a warehouse that is not a local
            folder, or a connection is not there.
    """
    warehouse = spec.lake.warehouse.removeprefix("file://")
    given: dict[str, Any] = dict(spec.lake.catalog)
    if not any(name in given for name in ("type", "catalog-impl")):
        given["type"] = "jdbc"
    kind = str(given["type" if "type" in given else "catalog-impl"])
    login = _login(given.pop("connection", None), kind)
    if kind == "jdbc":
        _complete_jdbc(given, warehouse)
    place = warehouse_place(spec)
    files = {"warehouse": warehouse} if place is None else file_properties(place)
    properties = {**files, **login, **{name: _text(value) for name, value in given.items()}}
    # A cached table would hide what another run has committed.
    properties["cache-enabled"] = "false"
    return properties


def _complete_jdbc(given: dict[str, Any], warehouse: str) -> None:
    if "uri" not in given:
        if "://" in warehouse:
            message = (
                f"the warehouse {warehouse} is not a local folder, so the catalog cannot be a "
                "file in it: name one under lake.catalog, e.g. {type: jdbc, uri: …}"
            )
            raise ConfigurationError(message, code=Code.CATALOG)
        given["uri"] = f"jdbc:sqlite:{Path(warehouse).absolute()}/catalog.db"
    given.setdefault("jdbc.schema-version", "V1")
    uri = str(given["uri"])
    if uri.startswith("jdbc:sqlite:") and "?" not in uri:
        # Two runs may commit to the file at the same moment: wait for the lock, do not fail.
        given["uri"] = f"{uri}?busy_timeout=60000"
        given.setdefault("clients", "1")
    if uri.startswith("jdbc:postgresql:"):
        for name, value in POSTGRES.items():
            given.setdefault(name, value)


def _login(name: Any, kind: str) -> dict[str, str]:
    """What the catalog's connection says about who asks."""
    if name is None:
        return {}
    connection = get_connection(str(name))
    if kind == "jdbc":
        return {"jdbc.user": connection.login, "jdbc.password": connection.password}
    if kind == "rest" and connection.login:
        return {"credential": f"{connection.login}:{connection.password}"}
    if kind == "rest":
        return {"token": connection.password}
    message = (
        f"a catalog of the type {kind} takes no connection: leave {connection.name} out, AWS's own "
        "variables or the role of the machine say who asks"
    )
    raise ConfigurationError(message, code=Code.CATALOG)


def local_catalog_folder(properties: dict[str, str]) -> Path | None:
    """The folder that must exist before the embedded catalog can be opened, None for others."""
    uri = properties.get("uri", "")
    if not uri.startswith("jdbc:sqlite:"):
        return None
    return Path(uri.removeprefix("jdbc:sqlite:").split("?")[0]).parent


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
