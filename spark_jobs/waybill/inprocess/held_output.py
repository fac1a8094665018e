"""Keeps what is written in the order of the input while rows after wait for their row before.

Either half of an update may come first in a file (the halves of a change of the key go to two
partitions). The update stands at the place of its row after, so what is behind a row after that
waits is held until the row before comes: within bounds, and at most until the input ends. A row
after that has found no partner by then is an update without row before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from waybill.records import Change

if TYPE_CHECKING:
    from waybill.inprocess.converter import Converter
    from waybill.protocol import Encoded
    from waybill.records import Message

MOST_HALVES = 10_000
MOST_BYTES = 64 << 20

T = TypeVar("T")


class Sink(Protocol[T]):
    """Where written messages go, in pieces of a kind of its own."""

    def piece(self, out: list[Encoded], origins: list[Message]) -> T:
        """Written messages, and what each was made from, as one piece."""

    def size(self, piece: T) -> int:
        """How many bytes a piece has."""

    def keep(self, piece: T) -> T:
        """A piece that stays as it is, whatever is written next."""

    def put(self, piece: T) -> None:
        """Write a piece."""


def cut(
    out: list[Encoded], origins: list[Message], halves: Sequence[tuple[int, Change]]
) -> list[tuple[list[Encoded], list[Message]]]:
    """What was written, cut where halves were left open."""
    bounds = [0, *(at for at, _ in halves), len(out)]
    return [(out[start:end], origins[start:end]) for start, end in pairwise(bounds)]


class HeldOutput(Generic[T]):
    """Output behind rows after that wait.

    Args:
        converter: joins halves, and writes the updates.
        sink: takes what is written, in the order of the input.
        most_halves: how many rows after wait; the oldest is released where there are more.
        most_bytes: how many bytes are held behind them.
    """

    def __init__(
        self,
        converter: Converter,
        sink: Sink[T],
        most_halves: int = MOST_HALVES,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._converter, self._sink = converter, sink
        self._most_halves, self._most_bytes = most_halves, most_bytes
        self._queue: deque[T | Change] = deque()
        self._halves = self._bytes = 0

    @property
    def holds(self) -> bool:
        """Whether anything waits."""
        return bool(self._queue)

    def take(self, pieces: Sequence[T], halves: Sequence[Change]) -> None:
        """What a block became, with rows after that wait.

        Args:
            pieces: what was written.
            halves: the first stands behind the first piece, and so on.
        """
        for number, piece in enumerate(pieces):
            if self._queue:
                self._bytes += self._sink.size(piece)
                self._queue.append(self._sink.keep(piece))
            else:
                self._sink.put(piece)
            if number < len(halves):
                self._queue.append(halves[number])
                self._halves += 1
        self._go_on(self._over)

    def finish(self) -> None:
        """The input has ended: nothing waits any longer."""
        self._converter.finish()
        self._go_on(lambda: True)

    def _over(self) -> bool:
        return self._halves > self._most_halves or self._bytes > self._most_bytes

    def _go_on(self, release: Callable[[], bool]) -> None:
        """Write as far as nothing waits, or what waits is released."""
        while self._queue:
            first = self._queue[0]
            if isinstance(first, Change):
                if first.half is not None and not release():
                    return
                self._halves -= 1
                out: list[Encoded] = []
                origins: list[Message] = []
                self._converter.write_late(first, out, origins)
                piece = self._sink.piece(out, origins)
            else:
                piece = first
                self._bytes -= self._sink.size(piece)
            self._queue.popleft()
            self._sink.put(piece)
