"""Writes changes of one table and one operation in bulk.

What stands around the values is learnt from what the envelope's encoder writes for one change. One
change of each block is written by the encoder again, and has to be the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from waybill.bulk import kernels
from waybill.bulk.arena import Value
from waybill.bulk.assembly import Filled, Nothing
from waybill.bulk.block import JSON, Path, Scanned, Scanner
from waybill.bulk.constant_bytes import Place
from waybill.bulk.forms import FEWEST
from waybill.bulk.rows import Rows
from waybill.bulk.value_kinds import BAD
from waybill.caches import Bounded, Numbers
from waybill.errors import Code, Refusal, WaybillError
from waybill.row_times.zoned import count_zones

if TYPE_CHECKING:
    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import ValueEncoder
    from waybill.bulk.tables import Tables
    from waybill.protocol import Encoded, Encoder
    from waybill.records import TableSchema

Get = Callable[[Rows], Value]
"""Gives what stands at one place of the messages of some changes."""


MOST_TRIES = 20
"""After so many blocks in vain nothing more is learnt of changes of the same shape."""


class TemplateFields(NamedTuple):
    """Where the values of written messages come from.

    Attributes:
        values: for each path of a value where it comes from.
        constant: whether a path has one value, as long as the changes have the same shape.
        keys: the same for the message keys.
        rest: where the end of the message comes from, of whose values `values` tells none: what
            stands before its last byte.
    """

    values: dict[Path, Get]
    constant: Callable[[Path], bool]
    keys: dict[Path, Get]
    rest: Get | None = None


class BulkWriter(ABC):
    """Says where the values of an envelope's messages come from.

    Attributes:
        family: the family whose fields (`records.Change.extra`) it carries on.
        opening: how these begin where they are carried on as they stand, as the field `tail`.
        scanner: finds the values of written messages.
        key_scanner: finds those of their keys.
        names_tables: whether it says where the names of tables stand, so that changes of several
            tables are written together; they stand there for all classes of an operation, or for
            none.
    """

    family: str
    opening: str | None = None
    scanner: Scanner = JSON
    key_scanner: Scanner = JSON
    names_tables = False

    @abstractmethod
    def classes(self, rows: Rows) -> Places | None:
        """A number for each row; rows of one number differ in nothing but values when written.

        None where all rows do. Rows below zero are written on their own.
        """

    @abstractmethod
    def template_fields(self, rows: Rows) -> list[TemplateFields] | None:
        """The values of each of the messages of one change; None if such are written individually.

        Args:
            rows: changes of one class.
        """


class Flagged:
    """Numbers for rows by what is true of them, the same numbers whenever it is asked."""

    def __init__(self) -> None:
        self._packed: Numbers[bytes] = Numbers(1 << _FEW_FLAGS)

    def numbers(self, flags: list[Mask]) -> Places:
        """A number for each row; rows of one number have the same flags."""
        if len(flags) <= _FEW_FLAGS:
            numbers = np.zeros(len(flags[0]), np.int64)
            for bit, flag in enumerate(flags):
                numbers |= flag.astype(np.int64) << bit
            return numbers
        packed = np.packbits(np.stack(flags, axis=1), axis=1)
        found, inverse = np.unique(packed, axis=0, return_inverse=True)
        return np.array([self._packed.of(one.tobytes()) for one in found], np.int64)[
            inverse.ravel()
        ]


_FEW_FLAGS = 60


class Written(NamedTuple):
    """The messages of some changes, those of one change at the same place of each list.

    Attributes:
        rows: the changes.
        keys: message keys, one list for each message of a change.
        values: message values.
        losses: what the encoder tells of each of the changes.
    """

    rows: Rows
    keys: list[Filled | Nothing]
    values: list[Filled | Nothing]
    losses: list[str]


class _Text:
    """What stands around some values."""

    def __init__(
        self,
        text: bytes,
        gets: dict[Path, Get],
        constant: Callable[[Path], bool],
        scanner: Scanner,
        rest: tuple[Get, bytes] | None = None,
    ) -> None:
        self.gets: list[tuple[Get, ValueEncoder | None]] = []
        parts, cuts = bytearray(), [0]
        self.good = True
        spans = _spans(text, scanner)
        if spans is None:
            self.good = not gets and rest is None
            spans = []
        at = 0
        end = len(text)
        if rest is not None:
            self.good = self.good and text[:-1].endswith(rest[1])
            end -= len(rest[1]) + 1
        for path, start, stop, value_encoder in spans:
            if start >= end:
                break
            get = gets.get(path)
            if get is None:
                self.good = self.good and constant(path)
                continue
            self.good = self.good and value_encoder is not None
            parts += text[at:start]
            cuts.append(len(parts))
            self.gets.append((get, value_encoder))
            at = stop
        parts += text[at:end]
        cuts.append(len(parts))
        if rest is not None:
            self.gets.append((rest[0], None))
            parts += text[-1:]
            cuts.append(len(parts))
        self.text, self.cuts = bytes(parts), cuts

    def values(self, rows: Rows) -> list[Value]:
        made = []
        known: dict[Get, Value] = {}
        for get, value_encoder in self.gets:
            value = known.get(get)
            if value is None:
                value = known[get] = get(rows)
            made.append(value if value_encoder is None else value_encoder(rows.arena, value))
        return made


def _spans(
    text: bytes, scanner: Scanner
) -> list[tuple[Path, int, int, ValueEncoder | None]] | None:
    """Paths of the values of a message, the bytes that they take, and what makes others of them.

    None for a message whose values are not found.
    """
    block = Scanned(text, np.array([0]), np.array([len(text)])).scan_by(scanner)
    count = int(block.counts[0])
    if count < 0:
        return None
    try:
        paths, value_encoders = scanner.paths(text), scanner.value_encoders(text)
    except ValueError:
        return None  # e.g. a number of more digits than can be looked at
    if len(paths) != count:
        return None
    spans = Place(block, 0).spans()
    return [
        (p, *span, value_encoder)
        for p, span, value_encoder in zip(paths, spans, value_encoders, strict=True)
    ]


class _Plan:
    """How changes of the same shape are written."""

    def __init__(
        self,
        rows: Rows,
        written: list[Encoded],
        losses: list[str],
        template_fields: list[TemplateFields],
        writer: BulkWriter,
    ) -> None:
        self.losses = losses
        self.values: list[_Text | None] = []
        self.keys: list[_Text | None] = []
        self.good = len(written) == len(template_fields)
        for encoded, message_fields in zip(written, template_fields, strict=False):
            if encoded.headers is not None:
                self.good = False
                continue
            text = None
            if encoded.value is not None:
                rest = None
                if message_fields.rest is not None:
                    held = rows.arena.text(message_fields.rest(rows).texts, 0)
                    rest = message_fields.rest, held or b""
                text = _Text(
                    encoded.value,
                    message_fields.values,
                    message_fields.constant,
                    writer.scanner,
                    rest,
                )
                self.good = self.good and text.good
            key = None
            if encoded.key is not None:
                key = _Text(encoded.key, message_fields.keys, lambda _: False, writer.key_scanner)
            self.values.append(text)
            self.keys.append(key)
            self.good = self.good and (key is None or key.good)

    def write(self, rows: Rows) -> tuple[Written | None, Mask]:
        """The messages of the rows that are written, and which ones are not."""
        values = [[] if text is None else text.values(rows) for text in self.values]
        keys = [[] if text is None else text.values(rows) for text in self.keys]
        bad = np.zeros(len(rows), np.bool_)
        for value in (value for found in (*values, *keys) for value in found):
            bad |= value.texts.lengths == BAD
        if bad.any():
            rows = rows.take(~bad)
            if not len(rows):
                return None, bad
            values, keys = _without(values, bad), _without(keys, bad)
        named, made = _written(self.keys, rows, keys), _written(self.values, rows, values)
        return Written(rows, named, made, self.losses), bad


def _written(
    texts: list[_Text | None], rows: Rows, values: list[list[Value]]
) -> list[Filled | Nothing]:
    """Each of the messages or keys of some changes; null where there is none."""
    size = len(rows)
    return [
        Nothing(size) if t is None else Filled(rows.arena, size, t.text, t.cuts, v)
        for t, v in zip(texts, values, strict=True)
    ]


def _without(values: list[list[Value]], bad: Mask) -> list[list[Value]]:
    return [[Value(v.texts.take(~bad), v.quoted) for v in found] for found in values]


class Templates:
    """What was learnt about the messages of an envelope.

    Args:
        encoder: writes one change exactly.
        writer: says where the values come from.
        fewest: fewer changes of a block of the same shape are not worth the trouble.
    """

    def __init__(self, encoder: Encoder, writer: BulkWriter, fewest: int = FEWEST) -> None:
        self._encoder, self._writer = encoder, writer
        self._fewest = fewest
        self._plans: Bounded[tuple[object, ...], _Plan] = Bounded()
        self._tries: Bounded[tuple[object, ...], int] = Bounded()
        self._tables: Bounded[object, Bounded[TableSchema, bool]] = Bounded()
        """Whether tables of the same columns are written by the same plans, for each operation."""

    def write(self, rows: Rows, written: list[Written]) -> list[Rows]:
        """Write changes.

        Args:
            rows: the changes.
            written: takes the messages.

        Returns:
            The changes that have to be written individually.
        """
        numbers = self._writer.classes(rows)
        if numbers is None:
            return self._write_class(rows, 0, written)
        if rows.tables is not None and (numbers < 0).all():
            # The first table may be one that the encoder refuses.
            return [left for some in rows.by_table() for left in self.write(some, written)]
        rest: list[Rows] = []
        found, order, ends = kernels.grouped(numbers.view(np.uint64), np.zeros_like(numbers))
        start = 0
        for number, end in zip(found.view(np.int64).tolist(), ends.tolist(), strict=True):
            some = rows if end - start == len(rows) else rows.take(order[start:end])
            start = end
            if number < 0:
                rest.append(some)
            else:
                rest += self._write_class(some, number, written)
        return rest

    def _write_class(self, rows: Rows, number: int, written: list[Written]) -> list[Rows]:
        """Write changes of one class; returns those that have to be written individually."""
        if len(rows) < self._fewest:
            return [rows]
        tables = rows.tables
        identity = rows.schema if tables is None else None, rows.signature, number
        plan = self._plans.get(identity)
        if plan is None:
            tries = self._tries.get(identity, 0)
            plan = self._learn(rows) if tries < MOST_TRIES else None
            if plan is None:
                self._tries[identity] = tries + 1
                return self._by_table(rows, number, written)
            self._plans[identity] = plan
        apart: list[Rows] = []
        if tables is not None:
            written_here = self._tables_written(plan, rows, tables)
            if not written_here.all():
                apart = self._by_table(rows.take(~written_here), number, written)
                rows = rows.take(written_here)
            if not len(rows):
                return apart
        made, bad = plan.write(rows)
        if made is None:
            return [*apart, rows]
        self._check(plan, made)
        written.append(made)
        return [*apart, rows.take(bad)] if bad.any() else apart

    def _by_table(self, rows: Rows, number: int, written: list[Written]) -> list[Rows]:
        """Write changes of several tables by plans of their own, if that makes a difference."""
        if rows.tables is None:
            return [rows]
        return [
            left for some in rows.by_table() for left in self._write_class(some, number, written)
        ]

    def _tables_written(self, plan: _Plan, rows: Rows, tables: Tables) -> Mask:
        """Which changes are of tables whose messages differ in the names from those of a plan.

        Those are known once one change of each was written as the encoder does.
        """
        known = self._tables.get(rows.signature)
        if known is None:
            known = self._tables[rows.signature] = Bounded()
        schemas, present = tables.schemas, tables.present()
        if any(schemas[number] not in known for number in present):
            met = [row for row in tables.firsts() if tables.of(row) not in known]
            made, _ = plan.write(rows.take(np.array(met, np.int64)))
            for row in range(0 if made is None else len(made.rows)):
                if made is not None:
                    known[made.rows.schema_of(row)] = self._is_exact(plan, made, row)
        written = np.zeros(len(schemas), np.bool_)
        written[present] = [known.get(schemas[number], False) for number in present]
        found: Mask = written[tables.numbers]
        return found

    def _learn(self, rows: Rows) -> _Plan | None:
        template_fields = self._writer.template_fields(rows)
        if template_fields is None:
            return None
        losses: list[str] = []
        try:
            change = rows.change(0)
            encoded = self._encoder.encode(change, losses)
            count_zones(change, losses)
        except Refusal:
            return None
        plan = _Plan(rows, encoded, losses, template_fields, self._writer)
        return plan if plan.good else None

    def _is_exact(self, plan: _Plan, made: Written, row: int) -> bool:
        """Whether one of the changes became what the encoder writes."""
        change = made.rows.change(row)
        losses: list[str] = []
        try:
            encoded = self._encoder.encode(change, losses)
        except Refusal:
            return False
        count_zones(change, losses)
        pairs = [(one.key, one.value) for one in encoded]
        found = [
            (key.one(row), value.one(row))
            for key, value in zip(made.keys, made.values, strict=True)
        ]
        return pairs == found and losses == plan.losses

    def _check(self, plan: _Plan, made: Written) -> None:
        """See that one of the changes became what the encoder writes.

        Raises:
            WaybillError: it did not.
        """
        row = len(made.rows) // 2
        if not self._is_exact(plan, made, row):
            message = made.rows.change(row).message
            raise WaybillError(
                f"the message at {message.topic}, partition {message.partition}, offset "
                f"{message.offset} is written differently in bulk and alone; this is a defect in "
                "the envelope's code, not in the message: please report it, and set "
                "WAYBILL_BULK=off meanwhile",
                code=Code.BULK_DIFFERS,
            )
