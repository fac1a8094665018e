"""`waybill driver`."""

from __future__ import annotations

import logging
import os
import re

from waybill.errors import ConfigurationError

TOKEN = "WAYBILL_DRIVER_TOKEN"
"""The environment variable of the token; a secret has no place on a command line."""


def driver_command(host: str, port: int, master: str | None, settings: list[str]) -> None:
    """Start Spark and take orders until the process is asked to end."""
    # A secret out of a file often ends in a newline, which no request can carry.
    token = os.environ.pop(TOKEN, "").strip()
    if not re.fullmatch(r"[ -~]{16,}", token):
        message = (
            f"set {TOKEN} to a secret of 16 characters of printable ASCII or more: who has it may "
            "run stages"
        )
        raise ConfigurationError(message)
    named = dict(_setting(text) for text in settings)
    if master is not None:
        named["spark.master"] = master
    from waybill.driver.server import serve
    from waybill.jobs import log_to_stderr
    from waybill.lake.session import start_session

    log_to_stderr()
    log = logging.getLogger("waybill")
    log.info("driver: starting Spark")
    spark = start_session(name="waybill driver", settings=named)
    try:
        log.info("driver: takes orders at http://%s:%d", host, port)
        serve(spark, token, host, port)
    finally:
        spark.stop()


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        message = f"--conf {text!r}: write it as spark.NAME=VALUE"
        raise ConfigurationError(message)
    return name, value
