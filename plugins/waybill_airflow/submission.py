"""What a submission needs: Spark settings, and the connections that the migration names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

if TYPE_CHECKING:
    from waybill.spec import Migration

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
}
"""With a local master everything runs in one process, which nobody else has to reach."""


def settings(spec: Migration, master: str) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the product, and those of the migration's file, which go before them.

    The two are apart because the second may hold secrets and has no place on a command line.

    Raises:
        ConfigurationError: the jars are not there.
    """
    from waybill.lake.settings import spark_settings

    theirs = spec.spark
    ours = {**(_LOCAL if master.startswith("local") else {}), **spark_settings(spec)}
    return {key: value for key, value in ours.items() if key not in theirs}, dict(theirs)


def connections(spec: Migration) -> dict[str, str]:
    """The connections that a migration names, as JSON, from whatever backend Airflow has.

    One that Airflow does not have is left out: some have a substitute, and the stage knows which.
    """
    found = {}
    for name in spec.connections:
        with suppress(AirflowNotFoundException):
            found[name] = BaseHook.get_connection(name).as_json()
    return found


def write_properties(folder: Path, properties: dict[str, str]) -> Path:
    """Settings as a file that Spark reads and nobody but its owner can."""
    target = folder / "spark.properties"
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        for key, value in sorted(properties.items()):
            file.write(f"{_escaped(key)}={_escaped(value)}\n")
    return target


def _escaped(text: str) -> str:
    """Text as Java's Properties reads it back unchanged."""
    plain = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    special = {**plain, **{sign: f"\\{sign}" for sign in " :=#!"}}
    return "".join(special.get(sign, sign) for sign in text)
