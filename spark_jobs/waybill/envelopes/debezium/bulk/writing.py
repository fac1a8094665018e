"""Where the values of Debezium's JSON messages come from, for writing in bulk.

Messages without schema are written so; `encoder` and `blocks` say what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import joined_texts, same, written
from waybill.bulk.templates import BulkWriter, TemplateFields
from waybill.bulk.values import carried, column, names, times, transactions
from waybill.caches import Bounded
from waybill.envelopes.debezium.bulk.values import writer_of
from waybill.envelopes.debezium.control_events import EXTRA
from waybill.envelopes.debezium.encoder import ROWS
from waybill.envelopes.debezium.envelope_blocks import LONGEST
from waybill.envelopes.debezium.row_writers import TablePlan

if TYPE_CHECKING:
    from waybill.bulk.arena import Places
    from waybill.bulk.block import Path
    from waybill.bulk.column_codecs import ColumnWriter
    from waybill.bulk.rows import Rows
    from waybill.bulk.templates import Get
    from waybill.envelopes.debezium.encoder import DebeziumEncoder
    from waybill.envelopes.debezium.values.writing import Writing
    from waybill.records import TableSchema

FAMILY = "debezium"
_BLOCKS = frozenset({"source", "transaction", "op"})
IMAGES = (("before",), ("after",))


class DebeziumWriter(BulkWriter):
    """Says where the values of messages without schema come from."""

    family = FAMILY
    opening = EXTRA.decode()
    names_tables = True

    def __init__(self, encoder: DebeziumEncoder) -> None:
        self._settings = encoder.settings
        self._writers: Bounded[TableSchema, tuple[ColumnWriter | None, ...]] = Bounded()

    def classes(self, rows: Rows) -> Places | None:
        """Rows whose messages differ in more than values are written on their own."""
        alone = np.zeros(len(rows), np.bool_)
        before, after = rows.before, rows.after
        if rows.operation == "update" and before is not None and after is not None:
            for place in rows.schema.key_places if rows.schema.key else ():
                was, now = before[place], after[place]
                if was is not None and now is not None:
                    alone |= ~same(rows.arena, was, now)
        if not carried(rows, FAMILY):
            if rows.source_time is not None:
                alone |= (rows.source_time == 0) | (np.abs(rows.source_time) >= LONGEST)
            if rows.transaction is not None:
                alone |= rows.transaction.lengths < 0
        return -alone.astype(np.int64) if alone.any() else None

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the message of a row; of a delete those of the tombstone too."""
        if self._is_left(rows):
            return None
        writers = self._writers_of(rows)
        if writers is None:
            return None
        before, after = rows.before, rows.after
        gone = rows.operation == "delete"
        key = rows.schema.key_places if rows.schema.key else ()
        values: dict[Path, Get] = {}
        keys: dict[Path, Get] = {}
        for place, (name, column_writer) in enumerate(zip(rows.schema.names, writers, strict=True)):
            if before is not None and before[place] is not None:
                values["before", name] = column(False, place, column_writer)
            if after is not None:
                values["after", name] = column(True, place, column_writer)
            if place in key:
                keys[name,] = column(not gone, place, column_writer)
        if carried(rows, FAMILY):
            message_fields = self._carried(rows, values, keys)
        else:
            message_fields = TemplateFields(values | _blocks(rows), _constant, keys)
        return (
            [message_fields, message_fields]
            if gone and key and self._settings.tombstones
            else [message_fields]
        )

    def _is_left(self, rows: Rows) -> bool:
        """Whether rows are written individually, whatever their columns are."""
        settings = self._settings
        return settings.schemas or rows.moved_from is not None or rows.operation not in ROWS

    def _carried(
        self, _rows: Rows, values: dict[Path, Get], keys: dict[Path, Get]
    ) -> TemplateFields:
        """The message of rows whose source stated what stands around them."""
        return TemplateFields(values, IMAGES.__contains__, keys, tail_of)

    def _column_writer(self, writing: Writing) -> ColumnWriter | None:
        """How a column is written; None for one that is written individually."""
        return writer_of(writing)

    def _writers_of(self, rows: Rows) -> list[ColumnWriter] | None:
        """How the columns of rows are written, None where the rows are written individually."""
        before, after = rows.before, rows.after
        if rows.operation == "delete":
            whole = before is not None and after is None
        else:
            whole = after is not None and None not in after
        writers = [
            column_writer for column_writer in self._of(rows.schema) if column_writer is not None
        ]
        return writers if whole and len(writers) == len(rows.schema.names) else None

    def _of(self, schema: TableSchema) -> tuple[ColumnWriter | None, ...]:
        writers = self._writers.get(schema)
        if writers is None:
            plan = TablePlan(schema, self._settings)
            structures = [_is_structure(schema, place) for place in range(len(schema.names))]
            writers = self._writers[schema] = tuple(
                None if structure else self._column_writer(writing)
                for writing, structure in zip(plan.writings, structures, strict=True)
            )
        return writers


def _is_structure(schema: TableSchema, place: int) -> bool:
    """Whether a column may hold arrays and objects, which came as such from Debezium."""
    source = schema.columns[place].source_type or ""
    return schema.dialect in ("json", "connect") and source.startswith(("{", "structure"))


def _constant(path: Path) -> bool:
    return path[0] in _BLOCKS or path in IMAGES or path == ("ts_ms",)


def _blocks(rows: Rows) -> dict[Path, Get]:
    """The values of the blocks around the rows of other envelopes."""
    values: dict[Path, Get] = {}
    if rows.source_time is not None:
        values["source", "ts_ms"] = times(1000)
        values["source", "ts_us"] = times(1)
        values["source", "ts_ns"] = _nanos
        values["ts_ms",] = times(1000)
    if rows.block.timestamps is not None:
        values["ts_ms",] = _timestamps
    if rows.sequence is not None and not (rows.full_row and rows.operation == "read"):
        values["source", "sequence"] = _sequence
    if rows.transaction is not None:
        values["transaction", "id"] = transactions
    if rows.tables is not None:
        values |= _NAMES
    return values


_NAMES: dict[Path, Get] = {
    ("source", "db"): names(lambda schema: schema.database or ""),
    ("source", "schema"): names(lambda schema: schema.schema),
    ("source", "table"): names(lambda schema: schema.table),
}
"""Where the names of tables stand that differ in nothing else."""


def tail_of(rows: Rows) -> Value:
    """What a source of the family stated besides its rows."""
    tail = None if rows.extra is None else rows.extra.fields.get("tail")
    if not isinstance(tail, Value):
        raise KeyError("the rows have no fields of Debezium's")
    return tail


def _nanos(rows: Rows) -> Value:
    if rows.source_time is None:
        raise KeyError("the rows have no time")
    return Value(written(rows.arena, rows.source_time * 1000), False)


def _timestamps(rows: Rows) -> Value:
    if rows.block.timestamps is None:
        raise KeyError("the messages have no time")
    return Value(written(rows.arena, rows.block.timestamps[rows.places]), False)


def _sequence(rows: Rows) -> Value:
    """Sequence ids as arrays of texts, which stand in a text."""
    if rows.sequence is None:
        raise KeyError("the rows have no sequence")
    arena, count = rows.arena, len(rows)
    made = arena.constant(b'[\\"', count)
    for number, part in enumerate(rows.sequence):
        if number:
            made = joined_texts(arena, made, arena.constant(b'\\",\\"', count))
        made = joined_texts(arena, made, written(arena, part))
    return Value(joined_texts(arena, made, arena.constant(b'\\"]', count)), True)
