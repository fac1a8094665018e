"""Where the values of TUPLE records stand, for reading and writing in bulk.

Both notations are read and written so; `tuple_decoder` and `tuples` say what the records mean.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET

from waybill.bulk.column_codecs import (
    ANY,
    NOTHING,
    NUMERIC,
    TEXT,
    WORD,
    WRITE_TEXT,
    ColumnReader,
    ColumnWriter,
    by_call,
)
from waybill.bulk.field_map import FieldMap, IntegerSlot, Sample
from waybill.bulk.rows import Extra, Rows
from waybill.bulk.templates import BulkWriter, Flagged, Get, TemplateFields
from waybill.bulk.value_kinds import ESCAPED, FALSE, INTEGER, NULL, NULL_SIZE, NUMBER, POWER, TRUE
from waybill.bulk.values import column, times
from waybill.caches import Bounded
from waybill.envelopes.datahub.blob.bulk import (
    are_inserts,
    key_values,
    moved_rows,
    rows_came_without,
)
from waybill.envelopes.datahub.tuple.decoder import time_kind_of
from waybill.envelopes.datahub.tuple.rows import MEMBERS
from waybill.envelopes.datahub.tuple.topics import OPERATION, SEQUENCE, TABLE, TIMES
from waybill.envelopes.datahub.tuple.values import notation_of
from waybill.envelopes.memory.bulk import RememberingReader, row_of
from waybill.envelopes.sequence.bulk import BulkWrittenSequence
from waybill.errors import Refusal
from waybill.records import ROW_OPERATIONS
from waybill.types import LAST_MICRO
from waybill.values.column_forms import with_form
from waybill.values.instants import LAST_MS, Zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Block, Path
    from waybill.envelopes.datahub.tuple.decoder import TupleDecoder
    from waybill.envelopes.datahub.tuple.encoder import TupleEncoder
    from waybill.envelopes.datahub.tuple.encoder import WrittenTable as Table
    from waybill.envelopes.datahub.tuple.topics import Field
    from waybill.envelopes.memory.bulk import Slots
    from waybill.records import Change, Column, TableSchema

FAMILY = "datahub"
_carried = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


# Reading


class TupleReader(RememberingReader):
    """Says what the values of records mean."""

    def __init__(self, decoder: TupleDecoder) -> None:
        super().__init__(decoder)
        self._decoder = decoder
        self._has_schemas = decoder.settings.schemas is not None
        self._readers: Bounded[Column, ColumnReader] = Bounded()

    def learner(self) -> TupleReader | None:
        """What reads records to learn from, where earlier ones tell the columns of a table."""
        return None if self._has_schemas else self

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a record, as long as its table is known so."""
        if self._has_schemas:
            return self.meaning(sample, change)
        return super().reading(sample, change)

    def meaning(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a record."""
        fields = self._decoder.topics.find(sample.message.topic)
        slots = _slots(sample, fields)
        if change.operation not in ROW_OPERATIONS or slots is None:
            return None
        if self._has_schemas is (fields is None):
            return None
        named = slots.get(TABLE)
        image = change.before if change.after is None else change.after
        columns = {
            name: slot
            for name, slot in slots.items()
            if name not in MEMBERS and getattr(image, _member(change.schema, name)) is not UNSET
        }
        cells = self.cells(sample, change.schema, columns, self._take)
        if cells is None:
            return None
        unnamed = named is None or sample.kinds[named] > ESCAPED or not sample.text(named)
        by_topic = unnamed or not self._decoder.topics.uniform
        kind = time_kind_of(fields)
        time = next((slots[name] for name in TIMES if name in slots), None)
        source_time = None
        if change.source_time is not None and time is not None:
            micros = kind == "TIMESTAMP"
            factor, last = (1, LAST_MICRO) if micros else (1000, LAST_MS)
            source_time = IntegerSlot(time, factor, 0, last)
        free = {}
        if fields is not None and OPERATION not in {path[0] for path in sample.slots}:
            outside = ("Data", "Attributes")
            free = {slot: ANY for path, slot in sample.slots.items() if path[0] not in outside}
        row = row_of(cells, change.schema)
        return FieldMap(
            change.schema,
            change.operation,
            row if change.after is None else None,
            None if change.after is None else row,
            sequence=None if change.sequence is None else (IntegerSlot(slots[SEQUENCE]),),
            source_time=source_time,
            carry=None if change.extra is None else _carry(change.extra),
            check=_other_topic(sample.message.topic) if by_topic else None,
            free=free,
            rank=change.rank,
            full_row=change.full_row,
            half=change.half,
        )

    def _take(self, column: Column, declared: bool, kind: int) -> ColumnReader | None:
        """How a column is read; of one that nobody declared JSON tells the type."""
        take = self._readers.get(column)
        if take is None:
            take = self._readers[column] = _reader_of(column, self._decoder.zone)
        if self._has_schemas or declared:
            return take
        return take._replace(kinds=take.kinds & (_SAME_KIND[kind] | NOTHING))


@lru_cache(maxsize=1000)
def _other_topic(topic: str) -> Callable[[Rows], Mask]:
    return lambda rows: rows.of_other_topics(topic)


_SAME_KIND = {NULL: 0, POWER: 0, INTEGER: NUMERIC, NUMBER: NUMERIC, TRUE: WORD, FALSE: WORD}
_SAME_KIND |= dict.fromkeys(range(1, ESCAPED + 1), TEXT)


def _member(schema: TableSchema, name: str) -> str:
    return f"f{schema.index[name]}" if name in schema.index else "__class__"


def _slots(sample: Sample, fields: tuple[Field, ...] | None) -> Slots | None:
    """The places of columns and metadata columns; None where a record is of no known form."""
    if any(path[0] == OPERATION for path in sample.slots):
        found = {str(path[0]): slot for path, slot in sample.slots.items() if len(path) == 1}
        return found if len(found) == len(sample.slots) else None
    if fields is None:
        return None
    data = {path[1]: slot for path, slot in sample.slots.items() if path[0] == "Data"}
    if len(data) != len(fields) or set(data) != set(range(len(fields))):
        return None
    return {field.name: data[place] for place, field in enumerate(fields)}


@lru_cache(maxsize=1000)
def _carry(extra: bytes) -> Callable[[Block, Places], Extra]:
    """What is carried on, which is the same for all."""
    fields = {name: bytes(raw) for name, raw in _carried(extra)[FAMILY].items()}
    held = Extra(FAMILY, (extra,), dict(fields))
    return lambda _block, _places: held


def _reader_of(column: Column, zone: Zone) -> ColumnReader:
    """How the values of a column are read: of all but STRING numbers and words mean their texts."""
    kind = column.source_type
    if kind is None:
        return ColumnReader(NOTHING)
    notation = notation_of(column, kind, zone)
    kinds = TEXT | NOTHING if kind == "STRING" else ANY
    if notation.read is None:
        return ColumnReader(kinds)
    return ColumnReader(kinds, with_form(notation.reads, by_call(notation.read)))


# Writing


def _writer_of(column: Column, kind: str, zone: Zone) -> ColumnWriter:
    """How the values of a column are written, which are texts all."""
    notation = notation_of(column, kind, zone)
    if notation.write is None:
        return WRITE_TEXT
    return ColumnWriter(True, with_form(notation.writes, by_call(notation.write)))


class TupleWriter(BulkWriter):
    """Says where the values of records come from."""

    family = FAMILY

    def __init__(self, encoder: TupleEncoder) -> None:
        self._encoder = encoder
        self._zone = Zone(encoder.settings.timezone)
        self._writers: Bounded[TableSchema, tuple[ColumnWriter, ...]] = Bounded()
        self._ids = BulkWrittenSequence(encoder.ids)
        self._flagged = Flagged()

    def classes(self, rows: Rows) -> Places | None:
        """Rows by whether they changed their key, and by what is given up."""
        try:
            table = self._encoder.table(rows.schema)
        except Refusal:
            return np.full(len(rows), -1, np.int64)
        flags = [np.zeros(len(rows), np.bool_)]
        if rows.source_time is not None:
            beyond = (rows.source_time < 0) | (rows.source_time > LAST_MICRO)
            flags += [beyond, ~beyond & (rows.source_time % 1000 != 0)]
        moved = moved_rows(rows)
        if moved is not None:
            flags.append(moved)
        if not table.lossy and not table.typed:
            flags.append(_null_rows(rows))
        if rows.sequence is None:
            flags.append(rows_came_without(rows))
        flags += self._ids.last_parts(rows)
        classes = self._flagged.numbers(flags)
        if not (are_inserts(rows) and rows.full_row):
            classes[self._ids.alone(rows)] = -1
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the record of a row, or of both records of an update."""
        if rows.moved_from is not None or rows.operation not in ROW_OPERATIONS:
            return None
        table = self._encoder.table(rows.schema)
        if rows.operation == "delete" or rows.after is None:
            return [self._message_fields(rows, table, False, False)]
        if are_inserts(rows) or rows.before is None:
            return [self._message_fields(rows, table, True, True)]
        moved = moved_rows(rows)
        old_key = moved is not None and bool(moved[0])
        return [
            self._message_fields(rows, table, False, not old_key),
            self._message_fields(rows, table, True, True),
        ]

    def _message_fields(self, rows: Rows, table: Table, after: bool, key: bool) -> TemplateFields:
        """The values of one record.

        Args:
            rows: the changes.
            table: what writes one record.
            after: whether it holds the row after.
            key: whether its key is that of the row after.
        """
        values: dict[Path, Get] = {}
        same_for_all: set[Path] = set()
        micros = table.micros
        for place, name in enumerate(table.names):
            path: Path = ("Data", place) if table.in_order else (name,)
            get = None
            if name == SEQUENCE:
                if not (are_inserts(rows) and rows.full_row):
                    get = self._ids.get(True)
            elif name in TIMES:
                if rows.source_time is not None and 0 <= int(rows.source_time[0]) <= LAST_MICRO:
                    get = _micros if micros else _millis
            elif name not in MEMBERS:
                get = self._column(rows, table, name, after)
            if get is None:
                same_for_all.add(path)
            else:
                values[path] = get

        def constant(path: Path) -> bool:
            return path in same_for_all or (table.in_order and path[0] == "Attributes")

        return TemplateFields(values, constant, key_values(rows, key))

    def _column(self, rows: Rows, table: Table, name: str, after: bool) -> Get | None:
        """Where the values of a column come from; None where there are none."""
        schema = rows.schema
        place = schema.index.get(name)
        if place is None:
            return None
        writers = self._writers.get(schema)
        if writers is None:
            writers = self._writers[schema] = tuple(
                _writer_of(column, table.kinds[column.name], self._zone)
                for column in schema.columns
            )
        image = rows.after if after else rows.before
        if image is not None and image[place] is not None:
            return column(after, place, writers[place])
        if after and table.in_order and rows.before and rows.before[place] is not None:
            # Records that hold all columns take from the row before what was not sent.
            return column(False, place, writers[place])
        return None


def _null_rows(rows: Rows) -> Mask:
    found = np.zeros(len(rows), np.bool_)
    for image in (rows.before, rows.after):
        for texts in image or ():
            if texts is not None:
                found |= texts.lengths == NULL_SIZE
    return found


_millis: Any = times(1000, quoted=True)
_micros: Any = times(1, quoted=True)
