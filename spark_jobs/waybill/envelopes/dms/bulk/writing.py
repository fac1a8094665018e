"""Where the values of DMS's records come from, for writing in bulk.

`encoder` and `files` say what the messages are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    T,
    joined_texts,
    numbers,
    wall_clocks_of,
    with_z,
    written,
)
from waybill.bulk.templates import BulkWriter, Flagged, TemplateFields
from waybill.bulk.values import (
    carried,
    column,
    field_of,
    key_array,
    names,
    nulls,
    transactions,
)
from waybill.caches import Bounded
from waybill.envelopes.dms.bulk.values import keys_alone
from waybill.envelopes.dms.encoder import OPERATIONS
from waybill.envelopes.dms.values import KAFKA, style_of
from waybill.errors import Refusal
from waybill.values.bulk_json_columns import writer_of
from waybill.values.values import is_integer_text

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Mask, Places, Texts
    from waybill.bulk.block import Path
    from waybill.bulk.column_codecs import ColumnWriter
    from waybill.bulk.rows import Columns, Rows
    from waybill.bulk.templates import Get
    from waybill.envelopes.dms.encoder import DmsEncoder
    from waybill.records import TableSchema
    from waybill.values.json_columns import Style
    from waybill.values.json_rows import RowWriter

_FAMILY = "dms"
_MICRO_DIGITS = 6


class TableWriters:
    """How the columns of tables are written.

    Args:
        style: the envelope's notations.
    """

    def __init__(self, style: Style) -> None:
        self._style = style
        self._known: Bounded[TableSchema, tuple[ColumnWriter | None, ...]] = Bounded()

    def of(self, schema: TableSchema) -> tuple[ColumnWriter | None, ...]:
        """Those of one table."""
        writers = self._known.get(schema)
        if writers is None:
            writers = tuple(writer_of(column.type, self._style) for column in schema.columns)
            self._known[schema] = writers
        return writers

    def gets(self, rows: Rows, after: bool) -> dict[str, Get] | None:
        """Where the columns of an image come from; None if one is written individually."""
        found: dict[str, Get] = {}
        names, writers = rows.schema.names, self.of(rows.schema)
        for place, texts in enumerate((rows.after if after else rows.before) or ()):
            column_writer = writers[place]
            if texts is None:
                continue
            if column_writer is None:
                return None
            found[names[place]] = column(after, place, column_writer)
        return found


def written_image(rows: Rows) -> Columns | None:
    """The image that messages hold as the row."""
    return rows.before if rows.operation == "delete" else rows.after


def all_alone(rows: Rows) -> Places:
    """The class of rows that are written individually."""
    return np.full(len(rows), -1, np.int64)


def types_flags(
    writer: RowWriter, rows: Rows, image: Columns, before: Columns | None = None
) -> list[Mask]:
    """By what it is decided whether types are given up; see `RowWriter.types_lost`."""
    return [] if writer.loses_types else [nulls(image, len(rows), before)]


class DmsWriter(BulkWriter):
    """Says where the values of records come from."""

    family = _FAMILY
    names_tables = True

    def __init__(self, encoder: DmsEncoder) -> None:
        self._encoder, self._settings = encoder, encoder.settings
        self._writers = TableWriters(style_of(KAFKA, encoder.settings))
        self._flagged = Flagged()

    def classes(self, rows: Rows) -> Places | None:
        """Rows by what is stated of the row that is gone, and by what is given up."""
        image = written_image(rows)
        if image is None:
            return all_alone(rows)
        try:
            table = self._encoder.table(rows.schema)
        except Refusal:
            return all_alone(rows)
        old = rows.before if rows.operation == "update" else None
        flags = [np.zeros(len(rows), np.bool_), *types_flags(table.rows, rows, image, old)]
        if rows.operation == "delete":
            flags.append(keys_alone(rows.schema, image, len(rows)))
        apart = np.zeros(len(rows), np.bool_)
        if not carried(rows, _FAMILY):
            if rows.transaction is not None:
                numbered, apart = _numbered(rows.arena, rows.transaction)
                flags.append(numbered)
            if rows.sequence is not None:
                flags += [part < 0 for part in rows.sequence]
        classes = self._flagged.numbers(flags)
        classes[apart] = -1
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the record of a row."""
        settings = self._settings
        prefix = settings.before_prefix
        in_columns = settings.before_images == "columns"
        if rows.operation not in OPERATIONS or rows.moved_from is not None:
            return None
        gone = rows.operation == "delete"
        data, old = self._writers.gets(rows, not gone), None
        if rows.operation in ("delete", "update"):
            old = self._writers.gets(rows, False)
        if data is None or (old is None and rows.operation in ("delete", "update")):
            return None
        values: dict[Path, Get] = {("data", name): get for name, get in data.items()}
        for name, get in (old or {}).items():
            path = ("data", prefix + name) if in_columns else (settings.before_field, name)
            values[path] = get
        values |= self._metadata(rows)
        if rows.tables is not None:
            values |= {("metadata", name): get for name, get in TABLE_NAMES.items()}
        return [TemplateFields(values, _constant, key_array(rows))]

    def _metadata(self, rows: Rows) -> dict[Path, Get]:
        if carried(rows, _FAMILY) and rows.extra is not None:
            return {
                ("metadata", name): field_of(name)
                for name, value in rows.extra.fields.items()
                if isinstance(value, Value)
            }
        values: dict[Path, Get] = {}
        if rows.source_time is not None:
            time = times(T, True)
            values["metadata", "timestamp"] = values["metadata", "commit-timestamp"] = time
        if rows.transaction is not None:
            values["metadata", "transaction-id"] = _transactions
        if rows.sequence is not None:
            values["metadata", "stream-position"] = _positions
        return values


def _constant(path: Path) -> bool:
    return path[0] == "metadata"


TABLE_NAMES = {
    "schema-name": names(lambda schema: schema.database or ""),
    "table-name": names(lambda schema: schema.table or ""),
}


def _numbered(arena: Arena, ids: Texts) -> tuple[Mask, Mask]:
    """Which ids of transactions are numbers that DMS has, and which are written exactly."""
    found, _, lengths = numbers(arena, ids)
    numbered = (lengths >= 0) & (found >= 0)
    apart = ids.lengths < 0
    for row in np.flatnonzero((lengths < 0) & ~apart).tolist():
        # It may be a number of more digits, or another notation of zero.
        text = (arena.text(ids, row) or b"").decode()
        apart[row] = is_integer_text(text) is not None
    return numbered, apart


def _transactions(rows: Rows) -> Value:
    return transactions(rows)._replace(quoted=False)


def times(between: int, ending: bool) -> Get:
    """Times of changes with six digits of the second.

    Args:
        between: what stands between date and time of day.
        ending: whether a Z stands behind it.
    """

    def get(rows: Rows) -> Value:
        if rows.source_time is None:
            raise KeyError("the rows have no time")
        texts = wall_clocks_of(rows.arena, rows.source_time, _MICRO_DIGITS, between)
        return Value(with_z(rows.arena, texts) if ending else texts, True)

    return get


def _positions(rows: Rows) -> Value:
    """Sequence ids as numbers with points between them."""
    if not rows.sequence:
        raise KeyError("the rows have no sequence")
    arena = rows.arena
    made = written(arena, rows.sequence[0])
    for part in rows.sequence[1:]:
        made = joined_texts(arena, made, arena.constant(b".", len(rows)))
        made = joined_texts(arena, made, written(arena, part))
    return Value(made, True)
