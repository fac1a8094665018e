"""Brings messages to publish and their changes into the same tasks, without a shuffle.

Changes and messages are written in the order of what they were made from, so the footers of their
data files tell which row groups of the one belong to which of the other. A task reads both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from waybill.lake.ordered_rows import SORTED_AT_ONCE, RowGroup, behind, clusters
from waybill.lake.sizing import FEW_BYTES, MOST_ROWS, SHUFFLED, dealt, shuffle_partitions
from waybill.lake.task_rows import conformed, opened
from waybill.lake_columns import MESSAGE_PLACE
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light
from waybill.validate.comparing import MINE, THEIRS, Comparison
from waybill.validate.rereading import EXAMPLES, Reread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waybill.records import TableSchema
    from waybill.spark_tasks.worker_startup import Make
    from waybill.validate.comparing import Wrong
    from waybill.validate.readers import TargetReader

MOST_TIMES = 16
"""In so many ranges, taken all together, a row group of messages may be looked at: each has to
leave out what belongs to the others."""

_DDL = "topic string, compared bigint, undecodable bigint, different bigint, examples string"
_FIELDS: list[tuple[str, pa.DataType]] = [
    ("topic", pa.string()),
    ("compared", pa.int64()),
    ("undecodable", pa.int64()),
    ("different", pa.int64()),
    ("examples", pa.string()),
]

Place = tuple[Any, ...]


class PlaceRange(NamedTuple):
    """Changes that follow one another, and where the messages made from them are.

    Attributes:
        after: the place that the range begins behind, None for the very beginning.
        upto: the last place in it, None for the very end.
        changes: the row groups of the changes.
        messages: by target the row groups with messages of such places, and maybe of others.
    """

    after: Place | None
    upto: Place | None
    changes: list[RowGroup]
    messages: dict[str, list[RowGroup]]


def place_ranges(
    changes: Sequence[RowGroup], messages: Mapping[str, Sequence[RowGroup]]
) -> list[PlaceRange] | None:
    """What is to be compared, cut where no row group of changes is cut.

    Args:
        changes: all row groups of accepted changes, bounded by `MESSAGE_PLACE`.
        messages: by target all row groups of messages, bounded by it too.

    Returns:
        None where too much overlaps to hold it in memory, or to look at it again and again.
    """
    ordered = clusters(changes)
    if ordered is None:
        return None
    ends = [max(group.high for group in cluster) for cluster in ordered[:-1]]
    cuts = [None, *ends, None]
    found = []
    for number, cluster in enumerate(ordered or [[]]):
        after, upto = cuts[number], cuts[number + 1]
        near = {
            label: [
                group
                for group in groups
                if (after is None or group.high > after) and (upto is None or group.low <= upto)
            ]
            for label, groups in messages.items()
        }
        if any(near.values()):
            found.append(PlaceRange(after, upto, cluster, near))
    sizes = [
        sum(group.bytes for groups in one.messages.values() for group in groups) for one in found
    ]
    once = sum(group.bytes for groups in messages.values() for group in groups)
    if max(sizes, default=0) > SORTED_AT_ONCE or sum(sizes) > MOST_TIMES * once:
        return None
    return found


def tasks_of(found: Sequence[PlaceRange], cores: int) -> list[list[PlaceRange]]:
    """Ranges dealt to tasks, neighbours together."""
    sizes = [
        sum(group.bytes for groups in (one.changes, *one.messages.values()) for group in groups)
        for one in found
    ]
    pieces = shuffle_partitions(sum(sizes) // SHUFFLED, cores)
    return dealt(found, sizes, pieces)


def compare_in_tasks(
    spark: SparkSession,
    tasks: list[list[PlaceRange]],
    schemas: dict[str, TableSchema],
    readers: dict[str, TargetReader],
) -> Reread:
    """Compare every message with the change that it was made from.

    Args:
        spark: the session.
        tasks: what each task compares.
        schemas: every schema of the changes by its id.
        readers: how each target's messages are read.
    """
    result = Reread()
    if not tasks:
        return result
    groups = [group for one in tasks[0] for group in one.changes]
    few = sum(g.rows for g in groups) <= MOST_ROWS and sum(g.bytes for g in groups) <= FEW_BYTES
    if few and not tasks[1:]:
        rows = compared(tasks[0], schemas, readers).to_pylist()
    else:
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        work = light(_work(tasks, schemas, readers))
        with unwrapped():
            outcomes = numbers.mapInArrow(work, _DDL).collect()
        rows = [row.asDict() for row in outcomes]
    for row in rows:
        topic = row["topic"]
        result.messages[topic] += row["compared"]
        result.undecodable[topic] += row["undecodable"]
        result.different[topic] += row["different"]
        result.examples += json.loads(row["examples"])
    result.examples.sort(key=lambda one: (one["target"], one["place"]))
    del result.examples[EXAMPLES:]
    for one in result.examples:
        del one["place"]
    return result


def _work(
    tasks: list[list[PlaceRange]], schemas: dict[str, TableSchema], readers: dict[str, TargetReader]
) -> Make:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                yield compared(tasks[number], schemas, readers)

    return work


def compared(
    found: list[PlaceRange], schemas: dict[str, TableSchema], readers: dict[str, TargetReader]
) -> pa.RecordBatch:
    """What one task has to tell, topic by topic."""
    comparisons = {label: Comparison(label, reader, schemas) for label, reader in readers.items()}
    undecodable: Counter[str] = Counter()
    different: Counter[str] = Counter()
    examples: list[Wrong] = []
    bad: set[Place] = set()
    mine = _RowGroups(MINE)
    theirs = {label: _RowGroups(THEIRS) for label in readers}
    for one in found:
        changes = mine.read(one.changes, None, None)
        for label, groups in one.messages.items():
            messages = theirs[label].read(groups, one.after, one.upto)
            for wrong in comparisons[label].compare(changes, messages):
                examples.append(wrong)
                if wrong.place not in bad:
                    bad.add(wrong.place)
                    (undecodable if wrong.undecodable else different)[wrong.place[0]] += 1
        bad.clear()
        examples = sorted(examples, key=lambda wrong: (wrong.target, wrong.place))[:EXAMPLES]
    compared = sum((one.topics for one in comparisons.values()), Counter[str]())
    by_topic: dict[str, list[dict[str, Any]]] = {topic: [] for topic in compared}
    for wrong in examples:
        by_topic[wrong.place[0]].append(
            {
                "target": wrong.target,
                "change": "/".join(str(part) for part in wrong.place),
                "table": wrong.table,
                "what": wrong.what,
                "place": wrong.place,
            }
        )
    rows = [
        (topic, compared[topic], undecodable[topic], different[topic], json.dumps(by_topic[topic]))
        for topic in compared
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(_FIELDS)
    arrays = [pa.array(c, kind) for c, (_, kind) in zip(columns, _FIELDS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(_FIELDS))


class _RowGroups:
    """Reads row groups of neighbouring ranges; those that both need are read once."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._kept: dict[tuple[str, int], pa.Table] = {}

    def read(self, groups: list[RowGroup], after: Place | None, upto: Place | None) -> pa.Table:
        """The rows of row groups that lie behind one place and not behind another."""
        kept, self._kept = self._kept, {}
        for path, same in groupby(groups, key=lambda group: group.path):
            names = [(path, group.number) for group in same]
            self._kept |= {name: kept[name] for name in names if name in kept}
            if fresh := [name for name in names if name not in kept]:
                with opened(path) as file:
                    self._kept |= {name: self._rows(file, name[1]) for name in fresh}
        tables = []
        for group in groups:
            rows = self._kept[group.path, group.number]
            if after is not None and group.low <= after:
                rows = rows.filter(behind(rows, MESSAGE_PLACE, after))
            if upto is not None and group.high > upto:
                rows = rows.filter(pc.invert(behind(rows, MESSAGE_PLACE, upto)))
            tables.append(rows)
        return pa.concat_tables(tables) if tables else self._schema.empty_table()

    def _rows(self, file: Any, number: int) -> pa.Table:
        names = [name for name in self._schema.names if name in file.schema_arrow.names]
        part = file.read_row_group(number, names, use_threads=False)
        batches = [conformed(batch, self._schema) for batch in part.to_batches()]
        return pa.Table.from_batches(batches, self._schema)
