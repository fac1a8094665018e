"""Where the values of OMS Canal's messages stand, for reading and writing in bulk.

Messages with one row whose columns are all stated or declared are read so; `canal` and
`canal_encoder` say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from waybill.bulk.column_codecs import WRITE_TEXT
from waybill.bulk.templates import BulkWriter, Flagged, Get, TemplateFields
from waybill.bulk.values import changed_columns, column, names, own, source_or_queue_times
from waybill.caches import Bounded
from waybill.envelopes.canal.bulk import CanalReader
from waybill.envelopes.oms.bulk import (
    Cells,
    cells,
    may_look_untouched,
    readers_of,
    unstated_columns,
    without_untouched,
    writers_of,
)
from waybill.envelopes.oms.default.bulk import completed, filled_up
from waybill.envelopes.oms.lobs import maybe_untouched, untouchable
from waybill.envelopes.oms.styles import style_of
from waybill.envelopes.oms.type_names import in_notation, logical_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Path
    from waybill.bulk.column_codecs import ColumnWriter
    from waybill.bulk.field_map import FieldMap, Sample
    from waybill.bulk.rows import Columns, Rows
    from waybill.envelopes.oms.bulk import ColumnReaders
    from waybill.envelopes.oms.canal.decoder import OmsCanalDecoder
    from waybill.envelopes.oms.canal.encoder import OmsCanalEncoder
    from waybill.envelopes.oms.typed import TypedTables
    from waybill.records import Change, TableSchema

_CONSTANT = frozenset(
    {"database", "sqlType", "pkNames", "mysqlType", "type", "table", "isDdl", "sql"}
)


class _Old(msgspec.Struct, gc=False):
    old: list[msgspec.Raw] | None = None


_old = msgspec.json.Decoder(_Old).decode


def all_types_known(tables: TypedTables, schema: TableSchema) -> bool:
    """Whether the type of every column is declared or stated by its name."""
    declared = tables.rules.find(schema.database, schema.schema, schema.table or "").columns
    return all(
        column.name in declared or logical_type(column.source_type, tables.earlier) is not None
        for column in schema.columns
    )


class OmsCanalReader(CanalReader):
    """Says what the values of messages with one row mean."""

    def __init__(self, decoder: OmsCanalDecoder) -> None:
        self._typed = decoder.typed
        self._ways: Bounded[TableSchema, tuple[ColumnReaders, ...]] = Bounded()

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message with one row of a table whose types are stated."""
        if not all_types_known(self._typed, change.schema):
            return None
        return super().reading(sample, change)

    def _named(self, sample: Sample, schema: TableSchema) -> dict[str, Any]:
        """Types may be declared, for one table and not for another: each has forms of its own."""
        return {}

    def _cells(self, sample: Sample, path: Path, schema: TableSchema) -> Cells | None:
        ways = self._ways.get(schema)
        if ways is None:
            ways = self._ways[schema] = readers_of(
                in_notation(schema, self._typed.earlier), self._typed.style
            )
        return cells(sample, path, ways, schema.names)

    def _images(
        self, sample: Sample, change: Change, row: Cells, old: Cells
    ) -> tuple[Cells | None, Cells | None]:
        before, after = super()._images(sample, change, row, old)
        if change.operation != "update" or not self._typed.lobs:
            return before, after
        entry = (_old(sample.value).old or [msgspec.Raw(b"null")])[0]
        if bytes(entry) == b"null" or after is None:
            return before, after
        # An entry of `old`, even an empty one, tells what the update did not touch.
        lobs = untouchable(change.schema)
        was, now = without_untouched(sample, lobs, before or row, after)
        return None if before is None else was, now

    def _check(self, schema: TableSchema, change: Change) -> Callable[[Rows], Mask] | None:
        return None


class OmsCanalWriter(BulkWriter):
    """Says where the values of messages with one row come from."""

    family = "canal"
    names_tables = True

    def __init__(self, encoder: OmsCanalEncoder) -> None:
        self._settings = encoder.settings
        self._style = style_of(encoder.settings.version, encoder.settings.trailing_zeros)
        self._writers: Bounded[TableSchema, tuple[ColumnWriter, ...]] = Bounded()
        self._flagged = Flagged()

    def classes(self, rows: Rows) -> Places | None:
        """Rows by the columns that changed, and by what the losses depend on."""
        alone = np.full(len(rows), -1, np.int64)
        image = _image(rows)
        if image is None or rows.moved_from is not None:
            return alone
        fine = np.zeros(len(rows), np.bool_)
        if rows.source_time is not None:
            fine = rows.source_time % 1000 != 0
        flags = [fine]
        if rows.operation != "update":
            return self._flagged.numbers(flags)
        closer = may_look_untouched(rows, maybe_untouched(rows.schema, self._settings))
        if rows.before is not None:
            changed = changed_columns(rows.arena, rows.before, image)
            if not changed:
                return alone
            classes = self._flagged.numbers([*flags, *changed])
            # One column that did not change stands for all then.
            classes[~np.any(changed, axis=0) | closer] = -1
            return classes
        classes = self._flagged.numbers(flags)
        classes[closer] = -1
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        schema = rows.schema
        writers = self._writers.get(schema)
        if writers is None:
            writers = self._writers[schema] = writers_of(
                in_notation(schema, self._settings.version == "earlier"), self._style
            )
        image = _image(rows) or ()
        values: dict[Path, Get] = {("es",): source_or_queue_times, ("ts",): _ts}
        if rows.tables is not None:
            values |= _TABLE_NAMES
        null = unstated_columns(rows)
        for i, name in enumerate(schema.names):
            if name in null:
                continue
            values["data", 0, name] = _of_row(rows, i, writers[i])
            if rows.operation == "update":
                values["old", 0, name] = column(False, i, writers[i])
        keys: dict[Path, Get] = {}
        for number, place in enumerate(schema.key_places if schema.key else ()):
            if image[place] is None:
                return None
            keys[number,] = _of_row(rows, place, WRITE_TEXT)

        def constant(path: Path) -> bool:
            return _constant(path) or (path[0] in ("data", "old") and path[-1] in null)

        return [TemplateFields(values, constant, keys)]


def _image(rows: Rows) -> Columns | None:
    """The row that is written."""
    if rows.operation == "update":
        return filled_up(rows)
    return rows.before if rows.operation == "delete" else rows.after


def _of_row(rows: Rows, place: int, column_writer: ColumnWriter) -> Get:
    """The values of a column of the row that is written."""
    if rows.operation == "update":
        return completed(place, column_writer)
    return column(rows.operation != "delete", place, column_writer)


def _constant(path: Path) -> bool:
    return path[0] in _CONSTANT or path == ("old",)


_TABLE_NAMES: dict[Path, Get] = {
    ("database",): names(lambda schema: schema.database),
    ("table",): names(lambda schema: schema.table),
}
_ts = own("canal", "ts", source_or_queue_times)
