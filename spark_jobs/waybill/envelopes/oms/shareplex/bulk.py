"""Where the values of OMS SharePlex's messages stand, for reading and writing in bulk.

Messages of tables whose columns are all declared are read so; `shareplex` and `shareplex_encoder`
say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import (
    BLANK,
    WRITE_TEXT,
    ColumnWriter,
    T,
    by_call,
    joined_texts,
    numbers,
    or_else,
    same,
    units_to_wall_clock,
    wall_clock,
    wall_clock_to_units,
    written,
)
from waybill.bulk.field_map import FieldMap, IntegerSlot, Sample
from waybill.bulk.rows import Rows, json_of
from waybill.bulk.templates import BulkWriter, Flagged, Get, TemplateFields
from waybill.bulk.value_kinds import ESCAPED
from waybill.bulk.values import (
    carried,
    changed_columns,
    column,
    field_of,
    nulls,
    sequences,
    transactions,
)
from waybill.caches import Bounded
from waybill.envelopes.memory.bulk import RememberingReader
from waybill.envelopes.oms.bulk import (
    DECIDED_BITS,
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
from waybill.envelopes.oms.lobs import untouchable
from waybill.envelopes.oms.row_ids import opening_of
from waybill.envelopes.oms.shareplex.decoder import IDX, META, OPERATIONS
from waybill.envelopes.oms.shareplex.encoder import shown
from waybill.envelopes.sequence.bulk import BulkWrittenSequence
from waybill.envelopes.stated_keys import SEPARATOR, is_compared
from waybill.errors import Refusal
from waybill.types import FIRST_MICRO, LAST_MICRO
from waybill.values.json_columns import notation_of
from waybill.values.notation import DIGITS, WHOLE_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Arena, Mask, Places, Texts
    from waybill.bulk.block import Block, Path
    from waybill.bulk.rows import Columns, Extra
    from waybill.envelopes.oms.bulk import ColumnReaders
    from waybill.envelopes.oms.shareplex.decoder import OmsShareplexDecoder
    from waybill.envelopes.oms.shareplex.encoder import OmsShareplexEncoder
    from waybill.records import Change, TableSchema
    from waybill.values.notation import Notation

FAMILY = "shareplex"
_FIELDS = frozenset({"op", "table", *META})
_carried = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text_of = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_SEPARATOR = _encode(SEPARATOR)[1:-1]


class OmsShareplexReader(RememberingReader):
    """Says what the values of messages mean."""

    def __init__(self, decoder: OmsShareplexDecoder) -> None:
        super().__init__(decoder)
        self._decoder = decoder
        self._ways: Bounded[TableSchema, tuple[ColumnReaders, ...]] = Bounded()
        self._checks: Bounded[tuple[TableSchema, bytes], Callable[[Rows], Mask]] = Bounded()
        micros = by_call(lambda text: str(decoder.times[text]))
        if decoder.zone.key == "UTC":
            to_units = wall_clock_to_units(6)
            with_blank = wall_clock(BLANK, T)

            def blank(arena: Arena, texts: Texts) -> Texts:
                return to_units(arena, with_blank(arena, texts))

            micros = or_else(to_units, or_else(blank, micros))
        self._micros = micros

    def meaning(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message of a table whose columns are all declared."""
        schema, slots = change.schema, sample.slots
        declared = self._decoder.rules.find(schema.database, None, schema.table or "").columns
        if not declared.keys() >= _named(sample) or not _is_usual(sample):
            return None
        images = self._images(sample, schema, change.operation)
        if images is None:
            return None
        sequence = None
        idx = slots.get(("meta", "idx"))
        placed = idx is not None and sample.kinds[idx] <= ESCAPED
        if change.sequence is not None:
            scn = slots["meta", "scn"]
            sequence = IntegerSlot(scn), IntegerSlot(scn, factor=0)
            if placed and idx is not None:
                sequence = IntegerSlot(scn), IntegerSlot(idx, convert=_places)
        elif placed:
            return None
        source_time = None
        if change.source_time is not None:
            source_time = IntegerSlot(
                slots["meta", "time"], 1, FIRST_MICRO, LAST_MICRO, self._micros
            )
        extra: dict[str, int | bytes] = {
            name: bytes(raw) if name == "table" else slots["meta", name]
            for name, raw in _carried(change.extra or b"")[FAMILY].items()
        }
        return FieldMap(
            schema,
            change.operation,
            *images,
            sequence,
            source_time,
            None if change.transaction is None else slots["meta", "trans"],
            FAMILY if extra else "",
            extra,
            None if extra else _nothing,
            check=self._check(sample, schema) if "rowid" in extra else None,
            full_row=change.full_row,
        )

    def _check(self, sample: Sample, schema: TableSchema) -> Callable[[Rows], Mask] | None:
        """What tells rows whose `rowid` is converted exactly; None where it is not compared."""
        if not schema.key or not is_compared(schema):
            return None
        name = sample.json(sample.slots["meta", "table"])
        check = self._checks.get((schema, name))
        if check is None:
            check = self._checks[schema, name] = _other_row_ids(_text_of(name))
        return check

    def _images(
        self, sample: Sample, schema: TableSchema, operation: str
    ) -> tuple[Cells | None, Cells | None] | None:
        """The columns of the rows before and after; None if one cannot be read in bulk."""
        ways = self._ways.get(schema)
        if ways is None:
            ways = self._ways[schema] = readers_of(schema, self._decoder.style)
        data = cells(sample, ("data",), ways, schema.names)
        key = cells(sample, ("key",), ways, schema.names)
        if data is None or key is None:
            return None
        if operation == "delete":
            return data, None
        if operation != "update" or not _has_row(sample, "key"):
            return None, data
        after = tuple(now or was for was, now in zip(key, data, strict=True))
        if not self._decoder.lobs:
            return key, after
        # What is null in the row before and did not change may be no value at all.
        lobs = [i for i in untouchable(schema) if data[i] is None]
        return without_untouched(sample, lobs, key, after)


def _other_row_ids(table: str) -> Callable[[Rows], Mask]:
    """A function that tells which rows have another key, or in other words, in `rowid`."""
    opening = _encode(opening_of(table))[1:-1]

    def other(rows: Rows) -> Mask:
        row_ids = None if rows.extra is None else rows.extra.fields.get("rowid")
        image = rows.before if rows.after is None else rows.after
        keys = [None if image is None else image[place] for place in rows.schema.key_places]
        found = [texts for texts in keys if texts is not None]
        bad = np.ones(len(rows), np.bool_)
        if not isinstance(row_ids, Value) or len(found) < len(keys):
            return bad
        whole = rows.arena.constant(opening, len(rows))
        for i, texts in enumerate(found):
            if i:
                whole = joined_texts(rows.arena, whole, rows.arena.constant(_SEPARATOR, len(rows)))
            whole = joined_texts(rows.arena, whole, texts)
        return ~same(rows.arena, whole, row_ids.texts)

    return other


def _named(sample: Sample) -> set[str]:
    """The columns that a message names."""
    return {str(path[1]) for path in sample.slots if path[0] in ("data", "key") and path[1:]}


def _is_usual(sample: Sample) -> bool:
    """Whether the decoder reads such messages the known-table way, once it knows their table."""
    fields = _decode(sample.value)
    if (
        not fields.keys() <= {"data", "meta", "key"}
        or not _decode(fields["meta"]).keys() <= _FIELDS
    ):
        return False
    update = OPERATIONS[_text_of(sample.json(sample.slots["meta", "op"]))] == "update"
    return update or not _has_row(sample, "key")


def _has_row(sample: Sample, name: str) -> bool:
    """Whether an image is there, be it an empty one."""
    return bytes(_decode(sample.value).get(name, b"null")) != b"null"


def _place(text: str) -> str:
    """The place that `idx` tells.

    Raises:
        ValueError: it tells none.
    """
    found = IDX.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return str(int(found[1]))


_places = by_call(_place)


def _nothing(_: Block, __: Places) -> Extra:
    return nothing_carried(FAMILY)


class _TableWriter:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema, encoder: OmsShareplexEncoder) -> None:
        self.table = encoder.table(schema)
        self.ids = BulkWrittenSequence(self.table.ids)
        style = self.table.style
        noted = self.table.rows.schema
        self.writers = writers_of(noted, style)
        self.key = schema.key_places if schema.key else ()
        self.shown = tuple(
            _shown(notation_of(noted.columns[i].type, style), self.writers[i]) for i in self.key
        )
        self.lobs = self.table.lobs.columns
        self.loses_types = self.table.rows.loses_types


def _shown(notation: Notation, column_writer: ColumnWriter) -> ColumnWriter:
    """How a value of the key stands in `rowid`."""
    write = notation.write
    if write is None or notation.writes in (DIGITS, WHOLE_DIGITS):
        return WRITE_TEXT
    if column_writer.quoted:
        return column_writer
    return ColumnWriter(True, by_call(lambda text: shown(write(text))))


class OmsShareplexWriter(BulkWriter):
    """Says where the values of messages come from."""

    family = FAMILY

    def __init__(self, encoder: OmsShareplexEncoder) -> None:
        self._encoder = encoder
        self._tables: Bounded[TableSchema, _TableWriter] = Bounded()
        self._flagged = Flagged()
        self._decided = decided_by(("table",))

    def _table(self, schema: TableSchema) -> _TableWriter | None:
        """The table; None if its messages are refused."""
        table = self._tables.get(schema)
        if table is None:
            try:
                table = _TableWriter(schema, self._encoder)
            except Refusal:
                return None
            self._tables[schema] = table
        return table

    def classes(self, rows: Rows) -> Places | None:
        """Rows by the columns that changed, by what the losses depend on, by whose sequence it is.

        On their own are those whose key holds a null, and all where times are not those of UTC.
        """
        alone = np.full(len(rows), -1, np.int64)
        if self._encoder.settings.timezone != "UTC":
            return alone
        table, image = self._table(rows.schema), _image(rows)
        if table is None or image is None or rows.moved_from is not None:
            return alone
        update = rows.operation == "update" and rows.before is not None
        if any(image[place] is None for place in table.key):
            return alone
        kept = _keeps(rows)
        flags = [kept, rows_that_came_without(rows), *table.ids.last_parts(rows)]
        if rows.source_time is not None:
            flags.append(rows.source_time % 1_000_000 != 0)
        if not table.loses_types:
            flags.append(nulls(image, len(rows), rows.before if update else None))
        if update and rows.before is not None:
            flags += changed_columns(rows.arena, rows.before, image)
        decided = self._decided(rows)
        if decided.any():
            flags += [decided >> bit & 1 != 0 for bit in range(DECIDED_BITS)]
        classes = self._flagged.numbers(flags)
        classes[decided < 0] = -1
        if not rows.full_row and not (rows.sequence is None and carried(rows, FAMILY)):
            classes[table.ids.alone(rows) & ~kept] = -1
        classes[may_look_untouched(rows, table.lobs)] = -1
        _leave_null_keys(classes, table, image)
        return classes

    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of the one message of a row."""
        table = self._table(rows.schema)
        if table is None:
            return None
        after = rows.operation != "delete"
        values = {**_images(rows, table), ("meta", "trans"): transactions}
        values["meta", "scn"] = sequences(True) if _keeps(rows)[0] else table.ids.get(True)
        values["meta", "time"] = _time
        same: set[Path] = {("meta", "op"), ("meta", "table")}
        if not carried(rows, FAMILY):
            values["meta", "posttime"] = _time
        for name, found in _fields(rows).items():
            if isinstance(found, Value) and name != "table":
                values["meta", name] = field_of(name)
            else:
                same.add(("meta", name))
        if table.key:
            parts = [
                column(after, i, column_writer)
                for i, column_writer in zip(table.key, table.shown, strict=True)
            ]
            values["meta", "rowid"] = _rowid(table.table.named(_carried_table(rows)), parts)
        keys: dict[Path, Get] = {
            (number,): column(after, place, WRITE_TEXT) for number, place in enumerate(table.key)
        }
        same |= {(image, name) for image in ("data", "key") for name in unstated_columns(rows)}
        return [TemplateFields(values, same.__contains__, keys)]


def _images(rows: Rows, table: _TableWriter) -> dict[Path, Get]:
    """The values of both images."""
    values: dict[Path, Get] = {}
    null = unstated_columns(rows)
    for i, (name, column_writer) in enumerate(zip(rows.schema.names, table.writers, strict=True)):
        if name in null:
            continue
        values["data", name] = column(rows.operation != "delete", i, column_writer)
        values["key", name] = column(False, i, column_writer)
    return values


def _image(rows: Rows) -> Columns | None:
    """The row whose key the message has."""
    return rows.before if rows.operation == "delete" else rows.after


def _fields(rows: Rows) -> dict[str, Value | bytes]:
    """What came from a source of this family."""
    return rows.extra.fields if rows.extra is not None and carried(rows, FAMILY) else {}


def _carried_table(rows: Rows) -> Any:
    """The name of the table that rows like the first one carry on; UNSET where they have none."""
    found = _fields(rows).get("table")
    if isinstance(found, Value):
        found = json_of(rows.arena, found, 0)
    return UNSET if found is None else msgspec.json.decode(found)


def _leave_null_keys(classes: Places, table: _TableWriter, image: Columns) -> None:
    """Let rows whose key holds a null go on their own."""
    for place in table.key:
        texts = image[place]
        if texts is not None:
            classes[texts.lengths < 0] = -1


def _keeps(rows: Rows) -> Mask:
    """Which rows keep the two numbers that came from the same family."""
    sequence = rows.sequence
    if sequence is None or len(sequence) != 2 or not carried(rows, FAMILY):
        return np.zeros(len(rows), np.bool_)
    kept: Mask = (sequence[0] >= 0) & (sequence[1] == _carried_places(rows))
    return kept


def _carried_places(rows: Rows) -> Places | int:
    """The places that `idx` tells, 0 where it tells none."""
    found = _fields(rows).get("idx")
    if isinstance(found, bytes):
        places = msgspec.json.decode(found)
        return int(_place(places)) if isinstance(places, str) else 0
    if found is None or not found.quoted:
        return 0
    return numbers(rows.arena, _places(rows.arena, found.texts))[0]


def _time(rows: Rows) -> Value:
    """The seconds of the source's times."""
    if rows.source_time is None:
        raise KeyError("the rows have no time")
    texts = written(rows.arena, rows.source_time // 1_000_000)
    return Value(_to_second(rows.arena, texts), True)


_to_second = units_to_wall_clock(0)


def _rowid(name: str, parts: list[Get]) -> Get:
    """The table's name and the texts of a key, with a separator between those of several."""

    def get(rows: Rows) -> Value:
        arena, size = rows.arena, len(rows)
        texts = arena.constant(_encode(f"{name}-")[1:-1], size)
        for number, part in enumerate(parts):
            if number:
                texts = joined_texts(arena, texts, arena.constant(_SEPARATOR, size))
            texts = joined_texts(arena, texts, part(rows).texts)
        return Value(texts, True)

    return get
