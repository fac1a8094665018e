"""Where the values of Debezium's Avro messages come from, for writing in bulk.

They are those of the JSON of the same event, which `bulk_writing` knows; here they become Avro.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from waybill.avro.columns import between, bytes_of_json
from waybill.avro.json_writing import json_writer
from waybill.avro.scanner import AvroScanner
from waybill.avro.schema import Node
from waybill.bulk import kernels
from waybill.bulk.arena import Texts, Value
from waybill.bulk.block import JSON, Scanned
from waybill.bulk.column_codecs import TEXT, WHOLE, ColumnWriter, whole
from waybill.bulk.constant_bytes import Place, Skeleton
from waybill.bulk.constant_bytes import values as values_at
from waybill.bulk.templates import TemplateFields
from waybill.bulk.value_kinds import BAD, ESCAPED, INTEGER, PLAIN
from waybill.bulk.values import carried
from waybill.caches import Bounded
from waybill.envelopes.debezium.avro.connect import take_true_names
from waybill.envelopes.debezium.avro.rows import parse_json
from waybill.envelopes.debezium.bulk.values import writer_of
from waybill.envelopes.debezium.bulk.writing import FAMILY, IMAGES, DebeziumWriter, tail_of
from waybill.envelopes.debezium.encoder import ROWS
from waybill.envelopes.debezium.values.json import integer_writer, unsigned_long
from waybill.types import INTEGER_RANGE

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Places
    from waybill.bulk.block import Path
    from waybill.bulk.column_codecs import Convert
    from waybill.bulk.rows import Rows
    from waybill.bulk.templates import Get
    from waybill.envelopes.debezium.avro.encoder import DebeziumAvroEncoder
    from waybill.envelopes.debezium.values.writing import Writing

_MOST_TAILS = 100
"""What stands around rows may have so many forms."""
_KINDS = {PLAIN: TEXT, ESCAPED: TEXT, INTEGER: WHOLE}
"""Kinds of values that may be others, with the kinds that these may have."""


class DebeziumAvroWriter(DebeziumWriter):
    """Says where the values of row events in Avro come from."""

    names_tables = False  # a schema of each is registered, and its number stands before the values

    def __init__(self, encoder: DebeziumAvroEncoder) -> None:
        super().__init__(encoder.events)
        self._sink = encoder.sink
        self.scanner = self.key_scanner = AvroScanner(self._schema)
        self._tails: Bounded[int, list[_Tail]] = Bounded()
        self._next = 0
        self._scanned: tuple[Rows | None, Scanned | None] = None, None

    def _schema(self, schema_id: int) -> Node | None:
        node = self._sink.node_of(schema_id)
        if node is not None:
            take_true_names(node)  # as what wrote it has done
        return node

    def _is_left(self, rows: Rows) -> bool:
        gone = rows.moved_from is not None or rows.operation not in ROWS
        return gone or self._sink.in_headers

    def _column_writer(self, writing: Writing) -> ColumnWriter | None:
        """How a column is written: as JSON, and that as the digits, text or bytes of Avro."""
        reach = _REACHES.get(writing.convert)
        if reach is not None:
            return ColumnWriter(False, whole(*reach))
        column_writer, kind = writer_of(writing), writing.connect["type"]
        if column_writer is None or (kind in _DIGITS and not column_writer.quoted):
            return column_writer
        if kind == "string":
            return (
                column_writer
                if column_writer.quoted
                else ColumnWriter(True, _after(column_writer, _without_quotes))
            )
        if kind not in _BYTES:
            return None
        write = json_writer(Node(_BYTES[kind]))
        to_bytes = bytes_of_json(write, kind == "bytes", column_writer.quoted, parse_json)
        return ColumnWriter(False, _after(column_writer, to_bytes))

    def classes(self, rows: Rows) -> Places | None:
        """Rows whose messages differ in more than values are written on their own."""
        classes = super().classes(rows)
        if not carried(rows, FAMILY):
            return classes
        numbers = self._numbers(self._scan(rows))
        if classes is not None:
            numbers[classes < 0] = -1
        return numbers

    def _carried(
        self, rows: Rows, values: dict[Path, Get], keys: dict[Path, Get]
    ) -> TemplateFields:
        """The message of rows whose source stated what stands around them: its values, in Avro."""
        scanned = self._scan(rows)
        first = np.zeros(1, np.int64)
        known = self._tails.get(int(scanned.forms[0]), ())
        tail = next((tail for tail in known if tail.fits(scanned, first).all()), None)
        if tail is None:
            return TemplateFields({}, lambda _: False, {})
        for path, slot, quoted in tail.varying:
            values[path] = self._value(slot, quoted)
        same = {*tail.constant, *IMAGES}
        return TemplateFields(values, same.__contains__, keys)

    def _value(self, slot: int, quoted: bool) -> Get:
        """One of the values of what stands around rows."""

        def get(rows: Rows) -> Value:
            scanned = self._scan(rows)
            return Value(values_at(scanned, np.arange(len(rows)), slot), quoted)

        return get

    def _scan(self, rows: Rows) -> Scanned:
        """What stands around rows, as JSON objects, with the places of its values."""
        known, scanned = self._scanned
        if known is not rows or scanned is None:
            texts = between(rows.arena, len(rows), b"{}", [0, 1, 2], [tail_of(rows)])
            scanned = Scanned(rows.arena, texts.starts, texts.starts + texts.lengths).scan_by(JSON)
            self._scanned = rows, scanned
        return scanned

    def _numbers(self, scanned: Scanned) -> Places:
        """A number for each text; those of one number differ in values only; -1 for rarer ones."""
        numbers = np.full(scanned.size, -1, np.int64)
        forms, order, ends = kernels.grouped(scanned.forms, scanned.counts)
        start = 0
        for form, end in zip(forms.tolist(), ends.tolist(), strict=True):
            rest = order[start:end]
            start = end
            for tail in self._tails.get(form, ()):
                rest = tail.take(scanned, rest, numbers)
            while len(rest) and len(self._tails.get(form, ())) < _MOST_TAILS:
                learnt = self._learnt(scanned, int(rest[0]))
                if learnt is None:
                    break
                self._tails[form] = [*self._tails.get(form, ()), learnt]
                rest = learnt.take(scanned, rest, numbers)
        return numbers

    def _learnt(self, scanned: Scanned, number: int) -> _Tail | None:
        place = Place(scanned, number)
        try:
            paths = JSON.paths(place.value)
        except ValueError:
            return None  # a number of more digits than can be looked at
        if len(set(paths)) != len(place.kinds):
            return None
        self._next += 1
        return _Tail(place, paths, self._next)


class _Tail(Skeleton):
    """What stands around rows where it differs in nothing but texts and integers.

    Of what is null, or of another kind, it depends which types a schema says.

    Args:
        place: one of them.
        paths: where its values stand.
        number: stands for all.

    Attributes:
        varying: path and number of the values that may be others, and whether they are texts.
        constant: paths of the others.
    """

    def __init__(self, place: Place, paths: list[Path], number: int) -> None:
        free = [slot for slot, kind in enumerate(place.kinds) if kind in _KINDS]
        super().__init__(place, [_KINDS.get(kind, 1 << kind) for kind in place.kinds], free)
        self.varying = [(paths[slot], slot, place.kinds[slot] <= ESCAPED) for slot in free]
        self.constant = [path for slot, path in enumerate(paths) if place.kinds[slot] not in _KINDS]
        self._number = number

    def take(self, scanned: Scanned, rows: Places, numbers: Places) -> Places:
        """Give the number to those of some texts that are so; returns the others."""
        fits = self.fits(scanned, rows)
        numbers[rows[fits]] = self._number
        return rows[~fits]


_REACHES: dict[Any, tuple[int, int]] = {
    unsigned_long: (0, 2**63 - 1),
    **{integer_writer(kind, True): reach for kind, reach in INTEGER_RANGE.items()},
}
"""What integers have to lie between, by what writes them."""
_DIGITS = frozenset({"int8", "int16", "int32", "int64"})
_BYTES = {
    "boolean": "boolean",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "bytes": "bytes",
}
"""Types of Avro that have neither digits nor texts, by Connect's."""


def _after(column_writer: ColumnWriter, convert: Convert) -> Convert:
    """What stands in JSON, made something else."""
    return lambda arena, texts: convert(arena, column_writer.write(arena, texts))


def _without_quotes(arena: Arena, texts: Texts) -> Texts:
    """The insides of texts of JSON."""
    lengths = texts.lengths.copy()
    there = lengths >= 0
    quoted = (lengths > 1) & (arena.data[np.where(there, texts.starts, 0)] == ord('"'))
    lengths[there & ~quoted] = BAD
    lengths[quoted] -= 2
    return Texts(texts.starts + 1, lengths)
