"""Cuts a stream of messages into parts, always at the same places.

Where a part ends depends on the messages before it alone. What is in the ledger was cut already,
perhaps by another version of these rules: such a part has as many messages as the ledger says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waybill.publish.kafka.checksums import sizes

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = "group"
"""Column with the number of the batch that made a message, counted in the order of batches."""


class Limits(NamedTuple):
    """A part ends before the change with which it would go on after reaching one of these.

    The fixed cost of a transaction is that of some ten thousand messages. Larger parts keep those
    who read only what is committed waiting for longer.
    """

    messages: int = 250_000
    bytes: int = 128 << 20


class Cut(NamedTuple):
    """One part of the stream.

    Attributes:
        group: number of its batch.
        part: its number in the batch, from 0.
        pieces: its messages, to be taken before the next part is.
    """

    group: int
    part: int
    pieces: Iterator[pa.RecordBatch]


Known = Callable[[int, int], int | None]
"""How many messages a part of a group has, None where that is to be decided."""


def cut(batches: Iterable[pa.RecordBatch], known: Known, limits: Limits) -> Iterator[Cut]:
    """The parts of a stream.

    Args:
        batches: messages by group and in order, with the columns `group` and `message` and those of
            a message. All messages of one change (`message` counts them) stay in one part.
        known: what the ledger says of parts that were sent.
        limits: how large other parts become.
    """
    pieces = _pieces(batches, known, limits)
    for (group, part), own in groupby(pieces, key=lambda piece: piece[:2]):
        yield Cut(group, part, (piece[2] for piece in own))


def _pieces(
    batches: Iterable[pa.RecordBatch], known: Known, limits: Limits
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Slices of the batches, each with the part it belongs to."""
    group = -1
    part = messages = size = 0
    for batch in batches:
        groups: list[Any] = batch.column(GROUP).to_pylist()
        begins = batch.column("message").to_numpy() == 0
        weights = sizes(batch)
        start = 0
        while start < batch.num_rows:
            if groups[start] != group:
                group, part, messages, size = groups[start], 0, 0, 0
            rest = bisect_right(groups, group)
            expected = known(group, part)
            if expected is not None:
                end = min(rest, start + expected - messages)
                whole = messages + end - start == expected
            else:
                full = _full(weights[start:rest], messages, size, limits) & begins[start:rest]
                found = np.flatnonzero(full)
                end = start + int(found[0]) if found.size else rest
                whole = found.size > 0
            if end > start:
                yield group, part, batch.slice(start, end - start)
            messages += end - start
            size += int(weights[start:end].sum())
            if whole:
                part, messages, size = part + 1, 0, 0
            start = end


def _full(weights: Any, messages: int, size: int, limits: Limits) -> Any:
    """Before which of some messages a part has enough, if it has so many and so much already."""
    messages_before = messages + np.arange(len(weights))
    bytes_before = size + np.cumsum(weights) - weights
    enough = (messages_before >= limits.messages) | (bytes_before >= limits.bytes)
    return enough & (messages_before > 0)
