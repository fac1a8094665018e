"""Where the values of IBM CDC's messages stand, for reading in bulk.

Rows, deletes of keys and audit topics with both rows in one record are read so; `decoder` says what
they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.avro.columns import kinds_of, reader_of
from waybill.avro.reading import Leaf
from waybill.avro.scanner import AvroScanner
from waybill.avro.schema import without_null
from waybill.bulk.column_codecs import (
    BLANK,
    T,
    or_else,
    same,
    wall_clock,
    wall_clock_to_units,
)
from waybill.bulk.constant_bytes import values
from waybill.bulk.field_map import BulkReader, ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.value_kinds import OPTIONAL, STRING
from waybill.caches import Bounded
from waybill.envelopes.ibmcdc.decoder import micros_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from waybill.avro.schema import Field, Node
    from waybill.bulk.arena import Arena, Mask, Texts
    from waybill.bulk.block import Block
    from waybill.bulk.column_codecs import ColumnReader
    from waybill.bulk.rows import Columns, Rows
    from waybill.envelopes.ibmcdc.decoder import IbmCdcDecoder
    from waybill.envelopes.ibmcdc.tables import ReadKey, ReadTable
    from waybill.records import Change

_carried = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


class IbmCdcReader(BulkReader):
    """Says what the values of rows, keys and audit records mean."""

    reads_keys = True
    keys_alone = True

    def __init__(self, decoder: IbmCdcDecoder) -> None:
        self._decoder = decoder
        self._readers: Bounded[ReadTable | ReadKey, tuple[ColumnReader | None, ...]] = Bounded()
        self.scanner = self.key_scanner = AvroScanner(self._schema)

    def _schema(self, schema_id: int) -> Node | None:
        known = self._decoder.schemas.of_id(schema_id)
        return None if known is None else known.node

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a record, or of the key of a row that is gone."""
        message = sample.message
        if message.headers is not None:
            return None
        if message.value is None:
            return self._deleted(sample, change)
        table, _ = self._decoder.table_of(message, message.value, message.key)
        if table.schema is not change.schema:
            return None
        row = self._cells(sample, table, table.places)
        if row is None:
            return None
        if not table.audit:
            check = self._check(sample, table, table.places)
            return FieldMap(change.schema, change.operation, after=row, check=check)
        return self._audited(sample, change, table, row)

    def _check(
        self, sample: Sample, table: ReadTable, places: Sequence[int | None]
    ) -> _Check | None:
        """What finds rows under the key of another one; they are looked at individually.

        Args:
            sample: the first message.
            table: its table.
            places: places in the record of the columns of the row that the key is of.
        """
        key = sample.message.key
        if not table.by_message_key or key is None:
            return None
        _, key_values, _ = self._decoder.key_of(key, sample.message)
        slots = {path: slot for slot, path in enumerate(self.key_scanner.paths(key))}
        fields = zip(key_values.node.fields, key_values.schema.columns, strict=True)
        pairs = []
        for column, (field, own) in zip(table.schema.key_places, fields, strict=True):
            place = places[column]
            if place is not None and own.type == table.schema.columns[column].type:
                pairs.append((sample.slots[table.node.fields[place].name,], slots[field.name,]))
        return _Check(tuple(pairs))

    def _deleted(self, sample: Sample, change: Change) -> FieldMap | None:
        message = sample.message
        if message.key is None:
            return None
        _, table, _ = self._decoder.key_of(message.key, message)
        row = self._cells(sample, table, range(len(table.node.fields)))
        if row is None or table.schema is not change.schema:
            return None
        return FieldMap(change.schema, change.operation, before=row)

    def _cells(
        self, sample: Sample, table: ReadTable | ReadKey, places: Iterable[int | None]
    ) -> tuple[ColumnSlot | None, ...] | None:
        """The columns at some places of a record; None if one of them cannot be read in bulk."""
        readers = self._readers.get(table)
        if readers is None:
            readers = self._readers[table] = tuple(
                None if leaf is None else reader_of(field.node, leaf)
                for field, leaf in zip(table.node.fields, table.leaves, strict=True)
            )
        cells: list[ColumnSlot | None] = []
        for place in places:
            if place is None:
                cells.append(None)
                continue
            slot, take = sample.slots.get((table.node.fields[place].name,)), readers[place]
            if slot is None or take is None:
                return None
            cells.append(ColumnSlot(slot, take))
        return tuple(cells)

    def _audited(
        self,
        sample: Sample,
        change: Change,
        table: ReadTable,
        row: tuple[ColumnSlot | None, ...],
    ) -> FieldMap | None:
        """The meaning of the values of a record with audit columns."""
        old = self._cells(sample, table, table.olds)
        if old is None:
            return None
        before: tuple[ColumnSlot | None, ...] | None = None if change.before is None else old
        after: tuple[ColumnSlot | None, ...] | None = row
        check = self._check(sample, table, table.places)
        if change.operation == "delete":
            has_old = table.has_before and any(_is_stated(sample, cell) for cell in old)
            if has_old and any(_is_stated(sample, cell) for cell in row):
                return None  # the two rows have to be held against each other
            before, after = old if has_old else row, None
            check = self._check(sample, table, table.olds if has_old else table.places)
        audits = {
            name: table.node.fields[place]
            for name, place in zip(table.audit, table.audits, strict=True)
        }
        time, free = _time(sample, audits)
        if (time is None) != (change.source_time is None):
            return None
        transaction = None
        if change.transaction is not None:
            transaction = _transaction(sample, audits["CCID"])
            if transaction is None:
                return None
        carried = _carried(change.extra or b'{"ibmcdc":{}}')["ibmcdc"]
        return FieldMap(
            change.schema,
            change.operation,
            before,
            after,
            source_time=time,
            transaction=transaction,
            family="ibmcdc" if carried else "",
            extra={name: bytes(raw) for name, raw in carried.items()},
            check=replace(check or _Check(), row_before=True) if before is old else check,
            free=free,
        )


def _is_stated(sample: Sample, cell: ColumnSlot | None) -> bool:
    return cell is not None and sample.kinds[cell.slot] > OPTIONAL


@dataclass(frozen=True)
class _Check:
    """Finds rows that are read individually; it is equal for messages of one shape.

    Attributes:
        pairs: numbers of the values of key columns, in the row and in the message key.
        row_before: whether there is a row before.
    """

    pairs: tuple[tuple[int, int], ...] = ()
    row_before: bool = False

    def __call__(self, rows: Rows) -> Mask:
        found = np.zeros(len(rows), np.bool_)
        if self.row_before:
            found |= _holds_no_value(rows)
        block: Block = rows.block  # type: ignore[assignment]
        for slot, key_slot in self.pairs:
            if block.keys is not None:
                texts = values(block.keys, rows.places, key_slot)
                found |= ~same(rows.arena, values(block, rows.places, slot), texts)
        return found


def _holds_no_value(rows: Rows) -> Mask:
    """Finds rows whose columns before are all null: the row before is another one then."""
    old: Columns = rows.before or ()
    null = np.ones(len(rows), np.bool_)
    for texts in old:
        if texts is not None:
            null &= texts.lengths < 0
    return null


def _time(sample: Sample, audits: dict[str, Field]) -> tuple[IntegerSlot | None, dict[int, int]]:
    """The time of a record, and the time that is not looked at beside it."""
    found = {name: _text(sample, audits.get(name)) for name in ("UTC_TIMESTMP", "TIMSTAMP")}
    slot, other = found["UTC_TIMESTMP"], found["TIMSTAMP"]
    free: dict[int, int] = {}
    if slot is None:
        slot = other
    elif other is not None:
        free[other] = kinds_of(audits["TIMSTAMP"].node) or 0
    if slot is None or _micros(sample.text(slot)) is None:
        return None, {}
    return IntegerSlot(slot, convert=_to_micros), free


def _text(sample: Sample, field: Field | None) -> int | None:
    """The place of a text that is not empty."""
    slot = None if field is None else sample.slots.get((field.name,))
    if slot is None or sample.kinds[slot] not in (STRING, STRING + OPTIONAL):
        return None
    return slot if sample.text(slot) else None


def _micros(text: bytes) -> bytes | None:
    if not text:
        return None
    found = micros_of(text.decode())
    return None if found is None else b"%d" % found


def _each_micros(arena: Arena, texts: Texts) -> Texts:
    return arena.each(texts, _micros)


def _by_clock(arena: Arena, texts: Texts) -> Texts:
    return _clock_to_micros(arena, _blank_to_t(arena, texts))


_blank_to_t, _clock_to_micros = wall_clock(BLANK, T), wall_clock_to_units(6)
_to_micros = or_else(_by_clock, _each_micros)


def _transaction(sample: Sample, field: Field) -> ColumnSlot | None:
    """The id of the transaction as text."""
    slot, kind = sample.slots.get((field.name,)), without_null(field.node).kind
    if slot is None or kind not in ("string", "int", "long"):
        return None
    take = reader_of(field.node, Leaf(integer=kind != "string"))
    return None if take is None else ColumnSlot(slot, take)
