"""Reads every message to publish with its own envelope's decoder and holds it against its change.

Both sides are decoded in Spark tasks to digests of a few bytes; only these meet. What does not
agree is fetched and compared in full, which also finds the words for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from waybill.batches.message_rows import CHANGE, changes_of
from waybill.lake.local_rows import local_rows
from waybill.lake_columns import CHANGE_PLACE, OUTBOX, columns_of
from waybill.mapping.changes import ChangeMapper
from waybill.records import Change, Message, TableSchema
from waybill.validate.comparing_messages import MessageJudge
from waybill.validate.digest import Digests, digests, effects_of
from waybill.validate.message_effects import (
    digests_of_messages,
    effects_of_messages,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from waybill.lake import TaskRows
    from waybill.validate.readers import TargetReader

EXAMPLES = 20
"""How many differences are described."""
LOOKED_AT = 2_000
"""How many doubtful changes are compared in full at first; where one of them differs, the digests
decide about all others."""
LOOKED_AT_ONCE = 32_000
"""How many are compared in full at once where the first of them were right."""

WEAKENING = frozenset({"unchanged_columns", "exact_numbers"})
"""Losses after which the row of a change cannot be expected to come back whole."""

_DIGEST_DDL = (
    "target string, topic string, partition int, offset bigint, index int, strong bigint, "
    "weak bigint, ids bigint, own boolean, weakened boolean, broken boolean"
)
_FIELDS: list[tuple[str, pa.DataType]] = [
    ("target", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("index", pa.int32()),
    ("strong", pa.int64()),
    ("weak", pa.int64()),
    ("ids", pa.int64()),
    ("own", pa.bool_()),
    ("weakened", pa.bool_()),
    ("broken", pa.bool_()),
]
_DIGEST = pa.schema(_FIELDS)
MESSAGE = columns_of(
    OUTBOX,
    *("target", "topic", "partition", "offset", "index", "message", "timestamp"),
    *("key", "value", "headers", "losses", "table"),
)
"""What reading a message again takes of the outbox."""


@dataclass
class Reread:
    """What reading again has shown.

    Attributes:
        messages: messages that were read, by topic.
        undecodable: changes whose messages cannot be read, by topic.
        different: changes whose messages say something else, by topic.
        examples: some of them in words.
    """

    messages: Counter[str] = field(default_factory=Counter)
    undecodable: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Reread) -> None:
        """Take in what reading other messages has shown."""
        self.messages.update(other.messages)
        self.undecodable.update(other.undecodable)
        self.different.update(other.different)
        self.examples = [*self.examples, *other.examples][:EXAMPLES]


def reread(
    outbox: TaskRows,
    changes: TaskRows,
    schemas: dict[str, TableSchema],
    readers: dict[str, TargetReader],
) -> Reread:
    """Compare every message with the change that it was made from.

    Args:
        outbox: messages to publish to the targets of the readers, in the columns of `MESSAGE`.
        changes: accepted changes, in the columns of `CHANGE`.
        schemas: every schema of the changes by its id.
        readers: how each target's messages are read.
    """
    result = Reread()
    mine = changes.map(_digest_changes(schemas, readers), _DIGEST_DDL)
    theirs = outbox.map(_digest_messages(readers), _DIGEST_DDL)
    met = _met(mine.unionByName(theirs), readers).persist()
    try:
        for row in met.groupBy("topic").agg(F.sum("sent").alias("sent")).collect():
            result.messages[row.topic] = row.sent
        doubtful = met.where("doubtful").select(*CHANGE_PLACE)
        side = _Side(outbox.rows, changes.rows, schemas, readers)
        place, rest, seen, most = F.struct(*CHANGE_PLACE), doubtful, 0, LOOKED_AT
        while few := rest.orderBy(*CHANGE_PLACE).limit(most).collect():
            seen += len(few)
            last = tuple(few[-1][name] for name in CHANGE_PLACE)
            places = [tuple(row[name] for name in CHANGE_PLACE) for row in few]
            if _look_closely(side, places, result):
                # What was not looked at counts as different: the digests say so.
                if not_seen := doubtful.count() - seen:
                    result.different[last[0]] += not_seen
                break
            if len(few) < most:
                break
            rest, most = doubtful.where(place > _place(doubtful, last)), LOOKED_AT_ONCE
    finally:
        met.unpersist()
    return result


def _met(digested: DataFrame, readers: dict[str, TargetReader]) -> DataFrame:
    """Each change that messages were made from: how many targets have it, whether all agree.

    Nothing but numbers is aggregated, side by side for each target: lists would make Spark sort.
    """
    own = F.col("target").isNull()
    columns = [F.max(F.when(own, F.col(name))).alias(f"own_{name}") for name in ("strong", "weak")]
    sent, doubtful = F.lit(0), F.lit(False)
    for i, (label, reader) in enumerate(readers.items()):
        here = (F.col("target") == label) & ~F.col("own")
        columns.append(F.count_if(here).alias(f"sent_{i}"))
        for name in reader.own_digests:
            expected = (F.col("target") == label) & F.col("own")
            columns.append(F.max(F.when(expected, F.col(name))).alias(f"own_{name}_{i}"))
        for name in ("strong", "weak", "ids", "weakened", "broken"):
            columns.append(F.max(F.when(here, F.col(name))).alias(f"{name}_{i}"))
        sent += F.col(f"sent_{i}")
        mine = f"_{i}" if reader.mapping else ""
        different = F.when(
            F.col(f"weakened_{i}"), F.col(f"weak_{i}") != F.col(f"own_weak{mine}")
        ).otherwise(F.col(f"strong_{i}") != F.col(f"own_strong{mine}"))
        if reader.writer is not None:
            different |= F.col(f"ids_{i}") != F.col(f"own_ids_{i}")
        # A change whose messages two tasks have read is looked at as a whole.
        wrong = F.col(f"broken_{i}") | (F.col(f"sent_{i}") > 1)
        wrong |= F.col(f"own_strong{mine}").isNull()
        doubtful |= (F.col(f"sent_{i}") > 0) & (wrong | different)
    return (
        digested.groupBy(*CHANGE_PLACE)
        .agg(*columns)
        .select(*CHANGE_PLACE, sent.alias("sent"), doubtful.alias("doubtful"))
        .where("sent > 0")
    )


class _Side(NamedTuple):
    outbox: DataFrame
    changes: DataFrame
    schemas: dict[str, TableSchema]
    readers: dict[str, TargetReader]


def _place(rows: DataFrame, place: tuple[Any, ...]) -> Column:
    """A place as what rows are compared with."""
    types = rows.schema
    values = [
        F.lit(value).cast(types[name].dataType).alias(name)
        for name, value in zip(CHANGE_PLACE, place, strict=True)
    ]
    return F.struct(*values)


def _look_closely(side: _Side, places: list[tuple[Any, ...]], result: Reread) -> bool:
    """Compare some changes in full; whether one of them differs."""
    spark = side.outbox.sparkSession
    wanted = F.broadcast(
        local_rows(spark, places, "topic string, partition int, offset bigint, index int")
    )
    changes = side.changes.join(wanted, list(CHANGE_PLACE), "left_semi").toArrow()
    mine: dict[tuple[Any, ...], Change] = {}
    for batch in changes.select(CHANGE.names).to_batches():
        for change in changes_of(batch, side.schemas):
            mine[place_of(change)] = change
    table = side.outbox.join(wanted, list(CHANGE_PLACE), "left_semi").toArrow()
    order: Any = [(name, "ascending") for name in ("target", *CHANGE_PLACE, "message")]
    rows = rows_of(table.sort_by(order).to_batches())
    judges = {label: MessageJudge(reader) for label, reader in side.readers.items()}
    decoders = {label: reader.decoder() for label, reader in side.readers.items()}
    mappings = {label: ChangeMapper(reader.mapping) for label, reader in side.readers.items()}
    bad: set[tuple[Any, ...]] = set()
    for label, place, messages, weakened in grouped(rows):
        change_there = mine.get(place)
        if change_there is not None:
            change_there = mappings[label].map(change_there).change
        judge, decoder = judges[label], decoders[label]
        why, decoded = judge.difference(change_there, messages, weakened, decoder)
        if why is None:
            continue
        counter = result.different if decoded else result.undecodable
        if place not in bad:
            bad.add(place)
            counter[place[0]] += 1
        if len(result.examples) < EXAMPLES:
            result.examples.append(
                {
                    "target": label,
                    "change": "/".join(str(part) for part in place),
                    "table": messages[0][1] or None,
                    "what": why,
                }
            )
    return bool(bad)


def place_of(change: Change) -> tuple[Any, ...]:
    """Where a change came from (`CHANGE_PLACE`)."""
    message = change.message
    return (message.topic, message.partition, message.offset, change.index)


Group = tuple[str, tuple[Any, ...], list[tuple[Message, str]], bool]


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Rows of the outbox, in the order of `MESSAGE`; times as microseconds."""
    for batch in batches:
        columns = {name: batch.column(name) for name in MESSAGE.names}
        columns["timestamp"] = columns["timestamp"].cast(pa.int64())
        yield from zip(*(column.to_pylist() for column in columns.values()), strict=True)


def grouped(rows: Iterable[tuple[Any, ...]]) -> Iterator[Group]:
    """Neighbouring messages of one change and target."""
    last: tuple[Any, ...] = ()
    messages: list[tuple[Message, str]] = []
    weakened = False
    for row in rows:
        if row[:5] != last:
            if messages:
                yield last[0], last[1:], messages, weakened
            last, messages, weakened = row[:5], [], False
        _, topic, partition, offset, _, _, time, key, value, headers, losses, table = row
        pairs = [(h["key"], h["value"]) for h in headers] if headers else None
        milliseconds = None if time is None else time // 1000
        message = Message(topic, partition, offset, milliseconds, key, value, pairs)
        messages.append((message, table or ""))
        weakened = weakened or not WEAKENING.isdisjoint(losses or ())
    if messages:
        yield last[0], last[1:], messages, weakened


def _digest_messages(
    readers: dict[str, TargetReader],
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        decoders = {label: reader.decoder() for label, reader in readers.items()}
        closing = {label for label, r in readers.items() if r.writer and r.writer.ends_windows}
        rows = rows_of(batches)
        out: list[tuple[Any, ...]] = []
        for label, place, messages, weakened in grouped(rows):
            effects, why = effects_of_messages(decoders[label], messages)
            whole = messages if label in closing else None
            found = digests_of_messages(effects, whole) if why is None else Digests(0, 0, 0)
            out.append((label, *place, *found, False, weakened, why is not None))
            if len(out) >= _ROWS:
                yield _batch(out)
                out = []
        yield _batch(out)

    return work


def _digest_changes(
    schemas: dict[str, TableSchema], readers: dict[str, TargetReader]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        apart = {
            label: (ChangeMapper(reader.mapping), reader.expected())
            for label, reader in readers.items()
            if reader.own_digests
        }
        for batch in batches:
            out = []
            for change in changes_of(batch, schemas):
                place = place_of(change)
                out.append((None, *place, *digests(effects_of(change)), True, False, False))
                for label, (mapping, expected) in apart.items():
                    made = mapping.map(change).change
                    if made is not None:
                        found = expected.digests(made)
                        out.append((label, *place, *found, True, False, False))
            yield _batch(out)

    return work


_ROWS = 10_000


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in _DIGEST]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _DIGEST, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_DIGEST)
