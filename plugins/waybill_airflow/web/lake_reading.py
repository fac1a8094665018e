"""Reads tables of a lake for a page: without Spark, and not for longer than a person waits."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from waybill.errors import ConfigurationError, UnavailableError
from waybill.lake.file_memory import FileMemory
from waybill.lake.without_spark import opened
from waybill_airflow.lake_access import in_lake_of

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.spec.migration import Migration

T = TypeVar("T")

LONGEST = 10.0
"""Seconds that a page waits for the lake."""

AT_ONCE = 4
"""Reads at a time; what takes longer than its page waits goes on and keeps its place."""

_memory = FileMemory()
"""People look at one page after the other, of the same few lakes."""

_readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="waybill-lake")


def read_lake(spec: Migration, read: Callable[[History], T], command: str) -> T:
    """What is read from the tables of a migration, with the connections that Airflow has for them.

    Args:
        spec: the migration.
        read: reads it.
        command: tells the same on the command line.

    Raises:
        ConfigurationError: only Spark can open the catalog, or a connection is not there.
        UnavailableError: it takes too long, or the store does not answer.
    """

    def work() -> T:
        with opened(spec, _memory) as lake:
            if lake is None:
                message = (
                    f"only Spark can open the catalog of {spec.name}, and Airflow's web server has "
                    f"none: use `{command}`"
                )
                raise ConfigurationError(message)
            return read(lake)

    def wait(_: Migration) -> T:
        # The connections that were given are those of this context.
        done = _readers.submit(contextvars.copy_context().run, work)
        try:
            return done.result(LONGEST)
        except TimeoutError:
            done.cancel()
            message = (
                f"the lake of {spec.name} did not answer within {LONGEST:.0f} seconds: try again, "
                f"or use `{command}`"
            )
            raise UnavailableError(message) from None

    return in_lake_of(spec, wait)
