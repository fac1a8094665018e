"""Where the adapter finds things. Each place can be set in the environment."""

from __future__ import annotations

import os
from pathlib import Path

from waybill.errors import ConfigurationError
from waybill.spec.migrations_folder import folder_of

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder that holds dags/, plugins/, spark_jobs/ and migrations/."""


def _place(variable: str, default: Path) -> Path:
    named = os.environ.get(variable)
    return Path(named).absolute() if named else default


def migrations_folder() -> Path:
    """The folder whose files become DAGs."""
    return folder_of(CHECKOUT)


def entry_scripts() -> Path:
    """The folder of the stages' entry scripts: WAYBILL_SPARK_JOBS, else `spark_jobs`."""
    return _place("WAYBILL_SPARK_JOBS", CHECKOUT / "spark_jobs")


def cache_folder() -> Path:
    """Where the library's zip is kept: WAYBILL_CACHE, else `waybill` in Airflow's home."""
    named = os.environ.get("WAYBILL_CACHE")
    if named:
        return Path(named).absolute()
    from airflow.configuration import AIRFLOW_HOME

    return Path(AIRFLOW_HOME) / "waybill"


def spark_connection() -> str:
    """The Airflow connection of the Spark cluster: WAYBILL_SPARK_CONN, else `spark_default`."""
    return os.environ.get("WAYBILL_SPARK_CONN") or "spark_default"


def driver_connection() -> str:
    """The Airflow connection of the driver: WAYBILL_DRIVER_CONN, else `waybill_driver`."""
    return os.environ.get("WAYBILL_DRIVER_CONN") or "waybill_driver"


def tabs_shown() -> bool:
    """Whether DAGs and runs get a tab; Airflow shows it on those that are not migrations, too.

    WAYBILL_TABS: `off` for no tabs; on where it is not set.

    Raises:
        ConfigurationError: it is set to something else.
    """
    setting = os.environ.get("WAYBILL_TABS") or "on"
    if setting not in ("on", "off"):
        message = f"WAYBILL_TABS is {setting!r}: set it to on or off, or leave it out"
        raise ConfigurationError(message)
    return setting == "on"


def base_path() -> str:
    """What every path of Airflow's web server starts with, e.g. `/airflow`; mostly empty."""
    from urllib.parse import urlsplit

    from airflow.sdk.configuration import conf

    url = conf.get("api", "base_url", fallback="") or ""
    return urlsplit(url).path.rstrip("/")
