"""Reads a file from start to end: unpacked, in blocks, with a digest of its bytes.

The digest is what tells a file that was written again with the same content from one that has
changed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

from waybill.errors import Code, SourceError
from waybill.storage.open import open_storage

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 4 << 20
"""Bytes that are read at once."""

PACKED = (".gz", ".zst")
"""Suffixes of packed files."""

BLANKS = (b"", b"\r")
"""Lines that hold no message: empty, as line ends of one kind or the other leave them."""

_FIRST = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
"""First bytes of packed files, which begin no text."""


class DigestReader(io.RawIOBase):
    """A stream that digests the bytes as they pass."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._digest = hashlib.blake2b(digest_size=12)
        self.bytes = 0

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer."""
        view = memoryview(buffer).cast("B")
        data = self._stream.read(len(view))
        self._digest.update(data)
        self.bytes += len(data)
        view[: len(data)] = data
        return len(data)

    def digest(self) -> str:
        """Digest of everything, also of what was not read yet."""
        while self.read(BLOCK):
            pass
        return self._digest.hexdigest()


@contextmanager
def opened(path: str) -> Iterator[DigestReader]:
    """The bytes of a file as they are stored.

    Raises:
        SourceError: the file cannot be read.
    """
    fs, name = open_storage(path)
    try:
        with fs.open(name, "rb") as stream:
            yield DigestReader(stream)
    except OSError as error:
        message = f"{path} cannot be read ({error}); put it back or fix it, then run again"
        raise SourceError(message, code=Code.SOURCE_UNREADABLE) from error


def digest_of(path: str) -> str:
    """Digest of a whole file."""
    with opened(path) as stream:
        return stream.digest()


def unpacked(stream: DigestReader, path: str) -> IO[bytes]:
    """The file's content; `.gz` and `.zst` are unpacked."""
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=cast("Any", stream), mode="rb"))
    if path.endswith(".zst"):
        import pyarrow as pa

        return cast("IO[bytes]", pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd"))
    return cast("IO[bytes]", io.BufferedReader(stream, BLOCK))


def line_lists(stream: IO[bytes], path: str) -> Iterator[list[bytes]]:
    """Lists of whole lines without their line feeds; the last may end without one.

    A line ends at a line feed and nowhere else: JSON text may hold U+2028, U+0085 and carriage
    returns.

    Raises:
        SourceError: the packed content is cut short or broken, or its name does not say that it is
            packed.
    """
    rest: list[bytes] = []
    for block in text_blocks(stream, path):
        head, feed, tail = block.rpartition(b"\n")
        if not feed:
            rest.append(block)
            continue
        rest.append(head)
        yield b"".join(rest).split(b"\n")
        rest = [tail] if tail else []
    if rest:
        yield [b"".join(rest)]


def text_blocks(stream: IO[bytes], path: str) -> Iterator[bytes]:
    """The blocks of a text, without its byte order mark.

    Raises:
        SourceError: the packed content is cut short or broken, or its name does not say that it is
            packed.
    """
    for number, block in enumerate(_blocks(stream, path)):
        yield block if number else _text_begin(block, path)


def _text_begin(block: bytes, path: str) -> bytes:
    """The first block of a text without its byte order mark, which is not a part of a message."""
    packed = next((suffix for suffix, first in _FIRST.items() if block.startswith(first)), None)
    if packed is not None:
        message = (
            f"{path} is compressed, but its name does not show it: rename it to end in {packed}"
        )
        raise SourceError(message, code=Code.SOURCE_UNREADABLE)
    return block.removeprefix(b"\xef\xbb\xbf")


def _blocks(stream: IO[bytes], path: str) -> Iterator[bytes]:
    while True:
        try:
            block = stream.read(BLOCK)
        except (OSError, EOFError, zlib.error) as error:
            message = (
                f"{path} cannot be unpacked ({error}); put the whole file there, then run again"
            )
            raise SourceError(message, code=Code.SOURCE_UNREADABLE) from error
        if not block:
            return
        yield block
