"""Lets the next Python task of a worker begin at once.

Before every task Spark has Python forget what it knows of the folders it imports from. Of an
archive Python then reads the whole directory again, and once more for each package in it: 0.1 s
of a processor for those that Spark itself puts on the path, more than a small batch needs else.
An archive that is not known at that moment costs nothing, and is known again when it is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from zipimport import zipimporter

from waybill.spark_tasks.gc_pauses import rare_collections

if TYPE_CHECKING:
    import pyarrow as pa

    Make = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    """From batches to batches, as `mapInArrow` wants it."""


def light(make: Make) -> Make:
    """The same work for a task, which leaves its worker ready for the next one."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            with rare_collections():
                yield from make(batches)
        finally:
            forget_archives()

    return work


def forget_archives() -> None:
    """Forget what archives hold, until something is imported from them."""
    known = sys.path_importer_cache
    for path in [path for path, finder in known.items() if isinstance(finder, zipimporter)]:
        known.pop(path, None)
