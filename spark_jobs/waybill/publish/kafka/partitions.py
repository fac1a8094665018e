"""Which partition a message goes to: worked out here, the same for the same message every time.

Kafka's clients give messages without key to any partition, as it suits their batches. That would
tear apart what a source had in order, so such messages follow their table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)


class Partitioner:
    """Chooses partitions.

    Args:
        count: how many partitions the topic has.
        fixed: the one that takes everything, if there is one.
        keyless: `table`: messages without key follow their table, or their source topic where they
            have no table; `spread`: they go to any partition, by the place of their change.
    """

    def __init__(self, count: int, fixed: int | None = None, keyless: str = "table") -> None:
        self.count = count
        self.fixed = fixed
        self.keyless = keyless

    def choose(self, batch: pa.RecordBatch) -> list[int]:
        """The partition of each row; `batch` has key, table, topic, partition and offset."""
        if self.fixed is not None or self.count == 1:
            return [self.fixed or 0] * batch.num_rows
        keys: list[Any] = batch.column("key").to_pylist()
        if batch.column("key").null_count:
            stand_ins = self._stand_ins(batch)
            keys = [
                stand_in if key is None else key
                for key, stand_in in zip(keys, stand_ins, strict=True)
            ]
        chosen: list[int] = ((murmur2(keys) & 0x7FFFFFFF) % self.count).tolist()
        return chosen

    def _stand_ins(self, batch: pa.RecordBatch) -> list[bytes]:
        """What is hashed in the place of each key."""
        topics: list[Any] = batch.column("topic").to_pylist()
        if self.keyless == "spread":
            # Partition and offset are hashed, not counted: offsets may all be even.
            numbers = (batch.column(name).to_pylist() for name in ("partition", "offset"))
            return [f"{t}/{p}/{o}".encode() for t, p, o in zip(topics, *numbers, strict=True)]
        tables: list[Any] = batch.column("table").to_pylist()
        return [(table or topic).encode() for table, topic in zip(tables, topics, strict=True)]


def murmur2(keys: Sequence[bytes]) -> Any:
    """The hash by which Kafka's Java client chooses a partition, for many keys at once.

    Returns:
        Unsigned hashes of 32 bits.
    """
    hashes = np.zeros(len(keys), dtype=np.uint32)
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    starts = np.cumsum(lengths) - lengths
    body = np.frombuffer(b"".join(keys), dtype=np.uint8)
    # Keys of one length are one matrix, so the work runs over its columns and not over keys.
    order = np.argsort(lengths, kind="stable")
    sizes, begins = np.unique(lengths[order], return_index=True)
    for size, rows in zip(sizes, np.split(order, begins[1:]), strict=False):
        hashes[rows] = _of_one_length(body, starts[rows], int(size))
    return hashes


def _of_one_length(body: Any, starts: Any, size: int) -> Any:
    text = body[starts[:, None] + np.arange(size)].astype(np.uint32)
    value = np.full(len(starts), _SEED ^ np.uint32(size), dtype=np.uint32)
    whole = size // 4 * 4
    for at in range(0, whole, 4):
        k = text[:, at] | text[:, at + 1] << 8 | text[:, at + 2] << 16 | text[:, at + 3] << 24
        k = k * _M
        k ^= k >> 24
        value = value * _M ^ k * _M
    if whole < size:
        for i in range(size - whole):
            value ^= text[:, whole + i] << np.uint32(8 * i)
        value = value * _M
    value ^= value >> 13
    value = value * _M
    return value ^ value >> 15
