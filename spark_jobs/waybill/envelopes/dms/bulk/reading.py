"""Where the values of DMS's records stand, for reading in bulk.

`envelope` and `files` say what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.block import Block
from waybill.bulk.column_codecs import ANY, NOTHING, ColumnReader, at_most, numbers, same, whole
from waybill.bulk.constant_bytes import values
from waybill.bulk.field_map import ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.rows import Extra
from waybill.bulk.value_kinds import ESCAPED, INTEGER, NULL_SIZE
from waybill.envelopes.dms.bulk.values import (
    keys_alone,
    position_counts,
    time_count,
    with_order,
)
from waybill.envelopes.dms.values import KAFKA, RECORD, style_of
from waybill.envelopes.memory.bulk import RememberingReader, row_of, styled
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Mask, Places, Texts
    from waybill.bulk.rows import Rows
    from waybill.envelopes.dms.decoder import DmsDecoder
    from waybill.envelopes.memory.bulk import Cells, Slots
    from waybill.records import Change


_METADATA = "metadata"
_POSITION, _ID, _RECORD = "stream-position", "transaction-id", "transaction-record-id"
_COMMIT, _TIME = "commit-timestamp", "timestamp"
_SHORT = ColumnReader(ANY, at_most(18))
"""Integers of more digits are converted exactly."""
_NATURAL = ColumnReader(ANY, whole(0, 10**18 - 1))
"""Likewise, and those below zero, which are refused."""
_encode = msgspec.json.Encoder().encode
_carried = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


def _alone(rows: Rows) -> Mask:
    """Deletes of which just the key is left."""
    return keys_alone(rows.schema, rows.before or (), len(rows))


def _contradicted(pairs: list[tuple[int, int]]) -> Callable[[Rows], Mask]:
    """Deletes that tell a column in `data` otherwise than in the row before; null tells nothing.

    Args:
        pairs: the places of the columns that are in both.
    """

    def check(rows: Rows) -> Mask:
        found = np.zeros(len(rows), np.bool_)
        if not isinstance(rows.block, Block):
            return ~found
        for one, other in pairs:
            texts, was = (values(rows.block, rows.places, slot) for slot in (one, other))
            found |= (texts.lengths != NULL_SIZE) & ~same(rows.arena, texts, was)
        return found

    return check


def any_of(checks: list[Callable[[Rows], Mask]]) -> Callable[[Rows], Mask] | None:
    """A check that finds what any of some finds; None where there are none."""
    if len(checks) < 2:
        return checks[0] if checks else None

    def check(rows: Rows) -> Mask:
        found = np.zeros(len(rows), np.bool_)
        for one in checks:
            found |= one(rows)
        return found

    return check


class DmsReader(RememberingReader):
    """Says what the values of records mean."""

    names = ((_METADATA, "schema-name"), (_METADATA, "table-name"))

    def __init__(self, decoder: DmsDecoder) -> None:
        super().__init__(decoder)
        self._settings = decoder.settings
        self._take = styled(style_of(KAFKA, decoder.settings))

    def meaning(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a record with a row."""
        slots, schema = sample.slots, change.schema
        if change.operation not in ROW_OPERATIONS or (_METADATA, "operation") not in slots:
            return None
        prefix = self._settings.before_prefix
        if prefix and any(name.startswith(prefix) for name in schema.names):
            return None
        columns = self._columns(slots)
        if columns is None or RECORD in (change.extra or b""):
            return None
        data, old = columns
        if change.operation in ("read", "insert") and old:
            return None
        now = self.cells(sample, schema, data, self._take)
        was = self.cells(sample, schema, old, self._take)
        if now is None or was is None:
            return None
        checks: list[Callable[[Rows], Mask]] = []
        free: dict[int, int] = {}
        before: Cells | None = was or None
        after: Cells | None = now
        if change.operation == "delete":
            before, after = _deleted(sample, change, (now, was), free, checks), None
        extra, texts = self._extra(sample, change)
        ordered = _sequence(sample, change, texts)
        if ordered is None:
            return None
        sequence, more = ordered
        time = texts.get(_COMMIT, texts.get(_TIME))
        if change.transaction is not None and _ID not in texts:
            return None
        return FieldMap(
            schema,
            change.operation,
            row_of(before, schema),
            row_of(after, schema),
            sequence=sequence,
            source_time=None if time is None else time_count(time),
            transaction=None if change.transaction is None else texts.get(_ID),
            family="dms" if extra else "",
            extra=extra,
            carry=None if extra else _nothing,
            check=any_of(checks + more),
            aside=tuple(
                ColumnSlot(slot, _NATURAL if name in (_ID, _RECORD) else _SHORT)
                for name, slot in texts.items()
                if sample.kinds[slot] == INTEGER
            ),
            free=free,
            full_row=change.full_row,
        )

    def _columns(self, slots: dict[Any, int]) -> tuple[Slots, Slots] | None:
        """The places of the columns of the row, and of the row before; None if one is stated twice.

        Then both are read exactly, as they may differ.
        """
        settings = self._settings
        data: Slots = {}
        old: Slots = {}
        prefixed: Slots = {}
        for path, slot in slots.items():
            if len(path) != 2:
                continue
            image, name = path
            if image == settings.before_field:
                old[name] = slot
            elif image != "data":
                continue
            elif settings.before_prefix and name.startswith(settings.before_prefix):
                prefixed[name[len(settings.before_prefix) :]] = slot
            else:
                data[name] = slot
        return None if old and prefixed else (data, old or prefixed)

    def _extra(self, sample: Sample, change: Change) -> tuple[dict[str, int | bytes], Slots]:
        """What is carried on, and the places of what tells anything besides.

        A text that is empty tells nothing; a number that is not in plain digits is another one.
        """
        extra: dict[str, int | bytes] = {}
        fields: Slots = {}
        for name, raw in _carried(change.extra or b'{"dms":{}}')["dms"].items():
            slot = sample.slots.get((_METADATA, name))
            plain = slot is not None and (
                sample.kinds[slot] == INTEGER
                or (sample.kinds[slot] <= ESCAPED and sample.text(slot) != b"")
            )
            if slot is None or not plain:
                extra[name] = bytes(raw)
            else:
                extra[name] = fields[name] = slot
        return extra, fields


def _deleted(
    sample: Sample,
    change: Change,
    images: tuple[Cells, Cells],
    free: dict[int, int],
    checks: list[Callable[[Rows], Mask]],
) -> Cells:
    """The row before a delete, whatever is known of it."""
    now, was = images
    if not was:
        return gone(sample, change, now, free, checks)
    twice = [(now[name], was[name]) for name in now if name in was]
    free.update({cell.slot: cell.take.kinds | NOTHING for cell, _ in twice})
    if twice:
        checks.append(_contradicted([(one.slot, other.slot) for one, other in twice]))
    return now | was


def gone(
    sample: Sample,
    change: Change,
    cells: Cells,
    free: dict[int, int],
    checks: list[Callable[[Rows], Mask]],
) -> Cells:
    """The row before a delete that is stated by `data` alone.

    Where nothing but the key is stated, the nulls beside it are no values.
    """
    image, schema = change.before, change.schema
    places = schema.key_places if schema.key else ()
    absent = {
        name
        for name in cells
        if getattr(image, f"f{schema.index[name]}") is msgspec.UNSET
        and schema.index[name] not in places
    }
    if absent:
        free.update({cells[name].slot: NOTHING for name in absent})
        return {name: cell for name, cell in cells.items() if name not in absent}
    if schema.key:
        checks.append(_alone)
    return cells


def _sequence(
    sample: Sample, change: Change, free: Slots
) -> tuple[tuple[IntegerSlot, ...] | None, list[Callable[[Rows], Mask]]] | None:
    """How the sequence is read, and what tells rows that are read exactly; None if it cannot."""
    slot = free.get(_POSITION)
    placed = free.get(_ID), free.get(_RECORD)
    if change.sequence is None:
        return None, [] if slot is None else [_hidden_order(sample, slot, placed)]
    if slot is None:
        return None
    sequence = position_counts(sample, slot, placed, len(change.sequence))
    if sequence is None:
        return None
    by_id = any(count.slot != slot for count in sequence)
    return sequence, [_other_file] if by_id else []


def _other_file(rows: Rows) -> Mask:
    """Rows whose transaction is not of the file that their position names."""
    if rows.sequence is None:
        raise ValueError("the position tells the file")
    other: Mask = _numbers(rows, _ID) >> 32 != rows.sequence[0]
    return other


def _hidden_order(
    sample: Sample, slot: int, placed: tuple[int | None, int | None]
) -> Callable[[Rows], Mask]:
    """Rows of which the position tells an order after all."""
    named = [
        name if place is not None and sample.kinds[place] == INTEGER else None
        for name, place in zip((_ID, _RECORD), placed, strict=True)
    ]

    def check(rows: Rows) -> Mask:
        ids = [None if name is None else _numbers(rows, name) for name in named]
        return with_order(rows, _field(rows, _POSITION), (ids[0], ids[1]))

    return check


def _numbers(rows: Rows, name: str) -> Places:
    return numbers(rows.arena, _field(rows, name))[0]


def _field(rows: Rows, name: str) -> Texts:
    """A field that is carried on."""
    value = rows.extra.fields[name] if rows.extra is not None else None
    if not isinstance(value, Value):
        raise TypeError(f"{name} is carried on as it stands")
    return value.texts


def _nothing(_: Block, __: Places) -> Extra:
    """What is carried on where the source stated nothing that could be."""
    return Extra("dms", (b'{"dms":{}}',), {})
