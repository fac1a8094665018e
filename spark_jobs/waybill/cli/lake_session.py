"""The lake of a migration for the commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waybill.errors import ConfigurationError

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.lake.history import History
    from waybill.spec.migration import Migration


@contextmanager
def look_into(spec: Migration) -> Iterator[History]:
    """The lake for a command that only looks: without Spark, where the catalog allows it."""
    with without_spark(spec) as found:
        if found is not None:
            yield found
            return
    sign_of_life("only Spark can open this catalog")
    with open_lake(spec) as lake:
        yield lake


def sign_of_life(why: str) -> None:
    """Say on standard error that Spark is started, and why."""
    sys.stderr.write(f"waybill: {why}, starting it takes some seconds …\n")
    sys.stderr.flush()


@contextmanager
def without_spark(spec: Migration) -> Iterator[History | None]:
    """The lake without Spark; None where only Spark can open the catalog."""
    from waybill.lake.without_spark import opened

    with opened(spec) as found:
        yield found


@contextmanager
def open_lake(spec: Migration) -> Iterator[Lake]:
    """The lake on a local session that ends with the block."""
    from waybill.lake import Lake
    from waybill.lake.session import start_session
    from waybill.lake.storage_errors import plainly

    spark = start_session(spec, f"waybill {spec.name}")
    try:
        with plainly(spec):
            yield Lake.open(spark, spec)
    finally:
        spark.stop()


def needed(spec: Migration, lake: History, name: str) -> str:
    """Full name of a batch table that must be there.

    Raises:
        ConfigurationError: nothing was run yet.
    """
    table = lake.log(name)
    if not lake.exists(table):
        first = spec.command("run", "FILE")
        message = f"migration {spec.name} has no {name} yet: run it first, `{first}`"
        raise ConfigurationError(message)
    return table
