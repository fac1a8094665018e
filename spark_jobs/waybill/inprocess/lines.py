"""Files of lines, one message value a line, in blocks of whole lines.

Lines end at a line feed and nowhere else: JSON text may hold every other kind of line end.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, TypeVar, cast

from waybill.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BLOCK = 4 << 20
"""Bytes that are read at once."""

WRITTEN_AT_ONCE = 1 << 17
"""Bytes that are written at once."""

Text = bytes | bytearray | memoryview

GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
"""First bytes of a packed file, and of a text that some editors mark as UTF-8."""

STANDARD = "-"
"""Standard input or output, where a file is named."""


def check_local(path: str) -> None:
    """See that a path is one of this machine.

    Raises:
        ConfigurationError: it is a URL, which would else be taken for a folder of that name.
    """
    if "://" in path:
        message = (
            f"{path} is not a file on this machine: copy it here, or pipe it through and name - "
            "(a migration reads and writes object storage itself)"
        )
        raise ConfigurationError(message)


def open_lines(path: str) -> AbstractContextManager[IO[bytes]]:
    """A stream of the bytes of a file of lines; gzip is unpacked, a byte order mark left out.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    if path == STANDARD:
        return nullcontext(sys.stdin.buffer)
    try:
        stream: IO[bytes] = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
        if not stream.seekable():
            return stream
        if stream.read(len(GZIP)) == GZIP:
            stream.close()
            stream = cast("IO[bytes]", gzip.open(path, "rb"))  # noqa: SIM115
        else:
            stream.seek(0)
        with suppress(EOFError, zlib.error):  # reported by who reads on
            if stream.read(len(BOM)) != BOM:
                stream.seek(0)
        return stream
    except OSError as error:
        message = f"{path} cannot be read ({error.strerror}); name a file of messages"
        raise ConfigurationError(message) from error


def size_of(stream: IO[bytes]) -> int | None:
    """How many bytes a stream of `open_lines` still has; None where only reading it tells."""
    if not isinstance(stream, io.BufferedReader) or not stream.seekable():
        return None
    return os.fstat(stream.fileno()).st_size - stream.tell()


Block = TypeVar("Block")


def read_to_end(path: str, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks of a file.

    Raises:
        ConfigurationError: it cannot be read to its end, e.g. because it is packed and cut off.
    """
    try:
        yield from blocks
    except (OSError, EOFError, zlib.error) as error:
        message = f"{path} cannot be read to its end ({error}); put the whole file there"
        raise ConfigurationError(message) from error


def line_blocks(stream: IO[bytes], size: int = BLOCK) -> Iterator[bytes]:
    """Blocks of whole lines, without the line feed of the last one.

    A block of n line feeds holds n + 1 lines. A file that ends without a line feed is read to
    its end.
    """
    # What stands in a pipe is taken as it comes, so that a slow writer is not waited for.
    read: Callable[[bytearray], int] = stream.readinto  # type: ignore[attr-defined]
    if isinstance(stream, io.BufferedReader) and not stream.seekable():
        read = stream.readinto1
    # New memory for each block would take longer than reading it.
    chunk = bytearray(size)
    rest: list[bytes] = []
    while there := read(chunk):
        cut = chunk.rfind(b"\n", 0, there)
        if cut < 0:
            rest.append(bytes(chunk[:there]))
            continue
        yield b"".join([*rest, memoryview(chunk)[:cut]])
        rest = [bytes(chunk[cut + 1 : there])] if cut + 1 < there else []
    if rest:
        yield b"".join(rest)


def write_texts(sink: IO[bytes], texts: Iterable[Text]) -> None:
    """Write texts one after the other.

    In pieces that are written from the processor's cache into pages of the usual size: where the
    system makes large pages for a large piece, it takes three times as long.
    """
    for text in texts:
        whole = memoryview(text)
        for start in range(0, len(whole), WRITTEN_AT_ONCE):
            sink.write(whole[start : start + WRITTEN_AT_ONCE])


class _Named(io.FileIO):
    """A file that is written, and says which one it is where it cannot be.

    Args:
        path: the file, opened under this name.
        shown: what the user calls it.
    """

    def __init__(self, path: Path, shown: Path) -> None:
        super().__init__(path, "wb")
        self._shown = shown

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ConfigurationError(_not_written(self._shown, error)) from error


def _not_written(path: Path, error: OSError) -> str:
    return f"{path} cannot be written ({error.strerror}); make room, or name another output"


class OutputFile:
    """A file that is there whole or not at all: written beside its name, renamed at the end."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self._file: io.BufferedWriter | None = None
        self._stream: IO[bytes] | None = None
        # Ctrl-C may come between opening and the caller's `with`: then `__exit__` never runs.
        self._cleanup = weakref.finalize(self, self._beside.unlink, missing_ok=True)

    def __enter__(self) -> IO[bytes]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = io.BufferedWriter(_Named(self._beside, self.path))
        except OSError as error:
            raise ConfigurationError(_not_written(self.path, error)) from error
        stream: IO[bytes] = self._file
        if self.path.name.endswith(".gz"):
            stream = cast("IO[bytes]", gzip.open(self._file, "wb", compresslevel=6))
        self._stream = stream
        return stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # What is still to be written may find no room either.
            for stream in (self._stream, self._file):
                if stream is not None:
                    stream.close()
            if kind is None:
                self._beside.replace(self.path)
        finally:
            self._beside.unlink(missing_ok=True)


def open_output(path: str) -> AbstractContextManager[IO[bytes]]:
    """A stream to write to: standard output, or a file that appears when it is whole.

    A link leads to the file that is written; a device or a pipe is written to as it is.
    """
    if path == STANDARD:
        return nullcontext(sys.stdout.buffer)
    check_local(path)
    there = Path(path)
    if there.exists() and not there.is_file() and not there.is_dir():
        return io.BufferedWriter(_Named(there, there))
    return OutputFile(str(there.resolve()))


def check_new(force: bool, *paths: str | None) -> None:
    """Refuse to write over a file that is there. A device or a pipe is no such file.

    Args:
        force: write over it all the same.
        paths: what is written; None is nothing.

    Raises:
        ConfigurationError: names the first of them.
    """
    for path in () if force else paths:
        if path is not None and path != STANDARD and Path(path).is_file():
            message = f"{path} is there already: name another output, or add --force to replace it"
            raise ConfigurationError(message)


def check_apart(*paths: str | None) -> None:
    """Refuse two names of one file, of which one would be written over the other.

    Raises:
        ConfigurationError: names them.
    """
    seen: dict[Path, str] = {}
    for path in paths:
        if path is None or path == STANDARD or (Path(path).exists() and not Path(path).is_file()):
            continue
        real = Path(path).resolve()
        if real in seen:
            shown = path if path == seen[real] else f"{seen[real]}, which is {path} too,"
            raise ConfigurationError(f"{shown} would be overwritten; name another output")
        seen[real] = path
