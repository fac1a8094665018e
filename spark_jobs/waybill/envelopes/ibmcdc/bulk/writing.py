"""Where the values of IBM CDC's messages come from, for writing in bulk.

Rows of tables with a key are written so, in both forms; `encoder` says what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.avro.columns import bytes_by_call
from waybill.avro.scanner import AvroScanner
from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    BLANK,
    WRITE_TEXT,
    ColumnWriter,
    T,
    by_call,
    same,
    units_to_wall_clock,
    wall_clock,
    written,
)
from waybill.bulk.templates import BulkWriter, TemplateFields
from waybill.bulk.values import column, transactions
from waybill.caches import Bounded
from waybill.envelopes.ibmcdc.encoder import AUDIT, ENTRY_TYPES, WriteTable
from waybill.types import FIRST_MICRO, LAST_MICRO
from waybill.values.column_forms import with_form

if TYPE_CHECKING:
    from waybill.bulk.arena import Places
    from waybill.bulk.block import Path
    from waybill.bulk.rows import Rows
    from waybill.bulk.templates import Get
    from waybill.envelopes.ibmcdc.encoder import IbmCdcEncoder
    from waybill.envelopes.ibmcdc.values.writing import ColumnWriting
    from waybill.records import TableSchema

_ENTRY_TYPE, _TIME, _TRANSACTION = AUDIT
_DIGITS = ("int", "long")
"""Types whose values stand as digits here, which the scanner makes varints of."""
_SIZED = ("bytes", "string")


class IbmCdcWriter(BulkWriter):
    """Says where the values of records and their keys come from."""

    family = "ibmcdc"

    def __init__(self, encoder: IbmCdcEncoder) -> None:
        self._sink, self._audit = encoder.sink, encoder.audit
        self._tables: Bounded[TableSchema, tuple[WriteTable, tuple[ColumnWriter, ...]]] = Bounded()
        self.scanner = self.key_scanner = AvroScanner(self._sink.node_of)

    def classes(self, rows: Rows) -> Places | None:
        """Rows that give up more than the others, or become two messages, are written alone."""
        alone = np.zeros(len(rows), np.bool_)
        before, after = rows.before, rows.after
        if rows.operation == "update" and before is not None and after is not None:
            for place in rows.schema.key_places if rows.schema.key else ():
                was, now = before[place], after[place]
                if was is not None and now is not None:
                    alone |= ~same(rows.arena, was, now)
        if self._audit:
            if rows.source_time is not None:
                alone |= (rows.source_time < FIRST_MICRO) | (rows.source_time > LAST_MICRO)
            if rows.transaction is not None:
                alone |= rows.transaction.lengths < 1
            null = np.ones(len(rows), np.bool_)
            for texts in before or ():
                if texts is not None:
                    null &= texts.lengths < 0
            if before is not None:
                alone |= null
        return -alone.astype(np.int64) if alone.any() else None

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        schema, gone = rows.schema, rows.operation == "delete"
        if self._sink.in_headers or not schema.key or rows.moved_from is not None:
            return None
        if rows.operation not in ENTRY_TYPES or (rows.before if gone else rows.after) is None:
            return None
        table, writers = self._table(schema)
        names = table.fields
        keys: dict[Path, Get] = {
            (names[i],): column(not gone, i, writers[i]) for i in schema.key_places
        }
        values: dict[Path, Get] = {}
        if not gone:
            values = {(name,): column(True, i, writers[i]) for i, name in enumerate(names)}
        if self._audit:
            for i, texts in enumerate(rows.before or ()):
                if texts is not None:
                    values[f"B_{names[i]}",] = column(False, i, writers[i])
            if rows.source_time is not None:
                values[_TIME,] = _times
            if rows.transaction is not None:
                values[_TRANSACTION,] = transactions
        return [TemplateFields(values, _constant, keys)]

    def _table(self, schema: TableSchema) -> tuple[WriteTable, tuple[ColumnWriter, ...]]:
        found = self._tables.get(schema)
        if found is None:
            table = WriteTable(schema)
            found = self._tables[schema] = table, tuple(_column_writer(w) for w in table.writings)
        return found


def _constant(path: Path) -> bool:
    return path[0] in AUDIT


def _column_writer(writing: ColumnWriting) -> ColumnWriter:
    """What stands in the messages of a column, without its length."""
    kind = writing.type["type"]
    if writing.text is not None:
        if writing.text.write is None:
            return WRITE_TEXT
        return ColumnWriter(True, with_form(writing.text.writes, by_call(writing.text.write)))
    if kind in _DIGITS and writing.form is not None:
        return ColumnWriter(False, writing.form.convert())
    return ColumnWriter(
        False, with_form(writing.form, bytes_by_call(writing.write, kind in _SIZED))
    )


def _times(rows: Rows) -> Value:
    """The times of rows as audit columns have them, in UTC with six digits."""
    if rows.source_time is None:
        raise KeyError("the rows have no time")
    made = _to_clock(rows.arena, written(rows.arena, rows.source_time))
    return Value(_to_blank(rows.arena, made), True)


_to_clock, _to_blank = units_to_wall_clock(6), wall_clock(T, BLANK)
