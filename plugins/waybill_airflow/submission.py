"""What a submission needs: Spark settings, and the connections that the migration names."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

if TYPE_CHECKING:
    from waybill.spec import Migration


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


def write_properties(folder: Path, properties: dict[str, str]) -> Path:
    """Settings as a file that Spark reads and nobody but its owner can.

    Spark does not read `spark-defaults.conf` beside it, so what stands there comes first.
    """
    target = folder / "spark.properties"
    defaults = _defaults_file()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        if defaults is not None and defaults.is_file():
            file.write(f"{defaults.read_text(encoding='utf-8')}\n")
        for key, value in sorted(properties.items()):
            file.write(f"{_escaped(key)}={_escaped(value)}\n")
    return target


def _defaults_file() -> Path | None:
    """Where spark-submit looks for the settings of every submission."""
    conf, home = os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME")
    if not home:
        spec = importlib.util.find_spec("pyspark")
        home = str(Path(spec.origin).parent) if spec is not None and spec.origin else None
    folder = Path(conf) if conf else Path(home, "conf") if home else None
    return None if folder is None else folder / "spark-defaults.conf"


def _escaped(text: str) -> str:
    """Text as Java's Properties reads it back unchanged."""
    plain = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    special = {**plain, **{sign: f"\\{sign}" for sign in " :=#!"}}
    return "".join(special.get(sign, sign) for sign in text)
