"""Where the values of Debezium's JSON messages stand, for reading in bulk.

Messages without schema and headers are read so, of tables whose columns are all declared: what
an undeclared column is depends on the messages before. `decoder` says what the messages mean.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.bulk.arena import Texts, Value
from waybill.bulk.column_codecs import (
    ANY,
    NOTHING,
    TEXT,
    WHOLE,
    ColumnReader,
    Convert,
    at_most,
    same,
    whole,
)
from waybill.bulk.field_map import BulkReader, ColumnSlot, FieldMap, IntegerSlot, KeySlot, Sample
from waybill.bulk.rows import Extra
from waybill.bulk.value_kinds import ESCAPED, INTEGER
from waybill.envelopes.debezium.bulk.values import reader_of
from waybill.envelopes.debezium.control_events import COUNTS, EXTRA, TIMES
from waybill.envelopes.debezium.decoder import TOMBSTONE, DebeziumDecoder
from waybill.envelopes.debezium.events import USUAL
from waybill.envelopes.debezium.source import Source, log_position, position, rule_of
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Arena, Places
    from waybill.bulk.block import Block, Path
    from waybill.envelopes.debezium.row_readers import RowPlan
    from waybill.records import Change, Message, TableSchema

_READ = frozenset(field.name for field in msgspec.structs.fields(Source))
"""Fields of a source block that are read; the others are carried only."""
LAST_MS = 2**63 // 1000 - 1
_BY_FILE = frozenset({"mysql", "mariadb"})
_BY_SEQUENCE = frozenset({"postgresql", "waybill"})
_SOURCE = b'"source":{'
_OP = b'"op"'

_Identity = tuple[str | None, str | None, str | None]


class _Sent(msgspec.Struct):
    """A message as it was sent."""

    source: Source


_sent = msgspec.json.Decoder(_Sent).decode
_names_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class DebeziumReader(BulkReader):
    """Says what the values of messages without schema mean."""

    reads_keys = True
    no_value = TOMBSTONE

    def __init__(self, decoder: DebeziumDecoder) -> None:
        self._decoder = decoder
        self._learner = decoder
        self._seen: dict[_Identity, set[tuple[str, ...]]] = {}

    def learner(self) -> DebeziumDecoder:
        """A decoder that has seen no message: the layout of one is kept for later ones."""
        self._learner = DebeziumDecoder(self._decoder.settings, self._decoder.rules)
        return self._learner

    def harmless(self, message: Message) -> bool:
        """Whether a message tells nothing about a table: a tombstone, or no event of a row."""
        return message.value is None or _OP not in message.value

    def tell(self, message: Message) -> None:
        """Have the decoder see the columns of a table, by which it reads a partial row before."""
        with suppress(Refusal):  # of what it refuses it remembers nothing
            self._decoder.decode(message)

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a row's message."""
        message, schema = sample.message, change.schema
        if message.headers or change.operation not in _ROWS:
            return None
        names = tuple(_names_of(sample.value))
        if names[:3] != USUAL[:3] or not set(names) <= set(USUAL):
            return None
        plan = self._learner.plan_of(message.topic)
        if plan is None or plan.schema is not schema or not self._declared(schema):
            return None
        before, after = (self._image(sample, plan, name) for name in ("before", "after"))
        if (before is None) != (change.before is None) or (after is None) != (change.after is None):
            return None
        if plan.key_only and before is not None:
            return None  # what is left of the row before depends on which columns are the key
        stated_key = _stated_key(sample, plan)
        if not self._alone(schema, change.operation) or stated_key is None:
            return None
        source = _sent(sample.value).source
        found = Around(sample, source)
        sequence = found.sequence(change)
        if sequence is None and change.sequence is not None:
            return None
        source_time = found.time()
        if (source_time is None) != (change.source_time is None):
            return None
        transaction = found.transaction(change)
        if transaction is None and change.transaction is not None:
            return None
        return FieldMap(
            schema,
            change.operation,
            before,
            after,
            sequence=sequence,
            source_time=source_time,
            transaction=transaction,
            carry=_Carried(sample),
            ready=self._ready(message.topic, schema),
            aside=found.aside(),
            message_key=stated_key,
            free=found.free(),
            rank=change.rank,
            full_row=change.full_row,
        )

    def _declared(self, schema: TableSchema) -> bool:
        """Whether the type of every column is declared."""
        rule = self._decoder.rules.find(schema.database, schema.schema, schema.table)
        types = [rule.columns.get(name) for name in schema.names]
        return all(type_ is not None and type_.kind != "unknown" for type_ in types)

    def _ready(self, topic: str, schema: TableSchema) -> Callable[[], bool]:
        """Tells whether the decoder reads messages of a table in the order of these columns."""
        identity = (schema.database, schema.schema, schema.table)
        return lambda: self._decoder.reads_as_sent(topic, identity, schema.names)

    @staticmethod
    def _image(sample: Sample, plan: RowPlan, image: str) -> tuple[ColumnSlot | None, ...] | None:
        """The columns of an image; None where there is none, or one of another layout."""
        slots = sample.slots
        names = [path[1:] for path in slots if path[0] == image]
        if names == [()]:
            return None
        # Which columns a row has, and their order, may depend on earlier messages otherwise.
        if names != [(name,) for name in plan.schema.names]:
            return None
        cells: list[ColumnSlot | None] = []
        for name, reading in plan.columns.items():
            slot = slots[image, name]
            take = reader_of(reading, sample.kinds[slot])
            if take is None:
                return None
            cells.append(ColumnSlot(slot, take))
        return tuple(cells)

    def _alone(self, schema: TableSchema, operation: str) -> bool:
        """Whether no earlier message of the table decides which columns this one has."""
        identity = (schema.database, schema.schema, schema.table)
        names, columns = schema.names, set(schema.names)
        known = self._seen.setdefault(identity, set())
        if operation != "delete":
            known.add(names)
        for other in known:
            same_columns = columns == set(other)
            if other != names and (
                same_columns or (operation == "delete" and columns < set(other))
            ):
                return False
        return True


_ROWS = frozenset({"read", "insert", "update", "delete"})


def _stated_key(sample: Sample, plan: RowPlan) -> tuple[KeySlot, ...] | None:
    """The values of the message key that tell columns; None if one is not read in bulk."""
    cells: list[KeySlot] = []
    key = sample.key
    if key is None:
        return ()
    for name in plan.stated_key:
        slot = key.slots.get(("payload", name) if plan.shape.prefix else (name,))
        take = None if slot is None else reader_of(plan.columns[name], key.kinds[slot])
        if slot is None or take is None:
            return None
        cells.append(KeySlot(slot, plan.schema.names.index(name), take))
    return tuple(cells)


class Around:
    """The values of a message besides its rows.

    Args:
        sample: the message.
        source: its source block.
    """

    def __init__(self, sample: Sample, source: Source) -> None:
        self._sample, self._source = sample, source
        self._slots = sample.slots
        self._aside: set[int] = set()

    def _integer(self, *path: str) -> int | None:
        slot = self._slots.get(path)
        return slot if slot is not None and self._sample.kinds[slot] == INTEGER else None

    def _text(self, *path: str) -> int | None:
        slot = self._slots.get(path)
        return slot if slot is not None and self._sample.kinds[slot] <= ESCAPED else None

    def _count(self, slot: int, convert: Convert | None = None) -> IntegerSlot:
        """A number; `convert` makes its digits of a text as it stands in JSON."""
        return IntegerSlot(slot, convert=convert)

    def sequence(self, change: Change) -> tuple[IntegerSlot, ...] | None:
        """The parts of the sequence id; None without one, or where they are not known to stand."""
        source, identity = self._source, change.sequence
        if identity is None:
            return None
        connector = source.connector or ""
        if connector in _BY_FILE and self._text("source", "file") is not None:
            names = ("file", "pos", "row")[: len(identity)]
            found = [self._text("source", "file")]
            found += [self._integer("source", name) for name in names[1:]]
            counts = [self._count(slot) for slot in found if slot is not None]
            if len(counts) < len(identity) or found[0] is None:
                return None
            counts[0] = self._count(found[0], _part(source, "file", 0))
            return tuple(counts)
        slot = self._text("source", "sequence")
        if connector not in _BY_FILE | _BY_SEQUENCE or slot is None:
            return None
        number = self._integer("source", "lsn")
        if number is not None:
            # It is not looked at where the other one tells the position, as it has to below.
            self._aside.add(number)
        parts = (_part(source, "sequence", part) for part in range(len(identity)))
        return tuple(self._count(slot, part)._replace(lowest=-1) for part in parts)

    def time(self) -> IntegerSlot | None:
        """The time of the change in the source."""
        millis, micros = self._integer("source", "ts_ms"), self._integer("source", "ts_us")
        if micros is not None:
            if millis is not None:
                self._aside.add(millis)
            return self._count(micros)
        if millis is None:
            return None
        return self._count(millis)._replace(factor=1000, highest=LAST_MS)

    def transaction(self, change: Change) -> int | None:
        """The id of the transaction."""
        number = self._integer("source", "txId")
        if any(path[0] == "transaction" and len(path) > 1 for path in self._slots):
            if number is not None:
                self._aside.add(number)
            return None if change.transaction is None else self._text("transaction", "id")
        if change.transaction is None:
            return None
        return self._text("source", "txId") if number is None else number

    def aside(self) -> tuple[ColumnSlot, ...]:
        """Integers that are not used; the decoder looks at them all the same."""
        made = [slot for path, slot in self._slots.items() if self._is_carried_count(path)]
        return (
            *(ColumnSlot(slot, _SHORT) for slot in sorted(self._aside)),
            *(ColumnSlot(slot, _LONG) for slot in made),
        )

    def free(self, kinds: int = ANY) -> dict[int, int]:
        """The values that decide nothing, with the kinds that they may have."""
        free: dict[int, int] = {}
        for path, slot in self._slots.items():
            if path[0] == "source":
                if path[1] not in _READ:
                    free[slot] = kinds
                elif slot in self._aside:
                    free[slot] = WHOLE if kinds == ANY else kinds
            elif self._is_carried_count(path):
                free[slot] = WHOLE | NOTHING if kinds == ANY else kinds
            elif path[0] == "transaction" and path[1:2] not in _DECIDING:
                # A place in a transaction may be a text too, then it is one in all messages.
                free[slot] = TEXT if kinds == ANY and path[1:] in _COUNTS else kinds
        return free

    def _is_carried_count(self, path: Path) -> bool:
        """Whether a value has to be an integer or null though nothing is made of it."""
        if path[0] == "transaction" and path[1:] in _COUNTS:
            return self._sample.kinds[self._slots[path]] > ESCAPED
        return path[0] in TIMES


_COUNTS = frozenset((name,) for name in COUNTS)
_DECIDING = ((), ("id",))
_DIGITS = 15
"""An integer of so many digits, or of one less with a sign, is taken in any field."""
_SHORT = ColumnReader(ANY, at_most(_DIGITS))
_LONG = ColumnReader(ANY, whole(-(2**63), 2**63 - 1))


def _part(source: Source, name: str, part: int) -> Convert:
    """One part of a position, from the field that tells it."""
    in_log = source.connector == "postgresql" and source.lsn is not None
    rule = log_position if in_log else rule_of(source.connector)

    def one(text: bytes) -> bytes | None:
        place = Source(connector=source.connector, snapshot=source.snapshot, pos=0)
        try:
            setattr(place, name, _decode(b'"%b"' % text))
            found = position(place, rule)
        except (Refusal, ValueError):
            return None
        return None if found is None or part >= len(found) else b"%d" % found[part]

    def convert(arena: Arena, texts: Texts) -> Texts:
        return _same_or_each(arena, texts, one)

    return convert


_decode = msgspec.json.Decoder(str).decode


def _same_or_each(arena: Arena, texts: Texts, one: Callable[[bytes], bytes | None]) -> Texts:
    """What `one` gives for each text, quickly where all are the same."""
    count = len(texts.starts)
    if not count:
        return texts
    first = Texts(np.repeat(texts.starts[:1], count), np.repeat(texts.lengths[:1], count))
    if not same(arena, texts, first).all():
        return arena.each(texts, one)
    made = arena.each(Texts(texts.starts[:1], texts.lengths[:1]), one)
    return Texts(np.repeat(made.starts, count), np.repeat(made.lengths, count))


class _Carried:
    """What a Debezium target carries on: the end of a message, from its source block on.

    Args:
        sample: a message of the form.
    """

    def __init__(self, sample: Sample) -> None:
        slots = sample.slots
        self._slot = next(slot for path, slot in slots.items() if path[0] == "source")
        at, _ = sample.place.spans()[self._slot]
        self._back = at - sample.value.rindex(_SOURCE, 0, at)

    def __call__(self, block: Block, places: Places) -> Extra:
        """What is carried on of some messages."""
        slot = self._slot
        quotes = block.kinds[places, slot] <= ESCAPED
        starts = block.starts[places, slot].astype(np.int64) - quotes - self._back
        tail = Value(Texts(starts, block.ends[places] - 1 - starts), False)
        return Extra("debezium", (EXTRA, tail, b"}}"), {"tail": tail})
