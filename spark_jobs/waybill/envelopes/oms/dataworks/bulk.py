"""Where the values of OMS DataWorks' messages stand, for reading and writing in bulk.

Messages with a row whose columns are all stated or declared are read so; `dataworks` and
`dataworks_encoder` say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import WRITE_TEXT
from waybill.bulk.field_map import BulkReader, FieldMap, IntegerSlot, Sample
from waybill.bulk.templates import BulkWriter, Get, TemplateFields
from waybill.bulk.values import carried, column, field_of, names, sequences, times
from waybill.caches import Bounded
from waybill.envelopes.oms.bulk import (
    Cells,
    cells,
    decided_by,
    may_look_untouched,
    nothing_carried,
    readers_of,
    rows_that_came_without,
    unstated_columns,
    without_untouched,
    writers_of,
)
from waybill.envelopes.oms.canal.bulk import all_types_known
from waybill.envelopes.oms.lobs import maybe_untouched, untouchable
from waybill.envelopes.oms.type_names import in_notation
from waybill.envelopes.sequence.bulk import BulkWrittenSequence
from waybill.records import ROW_OPERATIONS
from waybill.values.instants import FIRST_MS, LAST_MS

if TYPE_CHECKING:
    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Block, Path
    from waybill.bulk.column_codecs import ColumnWriter
    from waybill.bulk.rows import Columns, Extra, Rows
    from waybill.envelopes.oms.bulk import ColumnReaders
    from waybill.envelopes.oms.dataworks.decoder import OmsDataworksDecoder
    from waybill.envelopes.oms.dataworks.encoder import OmsDataworksEncoder
    from waybill.records import Change, TableSchema

FAMILY = "dataworks"
_TIMES = ("systemTime", "checkpointTime")
_DECISIVE = ("dbType", "dbVersion", "dbName", "extend", "scn")
"""Fields that are carried on and are the same for all messages of a table."""
_EVENT: Path = ("payload", "timestamp", "eventTime")
_SCN: Path = ("payload", "scn")
_SAME = frozenset({"version", "schema", "extend"})
_carried = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


class OmsDataworksReader(BulkReader):
    """Says what the values of messages with a row mean."""

    def __init__(self, decoder: OmsDataworksDecoder) -> None:
        self._typed = decoder.typed
        self._ways: Bounded[TableSchema, tuple[ColumnReaders, ...]] = Bounded()

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message with a row of a table whose types are stated."""
        schema, slots = change.schema, sample.slots
        if change.operation not in ROW_OPERATIONS or not all_types_known(self._typed, schema):
            return None
        images = self._images(sample, change)
        if images is None:
            return None
        sequence = None
        if change.sequence is not None:
            # The second part is always 0.
            sequence = IntegerSlot(slots[_SCN]), IntegerSlot(slots[_SCN], factor=0)
        source_time = None
        if change.source_time is not None:
            source_time = IntegerSlot(slots[_EVENT], 1000, FIRST_MS, LAST_MS)
        extra: dict[str, int | bytes] = {}
        for name, raw in _carried(change.extra or b'{"dataworks":{}}')[FAMILY].items():
            extra[name] = slots["payload", "timestamp", name] if name in _TIMES else bytes(raw)
        return FieldMap(
            schema,
            change.operation,
            *images,
            sequence,
            source_time,
            family=FAMILY if extra else "",
            extra=extra,
            carry=None if extra else _nothing,
            full_row=change.full_row,
        )

    def _images(self, sample: Sample, change: Change) -> tuple[Cells | None, Cells | None] | None:
        """The columns of the rows before and after; None if one cannot be read in bulk."""
        schema = change.schema
        ways = self._ways.get(schema)
        if ways is None:
            ways = self._ways[schema] = readers_of(
                in_notation(schema, self._typed.earlier), self._typed.style
            )
        was = cells(sample, ("payload", "before", "data"), ways, schema.names)
        now = cells(sample, ("payload", "after", "data"), ways, schema.names)
        if was is None or now is None:
            return None
        if change.before is not None and change.after is not None and self._typed.lobs:
            was, now = without_untouched(sample, untouchable(schema), was, now)
        return None if change.before is None else was, None if change.after is None else now


def _nothing(_: Block, __: Places) -> Extra:
    return nothing_carried(FAMILY)


class OmsDataworksWriter(BulkWriter):
    """Says where the values of messages with a row come from."""

    family = FAMILY
    names_tables = True

    def __init__(self, encoder: OmsDataworksEncoder) -> None:
        self._encoder = encoder
        self._writers: Bounded[TableSchema, tuple[ColumnWriter, ...]] = Bounded()
        self._ids = BulkWrittenSequence(encoder.ids)
        self._decided = decided_by(_DECISIVE)

    def classes(self, rows: Rows) -> Places | None:
        """Rows by what the losses depend on, what they carry on, and whose sequence is kept."""
        image = _image(rows)
        if image is None or rows.moved_from is not None:
            return np.full(len(rows), -1, np.int64)
        numbers = self._decided(rows) * 2
        if rows.source_time is not None:
            numbers += rows.source_time % 1000 != 0
        kept = _keeps(rows)
        numbers = numbers * 4 + 2 * kept + rows_that_came_without(rows)
        for flag in self._ids.last_parts(rows):
            numbers = numbers * 2 + flag
        if not _goes_without(rows):
            numbers[self._ids.alone(rows) & ~kept] = -1
        lobs = maybe_untouched(rows.schema, self._encoder.settings)
        numbers[may_look_untouched(rows, lobs)] = -1
        return numbers

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        schema = rows.schema
        writers = self._writers.get(schema)
        if writers is None:
            writers = self._writers[schema] = writers_of(
                in_notation(schema, self._encoder.settings.version == "earlier"),
                self._encoder.style,
            )
        values, same = self._beside(rows)
        null = unstated_columns(rows)
        for i, name in enumerate(schema.names):
            if name in null:
                continue
            values["payload", "after", "data", name] = column(True, i, writers[i])
            values["payload", "before", "data", name] = column(False, i, writers[i])
        image = _image(rows) or ()
        places = schema.key_places if schema.key else ()
        if any(image[place] is None for place in places):
            return None
        after = rows.operation != "delete"
        keys: dict[Path, Get] = {
            (number,): column(after, place, WRITE_TEXT) for number, place in enumerate(places)
        }

        def constant(path: Path) -> bool:
            return path[0] in _SAME or path in same or (path[2:3] == ("data",) and path[-1] in null)

        return [TemplateFields(values, constant, keys)]

    def _beside(self, rows: Rows) -> tuple[dict[Path, Get], set[Path]]:
        """What stands beside the images: values, and what is the same for all rows."""
        values: dict[Path, Get] = {}
        same: set[Path] = {("payload", name) for name in ("op", "ddl", "before", "after")}
        if rows.source_time is None:
            same.add(("payload", "timestamp"))
        else:
            values[_EVENT] = times(1000)
        fields = rows.extra.fields if rows.extra is not None and carried(rows, FAMILY) else {}
        for name in _TIMES:
            if isinstance(fields.get(name), Value):
                values["payload", "timestamp", name] = field_of(name)
            else:
                same.add(("payload", "timestamp", name))
        if _keeps(rows)[0]:
            values[_SCN] = sequences(True)
        elif _goes_without(rows):
            same.add(_SCN)
        else:
            values[_SCN] = self._ids.get(True)
        if rows.tables is not None:
            values |= {path: get for path, get in _TABLE_NAMES.items() if path[-1] not in fields}
        return values, same


_TABLE_NAMES: dict[Path, Get] = {
    ("schema", "source", "dbName"): names(lambda schema: schema.database),
    ("schema", "source", "schema"): names(lambda schema: schema.schema),
    ("schema", "source", "table"): names(lambda schema: schema.table),
}
"""Where the names of tables stand; a database's that was carried on may be another than its own."""


def _image(rows: Rows) -> Columns | None:
    """The row whose key the message has."""
    return rows.before if rows.operation == "delete" else rows.after


def _keeps(rows: Rows) -> Mask:
    """Which rows keep the number that came from the same family."""
    sequence = rows.sequence
    if sequence is None or rows.full_row or len(sequence) != 2 or not carried(rows, FAMILY):
        return np.zeros(len(rows), np.bool_)
    kept: Mask = (sequence[0] >= 0) & (sequence[1] == 0)
    return kept


def _goes_without(rows: Rows) -> bool:
    """Whether rows have no number in `scn`."""
    if rows.sequence is None and carried(rows, FAMILY):
        return True
    return rows.full_row
