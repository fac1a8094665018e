"""Converts blocks of messages: most of them in bulk, the others row by row, in their order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from waybill.batches.bulk_halves import joined
from waybill.bulk import kernels
from waybill.bulk.assembly import Given, array_of, packed
from waybill.bulk.forms import FEWEST, Forms
from waybill.bulk.rows import merged
from waybill.bulk.templates import Templates, Written
from waybill.inprocess.converter import JOINED, TOMBSTONE

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.bulk.arena import Places
    from waybill.bulk.assembly import Packed
    from waybill.bulk.block import Block
    from waybill.bulk.rows import Rows
    from waybill.inprocess.converter import Converter
    from waybill.protocol import Encoded, Envelope
    from waybill.records import Change, Message

Keep = Callable[["list[Encoded]", "list[Message]"], "tuple[list[Encoded], list[Message]]"]
"""Takes written messages with what each was made from, and returns those that are kept."""


class Converted:
    """What a block became, in the order of its messages.

    Attributes:
        origins: for each written message the number of the one that it was made from.
    """

    def __init__(
        self, size: int, made: list[Written], alone: list[Encoded], numbers: list[int]
    ) -> None:
        self._values = [
            *(texts for written in made for texts in written.values),
            Given(array_of([one.value for one in alone])),
        ]
        self._keys = [
            *(texts for written in made for texts in written.keys),
            Given(array_of([one.key for one in alone])),
        ]
        origins = [written.rows.places for written in made for _ in written.values]
        found = np.concatenate([*origins, np.array(numbers, np.int64)])
        self._order: Places = kernels.in_order(found, size)
        self._origins = found
        self.origins: Places = found[self._order]

    def __len__(self) -> int:
        return len(self.origins)

    def drop_nulls(self) -> int:
        """Leave out messages without a value; returns how many there were."""
        there = np.concatenate([texts.sizes for texts in self._values]) >= 0
        nulls = len(there) - int(there.sum())
        if nulls:
            self._order = self._order[there[self._order]]
            self.origins = self._origins[self._order]
        return nulls

    def arrays(self) -> tuple[pa.Array, pa.Array]:  # type: ignore[type-arg]
        """Keys and values."""
        return packed(self._keys, self._order).array(), packed(self._values, self._order).array()

    @cached_property
    def _lines(self) -> Packed:
        return packed(self._values, self._order, b"\n")

    def lines(self, first: int, end: int) -> memoryview:
        """Some of the values as lines; none of them may be null."""
        bounds = self._lines.bounds
        data: Any = self._lines.data
        return memoryview(data)[bounds[first] : bounds[end]]


class BulkConverter:
    """Converts blocks for a converter, which takes the rest.

    Args:
        source: the envelope that is read.
        target: the envelope that is written.
        converter: converts one message after the other.
        fewest: fewer messages of a block of the same shape are converted individually.
    """

    def __init__(
        self, source: Envelope, target: Envelope, converter: Converter, fewest: int = FEWEST
    ) -> None:
        if source.bulk_reader is None or target.bulk_writer is None:
            raise ValueError("one of the envelopes is converted message by message only")
        self._converter = converter
        self._forms = Forms(converter.decoder, source.bulk_reader(converter.decoder), fewest)
        writer = target.bulk_writer(converter.encoder)
        self._templates = Templates(converter.encoder, writer, fewest)
        self._by_table = not writer.names_tables
        self.lead = self._forms.lead
        """So many messages of the first block are best converted apart."""
        self.in_bulk = 0
        """Changes that were written in bulk so far."""
        # Held until the next block, so that no identity is given twice.
        self._alive: list[Message] = []

    def convert(self, block: Block, keep: Keep | None = None) -> Converted:
        """Convert a block; what is counted and refused goes where the converter's own does.

        Halves that the converter leaves open get their place among all written messages.

        Args:
            block: the messages.
            keep: takes what was written individually and leaves out what cannot be a line; without
                it the messages are not lines.
        """
        converter = self._converter
        account = converter.account
        found, slow = self._forms.read(block)
        if converter.joiner is not None:
            in_order = joined(found, block.size, converter.waiting)
            found, slow = in_order.rows, np.sort(np.concatenate([slow, in_order.apart]))
            if in_order.updates:
                account.skipped[JOINED] += in_order.updates
        made: list[Written] = []
        left: list[Rows] = []
        for rows in merged(found, self._by_table):
            left += self._templates.write(rows, made)
        for written in made:
            self._count(written, block)
        out: list[Encoded] = []
        origins: list[Message] = []
        numbers = self._one_by_one(block, slow, left, out, origins)
        if keep is not None:
            out, origins = keep(out, origins)
        converted = Converted(block.size, made, out, [numbers[id(origin)] for origin in origins])
        if keep is not None:
            nulls = converted.drop_nulls()
            if nulls:
                account.skipped[TOMBSTONE] += nulls
        if converter.open_halves:
            converter.open_halves[:] = self._placed(converter.open_halves, numbers, converted)
        return converted

    def _count(self, written: Written, block: Block) -> None:
        """Count changes that were written in bulk, and what the encoder reported of them."""
        account = self._converter.account
        self.in_bulk += len(written.rows)
        if len(written.values) > 1:
            more = (len(written.values) - 1) * len(written.rows)
            account.extra["further messages of a change"] += more
        if not written.losses:
            return
        places = written.rows.places
        topic = block.topic or block.message(int(places[0])).topic
        found, counts = np.unique(block.partitions[places], return_counts=True)
        for partition, count in zip(found.tolist(), counts.tolist(), strict=True):
            account.tell(written.losses, topic, partition, count)

    def _one_by_one(
        self,
        block: Block,
        slow: Places,
        left: list[Rows],
        out: list[Encoded],
        origins: list[Message],
    ) -> dict[int, int]:
        """Convert messages and changes on their own, in the order of the block.

        Args:
            block: the messages.
            slow: numbers of those that were not read.
            left: changes that were not written.
            out: takes the written messages.
            origins: takes what each was made from.

        Returns:
            Numbers of messages by the identity of their objects.
        """
        converter = self._converter
        changes = {
            int(rows.places[row]): rows.change(row) for rows in left for row in range(len(rows))
        }
        numbers: dict[int, int] = {}
        messages: list[Message] = []
        self._alive = messages
        done = 0
        places = slow.tolist()
        alone = dict(zip(places, block.several(places), strict=True))
        for number in sorted([*places, *changes]):
            change = changes.get(number)
            messages.append(alone[number] if change is None else change.message)
            numbers[id(messages[-1])] = number
            if change is not None:
                converter.convert(messages[done:-1], out, origins)
                converter.write(change, out, origins)
                done = len(messages)
        converter.convert(messages[done:], out, origins)
        return numbers

    @staticmethod
    def _placed(
        halves: list[tuple[int, Change]], numbers: dict[int, int], converted: Converted
    ) -> list[tuple[int, Change]]:
        """Open halves with the number of messages that are written before each."""
        placed, at = [], 0
        for _, half in halves:
            # One that waited since an earlier block leaves with the one that takes its place.
            number = numbers.get(id(half.message))
            if number is not None:
                at = max(at, int(np.searchsorted(converted.origins, number)))
            placed.append((at, half))
        return placed
