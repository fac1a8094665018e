"""Where the values of rows of DMS's files stand, for reading and writing in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.bulk.block import Block
from waybill.bulk.column_codecs import (
    BLANK,
    same,
)
from waybill.bulk.constant_bytes import values
from waybill.bulk.field_map import FieldMap, IntegerSlot, Sample
from waybill.bulk.templates import BulkWriter, Flagged, TemplateFields
from waybill.envelopes.dms.bulk.reading import any_of, gone
from waybill.envelopes.dms.bulk.values import (
    keys_alone,
    time_count,
)
from waybill.envelopes.dms.bulk.writing import (
    TABLE_NAMES,
    TableWriters,
    all_alone,
    times,
    types_flags,
    written_image,
)
from waybill.envelopes.dms.encoder import OPERATIONS
from waybill.envelopes.dms.files.decoder import table_key
from waybill.envelopes.dms.positions import without_zeros
from waybill.envelopes.dms.values import FILES, SEQUENCE_DIGITS, style_of
from waybill.envelopes.memory.bulk import RememberingReader, row_of, styled
from waybill.envelopes.sequence.bulk import BulkSequence
from waybill.errors import Refusal
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Path
    from waybill.bulk.rows import Rows
    from waybill.bulk.templates import Get
    from waybill.envelopes.dms.files.decoder import DmsFilesDecoder
    from waybill.envelopes.dms.files.encoder import DmsFilesEncoder
    from waybill.envelopes.memory.bulk import Cells
    from waybill.records import Change

_FAMILY = "dms"
_encode = msgspec.json.Encoder().encode
_names = msgspec.json.Decoder(dict[str, str]).decode


# Reading


class DmsFilesReader(RememberingReader):
    """Says what the values of rows of files mean."""

    def __init__(self, decoder: DmsFilesDecoder) -> None:
        settings = decoder.settings
        super().__init__(decoder)
        self._settings = settings
        self._take = styled(style_of(FILES, settings))
        self._added = ("Op", settings.timestamp_column, settings.sequence_column)
        self.reads_keys = not settings.table

    def meaning(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a row."""
        if change.operation not in ROW_OPERATIONS:
            return None
        slots = {str(path[0]): slot for path, slot in sample.slots.items() if len(path) == 1}
        _, timed, ordered = self._added
        if "" in slots or len(slots) != len(sample.slots):
            return None
        time, order = (slots.get(name) if name else None for name in (timed, ordered))
        columns = {name: slot for name, slot in slots.items() if name not in self._added}
        cells = self.cells(sample, change.schema, columns, self._take)
        if cells is None:
            return None
        checks = [] if self._settings.table else [_other_table(sample)]
        free: dict[int, int] = {}
        before: Cells | None = None
        after: Cells | None = cells
        if change.operation == "delete":
            before, after = gone(sample, change, cells, free, checks), None
        sequence = None
        if change.sequence is not None and order is not None:
            sequence = (IntegerSlot(order, convert=without_zeros),)
        return FieldMap(
            change.schema,
            change.operation,
            row_of(before, change.schema),
            row_of(after, change.schema),
            sequence=sequence,
            source_time=None if change.source_time is None or time is None else time_count(time),
            check=any_of(checks),
            free=free,
            full_row=change.full_row,
        )


def _other_table(sample: Sample) -> Callable[[Rows], Mask]:
    """Rows of another table than that of a message, as far as keys of the same names tell."""
    message = sample.message
    if table_key(message) is None:
        # Nor does any other key with these names.
        return lambda rows: rows.of_other_topics(message.topic)
    names = [_encode(name)[1:-1] for name in _names(message.key or b"").values()]

    def check(rows: Rows) -> Mask:
        found = np.zeros(len(rows), np.bool_)
        keys = rows.block.keys if isinstance(rows.block, Block) else None
        if keys is None:
            return ~found
        for slot, name in enumerate(names):
            texts = values(keys, rows.places, slot)
            found |= ~same(keys.arena, texts, keys.arena.constant(name, len(rows)))
        return found

    return check


# Writing


class DmsFilesWriter(BulkWriter):
    """Says where the values of rows of files come from."""

    family = _FAMILY
    names_tables = True

    def __init__(self, encoder: DmsFilesEncoder) -> None:
        self._encoder, self._settings = encoder, encoder.settings
        self._ids = BulkSequence(encoder.packed)
        self._writers = TableWriters(style_of(FILES, encoder.settings))
        self._flagged = Flagged()

    def classes(self, rows: Rows) -> Places | None:
        """Rows by what is given up; those with another key are written on their own."""
        image = written_image(rows)
        if image is None:
            return all_alone(rows)
        try:
            writer, _ = self._encoder.table(rows.schema)
        except Refusal:
            return all_alone(rows)
        flags = [np.zeros(len(rows), np.bool_), *types_flags(writer, rows, image)]
        apart = np.zeros(len(rows), np.bool_)
        if rows.operation == "delete":
            flags.append(keys_alone(rows.schema, image, len(rows)))
        elif rows.operation == "update" and rows.before is not None and rows.schema.key:
            for place in rows.schema.key_places:
                was, now = rows.before[place], image[place]
                if was is not None and now is not None:
                    apart |= ~same(rows.arena, was, now)
        flags += self._ids.last_parts(rows)
        classes = self._flagged.numbers(flags)
        classes[apart] = -1
        if self._settings.sequence_column and not rows.full_row:
            classes[self._ids.alone(rows)] = -1
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of a row."""
        settings = self._settings
        if rows.operation not in OPERATIONS or rows.moved_from is not None:
            return None
        columns = self._writers.gets(rows, rows.operation != "delete")
        if columns is None or not columns:
            return None
        values: dict[Path, Get] = {(name,): get for name, get in columns.items()}
        if settings.timestamp_column and rows.source_time is not None:
            values[settings.timestamp_column,] = times(BLANK, False)
        if settings.sequence_column and rows.sequence is not None:
            values[settings.sequence_column,] = self._ids.padded(SEQUENCE_DIGITS)
        keys: dict[Path, Get] = {(name,): get for name, get in TABLE_NAMES.items()}
        return [TemplateFields(values, ("Op",).__eq__, keys)]
