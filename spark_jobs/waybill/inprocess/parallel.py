"""Several processes for one file of lines, with the output in the order of the input.

Workers read blocks of lines from the file and leave what these become in files, which are put
together in the order of the blocks: what goes through the pipes between processes is slow. A half
of an update whose other half is in another block comes back open and is joined here, at the place
of its after image, as one process would have done it.
"""

from __future__ import annotations

import gc
import io
import os
import shutil
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import forkserver, get_context, parent_process
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from waybill.batches.bulk_threshold import from_the_start
from waybill.errors import ConfigurationError
from waybill.inprocess.counts import Account
from waybill.inprocess.held_output import HeldOutput
from waybill.inprocess.line_blocks import LineBlocks, LineSink, pieces_of
from waybill.inprocess.line_ranges import LineRange, line_ranges_of, read_line_range
from waybill.inprocess.lines import (
    STANDARD,
    WRITTEN_AT_ONCE,
    Text,
    line_blocks,
    read_to_end,
    size_of,
    write_texts,
)
from waybill.inprocess.quarantine import quarantine_line
from waybill.spark_tasks.gc_pauses import RARELY

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from waybill.inprocess.converter import Converter
    from waybill.inprocess.job import ConvertJob
    from waybill.protocol import Encoded
    from waybill.records import Message


class ConvertedBlock(NamedTuple):
    """What one block became.

    Attributes:
        account: the counts.
        refused: lines for the quarantine.
        made: the file that begins with the texts it became, one after the other.
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

    def keep(self, texts: list[Text], name: str) -> Path:
        made = self.folder / name
        try:
            # Written over what it became before: new pages would take longer than the writing.
            with made.open("r+b" if made.exists() else "xb") as out:
                write_texts(out, texts)
        except OSError as error:
            message = f"{made} cannot be written ({error.strerror}); set TMPDIR to a roomier folder"
            raise ConfigurationError(message) from error
        return made

    def refuse(self, message: Message, index: int, kind: str, sentence: str) -> None:
        self.refused.append(quarantine_line(message, index, kind, sentence))

    def convert(self, block: bytes, first: int, name: str) -> ConvertedBlock:
        converter = self.converter
        account = converter.account = Account()
        self.refused.clear()
        texts, halves = self.lines.convert(block, first)
        before = [(half.message, half.index) for half in converter.finish()]
        after = [(half.message, half.index) for half in halves]
        made = self.keep(texts, name)
        refused, sizes = b"".join(self.refused), [len(text) for text in texts]
        return ConvertedBlock(account, refused, made, sizes, after, before, len(block) + 1)


_worker: _Worker | None = None


def beginning(job: ConvertJob, size: int | None) -> BaseContext:
    """How workers of a job begin, that will get so many bytes each.

    They are not forks of this process, in which the progress display is a thread, but of one that
    has loaded what all of them need, once.
    """
    context = get_context("forkserver")
    compiled = (
        ["waybill.inprocess.block_converter"] if job.lines_by_bulk and from_the_start(size) else []
    )
    context.set_forkserver_preload([__name__, *compiled])
    try:
        forkserver.ensure_running()
    except OSError:
        # Its socket lies in TMPDIR, whose name may be too long for one.
        return get_context("spawn")
    return context


class Surroundings(NamedTuple):
    """What a worker would have from this process if it were its fork: it may have changed since."""

    folder: str
    environment: dict[str, str]

    @classmethod
    def now(cls) -> Surroundings:
        """Those of this process."""
        return cls(str(Path.cwd()), dict(os.environ))

    def take(self) -> None:
        """Make them those of this process."""
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)


def start(around: Surroundings, job: ConvertJob, folder: str, size: int | None) -> None:
    """Make this process a worker."""
    global _worker
    around.take()
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    gc.set_threshold(RARELY)
    _worker = _Worker(job, folder, size)


def _end_with_parent(folder: str) -> None:
    """Leave nothing behind where the parent was killed and can end nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def _convert(block: bytes | LineRange, first: int, name: str) -> ConvertedBlock:
    if _worker is None:
        raise RuntimeError("the worker was not started")
    if isinstance(block, LineRange):
        block = read_line_range(_worker.job.input, block)
    return _worker.convert(block, first, name)


def _ready() -> None:
    """What a worker is asked to see that it runs."""


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let an interrupt wait, so that what is begun can be ended.

    Processes that are started meanwhile are never interrupted: this one ends them.
    """
    waiting: list[int] = []
    here = threading.current_thread() is threading.main_thread()
    # Threads of libraries take signals too, and Python then handles them in this one.
    handler = signal.signal(signal.SIGINT, lambda *_: waiting.append(1)) if here else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if here:
            signal.signal(signal.SIGINT, handler)
        if waiting:
            signal.raise_signal(signal.SIGINT)


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
        tell: gets how many bytes are done.
    """
    size = size_of(source)
    share = None if size is None else size // processes
    # What is not a plain file, or packed, is read here.
    plain = size is not None and job.input != STANDARD
    blocks: Iterator[bytes | LineRange] = line_ranges_of(source) if plain else line_blocks(source)
    first = 0
    held = HeldOutput(converter, LineSink(converter, sink))
    pending: deque[Future[ConvertedBlock]] = deque()

    def take(piece: ConvertedBlock) -> str:
        return _take(piece, converter, held, sink, aside, tell)

    with ExitStack() as stack:
        with _uninterrupted():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="waybill-convert-"))
            pool = stack.enter_context(
                ProcessPoolExecutor(
                    processes,
                    beginning(job, share),
                    start,
                    (Surroundings.now(), job, folder, share),
                )
            )
            # A worker is started when something is asked and none is idle.
            for _ in range(processes):
                pool.submit(_ready)
        names = deque(str(number) for number in range(2 * processes + 1))
        try:
            for block in read_to_end(job.input, blocks):
                if not names:
                    names.append(take(pending.popleft().result()))
                pending.append(pool.submit(_convert, block, first, names.popleft()))
                lines = block.lines if isinstance(block, LineRange) else block.count(b"\n") + 1
                first += lines
            while pending:
                take(pending.popleft().result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    held.finish()
    sink.flush()


def _take(
    piece: ConvertedBlock,
    converter: Converter,
    held: HeldOutput[Text],
    sink: IO[bytes],
    aside: IO[bytes] | None,
    tell: Callable[[int], None],
) -> str:
    """Put what a block became into the output; returns the name of the file that is free again."""
    converter.account.add(piece.account)
    if aside is not None and piece.refused:
        aside.write(piece.refused)
    with piece.made.open("rb", buffering=0) as made:
        for i, size in enumerate(piece.sizes):
            if held.holds:
                text = io.BytesIO()
                _copy(made, size, text)
                held.take([text.getvalue()], [])
            else:
                _copy(made, size, sink)
            if i < len(piece.open_after):
                _settle(piece.open_after[i], converter, held)
    for half in piece.open_before:
        _settle(half, converter, held)
    tell(piece.bytes_read)
    return piece.made.name


def _copy(made: io.FileIO, size: int, sink: IO[bytes]) -> None:
    buffer = memoryview(bytearray(WRITTEN_AT_ONCE))
    while size > 0:
        there = made.readinto(buffer[:size])
        if not there:
            message = f"{made.name} became shorter before it was read; convert the file once more"
            raise ConfigurationError(message)
        sink.write(buffer[:there])
        size -= there


def _settle(half: tuple[Message, int], converter: Converter, held: HeldOutput[Text]) -> None:
    out: list[Encoded] = []
    origins: list[Message] = []
    converter.open_halves = []
    converter.settle_half(half[0], half[1], out, origins)
    held.take(*pieces_of(out, origins, converter))
