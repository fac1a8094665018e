"""Where the values of Maxwell's messages stand, for reading and writing in bulk.

Rows are read and written so; `messages`, `positions` and `encoder` say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    ANY,
    TEXT,
    ColumnReader,
    Convert,
    at_most,
    joined_texts,
    number_in,
    numbers,
    whole,
    written,
)
from waybill.bulk.field_map import ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.rows import Extra, Rows
from waybill.bulk.templates import BulkWriter, Flagged, Get, TemplateFields
from waybill.bulk.value_kinds import ESCAPED, INTEGER, PLAIN, TRUE
from waybill.bulk.values import carried, changed_columns, column, field_of, names, nulls
from waybill.caches import Bounded
from waybill.envelopes.maxwell.encoder import TYPES
from waybill.envelopes.maxwell.messages import CARRIED, ROWS
from waybill.envelopes.maxwell.positions import LAST, MADE, is_made
from waybill.envelopes.memory.bulk import RememberingReader
from waybill.envelopes.stated_keys import is_compared
from waybill.types import FIRST_SECOND, LAST_SECOND
from waybill.values.bulk_json_columns import writer_of
from waybill.values.json_columns import loses_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.bulk.arena import Arena, Mask, Places, Texts
    from waybill.bulk.block import Block, Path
    from waybill.envelopes.maxwell.decoder import MaxwellDecoder
    from waybill.envelopes.maxwell.encoder import MaxwellEncoder
    from waybill.records import Change, TableSchema
    from waybill.values.json_columns import Style

_FAMILY = "maxwell"
_LARGEST = 2**63 - 1
_LONGEST_POSITION = 1000
_LONGEST_NUMBER = 18
_LONGEST_KEY = 300
"""Digits of a number of `primary_key`, which nobody looks at, but which has to be a number."""
_OPERATIONS = frozenset(ROWS.values())
_NAMES = frozenset({"database", "table", "type", "primary_key_columns"})
"""What is the same for all rows of a table and an operation."""
_RANGES: dict[str, Convert] = {"xid": whole(0, _LARGEST), "xoffset": whole(0, LAST - 1)}
_fields = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


# Reading


class MaxwellReader(RememberingReader):
    """Says what the values of messages with a row mean."""

    reads_keys = True
    names = (("database",), ("table",))

    def __init__(self, decoder: MaxwellDecoder) -> None:
        super().__init__(decoder)
        self._settings = decoder.settings
        self._style, self._binlog_style = decoder.style, decoder.binlog_style

    def meaning(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message with a row."""
        schema, slots = change.schema, sample.slots
        if change.operation not in _OPERATIONS or self._settings.missing_nulls:
            return None
        if {slots.get(("database",)), slots.get(("table",))} != {0, 1}:
            return None
        style = self._style if change.operation == "read" else self._binlog_style
        row = self.row(sample, "data", schema, style)
        old = self.row(sample, "old", schema, style)
        if row is None or old is None:
            return None
        before: tuple[ColumnSlot | None, ...] | None = None
        after: tuple[ColumnSlot | None, ...] | None = row
        if change.operation == "delete":
            before, after = row, None
        elif change.before is not None:
            before = tuple(was or now for was, now in zip(old, row, strict=True))
        sequence = None if change.sequence is None else _sequence(sample)
        extra: dict[str, int | bytes] = {}
        for name, raw in _fields(change.extra or b'{"maxwell":{}}')[_FAMILY].items():
            free = name != "commit" and (name != "position" or sequence is not None)
            slot = slots.get((name,)) if free and name in CARRIED else None
            extra[name] = bytes(raw) if slot is None else slot
        free_slots = {slot: ANY for path, slot in slots.items() if path[0] == "primary_key"}
        stated_key: tuple[int, ...] = ()
        if free_slots and is_compared(schema):
            # A key that is null, or holds an object, has no values by their places.
            found = [slots.get(("primary_key", i)) for i in range(len(free_slots))]
            stated_key = tuple(slot for slot in found if slot is not None)
            names = [slots.get(("primary_key_columns", i)) for i in range(len(free_slots))]
            texts = [None if slot is None else sample.text(slot).decode() for slot in names]
            if tuple(texts) != schema.key or len(stated_key) < len(found):
                stated_key = ()
        query = slots.get(("query",))
        if query is not None and sample.kinds[query] <= ESCAPED:
            free_slots[query] = TEXT
        return FieldMap(
            schema,
            change.operation,
            before,
            after,
            sequence,
            None
            if change.source_time is None
            else IntegerSlot(slots["ts",], 1_000_000, FIRST_SECOND, LAST_SECOND),
            None if change.transaction is None else slots["xid",],
            family=_FAMILY if extra else "",
            extra=extra,
            carry=None if extra else _nothing,
            stated_key=stated_key,
            free=free_slots,
            full_row=change.full_row,
            aside=tuple(_aside(sample)),
        )


def _nothing(_: Block, __: Places) -> Extra:
    """What is carried on where the source stated nothing that could be."""
    return Extra(_FAMILY, (b'{"maxwell":{}}',), {})


def _sequence(sample: Sample) -> tuple[IntegerSlot, ...] | None:
    """The parts of the sequence id, which `position` tells and what counts the rows inside it."""
    place = sample.slots["position",]
    if sample.kinds[place] != PLAIN:
        return None
    file, _, _ = sample.text(place).decode().rpartition(":")
    if is_made(file):
        opening, marks = MADE, "." * file.count(".") + ":"
    else:
        opening, marks = file.rpartition(".")[0], ".:"
    counts = [
        IntegerSlot(place, convert=number_in(opening.encode(), marks.encode(), which))
        for which in range(len(marks))
    ]
    xoffset, commit = (sample.slots.get((name,)) for name in ("xoffset", "commit"))
    if xoffset is not None and sample.kinds[xoffset] == INTEGER:
        counts.append(IntegerSlot(xoffset, highest=LAST - 1))
    elif commit is not None and sample.kinds[commit] == TRUE:
        counts.append(IntegerSlot(commit, convert=_last))
    return tuple(counts)


def _last(arena: Arena, texts: Texts) -> Texts:
    return arena.constant(b"%d" % LAST, len(texts.starts))


def _aside(sample: Sample) -> Iterator[ColumnSlot]:
    """Values that stay as they are and may be none of their field."""
    for path, slot in sample.slots.items():
        name, longest = path[0], None
        if name == "primary_key":
            longest = _LONGEST_KEY
        elif name == "position":
            longest = _LONGEST_POSITION
        elif name in CARRIED and sample.kinds[slot] > ESCAPED:
            longest = _LONGEST_NUMBER
        if longest is not None:
            yield ColumnSlot(slot, ColumnReader(ANY, at_most(longest)))
        if name in _RANGES and len(path) == 1:
            yield ColumnSlot(slot, ColumnReader(ANY, _RANGES[str(name)]))


# Writing


class _TableWriter:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema, style: Style) -> None:
        self.writers = tuple(writer_of(column.type, style) for column in schema.columns)
        self.loses_types = loses_types(schema, style)


class MaxwellWriter(BulkWriter):
    """Says where the values of messages with a row come from."""

    family = _FAMILY
    names_tables = True

    def __init__(self, encoder: MaxwellEncoder) -> None:
        self._style = encoder.style
        self._tables: Bounded[TableSchema, _TableWriter] = Bounded()
        self._flagged = Flagged()

    def _table(self, schema: TableSchema) -> _TableWriter:
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = _TableWriter(schema, self._style)
        return table

    def classes(self, rows: Rows) -> Places | None:
        """Rows by the columns that changed, and by what the losses depend on."""
        image = rows.before if rows.operation == "delete" else rows.after
        if image is None or None in image or rows.operation not in TYPES:
            return np.full(len(rows), -1, np.int64)
        alone = np.zeros(len(rows), np.bool_)
        flags: list[Mask] = [alone.copy()]
        if rows.source_time is not None:
            flags.append(rows.source_time % 1_000_000 != 0)
            seconds = rows.source_time // 1_000_000
            alone |= (seconds < FIRST_SECOND) | (seconds > LAST_SECOND)
        elif rows.block.timestamps is not None:
            seconds = rows.block.timestamps[rows.places] // 1000
            alone |= (seconds < FIRST_SECOND) | (seconds > LAST_SECOND)
        if rows.transaction is not None:
            found, starts, lengths = numbers(rows.arena, rows.transaction)
            flags.append((lengths >= 0) & (found >= 0))
            # A minus sign and leading zeros: what is a number after all is left to the encoder.
            alone |= (lengths < 0) & _signed(rows.arena, starts, rows.transaction.lengths)
        if not self._table(rows.schema).loses_types:
            flags.append(nulls(image, len(rows)))
        if rows.operation == "update" and rows.before is not None:
            flags += changed_columns(rows.arena, rows.before, image)
        classes = self._flagged.numbers(flags)
        classes[alone] = -1
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        table, schema = self._table(rows.schema), rows.schema
        if rows.moved_from is not None or None in table.writers:
            return None
        writers = [column_writer for column_writer in table.writers if column_writer is not None]
        gone = rows.operation == "delete"
        found: dict[Path, Get] = {("ts",): _ts, ("xid",): _xid}
        constant = set(_NAMES)
        ours = rows.extra is not None and carried(rows, _FAMILY)
        if ours and rows.extra is not None:
            for name, field_value in rows.extra.fields.items():
                if isinstance(field_value, Value):
                    found[name,] = field_of(name)
                else:
                    constant.add(name)
        elif rows.sequence is not None:
            found["position",] = _position
        for i, name in enumerate(schema.names):
            found["data", name] = column(not gone, i, writers[i])
            if rows.operation == "update" and rows.before is not None:
                found["old", name] = column(False, i, writers[i])
        keys = dict(_TABLE_NAMES)
        if rows.tables is not None:
            found |= _TABLE_NAMES
        for i, place in enumerate(schema.key_places if schema.key else ()):
            value = column(not gone, place, writers[place])
            found["primary_key", i] = value
            keys[f"pk.{schema.names[place]}",] = value
        return [TemplateFields(found, lambda path: path[0] in constant, keys)]


def _signed(arena: Arena, starts: Places, lengths: Places) -> Mask:
    """Which texts begin with a minus sign or a zero."""
    first = arena.data[np.minimum(starts, len(arena.data) - 1)]
    found: Mask = (lengths <= 0) | (first == ord("-")) | (first == ord("0"))
    return found


_TABLE_NAMES: dict[Path, Get] = {
    ("database",): names(lambda schema: schema.database or ""),
    ("table",): names(lambda schema: schema.table or ""),
}


def _ts(rows: Rows) -> Value:
    """Seconds of the source, else of the queue, else 0."""
    if rows.source_time is not None:
        seconds = rows.source_time // 1_000_000
    elif rows.block.timestamps is not None:
        seconds = rows.block.timestamps[rows.places] // 1000
    else:
        seconds = np.zeros(len(rows), np.int64)
    return Value(written(rows.arena, seconds), False)


def _xid(rows: Rows) -> Value:
    """Ids of transactions, which are numbers."""
    if rows.transaction is None:
        raise KeyError("the rows have no transaction")
    return Value(rows.transaction, False)


def _position(rows: Rows) -> Value:
    """Sequence ids, as `position_of` writes them."""
    if not rows.sequence:
        raise KeyError("the rows have no sequence")
    arena, count, last = rows.arena, len(rows), len(rows.sequence) - 1
    made = None
    for number, part in enumerate(rows.sequence):
        mark = b":" if number == last else b"."
        opening = arena.constant(MADE.encode() + mark if made is None else mark, count)
        before = opening if made is None else joined_texts(arena, made, opening)
        made = joined_texts(arena, before, written(arena, part))
    if made is None:
        raise KeyError("the rows have no sequence")
    return Value(made, True)
