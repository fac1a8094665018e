"""Where the values of Databus's events stand, for reading in bulk.

Messages of one event of a row are read so, if its schema is known before and no header says more;
`decoder` says what they mean.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from waybill.avro.columns import reader_of
from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    BLANK,
    ColumnReader,
    T,
    or_else,
    wall_clock,
)
from waybill.bulk.constant_bytes import values
from waybill.bulk.field_map import BulkReader, ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.rows import Extra
from waybill.caches import Bounded
from waybill.envelopes.databus.bulk.scanning import number_of, version_number
from waybill.envelopes.databus.decoder import written_key
from waybill.envelopes.databus.kernels.binary_scanning import ANY_TIME, FINE, WHOLE_MICROS
from waybill.errors import Refusal

if TYPE_CHECKING:
    from waybill.avro.schema import Node
    from waybill.bulk.arena import Arena, Places, Texts
    from waybill.bulk.block import Block
    from waybill.bulk.column_codecs import Convert
    from waybill.envelopes.databus.bulk.scanning import EventScanner, Head
    from waybill.envelopes.databus.decoder import EventDecoder
    from waybill.envelopes.databus.rows import RowPlan
    from waybill.envelopes.databus.schemas import Registered
    from waybill.records import Change

_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
_carried = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode
_json = msgspec.json.Encoder().encode


class DatabusReader(BulkReader):
    """Says what the values of events mean.

    Args:
        decoder: reads one message exactly.
        scanner: finds the values of messages.
    """

    def __init__(self, decoder: EventDecoder, scanner: type[EventScanner]) -> None:
        self._decoder = decoder
        self._readers: Bounded[RowPlan, tuple[ColumnReader | None, ...]] = Bounded()
        versions = decoder.settings.schema_ids == "version"
        self._known = _numbered(decoder, versions)
        self._scanner = self.scanner = scanner(self._schema, versions)

    def _schema(self, number: int) -> Node | None:
        registered = self._known.get(number)
        try:
            return None if registered is None else self._decoder.known_plan(registered).node
        except Refusal:
            return None

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of an event."""
        registered = self._known.get(self._scanner.number(sample.value))
        if sample.message.headers or registered is None:
            return None
        plan = self._decoder.known_plan(registered)
        row = self._row(sample, plan)
        if row is None or plan.schema is not change.schema:
            return None
        head = self._scanner.head(sample.value)
        delete = change.operation == "delete"
        before, after = (row, None) if delete else (None, row)
        carried = None if change.extra is None else _Carried(change.extra, head)
        free = [*head.free, head.physical, head.logical, head.key]
        time = None
        if change.source_time is not None:
            free.append(head.nanos)
            wanted = ANY_TIME if carried is None else carried.time
            time = IntegerSlot(head.nanos, convert=head.micros(wanted))
        transaction = None
        if change.transaction is not None:
            transaction = ColumnSlot(head.sequence, ColumnReader(head.kinds, head.digits))
        return FieldMap(
            change.schema,
            change.operation,
            before,
            after,
            sequence=(IntegerSlot(head.sequence, convert=head.digits),),
            source_time=time,
            transaction=transaction,
            carry=carried,
            free=dict.fromkeys(free, head.kinds),
        )

    def _row(self, sample: Sample, plan: RowPlan) -> tuple[ColumnSlot | None, ...] | None:
        """The columns of a row; None if one of them cannot be read in bulk."""
        readers = self._readers.get(plan)
        if readers is None:
            readers = self._readers[plan] = tuple(
                reader_of(field.node, leaf)
                for field, leaf in zip(plan.node.fields, plan.leaves, strict=True)
            )
        cells: list[ColumnSlot | None] = [None] * len(plan.schema.columns)
        for field, take, at in zip(plan.node.fields, readers, plan.places, strict=True):
            slot = sample.slots.get((field.name,))
            if slot is None or take is None:
                return None
            cells[at] = ColumnSlot(slot, take)
        return tuple(cells)


def _numbered(decoder: EventDecoder, versions: bool) -> dict[int, Registered]:
    """The schemas that events may name, by the numbers of the scanner."""
    book = decoder.book
    if versions:
        return {version_number(*entry): one for entry, one in book.by_version.items()}
    # Two schemas with the same number are none: messages of the other would be read by this one.
    found: dict[int, Registered] = {}
    several = set()
    for digest, one in book.by_id.items():
        number = number_of(digest)
        if found.setdefault(number, one) is not one:
            several.add(number)
    return {number: one for number, one in found.items() if number not in several}


def wall_clocks() -> Convert:
    """A converter of wall clocks with a T, as they are, and with a blank."""
    return or_else(wall_clock(T, T), wall_clock(BLANK, T))


class _Carried:
    """What an event carries on: the partitions, the key and fine times, and what messages share.

    Args:
        extra: what one of them carries on.
        head: where its values stand.

    Attributes:
        time: what their times are.
    """

    def __init__(self, extra: bytes, head: Head) -> None:
        self._head = head
        self._fields = {name: bytes(raw) for name, raw in _carried(extra)["databus"].items()}
        self.time = FINE if "nanos" in self._fields else WHOLE_MICROS

    def __call__(self, block: Block, places: Places) -> Extra:
        """What is carried on of some messages."""
        head = self._head
        of = partial(_value_of, block, places)
        fields: dict[str, Value | bytes] = {**self._fields}
        fields["physical"] = fields["logical"] = of(head.physical, head.digits)
        if head.logical != head.physical:
            fields["logical"] = of(head.logical, head.digits)
        fields["key"] = of(head.key, _key_json if head.byte_key else head.digits, not head.byte_key)
        if self.time == FINE:
            fields["nanos"] = of(head.nanos, head.digits)
        return Extra.of("databus", fields)


def _value_of(
    block: Block, places: Places, slot: int, convert: Convert | None, quoted: bool = False
) -> Value:
    texts = values(block, places, slot)
    return Value(texts if convert is None else convert(block.arena, texts), quoted)


def _key_json(arena: Arena, texts: Texts) -> Texts:
    return arena.each(texts, lambda data: _json(written_key(data)))
