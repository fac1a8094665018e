"""Converts blocks of lines: in bulk where that pays, else message by message."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from waybill.batches.bulk_threshold import BulkThreshold
from waybill.inprocess.converter import TOMBSTONE
from waybill.inprocess.held_output import cut
from waybill.inprocess.lines import write_texts
from waybill.records import Message
from waybill.sources.streams import BLANKS

if TYPE_CHECKING:
    from waybill.inprocess.block_converter import BulkConverter
    from waybill.inprocess.converter import Converter
    from waybill.inprocess.counts import Account
    from waybill.inprocess.job import ConvertJob
    from waybill.inprocess.lines import Text
    from waybill.protocol import Encoded
    from waybill.records import Change

BLANK = "blank line"
HEADERS = "headers"
"""What is counted as lost of messages whose headers say what their values have no room for."""


class LineBlocks:
    """Converts the lines of one file.

    Args:
        job: what is converted into what.
        converter: converts one message after the other, and counts.
        size: how many bytes there are, None where nobody knows.
    """

    def __init__(self, job: ConvertJob, converter: Converter, size: int | None = None) -> None:
        self._job, self._converter = job, converter
        self._threshold = BulkThreshold(
            (lambda: job.bulk(converter)) if job.lines_by_bulk else None, size
        )
        self._begun = False

    def convert(self, block: bytes, first: int) -> tuple[list[Text], list[Change]]:
        """What a block of lines becomes, as lines.

        Args:
            block: whole lines without the last line feed.
            first: number of the first line.

        Returns:
            Lines, and the halves of updates that are left open: each stands between two of them.
        """
        bulk = self._threshold.of(len(block))
        if bulk is None:
            return self._one_by_one(block, first)
        account = self._converter.account
        messages, in_bulk = account.messages, bulk.in_bulk
        made = self._in_bulk(bulk, block, first)
        self._threshold.paid(account.messages - messages, bulk.in_bulk - in_bulk)
        return made

    def _one_by_one(self, block: bytes, first: int) -> tuple[list[Text], list[Change]]:
        converter = self._converter
        converter.open_halves = []
        messages = messages_of_block(block, self._job.topic, first, converter.account)
        out: list[Encoded] = []
        origins: list[Message] = []
        converter.convert(messages, out, origins)
        return pieces_of(out, origins, converter)

    def _in_bulk(
        self, bulk: BulkConverter, block: bytes, first: int
    ) -> tuple[list[Text], list[Change]]:
        lead = len(block) if self._begun else _length(block, bulk.lead)
        self._begun = True
        if not 0 < lead < len(block):
            return self._by_bulk(bulk, block, first)
        texts, halves = self._by_bulk(bulk, block[:lead], first)
        rest, more = self._by_bulk(bulk, block[lead + 1 :], first + bulk.lead)
        return [*texts[:-1], b"".join([texts[-1], rest[0]]), *rest[1:]], halves + more

    def _by_bulk(
        self, bulk: BulkConverter, block: bytes, first: int
    ) -> tuple[list[Text], list[Change]]:
        from waybill.bulk.block import lines_block

        converter = self._converter
        converter.open_halves = []
        found, lines = lines_block(block, self._job.topic, first, BLANKS)
        count_lines(block, lines, found.size, converter.account)

        def kept(out: list[Encoded], origins: list[Message]) -> tuple[list[Encoded], list[Message]]:
            left, places = without_broken(out, origins, converter)
            count_headers(left, converter.account)
            return left, places

        converted = bulk.convert(found, kept)
        texts: list[Text] = []
        start, halves = 0, []
        for at, half in converter.open_halves:
            texts.append(converted.lines(start, at))
            start = at
            halves.append(half)
        texts.append(converted.lines(start, len(converted)))
        converter.account.written += len(converted)
        converter.account.bytes_out += sum(map(len, texts))
        return texts, halves


def _length(block: bytes, lines: int) -> int:
    """How many bytes the first lines of a block take, without the last line feed."""
    at = -1
    for _ in range(lines):
        at = block.find(b"\n", at + 1)
        if at < 0:
            return len(block)
    return at


def messages_of_block(block: bytes, topic: str, first: int, account: Account) -> list[Message]:
    """The messages of a block of lines.

    Args:
        block: whole lines without the last line feed.
        topic: the messages' topic.
        first: number of the first line, which is its message's offset.
        account: counts them; blank lines are not messages and count as skipped.
    """
    lines = block.split(b"\n")
    messages = [
        Message(topic, 0, offset, None, None, line)
        for offset, line in enumerate(lines, first)
        if line not in BLANKS
    ]
    count_lines(block, len(lines), len(messages), account)
    return messages


def count_lines(block: bytes, lines: int, messages: int, account: Account) -> None:
    """Count the lines of a block, so many of which are messages."""
    account.messages += lines
    account.bytes_in += len(block) + 1
    if messages != lines:
        account.skipped[BLANK] += lines - messages


def lines_of(written: list[Encoded], origins: list[Message], converter: Converter) -> bytes:
    """Written messages as lines; what cannot be a line is counted and left out."""
    values = [encoded.value for encoded in written]
    if None not in values:
        text = b"\n".join([*values, b""])  # type: ignore[list-item]
        if text.count(b"\n") == len(values):
            converter.account.written += len(values)
            converter.account.bytes_out += len(text)
            count_headers(written, converter.account)
            return text
    return lines_of(*without_broken(written, origins, converter), converter)


def pieces_of(
    out: list[Encoded], origins: list[Message], converter: Converter
) -> tuple[list[Text], list[Change]]:
    """Written messages as lines, and the halves between them that the converter left open."""
    halves = converter.open_halves
    texts: list[Text] = [lines_of(*piece, converter) for piece in cut(out, origins, halves)]
    return texts, [half for _, half in halves]


class LineSink:
    """Writes messages as lines; see `waybill.inprocess.held_output.Sink`."""

    def __init__(self, converter: Converter, stream: IO[bytes]) -> None:
        self._converter, self._stream = converter, stream

    def piece(self, out: list[Encoded], origins: list[Message]) -> Text:
        """Written messages as lines."""
        return lines_of(out, origins, self._converter)

    def size(self, piece: Text) -> int:
        """Its bytes."""
        return len(piece)

    def keep(self, piece: Text) -> Text:
        """A copy: a view may be of what the next block needs."""
        return bytes(piece)

    def put(self, piece: Text) -> None:
        """Write lines."""
        write_texts(self._stream, [piece])


def count_headers(written: list[Encoded], account: Account) -> None:
    """Count the messages whose headers have no place in a line."""
    lost = sum([1 for encoded in written if encoded.headers])
    if lost:
        account.losses[HEADERS] += lost


def without_broken(
    written: list[Encoded], origins: list[Message], converter: Converter
) -> tuple[list[Encoded], list[Message]]:
    """Written messages that can be lines, with what each was made from; the others are counted."""
    kept, kept_origins = [], []
    for encoded, origin in zip(written, origins, strict=True):
        if encoded.value is None:
            converter.account.skipped[TOMBSTONE] += 1
        elif b"\n" in encoded.value:
            converter.refuse_written(origin, "it holds a line feed: write a .parquet file")
        else:
            kept.append(encoded)
            kept_origins.append(origin)
    return kept, kept_origins
