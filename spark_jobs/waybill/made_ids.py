"""Sequence ids that had to be made for a target, counted, and whether they order across partitions.

An encoder names each such id among what it tells of a change (`Encoder.encode`), beside what the
change gave up. A made id is not a loss: it says everything that the source's order says.

- `ACROSS_PARTITIONS`: made of the source's own order (binlog file and position, commit and place
  in it, a window with the place behind it), which does not depend on the partition.
- `WITHIN_PARTITION`: made from the position in the topic. Such ids order the changes of a topic
  only as far as these stand in one partition. Where a topic has brought all of them in a single
  partition, they order all of them, and count as `ACROSS_PARTITIONS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ACROSS_PARTITIONS = "made_id_across_partitions"
WITHIN_PARTITION = "made_id_within_partition"
MADE_IDS = frozenset({ACROSS_PARTITIONS, WITHIN_PARTITION})
"""Names of made ids among what encoders tell; every other name is of something that was lost."""

ACROSS, WITHIN = "across_partitions", "within_partition"
"""Keys of the counts in reports."""

IDS_WRITTEN = "ids_written"
"""The detail of a report that tells, by target, with which settings its ids were written."""

_SENTENCES = {
    ACROSS: "ordered across partitions",
    WITHIN: "ordered within each partition only",
}


@dataclass(slots=True)
class MadeIds:
    """Counts of made ids of one target.

    Attributes:
        partitions: by topic, the only partition whose positions became ids, in earlier batches
            too; None where there are several.
        across: ids that order across partitions, made of the source's own order.
        within: ids from positions, by topic.
    """

    partitions: dict[str, int | None] = field(default_factory=dict)
    across: int = 0
    within: Counter[str] = field(default_factory=Counter)

    def count(self, name: str, topic: str, partition: int | None, count: int = 1) -> None:
        """Count ids.

        Args:
            name: one of `MADE_IDS`.
            topic: the topic that the changes came from.
            partition: their partition; None where they came from several.
            count: how many.
        """
        if name == ACROSS_PARTITIONS:
            self.across += count
            return
        self.within[topic] += count
        if self.partitions.setdefault(topic, partition) != partition:
            self.partitions[topic] = None

    def add(self, other: MadeIds) -> None:
        """Take over the counts of another worker."""
        self.across += other.across
        self.within.update(other.within)
        for topic, partition in other.partitions.items():
            if self.partitions.setdefault(topic, partition) != partition:
                self.partitions[topic] = None

    def counts(self) -> dict[str, int]:
        """How many there are that order across partitions, and within each only; no zeros."""
        across, within = self.across, 0
        for topic, count in self.within.items():
            if self.partitions[topic] is None:
                within += count
            else:
                across += count
        return {name: n for name, n in ((ACROSS, across), (WITHIN, within)) if n}


def lost_of(names: Iterable[str]) -> list[str]:
    """What a change gave up, of all that an encoder reported of it."""
    return [name for name in names if name not in MADE_IDS]


def made_ids_sentence(counts: Mapping[str, int]) -> str:
    """The counts for a person; empty where nothing was made."""
    parts = [f"{count:,}, {_SENTENCES[name]}" for name, count in counts.items()]
    return f"made ids: {'; '.join(parts)}" if parts else ""


def made_ids_lines(report: Any) -> list[str]:
    """A line for each target of a stage's report whose ids had to be made."""
    return [f"{target}: {made_ids_sentence(counts)}" for target, counts in report.made_ids.items()]
