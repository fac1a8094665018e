"""Reads tables of a lake for a page: without Spark, and not for longer than a person waits."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from waybill.errors import ConfigurationError, UnavailableError
from waybill.lake.without_spark import opened

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.spec.migration import Migration

T = TypeVar("T")

LONGEST = 10.0
"""Seconds that a page waits for the lake."""

AT_ONCE = 4
"""Reads at a time; what takes longer than its page waits goes on and keeps its place."""

_readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="waybill-lake")


def read_lake(spec: Migration, read: Callable[[History], T]) -> T:
    """What is read from the tables of a migration.

    Raises:
        ConfigurationError: only Spark can open the catalog, or a connection is not there.
        UnavailableError: it takes too long, or the store does not answer.
    """

    def work() -> T:
        with opened(spec) as lake:
            if lake is None:
                message = (
                    f"only Spark can open the catalog of {spec.name}, and Airflow's web server has "
                    f"none: use `{spec.command('quarantine', 'list', 'FILE')}`"
                )
                raise ConfigurationError(message)
            return read(lake)

    # The connections that were given are those of this context.
    done = _readers.submit(contextvars.copy_context().run, work)
    try:
        return done.result(LONGEST)
    except TimeoutError:
        done.cancel()
        message = (
            f"the lake of {spec.name} did not answer within {LONGEST:.0f} seconds: try again, or "
            f"use `{spec.command('quarantine', 'list', 'FILE')}`"
        )
        raise UnavailableError(message) from None
