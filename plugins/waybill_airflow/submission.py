"""What a submission needs: Spark settings, and the connections that the migration names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

if TYPE_CHECKING:
    from waybill.spec.migration import Migration


def settings(spec: Migration, master: str) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the product, and those of the migration's file, which go before them.

    The two are apart because the second may hold secrets and has no place on a command line. The
    driver keeps the Python that it would have, also where another is named for the executors.

    Raises:
        ConfigurationError: the jars are not there.
    """
    from waybill.lake.settings import LOCAL, SHIPPED, spark_settings

    local = master.startswith("local")
    ours = {
        **(LOCAL if local else {}),
        "spark.pyspark.driver.python": _python_of_driver(),
        **spark_settings(spec),
    }
    theirs = {k: v for k, v in spec.spark.items() if not (local and k in SHIPPED)}
    return {key: value for key, value in ours.items() if key not in spec.spark}, theirs


def _python_of_driver() -> str:
    named = (os.environ.get(name) for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"))
    return next(filter(None, named), sys.executable)


def connections(names: Iterable[str]) -> dict[str, str]:
    """Connections as JSON by their names, from whatever backend Airflow has.

    One that Airflow does not have is left out: some have a substitute, and the library knows which.
    """
    found = {}
    for name in names:
        with suppress(AirflowNotFoundException):
            found[name] = BaseHook.get_connection(name).as_json()
    return found
