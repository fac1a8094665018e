"""Where the values of BLOB messages stand, for reading and writing in bulk.

Row messages are read and written so; `decoder` and `blob` say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    NOTHING,
    READ_TEXT,
    TEXT,
    WHOLE,
    WITH_POWERS,
    WORD,
    WRITE_TEXT,
    ColumnReader,
    ColumnWriter,
    by_call,
    raw_by_call,
    same,
)
from waybill.bulk.field_map import BulkReader, ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.templates import BulkWriter, Get, TemplateFields
from waybill.bulk.value_kinds import FALSE, INTEGER, NULL, NUMBER, POWER, TRUE
from waybill.bulk.values import carried, column, own, times
from waybill.caches import Bounded
from waybill.envelopes.datahub.blob.columns import Number
from waybill.envelopes.datahub.blob.encoder import INSERTS
from waybill.envelopes.datahub.blob.values import notation_of, type_for
from waybill.envelopes.sequence.bulk import BulkWrittenSequence
from waybill.envelopes.sequence.written import came_without
from waybill.records import NO_TABLE, ROW_OPERATIONS, Change, Message
from waybill.types import LAST_MICRO
from waybill.values.column_forms import with_form
from waybill.values.declared import check_for
from waybill.values.instants import LAST_MS
from waybill.values.notation import WORDS

if TYPE_CHECKING:
    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Path
    from waybill.bulk.rows import Rows
    from waybill.envelopes.datahub.blob.decoder import BlobDecoder
    from waybill.envelopes.datahub.blob.encoder import BlobEncoder
    from waybill.records import Column, TableSchema
    from waybill.values.instants import Zone

FAMILY = "streamx"

_TIMES = ("systemTime", "checkpointTime")
_SEQUENCE: Path = ("payload", "sequenceId")
_EVENT: Path = ("payload", "timestamp", "eventTime")
_SAME: tuple[Path, ...] = (("payload", "op"),)
_FIELDS: dict[str, Path] = {
    **{name: ("payload", "timestamp", name) for name in _TIMES},
    "version": ("version",),
    "dbType": ("schema", "source", "dbType"),
    "dbVersion": ("schema", "source", "dbVersion"),
}
"""What messages carry on, and where it stands in them."""
_OPENING = 16
"""Bytes of what is carried on that tell its family."""
_CARRIED = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


class ColumnReaders(NamedTuple):
    """How a column is read from each kind of JSON; None where such values are read on their own.

    Attributes:
        text: from a string.
        number: from a number.
        word: from true and false.
    """

    text: ColumnReader | None = None
    number: ColumnReader | None = None
    word: ColumnReader | None = None

    def of(self, kind: int) -> ColumnReader | None:
        """How values of the kind that a sample has are read; null may be any."""
        if kind in (INTEGER, NUMBER, POWER):
            return self.number
        if kind in (TRUE, FALSE):
            return self.word
        if kind == NULL:
            return self.number or self.word or self.text
        return self.text


class BlobReader(BulkReader):
    """Says what the values of BLOB messages mean."""

    def __init__(self, decoder: BlobDecoder) -> None:
        self._zone = decoder.zone
        self._readers: Bounded[TableSchema, tuple[ColumnReaders, ...]] = Bounded()

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message with a row."""
        schema, slots = change.schema, sample.slots
        if change.operation not in ROW_OPERATIONS:
            return None
        readers = self._readers.get(schema)
        if readers is None:
            readers = self._readers[schema] = tuple(
                _column_readers(c, self._zone) for c in schema.columns
            )
        before = after = None
        if change.before is not None:
            before = _cells(sample, "before", readers, schema.names)
        if change.after is not None:
            after = _cells(sample, "after", readers, schema.names)
        if (before is None) is not (change.before is None):
            return None
        if (after is None) is not (change.after is None):
            return None
        source_time = None
        if change.source_time is not None:
            source_time = IntegerSlot(slots[_EVENT], 1000, 0, LAST_MS)
        sequence = None
        if change.sequence is not None:
            sequence = (IntegerSlot(slots[_SEQUENCE]),)
        extra: dict[str, int | bytes] = {}
        for name, raw in _CARRIED(change.extra or b'{"streamx":{}}')[FAMILY].items():
            extra[name] = slots["payload", "timestamp", name] if name in _TIMES else bytes(raw)
        return FieldMap(
            schema,
            change.operation,
            before,
            after,
            sequence,
            source_time,
            family=FAMILY if extra else "",
            extra=extra,
            rank=change.rank,
            full_row=change.full_row,
            half=change.half,
        )


def _cells(
    sample: Sample, image: str, readers: tuple[ColumnReaders, ...], names: tuple[str, ...]
) -> tuple[ColumnSlot | None, ...] | None:
    """The columns of an image; None if a value cannot be read in bulk."""
    fitting: list[ColumnReader | None] = []
    path: Path = ("payload", image, "dataColumn")
    for name, ways in zip(names, readers, strict=True):
        slot = sample.slots.get((*path, name))
        fitting.append(None if slot is None else ways.of(sample.kinds[slot]))
    return sample.cells(path, tuple(fitting), names)


def _column_readers(column: Column, zone: Zone) -> ColumnReaders:
    """How the values of a column are read.

    A JSON number of a LONG or DATE is read as an integer, where `-0` is 0: only other integers are
    taken. The numbers of a DOUBLE are texts.
    """
    kind = column.source_type or "STRING"
    notation = notation_of(column, kind, zone)
    exact, form = notation.read or str, notation.reads
    if kind == "STRING" and check_for(column.type) is None:
        return ColumnReaders(READ_TEXT)
    text = ColumnReader(TEXT | NOTHING, with_form(form, by_call(exact)))
    number = word = None
    if kind not in ("STRING", "BOOLEAN", "BYTES"):
        kinds = WHOLE if kind in ("LONG", "DATE") else WITH_POWERS
        one = by_call(lambda text: exact(Number(text)))
        number = ColumnReader(kinds | NOTHING, with_form(form, one))
    if kind not in ("STRING", "LONG", "DATE", "DOUBLE"):
        natural = form == WORDS
        word = ColumnReader(
            WORD | NOTHING, None if natural else by_call(lambda text: exact(text == "true"))
        )
    return ColumnReaders(text, number, word)


def _column_writer(column: Column, dialect: str, zone: Zone) -> ColumnWriter:
    """How the values of a column are written."""
    kind = type_for(column, dialect)
    notation = notation_of(column, kind, zone)
    if notation.write is None:
        return WRITE_TEXT
    quoted = kind == "BYTES"
    exact = by_call(notation.write) if quoted else raw_by_call(notation.write)
    return ColumnWriter(quoted, with_form(notation.writes, exact))


class BlobWriter(BulkWriter):
    """Says where the values of BLOB messages come from."""

    family = FAMILY

    def __init__(self, encoder: BlobEncoder) -> None:
        self._two, self._zone = encoder.two, encoder.zone
        self._writers: Bounded[TableSchema, tuple[ColumnWriter, ...]] = Bounded()
        self._ids = BulkWrittenSequence(encoder.ids)

    def classes(self, rows: Rows) -> Places | None:
        """Rows by whether they changed their key, and by what is given up."""
        classes = np.zeros(len(rows), np.int64)
        if rows.source_time is not None:
            classes[rows.source_time % 1000 != 0] = 1
        moved = self._moved(rows)
        if moved is not None:
            classes[moved] += 2
        if rows.sequence is None:
            classes[rows_came_without(rows)] += 4
        for bit, flag in enumerate(self._ids.last_parts(rows), 3):
            classes[flag] += 1 << bit
        if not (are_inserts(rows) and rows.full_row):
            classes[self._ids.alone(rows)] = -1
        if rows.source_time is not None:
            # Such a time is written as none.
            classes[(rows.source_time < 0) | (rows.source_time > LAST_MICRO)] = -1
        source = rows.extra.fields.get("dbType") if carried(rows, FAMILY) and rows.extra else None
        if isinstance(source, Value):
            # An empty name is none.
            classes[source.texts.lengths < 1] = -1
        return classes

    def _moved(self, rows: Rows) -> Mask | None:
        return moved_rows(rows) if self._two else None

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the message of a row, or of both messages of an update."""
        if rows.moved_from is not None or rows.operation not in ROW_OPERATIONS:
            return None
        found = self._values(rows)
        if found is None:
            return None
        values, same_for_all = found

        def constant(path: Path) -> bool:
            return path[0] == "schema" or path in same_for_all

        def message_fields(images: tuple[bool, ...], key: bool) -> TemplateFields:
            taken = dict(values)
            for after in images:
                taken.update(self._image(rows, after))
            return TemplateFields(taken, constant, key_values(rows, key))

        if rows.operation == "delete" or rows.after is None:
            return [message_fields((False,), False)]
        if are_inserts(rows) or rows.before is None:
            return [message_fields((True,), True)]
        if not self._two:
            return [message_fields((False, True), True)]
        moved = self._moved(rows)
        old_key = moved is not None and bool(moved[0])
        return [message_fields((False,), not old_key), message_fields((True,), True)]

    def _values(self, rows: Rows) -> tuple[dict[Path, Get], set[Path]] | None:
        """What stands beside the images: values, and what is the same for all rows."""
        values: dict[Path, Get] = {}
        same_for_all = set(_SAME)
        if are_inserts(rows) and rows.full_row:
            same_for_all.add(_SEQUENCE)
        else:
            values[_SEQUENCE] = self._ids.get(True)
        if rows.source_time is None:
            same_for_all.add(_EVENT)
        else:
            values[_EVENT] = _event
        fields = rows.extra.fields if rows.extra is not None and carried(rows, FAMILY) else {}
        for name, path in _FIELDS.items():
            value = fields.get(name)
            if not isinstance(value, Value):
                same_for_all.add(path)
            elif value.quoted is (name in _TIMES):
                return None
            else:
                values[path] = own(FAMILY, name, _event)
        return values, same_for_all

    def _image(self, rows: Rows, after: bool) -> dict[Path, Get]:
        schema = rows.schema
        writers = self._writers.get(schema)
        if writers is None:
            writers = tuple(_column_writer(c, schema.dialect, self._zone) for c in schema.columns)
            self._writers[schema] = writers
        image = rows.after if after else rows.before
        name = "after" if after else "before"
        return {
            ("payload", name, "dataColumn", schema.names[i]): column(after, i, writers[i])
            for i, texts in enumerate(image or ())
            if texts is not None
        }


def moved_rows(rows: Rows) -> Mask | None:
    """The updates whose first message has the key that the row had; None if none has."""
    before, after, schema = rows.before, rows.after, rows.schema
    if before is None or after is None or not schema.key or are_inserts(rows):
        return None
    moved = np.zeros(len(rows), np.bool_)
    for place in schema.key_places:
        was, now = before[place], after[place]
        if was is None or now is None:
            return None
        moved |= ~same(rows.arena, was, now)
    return moved


def are_inserts(rows: Rows) -> bool:
    """Whether rows are written as INSERT."""
    return rows.operation in INSERTS and (rows.before is None or rows.operation == "read")


def rows_came_without(rows: Rows) -> Mask:
    """Which rows have no sequence id although their source has them; see `came_without`."""
    without = np.zeros(len(rows), np.bool_)
    first = None if rows.extra is None else rows.extra.parts[0]
    if not isinstance(first, Value):
        return without  # the same for all
    places = np.arange(_OPENING)
    arena, (starts, lengths) = rows.arena, first.texts
    bytes_of = arena.data[np.minimum(starts[:, None] + places, len(arena.data) - 1)]
    bytes_of[places >= lengths[:, None]] = 0
    openings, inverse = np.unique(bytes_of, axis=0, return_inverse=True)
    flags = [came_without(first_change(opening.tobytes())) for opening in openings]
    return np.array(flags, np.bool_)[inverse.ravel()]


def first_change(extra: bytes | None = None) -> Change:
    """A change at the very first place."""
    return Change("insert", NO_TABLE, Message("", 0, 0, None, None, None), extra=extra)


def key_values(rows: Rows, after: bool) -> dict[Path, Get]:
    """The values of the message key, of the row after or before."""
    schema = rows.schema
    if not schema.key:
        return {}
    return {(schema.names[i],): column(after, i, WRITE_TEXT) for i in schema.key_places}


_event = times(1000)
