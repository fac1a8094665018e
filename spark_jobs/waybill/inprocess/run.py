"""Converts a whole file, in one process or in several, and says what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import IO, TYPE_CHECKING

from waybill.errors import ConfigurationError
from waybill.inprocess.held_output import HeldOutput, cut
from waybill.inprocess.line_blocks import LineBlocks, LineSink, messages_of_block, pieces_of
from waybill.inprocess.lines import (
    STANDARD,
    check_apart,
    check_local,
    line_blocks,
    open_lines,
    open_output,
    read_to_end,
    size_of,
)
from waybill.inprocess.quarantine import quarantine_line
from waybill.spark_tasks.gc_pauses import rare_collections

if TYPE_CHECKING:
    from waybill.inprocess.converter import Converter
    from waybill.inprocess.counts import Account
    from waybill.inprocess.job import ConvertJob
    from waybill.inprocess.kafka_files import MessageFile
    from waybill.protocol import Encoded
    from waybill.records import Message

LINES = (".jsonl", ".json", ".txt", ".ndjson")
PARQUET = ".parquet"

Progress = Callable[[int], None]
"""Gets how many bytes were read since its last call."""


def layout_of(path: str) -> str:
    """`lines` or `parquet`, by the suffix.

    Raises:
        ConfigurationError: the suffix is neither, or the path is a URL.
    """
    check_local(path)
    name = path.removesuffix(".gz")
    if path == STANDARD or name.endswith(LINES):
        return "lines"
    if path.endswith(PARQUET):
        return "parquet"
    known = ", ".join((*LINES, PARQUET))
    message = f"{path}: the suffix says what a file holds; use one of {known} (or - for a pipe)"
    raise ConfigurationError(message)


def convert_file(
    job: ConvertJob,
    quarantine: str | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[Account, float]:
    """Convert a file.

    The output appears under its name when it is whole. Memory does not grow with the input.

    Args:
        job: what is converted into what.
        quarantine: file for the refused messages; they are only counted where it is None.
        processes: how many processes convert a file of lines. The order of the output is the same.
        progress: gets the number of bytes read.

    Returns:
        The counts, and the seconds it took.

    Raises:
        ConfigurationError: a file, an envelope or a setting is wrong.
    """
    started = time.monotonic()
    tell = progress or _silent
    reads, writes = layout_of(job.input), layout_of(job.output)
    check_apart(job.input, job.output, quarantine)
    if processes > 1 and (reads, writes) != ("lines", "lines"):
        raise ConfigurationError("--processes works from lines to lines only; leave it out")
    with ExitStack() as stack:
        stack.enter_context(rare_collections())
        aside = stack.enter_context(_quarantine(quarantine))

        def refuse(message: Message, index: int, kind: str, sentence: str) -> None:
            if aside is not None:
                aside.write(quarantine_line(message, index, kind, sentence))

        converter = job.converter(refuse, wait=True)
        if processes > 1:
            from waybill.inprocess.parallel import convert_parallel

            source = stack.enter_context(open_lines(job.input))
            sink = stack.enter_context(open_output(job.output))
            convert_parallel(job, converter, source, sink, aside, processes, tell)
        elif reads == writes == "lines":
            source = stack.enter_context(open_lines(job.input))
            sink = stack.enter_context(open_output(job.output))
            _lines_to_lines(job, converter, source, sink, tell)
        else:
            blocks = _blocks(job, reads, converter.account, tell, stack)
            if writes == "lines":
                sink = stack.enter_context(open_output(job.output))
                _to_lines(converter, blocks, sink)
            else:
                _to_parquet(converter, blocks, job, stack)
    return converter.account, time.monotonic() - started


def _silent(_: int) -> None:
    """No one watches."""


def _quarantine(path: str | None) -> AbstractContextManager[IO[bytes] | None]:
    return nullcontext(None) if path is None else open_output(path)


def _blocks(
    job: ConvertJob, layout: str, account: Account, tell: Progress, stack: ExitStack
) -> Iterator[list[Message]]:
    """The messages of the input, block by block, counted."""
    if layout == "parquet":
        from waybill.inprocess.kafka_files import read_messages

        for messages in read_messages(job.input, job.topic, tell):
            account.messages += len(messages)
            account.bytes_in += sum([len(m.value) for m in messages if m.value is not None])
            yield messages
        return
    first = 0
    stream = stack.enter_context(open_lines(job.input))
    for block in read_to_end(job.input, line_blocks(stream)):
        yield messages_of_block(block, job.topic, first, account)
        first += block.count(b"\n") + 1
        tell(len(block) + 1)


def _lines_to_lines(
    job: ConvertJob,
    converter: Converter,
    source: IO[bytes],
    sink: IO[bytes],
    tell: Progress,
) -> None:
    lines = LineBlocks(job, converter, size_of(source))
    held = HeldOutput(converter, LineSink(converter, sink))
    for block in read_to_end(job.input, line_blocks(source)):
        held.take(*lines.convert(block, converter.account.messages))
        tell(len(block) + 1)
    held.finish()
    sink.flush()


def _to_lines(converter: Converter, blocks: Iterator[list[Message]], sink: IO[bytes]) -> None:
    held = HeldOutput(converter, LineSink(converter, sink))
    for out, origins in _converted(converter, blocks):
        held.take(*pieces_of(out, origins, converter))
    held.finish()
    sink.flush()


def _to_parquet(
    converter: Converter, blocks: Iterator[list[Message]], job: ConvertJob, stack: ExitStack
) -> None:
    from waybill.inprocess.kafka_files import MessageFile

    if job.output == STANDARD:
        raise ConfigurationError("Parquet cannot be written to a pipe; name a file")
    sink = stack.enter_context(open_output(job.output))
    file = stack.enter_context(MessageFile(sink, job.target_topic))
    held = HeldOutput(converter, _FileSink(converter.account, file))
    for out, origins in _converted(converter, blocks):
        halves = converter.open_halves
        held.take(cut(out, origins, halves), [half for _, half in halves])
    held.finish()


def _converted(
    converter: Converter, blocks: Iterator[list[Message]]
) -> Iterator[tuple[list[Encoded], list[Message]]]:
    """What each block became, and what each message of it was made from."""
    for messages in blocks:
        out: list[Encoded] = []
        origins: list[Message] = []
        converter.open_halves = []
        converter.convert(messages, out, origins)
        yield out, origins


_Written = tuple[list["Encoded"], list["Message"]]


class _FileSink:
    """Writes messages to a file of Kafka's columns; see `waybill.inprocess.held_output.Sink`."""

    def __init__(self, account: Account, file: MessageFile) -> None:
        self._account, self._file = account, file

    def piece(self, out: list[Encoded], origins: list[Message]) -> _Written:
        return out, origins

    def size(self, piece: _Written) -> int:
        return sum(len(one.key or b"") + len(one.value or b"") for one in piece[0])

    def keep(self, piece: _Written) -> _Written:
        return piece

    def put(self, piece: _Written) -> None:
        self._account.bytes_out += self._file.write(*piece)
        self._account.written += len(piece[0])
