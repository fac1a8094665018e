"""Commands that stay until they are asked to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waybill.spec.migrations_folder import VARIABLE


def driver(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8190,
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master, e.g. spark://host:7077.", show_default="local[*]"),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
    ] = None,
    properties: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of more Spark settings, KEY=VALUE a line; put secrets here.",
        ),
    ] = None,
    migrations: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder whose migrations it runs.",
            show_default=f"{VARIABLE}, else migrations",
        ),
    ] = None,
) -> None:
    """Keep one Spark running and take stages from Airflow, one after another.

    A small batch then spends no time on starting Java. Airflow finds the driver by the connection
    `waybill_driver` (type http: host, port, and the token as password); it still submits migrations
    with Spark settings of their own separately. The token comes from the environment variable
    WAYBILL_DRIVER_TOKEN.

    [dim]Example:[/]  WAYBILL_DRIVER_TOKEN=… waybill driver --port 8190
    """
    from waybill.cli.driver import DriverOptions, driver_command

    driver_command(host, port, master, DriverOptions(conf or [], properties, migrations))
