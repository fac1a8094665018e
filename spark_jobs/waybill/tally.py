"""Counts that tasks make while they stream, added up exactly once per task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    from pyspark import SparkContext

Counts = dict[str, Any]


class _Merged(AccumulatorParam[Counts]):
    """Adds numbers of the same name, keeps everything else as it came."""

    def zero(self, value: Counts) -> Counts:
        return {}

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:
        for name, count in value2.items():
            if isinstance(count, int):
                value1[name] = value1.get(name, 0) + count
            else:
                value1[name] = count
        return value1


class Tally:
    """Counts of one write, filled by its tasks.

    Spark adds what a task counted when the task succeeds, once, as long as the task writes without
    a shuffle after it. Every figure is held against what was written before it is believed.
    """

    def __init__(self, context: SparkContext) -> None:
        self._accumulator = context.accumulator({}, _Merged())

    def add(self, counts: Counts) -> None:
        """Count, inside a task: numbers are added, other values stand under their name."""
        self._accumulator.add(counts)

    @property
    def counts(self) -> Counts:
        """What all tasks counted, on the driver, after the write."""
        return self._accumulator.value
