"""Where the values of GoldenGate's operations stand, for reading and writing in bulk.

Rows are read and written so; `envelope`, `notation` and `encoder` say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.bulk import kernels
from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    ANY,
    BLANK,
    ColumnReader,
    Convert,
    T,
    at_most,
    by_call,
    number_in,
    or_else,
    wall_clocks_of,
    written,
)
from waybill.bulk.field_map import ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.rows import Extra, Rows
from waybill.bulk.templates import BulkWriter, Flagged, Get, TemplateFields
from waybill.bulk.value_kinds import ESCAPED
from waybill.bulk.values import carried, column, field_of, key_array, names, nulls
from waybill.caches import Bounded
from waybill.envelopes.memory.bulk import RememberingReader
from waybill.envelopes.ogg.encoder import TYPES
from waybill.envelopes.ogg.values import POSITION_DIGITS, STYLE, read_style, text_of
from waybill.envelopes.sequence.bulk import BulkSequence
from waybill.sequence_layout import OWN
from waybill.values.bulk_json_columns import writer_of
from waybill.values.json_columns import loses_types
from waybill.values.temporal import is_utc, zone_named

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Mask, Places, Texts
    from waybill.bulk.block import Block, Path
    from waybill.envelopes.ogg.decoder import OggDecoder
    from waybill.envelopes.ogg.encoder import OggEncoder
    from waybill.envelopes.ogg.values import Clock
    from waybill.records import Change, TableSchema

_FAMILY = "ogg"
_MICROS = 6
"""Digits of a second in the canonical time."""
_WIDEST = 2**62
"""More microseconds than any time has."""
_SHORT_POSITION = ColumnReader(ANY, at_most(100))
"""Positions of more digits are not looked at."""
_TEXTS = frozenset({"op_ts", "current_ts", "pos"})
"""Fields that are carried on and are texts."""
_OPERATIONS = frozenset({"insert", "update", "delete"})
_NAMES = frozenset({"table", "op_type", "primary_keys"})
"""What is the same for all rows of a table and an operation."""
_fields = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


# Reading


class OggReader(RememberingReader):
    """Says what the values of operations with a row mean."""

    names = (("table",),)

    def __init__(self, decoder: OggDecoder) -> None:
        super().__init__(decoder)
        self._style = read_style(decoder.settings)
        self._micros = _micros(decoder.clock, decoder.settings.timezone)

    def meaning(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of an operation with a row."""
        schema, slots = change.schema, sample.slots
        if change.operation not in _OPERATIONS or slots.get(("table",)) != 0:
            return None
        before = after = None
        if change.before is not None:
            before = self.row(sample, "before", schema, self._style)
        if change.after is not None:
            after = self.row(sample, "after", schema, self._style)
        if (before is None) is not (change.before is None):
            return None
        if (after is None) is not (change.after is None):
            return None
        present = {
            "op_ts": change.source_time is not None,
            "pos": change.sequence is not None,
            "current_ts": True,
        }
        extra: dict[str, int | bytes] = {}
        for name, raw in _fields(change.extra or b'{"ogg":{}}')[_FAMILY].items():
            slot = slots.get((name,))
            free = slot is not None and present.get(name) and sample.kinds[slot] <= ESCAPED
            extra[name] = bytes(raw) if slot is None or not free else slot
        return FieldMap(
            schema,
            change.operation,
            before,
            after,
            (
                IntegerSlot(slots["pos",], convert=number_in(b"", b"\0", 0)),
                IntegerSlot(slots["pos",], convert=_own),
            )
            if present["pos"]
            else None,
            IntegerSlot(slots["op_ts",], 1, -_WIDEST, _WIDEST, self._micros)
            if present["op_ts"]
            else None,
            family=_FAMILY if extra else "",
            extra=extra,
            carry=None if extra else _nothing,
            aside=(ColumnSlot(slots["pos",], _SHORT_POSITION),) if present["pos"] else (),
        )


def _nothing(_: Block, __: Places) -> Extra:
    """What is carried on where the source stated nothing that could be."""
    return Extra(_FAMILY, (b'{"ogg":{}}',), {})


def _own(arena: Arena, texts: Texts) -> Texts:
    """What stands behind the number of a position."""
    return arena.constant(b"%d" % OWN[0], len(texts.starts))


def _micros(clock: Clock, zone: str) -> Convert:
    """Times as microseconds since 1970."""
    each = by_call(lambda text: str(clock.micros(text)))
    if not is_utc(zone_named(zone)):
        return each
    return or_else(_units_from(BLANK), or_else(_units_from(T), each))


def _units_from(between: int) -> Convert:
    """Wall clocks with a sign between date and time of day as microseconds since 1970."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        lengths = texts.lengths.copy()
        found = np.zeros_like(texts.starts)
        kernels.wall_clock_units(arena.data, texts.starts, lengths, between, _MICROS, -1, found)
        return written(arena, found, lengths)

    return convert


# Writing


class _TableWriter:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema) -> None:
        self.writers = tuple(writer_of(column.type, STYLE) for column in schema.columns)
        self.loses_types = loses_types(schema, STYLE)


class OggWriter(BulkWriter):
    """Says where the values of operations with a row come from."""

    family = _FAMILY
    names_tables = True

    def __init__(self, encoder: OggEncoder) -> None:
        self._ids = BulkSequence(encoder.packed)
        self._tables: Bounded[TableSchema, _TableWriter] = Bounded()
        self._flagged = Flagged()

    def _table(self, schema: TableSchema) -> _TableWriter:
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = _TableWriter(schema)
        return table

    def classes(self, rows: Rows) -> Places | None:
        """Rows by what the losses depend on."""
        image = rows.before if rows.operation == "delete" else rows.after
        if image is None or rows.operation not in TYPES:
            return np.full(len(rows), -1, np.int64)
        flags: list[Mask] = []
        if not self._table(rows.schema).loses_types:
            before = rows.before if rows.operation == "update" else None
            flags.append(nulls(image, len(rows), before))
        flags += self._ids.last_parts(rows)
        classes = self._flagged.numbers(flags) if flags else np.zeros(len(rows), np.int64)
        if not rows.full_row and not carried(rows, _FAMILY):
            classes[self._ids.alone(rows)] = -1
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        if rows.moved_from is not None or rows.operation not in TYPES:
            return None
        writers = self._table(rows.schema).writers
        gone = rows.operation == "delete"
        found = {} if rows.tables is None else dict(_TABLE_NAME)
        constant = set(_NAMES)
        if rows.extra is not None and carried(rows, _FAMILY):
            for name, value in rows.extra.fields.items():
                if isinstance(value, Value):
                    found[name,] = field_of(name)
                else:
                    constant.add(name)
        else:
            found["op_ts",], found["pos",] = _op_ts, self._ids.padded(POSITION_DIGITS)
        both = rows.operation == "update"
        for image, is_after in ((rows.before, False), (rows.after, True)):
            if image is None or not (both or is_after is not gone):
                continue
            for i, (name, texts) in enumerate(zip(rows.schema.names, image, strict=True)):
                column_writer = writers[i]
                if texts is None:
                    continue
                if column_writer is None:
                    return None
                found["after" if is_after else "before", name] = column(is_after, i, column_writer)
        return [TemplateFields(found, lambda path: path[0] in constant, key_array(rows))]


_TABLE_NAME: dict[Path, Get] = {
    ("table",): names(lambda schema: text_of(schema.database, schema.schema, schema.table))
}


def _op_ts(rows: Rows) -> Value:
    """The source's times, as `op_ts_of` writes them."""
    if rows.source_time is None:
        raise KeyError("the rows have no time")
    return Value(wall_clocks_of(rows.arena, rows.source_time, _MICROS, BLANK), True)
