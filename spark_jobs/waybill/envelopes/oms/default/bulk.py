"""Where the values of OMS' typed JSON stand, for reading and writing messages in bulk.

This holds for the Default format and, as types then stand in every row, for its extended form;
`default`, `extended` and `encoder` say what the messages mean. A column whose type is known from
earlier messages only has none here: such tables are read one message after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    ANY,
    NOTHING,
    READ_NUMBER,
    READ_TEXT,
    READ_WHOLE,
    TEXT,
    WHOLE,
    WITH_POWERS,
    WORD,
    WRITE_TEXT,
    ColumnReader,
    ColumnWriter,
    by_call,
    joined_texts,
)
from waybill.bulk.field_map import BulkReader, FieldMap, IntegerSlot, Sample
from waybill.bulk.templates import BulkWriter, Get, TemplateFields
from waybill.bulk.values import carried, column, field_of, names, nulls, times
from waybill.caches import Bounded
from waybill.envelopes.oms.bulk import (
    DECIDED_BITS,
    decided_by,
    may_look_untouched,
    nothing_carried,
    unstated_columns,
    without_untouched,
    writer_of,
)
from waybill.envelopes.oms.lobs import untouchable
from waybill.envelopes.oms.records import ROWS
from waybill.envelopes.oms.type_names import in_notation, logical_type
from waybill.envelopes.oms.values import notation_of
from waybill.envelopes.oms.writers import LIGHT_TYPE
from waybill.envelopes.sequence.bulk import BulkWrittenSequence
from waybill.envelopes.stated_keys import SEPARATOR, is_compared
from waybill.errors import Refusal
from waybill.types import FIRST_SECOND, INTEGER_RANGE, LAST_SECOND
from waybill.values.column_forms import with_form
from waybill.values.notation import DIGITS, WHOLE_DIGITS, WORDS_AS_DIGITS, Notation

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Places
    from waybill.bulk.block import Block, Path
    from waybill.bulk.rows import Columns, Extra, Rows
    from waybill.envelopes.oms.bulk import Cells
    from waybill.envelopes.oms.default.decoder import OmsDefaultDecoder
    from waybill.envelopes.oms.default.encoder import OmsDefaultEncoder, OmsWriter
    from waybill.records import Change, Message, TableSchema
    from waybill.types import LogicalType

_IMAGES = ("prevStruct", "postStruct")
_OURS = frozenset({*_IMAGES, "allMetaData", "recordType"})
_DECISIVE = ("db", "dbType")
"""Fields that are carried on and decide the names of the table too."""
_MADE_OF_OTHERS = ("checkpoint", "source_identity", "uniqueId")
"""Fields of `allMetaData` that a message of OMS brings along."""
_MEANT = {b"1": b"true", b"true": b"true", b"0": b"false", b"false": b"false"}


_carried = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode
_operations = frozenset(ROWS.values())


class OmsReader(BulkReader):
    """Says what the values of messages with a row mean."""

    def __init__(self, decoder: OmsDefaultDecoder) -> None:
        self._decoder = decoder
        self._readers: Bounded[TableSchema, tuple[ColumnReader | None, ...]] = Bounded()

    def learner(self) -> OmsDefaultDecoder:
        """A decoder that has seen no message: which columns a table has is kept for later ones."""
        return self._decoder.fresh()

    def harmless(self, message: Message) -> bool:
        """Whether a message tells nothing new about its table."""
        return self._decoder.knows(message)

    def _ready(self, sample: Sample, schema: TableSchema) -> Callable[[], bool]:
        """Tells whether the decoder knows the table with these columns, in this order."""
        slot = sample.slots.get(("allMetaData", "db"))
        json = b"null" if slot is None else sample.json(slot)
        place = msgspec.json.decode(json, type=str | None), schema.table or ""
        wanted = tuple((column.name, column.type) for column in schema.columns)
        return lambda: self._decoder.columns_of(*place) == wanted

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message with a row of a table whose types are stated."""
        schema, slots = change.schema, sample.slots
        if change.operation not in _operations or not self._types_known(schema):
            return None
        full = "postStruct" if change.after is not None else "prevStruct"
        named = tuple(
            str(path[1])
            for path in slots
            if len(path) == 2 and path[0] == full and path[1] in schema.index
        )
        if named != schema.names:
            return None
        images = self._images(sample, change)
        if images is None:
            return None
        free = {slot: ANY for path, slot in slots.items() if path[0] not in _OURS}
        shown = slots.get(("allMetaData", "record_primary_value"))
        stated_key: tuple[int, ...] = ()
        if shown is not None:
            free[shown] = ANY
            json = sample.json(slots.get(("allMetaData", "record_primary_key"), shown))
            named = msgspec.json.decode(json, type=str | None)
            if tuple((named or "").split(SEPARATOR)) == schema.key and is_compared(schema):
                stated_key = (shown,)
        kept = _carried(change.extra or b'{"oms":{}}')["oms"]
        extra: dict[str, int | bytes] = {}
        for name, raw in kept.items():
            slot = None if name in _DECISIVE else slots.get(("allMetaData", name))
            extra[name] = bytes(raw) if slot is None else slot
        return FieldMap(
            schema,
            change.operation,
            *images,
            sequence=None
            if change.sequence is None
            else (IntegerSlot(slots["allMetaData", "storeDataSequence"]),),
            source_time=None
            if change.source_time is None
            else IntegerSlot(
                slots["allMetaData", "timestamp"], 1_000_000, FIRST_SECOND, LAST_SECOND
            ),
            family="oms" if extra else "",
            extra=extra,
            carry=None if extra else _nothing,
            stated_key=stated_key,
            free=free,
            full_row=change.full_row,
            ready=self._ready(sample, schema),
        )

    def _types_known(self, schema: TableSchema) -> bool:
        """Whether every type is declared or stated by the message itself."""
        declared = self._decoder.rules.find(schema.database, None, schema.table).columns
        earlier = self._decoder.earlier
        return all(
            column.name in declared or logical_type(column.source_type, earlier) is not None
            for column in schema.columns
        )

    def _images(self, sample: Sample, change: Change) -> tuple[Cells | None, Cells | None] | None:
        """The columns of the rows before and after; None if one cannot be read in bulk."""
        schema = change.schema
        readers = self._readers.get(schema)
        if readers is None:
            readers = self._readers[schema] = tuple(
                _take(column.type, self._decoder.earlier)
                for column in in_notation(schema, self._decoder.earlier).columns
            )
        before = sample.cells(("prevStruct",), readers, schema.names)
        after = sample.cells(("postStruct",), readers, schema.names)
        if before is None or after is None:
            return None
        if change.before is None:
            return None, after
        if change.after is None:
            return before, None
        if not self._decoder.lobs:
            return before, after
        return without_untouched(sample, untouchable(schema), before, after)


def _nothing(_: Block, __: Places) -> Extra:
    return nothing_carried("oms")


def _take(kind: LogicalType, earlier: bool) -> ColumnReader | None:
    """How the values of a type are read; None for those that are read individually."""
    notation = notation_of(kind, earlier)
    wire, read = notation.wire, notation.read
    if wire in INTEGER_RANGE:
        return ColumnReader(
            WHOLE | NOTHING, None if notation.reads is None else notation.reads.convert()
        )
    if wire == "number":
        if notation.plain:
            return READ_NUMBER
        if notation.reads == WHOLE_DIGITS:
            return READ_WHOLE
        convert = with_form(notation.reads, by_call(_never_null(read)))
        return ColumnReader(WITH_POWERS | NOTHING, convert)
    if wire == "boolean" and kind.precision is None:
        return ColumnReader(
            WHOLE | WORD | NOTHING, lambda arena, texts: arena.each(texts, _MEANT.get)
        )
    if wire == "null":
        return ColumnReader(NOTHING)
    if wire not in ("text", "boolean"):
        return None
    if read is None:
        return READ_TEXT
    return ColumnReader(TEXT | NOTHING, with_form(notation.reads, by_call(_never_null(read))))


def _never_null(read: Callable[[Any], str | None] | None) -> Callable[[str], str]:
    """A reader that is never given null."""

    def one(text: str) -> str:
        found = text if read is None else read(text)
        if found is None:
            raise ValueError(text)
        return found

    return one


class _TableWriter:
    """What a schema decides about its messages.

    Args:
        schema: the table.
        writer: what writes one message of it.
    """

    def __init__(self, schema: TableSchema, writer: OmsWriter) -> None:
        self.writer = writer
        self.ids = BulkWrittenSequence(writer.ids)
        notations = writer.notations
        self.writers = tuple(map(writer_of, notations))
        self.key = schema.key_places if schema.key else ()
        self.shown = tuple(_shown(notations[i], self.writers[i]) for i in self.key)


def _shown(notation: Notation, column_writer: ColumnWriter) -> ColumnWriter | None:
    """How a value of the key stands in `record_primary_value`; None where that is not known."""
    if notation.write is None or notation.writes in (DIGITS, WHOLE_DIGITS):
        return WRITE_TEXT
    if notation.writes == WORDS_AS_DIGITS:
        return ColumnWriter(True, WORDS_AS_DIGITS.convert())
    if notation.wire != "text":
        return None
    return column_writer if column_writer.quoted else ColumnWriter(True, by_call(notation.write))


class OmsBulkWriter(BulkWriter):
    """Says where the values of messages with a row come from."""

    family = "oms"
    names_tables = True

    def __init__(self, encoder: OmsDefaultEncoder) -> None:
        self._encoder = encoder
        self._tables: Bounded[TableSchema, _TableWriter | None] = Bounded()
        self._decided = decided_by(_DECISIVE)

    def _table(self, schema: TableSchema) -> _TableWriter | None:
        """The table; None if its messages are refused."""
        table = self._tables.get(schema)
        if table is None:
            try:
                table = _TableWriter(schema, self._encoder.table(schema))
            except Refusal:
                return None
            self._tables[schema] = table
        return table

    def classes(self, rows: Rows) -> Places | None:
        """Rows by what the losses depend on, and by what they carry on that is written as it is.

        On their own are those whose key holds a null, and those whose sequence is negative.
        """
        table = self._table(rows.schema)
        image = filled_up(rows)
        if table is None or image is None or rows.moved_from is not None:
            return np.full(len(rows), -1, np.int64)
        writer = table.writer
        numbers = np.zeros(len(rows), np.int64)
        if rows.source_time is not None:
            numbers += rows.source_time % 1_000_000 != 0
        if writer.nulls_lose and not writer.loses_types:
            numbers += 2 * nulls(image, len(rows))
        for place in table.key:
            texts = image[place]
            if texts is not None:
                numbers[texts.lengths < 0] = -1
        ids = table.ids
        for bit, flag in enumerate(ids.last_parts(rows), 2):
            numbers[flag & (numbers >= 0)] += 1 << bit
        if _has_id(rows):
            numbers[ids.alone(rows)] = -1
        numbers[may_look_untouched(rows, writer.lobs.columns)] = -1
        decided = self._decided(rows)
        numbers[decided < 0] = -1
        there = numbers >= 0
        numbers[there] = numbers[there] << DECIDED_BITS | decided[there]
        return numbers

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        table, image = self._table(rows.schema), filled_up(rows)
        if table is None or image is None or None in table.shown:
            return None
        fields = rows.extra.fields if rows.extra is not None and carried(rows, "oms") else {}
        null = unstated_columns(rows)
        values = _images_written(rows, table.writers, null)
        keys: dict[Path, Get] = {
            (i,): completed(place, WRITE_TEXT) for i, place in enumerate(table.key)
        }
        shown = [
            completed(place, column_writer)
            for place, column_writer in zip(table.key, table.shown, strict=True)
            if column_writer is not None
        ]
        if shown:
            values["allMetaData", "record_primary_value"] = joined(shown)
        if rows.source_time is not None:
            values["allMetaData", "timestamp"] = times(1_000_000, quoted=True)
        values["allMetaData", "storeDataSequence"] = table.ids.get(False)
        for name in _MADE_OF_OTHERS:
            if isinstance(fields.get(name), Value):
                values["allMetaData", name] = field_of(name)

        if rows.tables is not None:
            values |= {path: get for path, get in _TABLE_NAMES.items() if path[-1] not in fields}

        def constant(path: Path) -> bool:
            return _constant(path) or (len(path) == 2 and path[1] in null)

        return [TemplateFields(values, constant, keys)]


_TABLE_NAMES: dict[Path, Get] = {
    ("allMetaData", "db"): names(lambda schema: schema.database),
    ("allMetaData", "table_name"): names(lambda schema: schema.table),
}
"""Where the names of tables stand; a database's that was carried on may be another than its own."""


def _images_written(
    rows: Rows, writers: tuple[ColumnWriter, ...], null: frozenset[str]
) -> dict[Path, Get]:
    """The values of the images, without columns of which nothing is stated."""
    values: dict[Path, Get] = {}
    now = "prevStruct" if rows.operation == "delete" else "postStruct"
    for i, name in enumerate(rows.schema.names):
        if name in null:
            continue
        values[now, name] = completed(i, writers[i])
        if rows.operation == "update":
            values["prevStruct", name] = column(False, i, writers[i])
    return values


def filled_up(rows: Rows) -> Columns | None:
    """The row that is written, columns that it lacks taken from the row before."""
    if rows.operation == "delete":
        return rows.before
    if rows.after is None or rows.before is None:
        return rows.after
    return tuple(
        was if now is None else now for was, now in zip(rows.before, rows.after, strict=True)
    )


def completed(place: int, column_writer: ColumnWriter) -> Get:
    """The values of a column of the row that is written."""

    def get(rows: Rows) -> Value:
        texts = (filled_up(rows) or ())[place]
        if texts is None:
            raise KeyError(f"column {place} is not in the rows")
        return Value(column_writer.write(rows.arena, texts), column_writer.quoted)

    return get


def _has_id(rows: Rows) -> bool:
    """Whether a sequence is written: OMS writes rows of its own again without one."""
    return not rows.full_row and not (rows.sequence is None and carried(rows, "oms"))


def joined(shown: list[Get]) -> Get:
    """The texts of a key, with a separator between those of several columns."""

    def get(rows: Rows) -> Value:
        texts = shown[0](rows).texts
        for other in shown[1:]:
            separator = rows.arena.constant(b"\\u0001", len(rows))
            texts = joined_texts(
                rows.arena, joined_texts(rows.arena, texts, separator), other(rows).texts
            )
        return Value(texts, True)

    return get


def _constant(path: Path) -> bool:
    """Whether what stands there is stated by the table, or is null for all rows."""
    return path[0] in ("allMetaData", "recordType") or path[1:2] in ((), (LIGHT_TYPE,))
