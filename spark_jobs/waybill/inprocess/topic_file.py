"""The messages of one file, in whichever layout it is, read in bounded memory."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from waybill.errors import ConfigurationError
from waybill.inprocess.layouts import LAYOUTS, FileLayout, foreign, layout_of, packing_of
from waybill.inprocess.lines import BOM, STANDARD
from waybill.records import Message
from waybill.sources.streams import BLANKS

Read = TypeVar("Read")

HEAD = 1 << 20
"""Bytes that the layout is recognised by."""

BLOCK = 1 << 18
"""Bytes that are read at once."""

LARGEST = 256 << 20
"""Bytes of the largest message that is read from a file."""


class TopicFile:
    """A file that is open for reading.

    Args:
        path: its name, `-` for standard input.
        stream: its bytes.
        layout: how it is laid out; None to find out.
        largest: bytes of the largest message; what is longer is cut off in a `whole` file and is
            an error in others.

    Attributes:
        topic: the topic that it stands for where messages name none.
        packing: gzip, zstd or None.
        layout: how it is laid out.
        foreign: what it is if it is a file of another kind, which holds no messages.
        cut: whether the only message of a `whole` file was cut off.
    """

    def __init__(
        self, path: str, stream: IO[bytes], layout: str | None = None, largest: int = LARGEST
    ) -> None:
        from waybill.inprocess.job import stem

        self.path = path
        self.topic = stem(path)
        self.largest = largest
        self.cut = False
        head, ended = _head_of(stream)
        self.packing = packing_of(head)
        if self.packing is not None:
            stream = _unpacked(_Chained(head, stream), self.packing)
            head, ended = self._attempt(lambda: _head_of(stream))
        self._head, self._stream = head, stream
        self.foreign = foreign(head)
        self.layout = layout_of(head, ended)
        if layout is not None and layout != self.layout.name:
            self.layout = FileLayout(layout, "the layout was given")

    def messages(self) -> Iterator[Message]:
        """The messages in the file's order; blank lines are none.

        Raises:
            ConfigurationError: the file is not laid out so, is packed badly, or holds a message
                that is too large.
        """
        return {
            "lines": self._lines_as_messages,
            "kcat": self._kcat,
            "parquet": self._parquet,
            "whole": self._whole,
        }[self.layout.name]()

    def _lines_as_messages(self) -> Iterator[Message]:
        for number, line in self._lines():
            yield Message(self.topic, 0, number, None, None, line)

    def _kcat(self) -> Iterator[Message]:
        from waybill.sources.kcat import fields_of_line

        for number, line in self._lines():
            try:
                fields = fields_of_line(line)
            except (ValueError, TypeError, OverflowError) as error:
                message = (
                    f"line {number + 1} of {self.path} is not a line of `kcat -J` ({error}); take "
                    "it out, or name another --layout"
                )
                raise ConfigurationError(message) from error
            topic, partition, offset, micros, key, value, headers, _kind = fields
            yield Message(
                topic,
                partition,
                offset,
                None if micros is None else micros // 1000,
                key,
                value,
                [(h["key"], h["value"]) for h in headers] if headers else None,
            )

    def _parquet(self) -> Iterator[Message]:
        from waybill.inprocess.kafka_files import read_messages

        if self.path == STANDARD or self.packing is not None:
            raise ConfigurationError("Parquet is read from a file that is not packed: name one")
        for messages in read_messages(self.path, self.topic, lambda _: None):
            yield from messages

    def _whole(self) -> Iterator[Message]:
        parts, size = [self._head], len(self._head)
        while size <= self.largest and (block := self._read_block()):
            parts.append(block)
            size += len(block)
        value = b"".join(parts)
        self.cut = size > self.largest
        if value:
            yield Message(self.topic, 0, 0, None, None, value[: self.largest])

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines that are not blank, with their numbers."""
        number, rest, size = 0, [self._head.removeprefix(BOM)], len(self._head)
        while True:
            if b"\n" in rest[-1]:
                *lines, tail = b"".join(rest).split(b"\n")
                for line in lines:
                    if line not in BLANKS:
                        yield number, line
                    number += 1
                rest, size = [tail], len(tail)
            block = self._read_block()
            if not block:
                break
            rest.append(block)
            size += len(block)
            if size > self.largest and b"\n" not in block:
                message = (
                    f"line {number + 1} of {self.path} is longer than {self.largest >> 20} MiB; "
                    "a file that is one message is read with --layout whole"
                )
                raise ConfigurationError(message)
        line = b"".join(rest)
        if line not in BLANKS:
            yield number, line

    def _read_block(self) -> bytes:
        return self._attempt(lambda: _taken(self._stream, BLOCK))

    def _attempt(self, read: Callable[[], Read]) -> Read:
        try:
            return read()
        except (OSError, EOFError, zlib.error) as error:
            message = f"{self.path} cannot be read to its end ({error}); put the whole file there"
            raise ConfigurationError(message) from error


@contextmanager
def open_topic(path: str, layout: str | None = None, largest: int = LARGEST) -> Iterator[TopicFile]:
    """A file of messages.

    Raises:
        ConfigurationError: it cannot be read, or there is no such layout.
    """
    if layout is not None and layout not in LAYOUTS:
        raise ConfigurationError(f"there is no layout {layout!r}; known: {', '.join(LAYOUTS)}")
    if path == STANDARD:
        yield TopicFile(path, sys.stdin.buffer, layout, largest)
        return
    with _opened(path) as stream:
        yield TopicFile(path, stream, layout, largest)


def _opened(path: str) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except IsADirectoryError:
        raise ConfigurationError(f"{path} is a folder; name one of the files in it") from None
    except OSError as error:
        message = f"{path} cannot be read ({error.strerror}); name a file of messages"
        raise ConfigurationError(message) from error


class _Chained(io.RawIOBase):
    """Bytes that were read already, and then the stream that they are from."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = io.BytesIO(head)
        self._stream = stream

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        view = memoryview(buffer).cast("B")
        data = self._head.read(len(view)) or self._stream.read(len(view))
        view[: len(data)] = data
        return len(data)


def _unpacked(stream: _Chained, packing: str) -> IO[bytes]:
    if packing == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=cast("Any", stream), mode="rb"))
    import pyarrow as pa

    return cast("IO[bytes]", pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd"))


def _head_of(stream: IO[bytes]) -> tuple[bytes, bool]:
    """The first bytes of a stream, and whether they are all. Of a pipe at least the first line."""
    parts: list[bytes] = []
    missing, waits = HEAD, _is_pipe(stream)
    while missing > 0:
        part = _taken(stream, missing)
        if not part:
            return b"".join(parts), True
        parts.append(part)
        missing -= len(part)
        if waits and b"\n" in part:
            break
    return b"".join(parts), False


def _is_pipe(stream: IO[bytes]) -> bool:
    return isinstance(stream, io.BufferedReader) and not stream.seekable()


def _taken(stream: IO[bytes], size: int) -> bytes:
    """Some bytes of a stream, none at its end; a pipe gives what it has, so no one waits for it."""
    if _is_pipe(stream):
        return cast("io.BufferedReader", stream).read1(size)
    return stream.read(size)
