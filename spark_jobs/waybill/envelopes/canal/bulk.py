"""Where the values of Canal's messages stand, for reading and writing in bulk.

Messages with one row are read and written so; `flat_message` and `encoder` say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from waybill.bulk.column_codecs import (
    NOTHING,
    READ_TEXT,
    TEXT,
    WRITE_TEXT,
    ColumnReader,
    ColumnWriter,
    by_call,
    numbers,
)
from waybill.bulk.field_map import BulkReader, ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.templates import BulkWriter, Flagged, Get, TemplateFields
from waybill.bulk.value_kinds import ESCAPED, NULL_SIZE
from waybill.bulk.values import (
    carried,
    changed_columns,
    column,
    key_array,
    names,
    offsets,
    own,
    source_or_queue_times,
    transactions,
)
from waybill.caches import Bounded
from waybill.envelopes.canal.values import notation_of
from waybill.records import Column, intern_schema
from waybill.values.column_forms import with_form
from waybill.values.instants import FIRST_MS, LAST_MS

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Path
    from waybill.bulk.rows import Columns, Rows
    from waybill.envelopes.canal.encoder import CanalEncoder
    from waybill.envelopes.canal.sql_types import SqlTypes
    from waybill.envelopes.canal.text_rows import CanalDecoder
    from waybill.records import Change, TableSchema

_CONSTANT = frozenset(
    {"database", "isDdl", "mysqlType", "pkNames", "sql", "sqlType", "table", "type"}
)
_CARRIED = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode

Cells = tuple[ColumnSlot | None, ...]


class CanalReader(BulkReader):
    """Says what the values of FlatMessages mean."""

    def __init__(self, decoder: CanalDecoder) -> None:
        self._zone = decoder.zone
        self._sql_types = decoder.table_class.sql_types
        self._readers: Bounded[TableSchema, tuple[ColumnReader, ...]] = Bounded()
        self._types: Bounded[TableSchema, SqlTypes] = Bounded()

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message with one row."""
        schema, slots = change.schema, sample.slots
        if any(path[0] in ("data", "old") and path[1:2] not in ((), (0,)) for path in slots):
            return None
        row = self._cells(sample, ("data", 0), schema)
        old = self._cells(sample, ("old", 0), schema)
        if row is None or old is None or change.after is change.before is None:
            return None
        if any(was and not now for was, now in zip(old, row, strict=True)):
            return None
        before, after = self._images(sample, change, row, old)
        extra: dict[str, int | bytes] = {}
        for name, raw in _CARRIED(change.extra or b'{"canal":{}}')["canal"].items():
            extra[name] = slots[name,] if name in ("id", "ts") else bytes(raw)
        return FieldMap(
            schema,
            change.operation,
            before,
            after,
            source_time=None
            if change.source_time is None
            else IntegerSlot(slots["es",], 1000, FIRST_MS, LAST_MS),
            transaction=None if change.transaction is None else slots["gtid",],
            family="canal" if extra else "",
            extra=extra,
            check=self._check(schema, change),
            **self._named(sample, schema),
        )

    def _named(self, sample: Sample, schema: TableSchema) -> dict[str, Any]:
        """The values that name the table, and what the message tells of its columns and key."""
        slots = [sample.slots.get((name,)) for name in ("database", "table")]
        named = [s for s in slots if s is not None and sample.kinds[s] <= ESCAPED]
        if len(named) < len(slots) or not all(map(sample.text, named)):
            return {}  # what names no table is of one that the settings tell
        stated = [
            (path, sample.kinds[slot], sample.text(slot))
            for path, slot in sample.slots.items()
            if path[0] in ("mysqlType", "pkNames")
        ]
        return {"named_by": tuple(named), "described_by": (schema.names, *stated)}

    def _cells(self, sample: Sample, path: Path, schema: TableSchema) -> Cells | None:
        """The columns of one of the rows; None if one cannot be read in bulk."""
        readers = self._readers.get(schema)
        if readers is None:
            readers = self._readers[schema] = tuple(_take(c, self._zone) for c in schema.columns)
        return sample.cells(path, readers, schema.names)

    def _images(
        self, sample: Sample, change: Change, row: Cells, old: Cells
    ) -> tuple[Cells | None, Cells | None]:
        """The rows before and after the change, where `old` has what the update changed."""
        if change.operation == "delete":
            return row, None
        if change.before is None:
            return None, row
        return tuple(was or now for was, now in zip(old, row, strict=True)), row

    def _check(self, schema: TableSchema, change: Change) -> Callable[[Rows], Mask] | None:
        """Rows whose `sqlType` would be another one than that of the first row.

        Only then what the message states says nothing more than the row.
        """
        types = self._types.get(schema)
        if types is None:
            types = self._types[schema] = self._sql_types(schema)
        if not types.varying:
            return None
        image = change.before if change.after is None else change.after
        named = {name for name, _ in types.unusual(image)}
        wanted = [one.name in named for one in types.varying]

        def check(rows: Rows) -> Mask:
            unusual, other = unusual_rows(types, rows)
            for found, expected in zip(unusual, wanted, strict=True):
                other |= found != expected
            return other

        return check


def _take(column: Column, zone: ZoneInfo) -> ColumnReader:
    notation = notation_of(column.type, column.source_type, zone)
    if notation.read is None:
        return READ_TEXT
    return ColumnReader(TEXT | NOTHING, with_form(notation.reads, by_call(notation.read)))


def unusual_rows(types: SqlTypes, rows: Rows) -> tuple[list[Mask], Mask]:
    """For each column whose number in `sqlType` depends on the value: which rows have another one.

    Then the rows for which that cannot be determined in bulk.
    """
    image: Columns = (rows.before if rows.after is None else rows.after) or ()
    found = []
    alone = np.zeros(len(rows), np.bool_)
    for one in types.varying:
        texts = image[one.place]
        if texts is None:
            found.append(np.zeros(len(rows), np.bool_))
        elif one.least is None:
            found.append(texts.lengths == NULL_SIZE)
        else:
            values, _, lengths = numbers(rows.arena, texts)
            found.append(values >= one.least)
            alone |= (lengths < 0) & (texts.lengths >= 0)
    return found, alone


class _TableWriter:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema, encoder: CanalEncoder) -> None:
        zone = encoder.zone
        texts = [encoder.text_of(schema, column) for column in schema.columns]
        self.writers = tuple(
            _column_writer(column, text, zone)
            for column, text in zip(schema.columns, texts, strict=True)
        )
        named = tuple(
            Column(c.name, c.type, text) for c, text in zip(schema.columns, texts, strict=True)
        )
        # Canal's number for some types depends on the value.
        self.types = encoder.sql_types(intern_schema(None, None, schema.table, named))


def _column_writer(column: Column, mysql: str, zone: ZoneInfo) -> ColumnWriter:
    notation = notation_of(column.type, mysql, zone)
    if notation.write is None:
        return WRITE_TEXT
    return ColumnWriter(True, with_form(notation.writes, by_call(notation.write)))


class CanalWriter(BulkWriter):
    """Says where the values of FlatMessages come from."""

    family = "canal"
    names_tables = True

    def __init__(self, encoder: CanalEncoder) -> None:
        self._encoder = encoder
        self._tables: Bounded[TableSchema, _TableWriter] = Bounded()
        self._flagged = Flagged()

    def classes(self, rows: Rows) -> Places | None:
        """Rows by the columns that changed, and by what `sqlType` and the losses depend on."""
        image = rows.before if rows.operation == "delete" else rows.after
        if image is None or None in image or _has_statement(rows):
            return np.full(len(rows), -1, np.int64)
        unusual, alone = unusual_rows(self._table(rows.schema).types, rows)
        fine = np.zeros(len(rows), np.bool_)
        if rows.source_time is not None:
            fine = rows.source_time % 1000 != 0
        flags = [fine, *unusual]
        if rows.operation == "update" and rows.before is not None:
            if None in rows.before:
                return np.full(len(rows), -1, np.int64)
            changed = changed_columns(rows.arena, rows.before, image)
            alone |= ~np.any(changed, axis=0)
            flags += changed
        classes = self._flagged.numbers(flags)
        classes[alone] = -1
        return classes

    def _table(self, schema: TableSchema) -> _TableWriter:
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = _TableWriter(schema, self._encoder)
        return table

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        if rows.moved_from is not None:
            return None
        schema, writers = rows.schema, self._table(rows.schema).writers
        gone = rows.operation == "delete"
        values: dict[Path, Get] = {("es",): source_or_queue_times, ("id",): _id, ("ts",): _ts}
        if rows.tables is not None:
            values |= _NAMES
        if rows.transaction is not None and carried(rows, "canal"):
            values["gtid",] = transactions
        for i, name in enumerate(schema.names):
            values["data", 0, name] = column(not gone, i, writers[i])
            if rows.operation == "update" and rows.before is not None:
                values["old", 0, name] = column(False, i, writers[i])
        return [TemplateFields(values, _constant, key_array(rows))]


def _has_statement(rows: Rows) -> bool:
    """Whether rows came from Canal with a statement, which is rare."""
    return rows.extra is not None and carried(rows, "canal") and "sql" in rows.extra.fields


def _constant(path: Path) -> bool:
    return path[0] in _CONSTANT or path in (("old",), ("gtid",))


def _database(schema: TableSchema) -> str:
    return schema.database or ""


def _table(schema: TableSchema) -> str:
    return schema.table or ""


_NAMES: dict[Path, Get] = {("database",): names(_database), ("table",): names(_table)}
_ts = own("canal", "ts", source_or_queue_times)
_id = own("canal", "id", offsets)
