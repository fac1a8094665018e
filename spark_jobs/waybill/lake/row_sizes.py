"""How long the rows are that a stage wrote, so that the next one need not measure every row.

Spark hands rows to Python in batches. Where it is to keep a batch below some bytes, it adds up the
buffers of every column after every row, which costs more than handing over the row. A batch of so
many rows that even the longest would fit needs none of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from waybill.lake.snapshot_ranges import LONGEST
from waybill.spark_tasks.counters import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

    from waybill.report import StageReport


class RowSizes:
    """The longest row of one write, reported by its tasks.

    Args:
        context: the context that the tasks run in.
    """

    def __init__(self, context: SparkContext) -> None:
        self._tally = Tally(context)

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, looked at, inside a task."""
        longest = 0
        for batch in batches:
            longest = max(longest, longest_row(batch))
            yield batch
        # Under its own name, as tasks of several queries may tell of theirs.
        self._tally.add({str(longest): longest})

    def tell(self, report: StageReport, name: str) -> None:
        """Put the longest row into the report of the stage, on the driver, after the write.

        Args:
            report: gets it.
            name: the table's short name.
        """
        longest = max(self._tally.counts.values(), default=0)
        report.details.setdefault(LONGEST, {})[name] = longest


def longest_row(batch: pa.RecordBatch) -> int:
    """Bytes that no row of a batch is longer than: the longest value of each column, added up."""
    return sum(_longest(column) for column in batch.columns)


def _longest(values: Any) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_list(kind):
        most = pc.max(pc.list_value_length(values)).as_py()
        return most * _longest(values.flatten()) if most else 0
    if pa.types.is_struct(kind):
        return sum(_longest(part) for part in values.flatten())
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return pc.max(pc.binary_length(values)).as_py() or 0
    return 8
