"""The lake of a migration for a command that only looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waybill.errors import ConfigurationError

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.spec import Migration


@contextmanager
def open_lake(spec: Migration) -> Iterator[Lake]:
    """The lake on a local session that ends with the block."""
    from waybill.lake import Lake
    from waybill.lake.outages import plainly
    from waybill.lake.session import start_session

    spark = start_session(spec, f"waybill {spec.name}")
    try:
        with plainly(spec):
            yield Lake.open(spark, spec)
    finally:
        spark.stop()


def needed(lake: Lake, name: str) -> str:
    """Full name of a batch table that must be there.

    Raises:
        ConfigurationError: nothing was run yet.
    """
    table = lake.log(name)
    if not lake.exists(table):
        message = f"migration {lake.migration} has no {name} yet: run it first, waybill run …"
        raise ConfigurationError(message)
    return table
