"""Tells from the first bytes of a file how messages are laid out in it.

The layouts are those of a source (`source.files.layout`): lines, kcat, parquet, whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

PARQUET, GZIP, ZSTD = b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

LAYOUTS = ("lines", "kcat", "parquet", "whole")
"""Every layout that a file can be read in."""

FOREIGN = {
    b"Obj\x01": "an Avro container file",
    b"ORC": "an ORC file",
    b"PK\x03\x04": "a ZIP archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"SQLite format 3": "a SQLite database",
    b"\xff\xfe": "a text in UTF-16",
    b"\xfe\xff": "a text in UTF-16",
}
"""First bytes of files that hold no messages in any layout."""

RECORDS = (
    "lines of records with topic, partition, offset and value, a layout that is not read: write "
    "the values alone, one a line, or name them payload as kcat does"
)

_LOOKED_AT = 20
_BLANKS = b" \t\r\n"


class FileLayout(NamedTuple):
    """How a file is laid out, and what tells it.

    Attributes:
        name: one of `LAYOUTS`.
        why: what was seen, half a sentence.
    """

    name: str
    why: str


class _KcatLine(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    payload: msgspec.Raw


class _RecordLine(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    value: msgspec.Raw


_kcat = msgspec.json.Decoder(_KcatLine).decode
_record = msgspec.json.Decoder(_RecordLine).decode


def layout_of(head: bytes, ended: bool) -> FileLayout:
    """The layout of a file, unpacked.

    Args:
        head: its first bytes.
        ended: whether they are all of it.
    """
    if head.startswith(PARQUET):
        return FileLayout("parquet", "the file begins with PAR1")
    lines = [line for line in head.split(b"\n") if line.strip(_BLANKS)]
    if not ended and len(lines) > 1:
        lines.pop()
    lines = lines[:_LOOKED_AT]
    if not lines:
        return FileLayout("lines", "it holds nothing but blanks" if head else "it is empty")
    objects = sum(_is_object(line) for line in lines)
    if 2 * objects >= len(lines):
        if 2 * sum(_fits(_kcat, line) for line in lines) >= len(lines):
            return FileLayout(
                "kcat", "its lines are objects with topic, partition, offset and payload"
            )
        return FileLayout("lines", "each line is one JSON object")
    if _is_binary(head):
        return FileLayout("whole", f"it is binary: its first bytes are {head[:8].hex(' ')}")
    if head.lstrip(_BLANKS)[:1] in (b"{", b"["):
        several = " over several lines" if len(lines) > 1 else ", and no object in a line"
        return FileLayout("whole", f"it is one JSON text{several}")
    return FileLayout("lines", "it is a text")


def packing_of(head: bytes) -> str | None:
    """How a file is packed, by its first bytes: gzip, zstd or not at all."""
    if head.startswith(GZIP):
        return "gzip"
    return "zstd" if head.startswith(ZSTD) else None


def foreign(head: bytes) -> str | None:
    """What a file is that holds no messages, by its first bytes; None if that is not known."""
    for magic, name in FOREIGN.items():
        if head.startswith(magic):
            return name
    if _fits(_record, head.partition(b"\n")[0]):
        return RECORDS
    return None


def _is_object(line: bytes) -> bool:
    """Whether a line looks like a whole JSON object."""
    line = line.strip(_BLANKS)
    return line.startswith(b"{") and line.endswith(b"}")


def _fits(decode: Callable[[bytes], Any], line: bytes) -> bool:
    try:
        decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def _is_binary(head: bytes) -> bool:
    """Whether a text would hardly begin so."""
    start = head[:4096]
    if b"\0" in start:
        return True
    controls = sum(byte < 32 and byte not in b"\t\n\r\x0c" for byte in start)
    return controls * 10 > len(start)
