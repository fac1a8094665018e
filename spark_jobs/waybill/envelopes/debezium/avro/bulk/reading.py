"""Where the values of Debezium's Avro messages stand, for reading in bulk.

Rows of tables are read so that `avro_decoder` reads the known-table way; it says what they mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.avro.columns import (
    ANY,
    between,
    escaped,
    integer_texts,
    integers,
    json_of,
    reader_of,
)
from waybill.avro.scanner import AvroScanner
from waybill.bulk.arena import Value
from waybill.bulk.block import JSON, Scanned
from waybill.bulk.column_codecs import ColumnReader
from waybill.bulk.constant_bytes import Place, values
from waybill.bulk.field_map import BulkReader, ColumnSlot, FieldMap, IntegerSlot, KeySlot, Sample
from waybill.bulk.rows import Extra
from waybill.bulk.value_kinds import OPTIONAL, STRING, VARINT
from waybill.caches import Bounded
from waybill.envelopes.debezium.avro.connect import take_true_names
from waybill.envelopes.debezium.avro.decoder import MILLIS
from waybill.envelopes.debezium.bulk.reading import Around
from waybill.envelopes.debezium.control_events import EXTRA
from waybill.envelopes.debezium.decoder import TOMBSTONE
from waybill.envelopes.debezium.source import Source
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.avro.schema import Node
    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Block, Path
    from waybill.bulk.column_codecs import Convert
    from waybill.bulk.rows import Rows
    from waybill.envelopes.debezium.avro.decoder import DebeziumAvroDecoder, Way
    from waybill.envelopes.debezium.avro.events import AvroEvents
    from waybill.records import Change

_ROWS = frozenset({"read", "insert", "update", "delete"})
_IMAGES = ("before", "after")


class _Family(msgspec.Struct):
    source: Source


class _Carries(msgspec.Struct):
    """What is carried on of a message."""

    debezium: _Family


_carries = msgspec.json.Decoder(_Carries).decode


class DebeziumAvroReader(BulkReader):
    """Says what the values of row events in Avro mean."""

    reads_keys = True
    no_value = TOMBSTONE

    def __init__(self, decoder: DebeziumAvroDecoder) -> None:
        self._decoder = decoder
        self._readers: Bounded[tuple[AvroEvents, str], dict[str, ColumnReader | None]] = Bounded()
        self._scanner = self.scanner = self.key_scanner = AvroScanner(self._schema)

    def _schema(self, schema_id: int) -> Node | None:
        known = self._decoder.schemas.of_id(schema_id)
        if known is None or known.node.kind != "record":
            return None
        try:
            take_true_names(known.node)
        except Refusal:
            return None
        return known.node

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a row event."""
        message, schema = sample.message, change.schema
        way = self._decoder.way_of(message)
        if message.headers is not None or way is None or way.events.plan.schema is not schema:
            return None
        events = way.events
        stated_key = self._stated_key(sample, way)
        if stated_key is None:
            return None
        if change.operation not in _ROWS or not (change.extra or b"").startswith(EXTRA):
            return None
        before, after = (self._image(sample, events, name) for name in _IMAGES)
        if (before is None) != (change.before is None) or (after is None) != (change.after is None):
            return None
        if before is not None and events.plan.key_only:
            # What else the row before stated must be the same, as it is not looked at.
            key = schema.key_places if schema.key else ()
            before = tuple(cell if i in key else None for i, cell in enumerate(before))
        try:
            types = dict(self._scanner.places(sample.value))
            found = _reading(sample, change, types, (before, after))
            return None if found is None else replace(found, message_key=stated_key)
        except (ValueError, msgspec.DecodeError):
            return None

    def _stated_key(self, sample: Sample, way: Way) -> tuple[KeySlot, ...] | None:
        """The values of the message key that tell columns; None if one is not read in bulk."""
        if way.key is None or sample.key is None:
            return None if way.events.plan.stated_key else ()
        schema = way.events.plan.schema
        cells: list[KeySlot] = []
        for field, leaf in zip(way.key.node.fields, way.key.leaves, strict=True):
            if leaf is None:
                continue
            name = field.name
            slot, take = sample.key.slots.get((name,)), reader_of(field.node, leaf)
            if slot is None or take is None:
                return None
            cells.append(KeySlot(slot, schema.names.index(name), take))
        return tuple(cells)

    def _image(
        self, sample: Sample, events: AvroEvents, image: str
    ) -> tuple[ColumnSlot | None, ...] | None:
        """The columns of an image; None where there is none, or one that is read on its own."""
        if image not in events.rows or (image,) in sample.slots:
            return None
        readers = self._readers.get((events, image))
        if readers is None:
            node, leaves = events.rows[image]
            readers = self._readers[events, image] = {
                field.name: reader_of(field.node, leaf)
                for field, leaf in zip(node.fields, leaves, strict=True)
                if leaf is not None
            }
        cells: list[ColumnSlot | None] = []
        for name in events.plan.schema.names:
            slot, take = sample.slots.get((image, name)), readers.get(name)
            if name in readers and (slot is None or take is None):
                return None
            cells.append(None if slot is None or take is None else ColumnSlot(slot, take))
        return tuple(cells)


def _reading(
    sample: Sample,
    change: Change,
    types: dict[Path, Node],
    images: tuple[tuple[ColumnSlot | None, ...] | None, tuple[ColumnSlot | None, ...] | None],
) -> FieldMap | None:
    """The meaning of the values.

    Raises:
        ValueError: such messages are read on their own.
    """
    extra = change.extra or b""
    found = _Around(sample, _carries(extra).debezium.source)
    sequence = found.sequence(change)
    source_time = found.time()
    transaction = found.transaction(change)
    if (
        (sequence is None) != (change.sequence is None)
        or (source_time is None) != (change.source_time is None)
        or (transaction is None) != (change.transaction is None)
    ):
        return None
    free = found.free(ANY)
    varying = {*free, *(count.slot for count in sequence or ())}
    if source_time is not None:
        varying.add(source_time.slot)
    cell = None
    if transaction is not None:
        varying.add(transaction)
        whole = sample.kinds[transaction] in _WHOLE
        cell = ColumnSlot(transaction, ColumnReader(ANY, integer_texts if whole else escaped))
    return FieldMap(
        change.schema,
        change.operation,
        *images,
        sequence=sequence,
        source_time=source_time,
        transaction=cell,
        carry=_Carried(sample, extra[len(EXTRA) : -2], types, varying),
        check=_check(sample.slots.get(("source", "ts_ms"))),
        free=free,
        rank=change.rank,
        full_row=change.full_row,
    )


_WHOLE = (VARINT, VARINT + OPTIONAL)


class _Around(Around):
    """The values of an Avro message besides its rows."""

    def _integer(self, *path: str) -> int | None:
        slot = self._slots.get(path)
        return slot if slot is not None and self._sample.kinds[slot] in _WHOLE else None

    def _text(self, *path: str) -> int | None:
        slot = self._slots.get(path)
        kinds = (STRING, STRING + OPTIONAL)
        return slot if slot is not None and self._sample.kinds[slot] in kinds else None

    def _count(self, slot: int, convert: Convert | None = None) -> IntegerSlot:
        if convert is None:
            return IntegerSlot(slot, convert=integer_texts)
        converter = convert
        return IntegerSlot(
            slot, convert=lambda arena, texts: converter(arena, escaped(arena, texts))
        )


def _check(millis: int | None) -> Callable[[Rows], Mask] | None:
    """Finds rows whose milliseconds are no time that the lake can hold."""
    if millis is None:
        return None

    def check(rows: Rows) -> Mask:
        block: Block = rows.block  # type: ignore[assignment]
        numbers = integers(rows.arena, values(block, rows.places, millis))
        outside: Mask = (numbers <= -MILLIS) | (numbers >= MILLIS)
        return outside

    return check


class _Carried:
    """What a Debezium target carries on: everything but the rows, as JSON.

    Args:
        sample: a message of the form.
        tail: that JSON of it, without the braces around it.
        types: the type of each of its values.
        varying: the values that may be others in other messages.

    Raises:
        ValueError: a value is not found in it.
    """

    def __init__(
        self, sample: Sample, tail: bytes, types: dict[Path, Node], varying: set[int]
    ) -> None:
        whole = b"{%b}" % tail
        scanned = Scanned(whole, np.array([0]), np.array([len(whole)])).scan_by(JSON)
        if scanned.counts[0] < 0:
            raise ValueError("it is not read in bulk")
        spans = Place(scanned, 0).spans()
        text, self._cuts, at = bytearray(), [0], 1
        self._values: list[tuple[int, bool, Convert]] = []
        for path, (start, stop) in zip(JSON.paths(whole), spans, strict=True):
            slot = sample.slots.get(path)
            if slot is None:
                raise ValueError("a value stands elsewhere")
            if slot in varying:
                self._values.append((slot, *json_of(types[path])))
                text += whole[at:start]
                self._cuts.append(len(text))
                at = stop
        text += whole[at:-1]
        self._cuts.append(len(text))
        self._text = bytes(text)

    def __call__(self, block: Block, places: Places) -> Extra:
        """What is carried on of some messages."""
        arena = block.arena
        made = [
            Value(convert(arena, values(block, places, slot)), quoted)
            for slot, quoted, convert in self._values
        ]
        found = between(arena, len(places), self._text, self._cuts, made)
        tail = Value(found, False)
        return Extra("debezium", (EXTRA, tail, b"}}"), {"tail": tail})
