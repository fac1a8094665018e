"""One Databus event, whatever it was written in: binary version 1 or 2, or JSON."""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

import msgspec

UPSERT, DELETE = 1, 2
"""Opcodes; 0 is an event without one."""

END_OF_PERIOD = -2
"""Source id of the event that ends a window."""

MAX_SOURCE = (1 << 31) - 1
"""The largest source id; those of rows begin with 1, and version 1 has 16 bits for them."""

NO_TIME = -1
"""A timestamp in nanoseconds that stands for none: -1 is no whole microsecond, so no time that
Waybill writes can be mistaken for it."""

PART_VERSIONS = range(-(1 << 13), 1 << 13)
"""Versions of a schema that a part holds: two of its 16 bits tell the kind of digest."""


class Part(NamedTuple):
    """A part of an event of version 2: its bytes and the schema they are written with.

    Attributes:
        data: the bytes.
        version: version of the schema.
        digest: MD5 (16 bytes) or CRC-32 (4 bytes) of the schema.
    """

    data: bytes
    version: int
    digest: bytes


class Event(msgspec.Struct, gc=False):
    """One event.

    Attributes:
        version: 1 or 2.
        opcode: `UPSERT`, `DELETE` or 0.
        key: an integer, bytes, or a part (version 2 only).
        sequence: number of the window (SCN), signed 64 bits.
        nanos: time of the change, nanoseconds since 1970.
        source: source id; positive for rows, else a control event.
        physical: physical partition.
        logical: logical partition; version 2 has one partition only.
        digest: id of the schema of the value (MD5, or CRC-32 in version 2).
        schema_version: version of that schema, 0 where it is not stated.
        value: Avro binary, None where version 2 has no payload part.
        metadata: metadata part of version 2, None where there is none.
        replicated: whether external replication wrote it.
        trace: whether it is a trace event.
        last: whether an attribute says that it is the last event of its window.
        little: whether its numbers are little-endian.
        place: offset of its first byte in the message.
        json_value: the value is Avro's JSON notation (JSON_PLAIN), not binary.
    """

    version: int
    opcode: int
    key: int | bytes | Part
    sequence: int
    nanos: int
    source: int
    physical: int = 0
    logical: int = 0
    digest: bytes = bytes(16)
    schema_version: int = 0
    value: bytes | None = None
    metadata: Part | None = None
    replicated: bool = False
    trace: bool = False
    last: bool = False
    little: bool = False
    place: int = 0
    json_value: bool = False


def checksum(data: Any) -> int:
    """Databus's checksum: the polynomial of CRC-32, started at 0 and not inverted at the end."""
    return crc32(data, 0xFFFFFFFF) ^ 0xFFFFFFFF
