"""A checksum over messages, and their number and sizes, whatever batches they arrive in."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("key", "value", "headers")
"""What a message consists of, as far as the outbox decides it."""


class Content:
    """Sums up messages.

    Lengths and bytes of keys and of values, and headers, go into sums of their own, each of which
    sees one stream. So the checksum depends on the messages alone, not on how they are batched,
    and takes a few calls a batch.

    Attributes:
        messages: how many there were.
        tombstones: those without a value.
        bytes: of keys, values and headers.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.tombstones = 0
        self.bytes = 0
        self._sums = [hashlib.sha256() for _ in range(5)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add messages that follow those before."""
        self.messages += batch.num_rows
        self.tombstones += batch.column("value").null_count
        self.bytes += int(sizes(batch).sum())
        for i, name in enumerate(("key", "value")):
            column = batch.column(name)
            self._sums[2 * i].update(_lengths(column, -1).tobytes())
            self._sums[2 * i + 1].update(_joined(column))
        headers = batch.column("headers")
        if headers.null_count == len(headers):
            self._sums[4].update(b"\0" * len(headers))
        else:
            for row in headers.to_pylist():
                self._sums[4].update(_packed(row))

    @property
    def sha256(self) -> str:
        """The checksum in hexadecimal digits."""
        return hashlib.sha256(b"".join(part.digest() for part in self._sums)).hexdigest()


def sizes(batch: pa.RecordBatch) -> Any:
    """Bytes of key, value and headers of each row."""
    total = _lengths(batch.column("key"), 0) + _lengths(batch.column("value"), 0)
    headers = batch.column("headers")
    if headers.null_count < len(headers):
        total = total + np.array([_size(row) for row in headers.to_pylist()], dtype=np.int64)
    return total


def _joined(column: Any) -> Any:
    """The bytes of all values, one after another; as Arrow holds them, where it holds them so."""
    if column.type == pa.binary() and len(column):
        _, places, data = column.buffers()
        ends = np.frombuffer(places, np.int32)[column.offset : column.offset + len(column) + 1]
        start, end = int(ends[0]), int(ends[-1])
        # The slot of a null may hold bytes too.
        if data is not None and end - start == int(_lengths(column, 0).sum()):
            return memoryview(data)[start:end]
    return b"".join(filter(None, column.to_pylist()))


def _lengths(column: Any, null: int) -> Any:
    found: Any = pc.fill_null(pc.binary_length(column), null)
    return found.to_numpy(zero_copy_only=False).astype(np.int64)


def _size(row: list[dict[str, Any]] | None) -> int:
    return sum(len(h["key"].encode()) + len(h["value"] or b"") for h in row or ())


def _packed(row: list[dict[str, Any]] | None) -> bytes:
    """Headers as bytes that only the same headers give."""
    if row is None:
        return b"\0"
    packed = [b"\1", len(row).to_bytes(4, "big")]
    for header in row:
        name, value = header["key"].encode(), header["value"]
        packed += [len(name).to_bytes(4, "big"), name]
        packed += [b"\0"] if value is None else [b"\1", len(value).to_bytes(4, "big"), value]
    return b"".join(packed)
