"""Several processes for one file of lines, with the output in the order of the input.

Blocks of lines go to workers and their results are written in the order of the blocks. A half of
an update whose other half is in another block comes back open and is joined here, at the place of
its after image, as one process would have done it.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import IO, TYPE_CHECKING, NamedTuple

from waybill.inprocess.account import Account
from waybill.inprocess.line_blocks import LineBlocks, lines_of
from waybill.inprocess.quarantine import quarantine_line
from waybill.rare_collections import RARELY

if TYPE_CHECKING:
    from waybill.envelopes.protocol import Encoded
    from waybill.inprocess.converter import Converter
    from waybill.inprocess.job import ConvertJob
    from waybill.records import Message


class Piece(NamedTuple):
    """What one block became.

    `texts` and `open_after` alternate: before the second text stands the update whose after image
    is the first of `open_after`. `open_before` are before images whose partner may come later.
    """

    account: Account
    refused: bytes
    texts: list[bytes]
    open_after: list[tuple[Message, int]]
    open_before: list[tuple[Message, int]]
    bytes_read: int


class _Worker:
    def __init__(self, job: ConvertJob) -> None:
        self.job = job
        self.refused: list[bytes] = []
        self.converter = job.converter(self.refuse, keep_halves=True)
        self.lines = LineBlocks(job, self.converter)

    def refuse(self, message: Message, index: int, kind: str, sentence: str) -> None:
        self.refused.append(quarantine_line(message, index, kind, sentence))

    def convert(self, block: bytes, first: int) -> Piece:
        converter = self.converter
        account = converter.account = Account()
        converter.open_halves = []
        self.refused.clear()
        texts, halves = self.lines.convert(block, first)
        before = [(half.message, half.index) for half in converter.finish()]
        after = [(half.message, half.index) for half in halves]
        return Piece(account, b"".join(self.refused), texts, after, before, len(block) + 1)


_worker: _Worker | None = None


def _start(job: ConvertJob) -> None:
    global _worker
    gc.set_threshold(RARELY)
    _worker = _Worker(job)


def _convert(block: bytes, first: int) -> Piece:
    if _worker is None:
        raise RuntimeError("the worker was not started")
    return _worker.convert(block, first)


def convert_parallel(
    job: ConvertJob,
    converter: Converter,
    blocks: Iterator[bytes],
    sink: IO[bytes],
    aside: IO[bytes] | None,
    processes: int,
    tell: Callable[[int], None],
) -> None:
    """Convert blocks of lines in `processes` processes.

    Args:
        job: what is converted into what.
        converter: joins halves across blocks and holds the account.
        blocks: blocks of whole lines.
        sink: takes the output.
        aside: takes refused messages.
        processes: how many workers.
        tell: told how many bytes are done.
    """
    first = 0
    pending: deque[Future[Piece]] = deque()
    # Spawned, not forked: the progress display runs in a thread of this process.
    with ProcessPoolExecutor(processes, get_context("spawn"), _start, (job,)) as pool:
        try:
            for block in blocks:
                pending.append(pool.submit(_convert, block, first))
                first += block.count(b"\n") + 1
                if len(pending) > 2 * processes:
                    _take(pending.popleft().result(), converter, sink, aside, tell)
            while pending:
                _take(pending.popleft().result(), converter, sink, aside, tell)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    converter.open_halves = None
    converter.finish()
    sink.flush()


def _take(
    piece: Piece,
    converter: Converter,
    sink: IO[bytes],
    aside: IO[bytes] | None,
    tell: Callable[[int], None],
) -> None:
    converter.account.add(piece.account)
    if aside is not None and piece.refused:
        aside.write(piece.refused)
    # A half that finds no partner here is refused, as one process would have refused it.
    converter.open_halves = None
    for i, text in enumerate(piece.texts):
        sink.write(text)
        if i < len(piece.open_after):
            _settle(piece.open_after[i], converter, sink)
    for half in piece.open_before:
        _settle(half, converter, sink)
    tell(piece.bytes_read)


def _settle(half: tuple[Message, int], converter: Converter, sink: IO[bytes]) -> None:
    out: list[Encoded] = []
    origins: list[Message] = []
    converter.settle_half(half[0], half[1], out, origins)
    sink.write(lines_of(out, origins, converter))
