"""Counts that tasks make while they stream, taken once per task however often it runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    from pyspark import SparkContext

Counts = dict[str, Any]


class _Latest(AccumulatorParam[Counts]):
    """Keeps what stands under each name; the same name again replaces it."""

    def zero(self, value: Counts) -> Counts:
        return {}

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:
        value1.update(value2)
        return value1


class Tally:
    """Counts of one write, filled by its tasks.

    Spark runs a task again after a failure, beside a slow one, or when its output was lost, and may
    then tell its counts again. So they stand under the name of what was counted (a file, a
    partition), which gives the same counts every time; and every figure is held against what was
    written before it is believed.
    """

    def __init__(self, context: SparkContext) -> None:
        self._accumulator = context.accumulator({}, _Latest())

    def add(self, counts: Counts) -> None:
        """Note counts under names of their own, inside a task."""
        self._accumulator.add(counts)

    def add_of_task(self, **counts: int) -> None:
        """Note what this task counted, inside a task."""
        task = TaskContext.get()
        self._accumulator.add({str(task.partitionId()) if task else "": counts})

    @property
    def counts(self) -> Counts:
        """What all tasks noted, on the driver, after the write."""
        return self._accumulator.value

    @property
    def totals(self) -> Counter[str]:
        """The sums of what all tasks counted (`add_of_task`), on the driver, after the write."""
        sums: Counter[str] = Counter()
        for counts in self.counts.values():
            sums.update(counts)
        return sums
