"""Rows of `changes` as changes that are written in bulk."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from waybill.bulk import kernels
from waybill.bulk.arena import Texts, Value
from waybill.bulk.arrow_texts import texts_of
from waybill.bulk.block import JSON, Messages, Scanned, paths_of
from waybill.bulk.column_codecs import NOTHING, TEXT
from waybill.bulk.constant_bytes import Place, Skeleton, several_values, values
from waybill.bulk.forms import FEWEST
from waybill.bulk.rows import Columns, Extra, Rows
from waybill.bulk.value_kinds import ESCAPED
from waybill.envelopes.database_kinds import FIELD, NAMED
from waybill.lake_columns import MESSAGE_PLACE
from waybill.records import ROW_OPERATIONS, Message

if TYPE_CHECKING:
    from waybill.bulk.arena import Places
    from waybill.bulk.templates import BulkWriter
    from waybill.records import TableSchema

_MOST_CODES = 2**62
_PARTS = 4
"""Parts of a sequence id that are read in bulk."""
_fields = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


class _Image:
    """JSON objects of the same columns."""

    def __init__(self, block: Scanned, number: int, schema: TableSchema) -> None:
        place = Place(block, number)
        count = len(place.kinds)
        self.skeleton = Skeleton(place, [TEXT | NOTHING] * count, range(count))
        paths = paths_of(place.value)
        slots = {path: slot for slot, path in enumerate(paths)}
        self.slots = [slots.pop((name,), None) for name in schema.names]
        self.good = not slots and len(paths) == count

    def columns(self, block: Scanned, numbers: Places) -> Columns:
        """The values of each column."""
        present = [slot for slot in self.slots if slot is not None]
        found = zip(*several_values(block, numbers, present), strict=True)
        return tuple(None if slot is None else Texts(*next(found)) for slot in self.slots)


class _Carried:
    """JSON of what only targets of one family carry on."""

    def __init__(self, block: Scanned, number: int, family: str) -> None:
        place = Place(block, number)
        self.good = False
        self.fields: dict[str, int | bytes] = {}
        try:
            parsed = _fields(place.value)
            slots = {path: slot for slot, path in enumerate(paths_of(place.value))}
        except ValueError:
            parsed, slots = {}, {}  # a number of more digits than can be looked at
        if len(parsed) == 1 and len(slots) == len(place.kinds):
            self.good = True
            for name, raw in parsed[family].items():
                slot = slots.get((family, name))
                self.fields[name] = bytes(raw) if slot is None else slot
        free = [slot for slot in self.fields.values() if isinstance(slot, int)]
        self.skeleton = Skeleton(place, [1 << kind for kind in place.kinds], free)
        self.family, self._kinds = family, place.kinds

    def extra(self, block: Scanned, numbers: Places, whole: Value) -> Extra:
        """What is carried on."""
        fields: dict[str, Value | bytes] = {}
        for name, value in self.fields.items():
            if isinstance(value, bytes):
                fields[name] = value
            else:
                quoted = self._kinds[value] <= ESCAPED
                fields[name] = Value(values(block, numbers, value), quoted)
        return Extra(self.family, (whole,), fields)


def _numbered(values: Any, counts: Any) -> Any:
    """Small numbers for values, the same for the same; -1 where `counts` is below zero."""
    _, order, stops = kernels.grouped(values, counts)
    found = np.full(len(values), -1, np.int64)
    start = 0
    for number, stop in enumerate(stops.tolist()):
        found[order[start:stop]] = number
        start = stop
    return found


def _mask(flags: Any) -> Any:
    return flags.fill_null(False).to_numpy(zero_copy_only=False)


class StoredChanges:
    """Reads rows of `changes` for one target.

    Args:
        schemas: every schema of the batch by its id.
        writer: of the target, which tells its family, whose fields are looked at.
        fewest: fewer changes of a batch of the same shape are not worth the trouble.
    """

    def __init__(
        self, schemas: dict[str, TableSchema], writer: BulkWriter, fewest: int = FEWEST
    ) -> None:
        self._schemas, self._writer, self._fewest = schemas, writer, fewest

    def read(self, batch: pa.RecordBatch) -> tuple[list[Rows], Places]:
        """Changes of a batch, and the numbers of the rows that are read on their own."""
        return _Batch(batch, self._schemas, self._writer, self._fewest).read()


def _message(batch: pa.RecordBatch, number: int) -> Message:
    """The place of the message of a row."""
    topic, partition, offset = (batch.column(name)[number].as_py() for name in MESSAGE_PLACE)
    return Message(topic, partition, offset, None, None, None)


class _Batch:
    """One batch of `changes`."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        schemas: dict[str, TableSchema],
        writer: BulkWriter,
        fewest: int,
    ) -> None:
        self.batch, self.schemas, self.writer, self.fewest = batch, schemas, writer, fewest
        self.size = batch.num_rows
        found = [texts_of(batch.column(n)) for n in ("after", "before", "extra", "transaction")]
        at, begins, ends = 0, [], []
        for data, first, last in found:
            begins.append(first + at)
            ends.append(last + at)
            at += len(data)
        data = np.concatenate([data for data, _, _ in found])
        offsets = batch.column("offset").to_numpy(zero_copy_only=False)
        partitions = batch.column("partition").to_numpy(zero_copy_only=False).astype(np.int64)
        texts = Scanned(data, np.concatenate(begins[:3]), np.concatenate(ends[:3]))
        self.texts = texts.scan_by(JSON)
        micros = batch.column("source_time").cast(pa.int64()).fill_null(0)
        self.times = micros.to_numpy(zero_copy_only=False)
        self.begins, self.ends = begins, ends
        # Not a method: in a circle, what a batch takes would stay until Python looks for circles.
        message = partial(_message, batch)
        self.messages = Messages(self.texts.arena, partitions, offsets, None, message)

    def _there(self, name: str) -> Any:
        return self.batch.column(name).is_valid().to_numpy(zero_copy_only=False)

    def read(self) -> tuple[list[Rows], Places]:
        """The changes, and the numbers of the rows that are read on their own."""
        size, texts = self.size, self.texts
        parts = np.zeros((_PARTS, size), np.int64)
        counts, ranks = np.empty(size, np.int64), np.empty(size, np.int64)
        full = np.empty(size, np.bool_)
        data, begins, ends = texts_of(self.batch.column("order_key"))
        kernels.read_order_keys(data, begins, ends, parts, counts, ranks, full)
        after, before = self._there("after"), self._there("before")
        extra, transaction = self._there("extra"), self._there("transaction")
        timed = self._there("source_time")
        schema, operation = self._codes("schema_id"), self._codes("operation")
        apart = self._there("old_key") | self._there("ddl_text") | (counts < 0) | (schema < 0)
        apart |= self.batch.column("index").to_numpy(zero_copy_only=False) != 0
        apart |= (after & (texts.counts[:size] < 0)) | (
            before & (texts.counts[size : 2 * size] < 0)
        )
        mine, other = self._mine(extra)
        apart |= other
        if self.writer.opening is None:
            apart |= mine & (texts.counts[2 * size :] < 0)
        escaped = np.empty(size, np.bool_)
        kernels.holds(
            texts.arena.data, self.begins[3], self.ends[3] - self.begins[3], ord("\\"), escaped
        )
        quote = np.empty(size, np.bool_)
        kernels.holds(
            texts.arena.data, self.begins[3], self.ends[3] - self.begins[3], ord('"'), quote
        )
        apart |= escaped | quote
        codes, kinds = np.zeros(size, np.int64), 1
        for part in (
            *(schema, operation, self._form(0, after), self._form(1, before)),
            *(self._form(2, mine), extra, self._kinds, transaction, timed, counts, ranks, full),
        ):
            numbers = part.astype(np.int64) + 1
            most = int(numbers.max(initial=0)) + 1
            if kinds * most > _MOST_CODES:
                # As small as can be, so that no two kinds of rows ever get one number.
                codes, kinds = _numbered(codes.view(np.uint64), np.zeros(size, np.int64)), size
            codes, kinds = codes * most + numbers, kinds * most
        slow = [np.flatnonzero(apart)]
        read: list[Rows] = []
        _, order, stops = kernels.grouped(codes.view(np.uint64), -apart.astype(np.int64))
        start = 0
        for stop in stops.tolist():
            rows = order[start:stop]
            start = stop
            left = rows
            if len(rows) >= self.fewest:
                first = int(rows[0])
                sequence = parts[: counts[first]]
                left = self._read_same_shape(
                    rows, sequence, int(ranks[first]), bool(full[first]), read
                )
            slow.append(left)
        return read, np.sort(np.concatenate(slow))

    def _codes(self, name: str) -> Any:
        coded = self.batch.column(name).dictionary_encode()
        return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)

    def _mine(self, extra: Any) -> tuple[Any, Any]:
        """Which rows carry fields of the target's own family, and which do so in a rarer way."""
        none = np.zeros(self.size, np.bool_)
        if not extra.any():
            return none, none
        column = self.batch.column("extra")
        mine = _mask(pa.compute.starts_with(column, self._opening))
        named = _mask(pa.compute.match_substring(column, f'"{self.writer.family}"'))
        return mine, named & ~mine

    @cached_property
    def _kinds(self) -> Any:
        """A number for the kind of database that each row names; -1 for none."""
        named = self._named
        if named is None:
            return np.full(self.size, -1, np.int64)
        coded = named.dictionary_encode()
        return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)

    @cached_property
    def _named(self) -> Any:
        """The kind of database that each row names, as JSON; None where none does."""
        column = self.batch.column("extra")
        if not pa.compute.any(pa.compute.match_substring(column, f'"{FIELD}":"')).as_py():
            return None
        found = pa.compute.extract_regex(column, f"(?s){NAMED}")
        return pa.compute.struct_field(found, "kind")

    @property
    def _opening(self) -> str:
        """How what the target's family carries on begins."""
        return self.writer.opening or f'{{"{self.writer.family}":{{'

    def _form(self, which: int, there: Any) -> Any:
        """A small number for what stands around the values of one text of each row; -1 for none."""
        here = slice(which * self.size, (which + 1) * self.size)
        counts = np.where(there, self.texts.counts[here], -1)
        return _numbered(self.texts.forms[here], counts)

    def _read_same_shape(
        self, rows: Places, sequence: Any, rank: int, full: bool, read: list[Rows]
    ) -> Places:
        """Take rows of the same shape; returns those that are read on their own."""
        first = int(rows[0])
        schema = self.schemas[self.batch.column("schema_id")[first].as_py()]
        operation = self.batch.column("operation")[first].as_py()
        if operation not in ROW_OPERATIONS:
            return rows
        size, texts = self.size, self.texts
        fits = np.ones(len(rows), np.bool_)
        images: list[_Image | None] = []
        for which, name in enumerate(("after", "before")):
            if not self.batch.column(name)[first].is_valid:
                images.append(None)
                continue
            image = _Image(texts, first + which * size, schema)
            if not image.good:
                return rows
            fits &= image.skeleton.fits(texts, rows + which * size)
            images.append(image)
        carried = self._carried_by(first)
        if carried is not None:
            if not carried.good:
                return rows
            fits &= carried.skeleton.fits(texts, rows + 2 * size)
        kept = rows[fits]
        if not len(kept):
            return rows
        extra = self._extra(first, kept, carried)
        after, before = images
        read.append(
            Rows(
                self.messages,
                kept,
                schema,
                operation,
                None if before is None else before.columns(texts, kept + size),
                None if after is None else after.columns(texts, kept),
                tuple(part[kept] for part in sequence) if len(sequence) else None,
                rank,
                full,
                None,
                None,
                self.times[kept] if self.batch.column("source_time")[first].is_valid else None,
                self._text(3, kept) if self.batch.column("transaction")[first].is_valid else None,
                extra,
            )
        )
        return rows[~fits]

    def _mine_at(self, row: int) -> bool:
        """Whether a row carries fields of the target's own family."""
        return (self.batch.column("extra")[row].as_py() or "").startswith(self._opening)

    def _carried_by(self, row: int) -> _Carried | None:
        """The fields that a row carries on, where they are looked at individually."""
        if self.writer.opening is not None or not self._mine_at(row):
            return None
        return _Carried(self.texts, row + 2 * self.size, self.writer.family)

    def _extra(self, first: int, rows: Places, carried: _Carried | None) -> Extra | None:
        """What rows like the first one carry on."""
        if not self.batch.column("extra")[first].is_valid:
            return None
        whole = Value(self._text(2, rows), False)
        if carried is not None:
            return carried.extra(self.texts, rows + 2 * self.size, whole)
        if self._mine_at(first):
            return Extra(self.writer.family, (whole,), {"tail": self._tail(whole)})
        kind = None if self._named is None else self._named[first].as_py()
        # Targets of other families tell it, or count that they do not.
        return Extra("", (whole,), {} if kind is None else {FIELD: kind.encode()})

    def _tail(self, whole: Value) -> Value:
        """What stands behind the opening, without the two braces that end it."""
        size = len(self._opening)
        return Value(Texts(whole.texts.starts + size, whole.texts.lengths - size - 2), False)

    def _text(self, which: int, rows: Places) -> Texts:
        starts = self.begins[which][rows]
        return Texts(starts, self.ends[which][rows] - starts)
