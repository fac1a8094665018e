"""Where the values of TiCDC's messages stand, for reading and writing in bulk.

`mysqlType` names the columns in another order in every message (a map of Go, in
canal_json_row_event_encoder.go); they are sorted before values are looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.field_map import FieldMap, IntegerSlot, Sample
from waybill.bulk.templates import Get, TemplateFields
from waybill.bulk.values import (
    changed_columns,
    column,
    key_array,
    names,
    own,
    source_or_queue_times,
)
from waybill.envelopes.canal.bulk import CanalReader, CanalWriter, unusual_rows
from waybill.envelopes.sequence.bulk import BulkWrittenSequence
from waybill.envelopes.tidb.decoder import step_of
from waybill.envelopes.tidb.kernels import MOST, sort_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Arena, Mask, Texts
    from waybill.bulk.block import Path, Scanned
    from waybill.bulk.column_codecs import Convert
    from waybill.bulk.rows import Rows
    from waybill.envelopes.tidb.encoder import TidbEncoder
    from waybill.records import Change, TableSchema

_FAMILY = "canal"
_COMMIT = "_tidb", "commitTs"
_CONSTANT = frozenset(
    {"id", "pkNames", "isDdl", "type", "sql", "sqlType", "mysqlType", "database", "table"}
)


class TidbReader(CanalReader):
    """Says what the values of messages with a row mean."""

    def arrange(self, texts: Scanned) -> None:
        """See `BulkReader.arrange`: the types of columns, which are sorted by their names."""
        longest = int((texts.ends - texts.begins).max(initial=0))
        places = np.empty((2, MOST), np.int64)
        sort_types(
            *(texts.arena.data, texts.begins, texts.ends, *places, np.empty(longest, np.uint8))
        )

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message with a row."""
        slot = sample.slots.get(_COMMIT)
        if change.sequence is None or slot is None:
            return None
        found = super().reading(sample, change)
        if found is not None:
            step = IntegerSlot(slot, convert=_always(step_of(change.operation)))
            found.sequence = (IntegerSlot(slot), step)
            found.extra["commitTs"] = slot
        return found

    def _check(self, schema: TableSchema, change: Change) -> Callable[[Rows], Mask] | None:
        """See `CanalReader._check`; an update of the key is two changes."""
        check = super()._check(schema, change)
        if change.operation != "update":
            return check
        return _moved if check is None else lambda rows: _moved(rows) | check(rows)


def _moved(rows: Rows) -> Mask:
    """Which rows have another key than before."""
    found = np.zeros(len(rows), np.bool_)
    if rows.schema.key and rows.before is not None and rows.after is not None:
        places = rows.schema.key_places
        keys = [tuple(image[place] for place in places) for image in (rows.before, rows.after)]
        for changed in changed_columns(rows.arena, *keys):
            found |= changed
    return found


def _always(number: int) -> Convert:
    def convert(arena: Arena, texts: Texts) -> Texts:
        return arena.constant(b"%d" % number, len(texts.starts))

    return convert


class TidbWriter(CanalWriter):
    """Says where the values of messages with a row come from."""

    def __init__(self, encoder: TidbEncoder) -> None:
        super().__init__(encoder)
        self._ids = BulkWrittenSequence(encoder.ids)
        self._carries_ids = encoder.carries_ids

    def classes(self, rows: Rows) -> np.ndarray | None:
        """Rows by what `sqlType` and the losses depend on; not those that are two messages."""
        image = rows.before if rows.operation == "delete" else rows.after
        extra = None if rows.extra is None else rows.extra.fields
        if image is None or None in image or (extra and {"sql", "tidb"} & extra.keys()):
            return np.full(len(rows), -1, np.int64)
        unusual, alone = unusual_rows(self._table(rows.schema).types, rows)
        flags = [*unusual, *self._ids.last_parts(rows)]
        if rows.source_time is not None:
            flags.append(rows.source_time % 1000 != 0)
        if rows.operation == "update" and rows.before is not None:
            places = rows.schema.key_places if rows.schema.key else ()
            if any(rows.before[place] is None for place in places):
                return np.full(len(rows), -1, np.int64)
            alone |= _moved(rows)
        classes = self._flagged.numbers(flags) if flags else np.zeros(len(rows), np.int64)
        if not rows.full_row:
            alone |= self._ids.alone(rows)
        classes[alone] = -1
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        if rows.moved_from is not None:
            return None
        schema, writers = rows.schema, self._table(rows.schema).writers
        gone = rows.operation == "delete"
        before = rows.before if rows.operation == "update" else None
        values: dict[Path, Get] = {("es",): source_or_queue_times, ("ts",): _ts}
        if not rows.full_row:
            made = self._ids.get(False)
            values[_COMMIT] = own(_FAMILY, "commitTs", made) if self._carries_ids else made
        if rows.tables is not None:
            values |= _NAMES
        for i, name in enumerate(schema.names):
            values["data", 0, name] = column(not gone, i, writers[i])
            if before is not None and before[i] is not None:
                values["old", 0, name] = column(False, i, writers[i])
        return [TemplateFields(values, _constant, key_array(rows))]


def _constant(path: Path) -> bool:
    return path[0] in _CONSTANT or path == ("old",)


def _database(schema: TableSchema) -> str:
    return schema.database or ""


def _table(schema: TableSchema) -> str:
    return schema.table or ""


_NAMES: dict[Path, Get] = {("database",): names(_database), ("table",): names(_table)}
_ts = own(_FAMILY, "ts", source_or_queue_times)
