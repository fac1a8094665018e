"""`waybill driver`."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from waybill.errors import ConfigurationError
from waybill.spec.migrations_folder import VARIABLE, folder_of

TOKEN = "WAYBILL_DRIVER_TOKEN"
"""The environment variable of the token; a secret has no place on a command line."""


_CHECKOUT = Path(__file__).resolve().parents[3]


_SECRET = re.compile(r"secret|password|token|credential|access[.-]?key", re.IGNORECASE)
"""What is in the names of Spark's settings that are secret."""


class DriverOptions(NamedTuple):
    """What the driver's Spark and its orders are bound by.

    Attributes:
        settings: settings of Spark as `NAME=VALUE`, from the command line.
        properties: a file of more of them, one a line; those of the command line go before.
        migrations: the folder below which the files of migrations lie.
    """

    settings: Sequence[str] = ()
    properties: Path | None = None
    migrations: Path | None = None


def driver_command(host: str, port: int, master: str | None, given: DriverOptions) -> None:
    """Start Spark and take orders until the process is asked to end."""
    # A secret out of a file often ends in a newline, which no request can carry.
    token = os.environ.pop(TOKEN, "").strip()
    if not re.fullmatch(r"[ -~]{16,}", token):
        message = (
            f"set {TOKEN} to a secret of 16 characters of printable ASCII or more: who has it may "
            "run stages"
        )
        raise ConfigurationError(message)
    named = {**_from_file(given.properties), **dict(map(_setting, given.settings))}
    if master is not None:
        named["spark.master"] = master
    folder = given.migrations or folder_of(_CHECKOUT)
    if not folder.is_dir():
        message = (
            f"there is no folder {folder}: name the folder of the migrations with --migrations, or "
            f"in {VARIABLE}"
        )
        raise ConfigurationError(message)
    from waybill.driver.server import serve
    from waybill.jobs import log_to_stderr
    from waybill.lake.session import start_session

    log_to_stderr()
    log = logging.getLogger("waybill")
    log.info("driver: starting Spark")
    spark = start_session(name="waybill driver", settings=named)
    try:
        log.info("driver: takes orders at http://%s:%d", host, port)
        serve(spark, token, folder, host, port)
    finally:
        spark.stop()


def _setting(text: str) -> tuple[str, str]:
    """A setting from the command line."""
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        message = f"--conf {text!r}: write it as spark.NAME=VALUE"
        raise ConfigurationError(message)
    if _SECRET.search(name):
        message = (
            f"--conf {name}: a secret has no place on a command line, which every user of the "
            "machine can read; put it into a file and name that with --properties"
        )
        raise ConfigurationError(message)
    return name, value


def _from_file(file: Path | None) -> dict[str, str]:
    """The settings of a file; its lines are not repeated in errors."""
    if file is None:
        return {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        message = f"--properties {file}: cannot be read as text ({type(error).__name__})"
        raise ConfigurationError(message) from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip().startswith("spark."):
            message = f"--properties {file}: line {number}: write it as spark.NAME=VALUE"
            raise ConfigurationError(message)
        found[name.strip()] = value.strip()
    return found
