"""The folder of migrations: Airflow makes DAGs of them, and a driver runs no others."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "WAYBILL_MIGRATIONS"
"""The environment variable that names it."""


def folder_of(checkout: Path) -> Path:
    """The folder that the environment names, else `migrations` of the checkout."""
    named = os.environ.get(VARIABLE)
    return Path(named).absolute() if named else checkout / "migrations"
