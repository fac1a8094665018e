"""Sequence ids of messages that are written in bulk; see `written_sequence`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.arena import Texts, Value
from waybill.bulk.column_codecs import joined_texts, padded, written
from waybill.bulk.values import made_ids
from waybill.order import MAX_INDEX, MAX_OFFSET
from waybill.sequence_layout import POSITION_DIGITS

if TYPE_CHECKING:
    from waybill.bulk.arena import Mask
    from waybill.bulk.rows import Rows
    from waybill.bulk.templates import Get
    from waybill.envelopes.sequence.written import PackedSequence, WrittenSequence
    from waybill.sequence_layout import SequenceLayout

_LARGEST = 2**63 - 1
_PARTITIONS = 9_000
"""Partitions whose positions are numbers of 64 bits with sign."""


def _kept(layout: SequenceLayout, rows: Rows) -> bool:
    """Whether rows have true ids of one number, which are written as they are."""
    return len(rows.sequence or ()) == 1 and not layout.shared


class BulkSequence:
    """The numbers of rows whose source has sequence ids.

    Args:
        packed: how one of them is made.
    """

    def __init__(self, packed: PackedSequence) -> None:
        self._packed = packed

    def layout(self, rows: Rows) -> SequenceLayout | None:
        """The layout of the first row; None where the target has no room, or there are no ids."""
        if rows.sequence is None:
            return None
        extra = None
        if self._packed.by_connector and rows.extra is not None:
            extra = rows.extra.json(rows.arena, 0)
        layout = self._packed.layout(extra, len(rows.sequence))
        return layout if self._packed.has_room(layout) else None

    def alone(self, rows: Rows) -> Mask:
        """Which rows are converted individually: another layout, or a number that is refused."""
        alone = np.zeros(len(rows), np.bool_)
        if rows.sequence is None:
            return alone
        alone |= rows.sequence[0] < 0
        if self._packed.by_connector:
            alone |= self._other_connector(rows)
        layout = self.layout(rows)
        if layout is None or _kept(layout, rows):
            return alone
        first, *rest = rows.sequence
        if len(rest) > len(layout.digits):
            return ~np.zeros(len(rows), np.bool_)
        if self._packed.largest is not None:
            largest = (self._packed.largest + 1) // layout.factor - 1
            alone |= first > min(largest, _LARGEST)
        if layout.factor > 1:
            # Its digits would begin with a zero.
            alone |= first == 0
        for width, part in zip(layout.digits, rest, strict=False):
            most = 0 if width == 0 else min(10**width - 2, _LARGEST)
            alone |= (part < min(0, width - 1)) | (part > most)
        if layout.shared:
            alone |= rows.block.partitions[rows.places] >= _PARTITIONS
            alone |= (rows.offsets >= MAX_OFFSET) | (rows.offsets < 0)
        return alone

    def _other_connector(self, rows: Rows) -> Mask:
        """Which rows are not seen at once to be of the connector of the first."""
        tail = None if rows.extra is None else rows.extra.fields.get("tail")
        if not isinstance(tail, Value):
            return ~np.zeros(len(rows), np.bool_)
        arena, (starts, lengths) = rows.arena, tail.texts
        first = arena.text(tail.texts, 0) or b""
        match = self._packed.connector_in(first)
        if match is None:
            return ~np.zeros(len(rows), np.bool_)
        begin, end = match.span()
        wanted = np.frombuffer(first[begin:end], np.uint8)
        places = starts[:, None] + np.arange(begin, end)
        there = arena.data[np.minimum(places, len(arena.data) - 1)]
        other: Mask = (lengths < end) | ~(there == wanted).all(axis=1)
        return other

    def last_parts(self, rows: Rows) -> list[Mask]:
        """Flags of rows whose digits cannot be counted with the others': the largest part."""
        return [part == _LARGEST for part in (rows.sequence or ())[1:]]

    def texts(self, rows: Rows) -> Texts:
        """The digits.

        Raises:
            KeyError: the rows have none that the target has room for.
        """
        layout, sequence = self.layout(rows), rows.sequence
        if layout is None or sequence is None:
            raise KeyError("the rows have no sequence")
        arena = rows.arena
        found = written(arena, sequence[0])
        if _kept(layout, rows):
            return found
        for place, width in enumerate(layout.digits, 1):
            if width == 0:
                continue
            if place >= len(sequence):
                part = arena.constant(b"0" * width, len(rows))
            elif sequence[place][0] == _LARGEST:
                part = arena.constant(b"%0*d" % (width, _LARGEST + 1), len(rows))
            else:
                part = padded(arena, sequence[place] + 1, width)
            found = joined_texts(arena, found, part)
        if layout.shared:
            partitions = rows.block.partitions[rows.places]
            places = (partitions * MAX_OFFSET + rows.offsets) * MAX_INDEX
            found = joined_texts(arena, found, padded(arena, places, POSITION_DIGITS))
        return found

    def padded(self, width: int) -> Get:
        """The source's own ids as texts of so many digits at least, zeros in front."""

        def value(rows: Rows) -> Value:
            texts = self.texts(rows)
            zeros = np.maximum(width - texts.lengths, 0)
            filled = rows.arena.constant(b"0" * width, len(rows))
            return Value(joined_texts(rows.arena, Texts(filled.starts, zeros), texts), True)

        return value


class BulkWrittenSequence(BulkSequence):
    """The ids of rows that have one in the target.

    Args:
        ids: how one of them is made.
    """

    def __init__(self, ids: WrittenSequence) -> None:
        super().__init__(ids.packed)
        self._ids = ids

    def alone(self, rows: Rows) -> Mask:
        """See `BulkSequence.alone`; rows without an id are refused where others have one."""
        if rows.sequence is None and self._ids.expected and not rows.full_row:
            return ~np.zeros(len(rows), np.bool_)
        return super().alone(rows)

    def get(self, quoted: bool) -> Get:
        """The source's own ids, or those made from positions."""

        def value(rows: Rows) -> Value:
            if self.layout(rows) is None:
                return made_ids(rows, self._ids.start, quoted)
            return Value(self.texts(rows), quoted)

        return value
