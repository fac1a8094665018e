"""Several processes for one file of lines, with the output in the order of the input.

Workers read blocks of lines from the file and leave what these become in files of their own,
which are put together in the order of the blocks: what goes through the pipes between processes is
slow. A half of an update whose other half is in another block comes back open and is joined here,
at the place of its after image, as one process would have done it.
"""

from __future__ import annotations

import gc
import tempfile
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from waybill.errors import ConfigurationError
from waybill.inprocess.account import Account
from waybill.inprocess.line_blocks import LineBlocks, lines_of
from waybill.inprocess.lines import STANDARD, line_blocks, size_of, told
from waybill.inprocess.quarantine import quarantine_line
from waybill.rare_collections import RARELY

if TYPE_CHECKING:
    from waybill.envelopes.protocol import Encoded
    from waybill.inprocess.converter import Converter
    from waybill.inprocess.job import ConvertJob
    from waybill.records import Message


_AT_ONCE = 1 << 20
"""Bytes that are copied at once."""


class Piece(NamedTuple):
    """What one block became.

    Attributes:
        account: the counts.
        refused: lines for the quarantine.
        made: the file that holds the texts it became, one after the other.
        sizes: how many bytes each text has.
        open_after: before the second text stands the update whose after image is the first of
            these, and so on.
        open_before: before images whose partner may come later.
        bytes_read: the size of the block.
    """

    account: Account
    refused: bytes
    made: Path
    sizes: list[int]
    open_after: list[tuple[Message, int]]
    open_before: list[tuple[Message, int]]
    bytes_read: int


class Stretch(NamedTuple):
    """A block of lines in the input.

    Attributes:
        start: where it begins in the file.
        size: how many bytes it has, the last line feed left out.
    """

    start: int
    size: int


class _Worker:
    """Converts blocks.

    Args:
        job: what is converted into what.
        folder: takes what blocks become.
        size: how many bytes each worker will get, None where nobody knows.
    """

    def __init__(self, job: ConvertJob, folder: str, size: int | None) -> None:
        self.job = job
        self.folder = Path(folder)
        self.refused: list[bytes] = []
        self.converter = job.converter(self.refuse, keep_halves=True)
        self.lines = LineBlocks(job, self.converter, size)

    def read(self, stretch: Stretch) -> bytes:
        with Path(self.job.input).open("rb") as stream:
            stream.seek(stretch.start)
            block = stream.read(stretch.size)
        if len(block) != stretch.size:
            message = f"{self.job.input} became shorter while it was read; convert it once more"
            raise ConfigurationError(message)
        return block

    def keep(self, texts: list[bytes], name: str) -> Path:
        made = self.folder / name
        try:
            with made.open("wb") as out:
                out.writelines(texts)
        except OSError as error:
            message = f"{made} cannot be written ({error.strerror}); set TMPDIR to a roomier folder"
            raise ConfigurationError(message) from error
        return made

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
        made = self.keep(texts, str(first))
        refused, sizes = b"".join(self.refused), [len(text) for text in texts]
        return Piece(account, refused, made, sizes, after, before, len(block) + 1)


_worker: _Worker | None = None


def _start(job: ConvertJob, folder: str, size: int | None) -> None:
    global _worker
    gc.set_threshold(RARELY)
    _worker = _Worker(job, folder, size)


def _convert(block: bytes | Stretch, first: int) -> Piece:
    if _worker is None:
        raise RuntimeError("the worker was not started")
    return _worker.convert(_worker.read(block) if isinstance(block, Stretch) else block, first)


def convert_parallel(
    job: ConvertJob,
    converter: Converter,
    source: IO[bytes],
    sink: IO[bytes],
    aside: IO[bytes] | None,
    processes: int,
    tell: Callable[[int], None],
) -> None:
    """Convert blocks of lines in `processes` processes.

    Args:
        job: what is converted into what.
        converter: joins halves across blocks and holds the account.
        source: the input.
        sink: takes the output.
        aside: takes refused messages.
        processes: how many workers.
        tell: told how many bytes are done.
    """
    first, size = 0, size_of(source)
    # What is no plain file, or packed, is read here.
    start = None if size is None or job.input == STANDARD else source.tell()
    share = None if size is None else size // processes
    pending: deque[Future[Piece]] = deque()
    with (
        tempfile.TemporaryDirectory(prefix="waybill-convert-") as folder,
        # Spawned, not forked: the progress display runs in a thread of this process.
        ProcessPoolExecutor(processes, get_context("spawn"), _start, (job, folder, share)) as pool,
    ):
        try:
            for block in told(job.input, line_blocks(source)):
                given: bytes | Stretch = block
                if start is not None:
                    given = Stretch(start, len(block))
                    start += len(block) + 1
                pending.append(pool.submit(_convert, given, first))
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
    with piece.made.open("rb") as made:
        for i, size in enumerate(piece.sizes):
            _copy(made, size, sink)
            if i < len(piece.open_after):
                _settle(piece.open_after[i], converter, sink)
    piece.made.unlink()
    for half in piece.open_before:
        _settle(half, converter, sink)
    tell(piece.bytes_read)


def _copy(made: IO[bytes], size: int, sink: IO[bytes]) -> None:
    while size > 0:
        text = made.read(min(size, _AT_ONCE))
        if not text:
            message = f"{made.name} became shorter before it was read; convert the file once more"
            raise ConfigurationError(message)
        sink.write(text)
        size -= len(text)


def _settle(half: tuple[Message, int], converter: Converter, sink: IO[bytes]) -> None:
    out: list[Encoded] = []
    origins: list[Message] = []
    converter.settle_half(half[0], half[1], out, origins)
    sink.write(lines_of(out, origins, converter))
