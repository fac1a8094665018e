"""A second reader and writer of Databus's binary layout, made from the document alone.

It shares no code with the envelope: offsets are those of the tables in "Databus event format" (and,
for version 2, of DbusEventV2), numbers are taken one by one, and the checksum is computed bit by
bit. Tests hold the envelope's bytes against it, in both directions.
"""

from __future__ import annotations

import struct
from typing import Any


def crc(data: bytes) -> int:
    """Polynomial 0xEDB88320, reflected, starts at 0, no inversion at the end."""
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
    return value


class Cursor:
    """Takes numbers at offsets of one event."""

    def __init__(self, data: bytes, order: str) -> None:
        self.data = data
        self.order = order

    def at(self, offset: int, kind: str) -> int:
        return struct.unpack_from(self.order + kind, self.data, offset)[0]


def read_event(data: bytes, order: str) -> tuple[dict[str, Any], int]:
    """The first event of some bytes and its length; any doubt is an AssertionError."""
    return {0: read_v1, 2: read_v2}[data[0]](data, order)


def read_stream(data: bytes, order: str = ">") -> list[dict[str, Any]]:
    found = []
    while data:
        event, length = read_event(data, order)
        found.append(event)
        data = data[length:]
    return found


def read_v1(data: bytes, order: str) -> tuple[dict[str, Any], int]:
    take = Cursor(data, order).at
    length, attributes = take(5, "i"), take(9, "h")
    assert 57 <= length <= len(data)
    event: dict[str, Any] = {
        "version": 1,
        "opcode": {0: None, 1: "UPSERT", 2: "DELETE"}[attributes & 3],
        "trace": bool(attributes & 4),
        "replicated": bool(attributes & 0x100),
        "sequence": take(11, "q"),
        "physical": take(19, "h"),
        "logical": take(21, "h"),
        "nanos": take(23, "q"),
        "source": take(31, "h"),
        "schema": data[33:49],
    }
    if attributes & 8:
        size = take(53, "i")
        assert 0 <= size <= length - 57
        event["key"], event["value"] = data[57 : 57 + size], data[57 + size : length]
        assert take(1, "I") == crc(data[5:57])
        assert take(49, "I") == crc(data[57:length])
    else:
        event["key"], event["value"] = take(53, "q"), data[61:length]
        assert take(1, "I") == crc(data[5:61])
        assert take(49, "I") == crc(data[61:length])
    return event, length


def read_part(data: bytes, order: str) -> tuple[tuple[bytes, int, bytes], int]:
    take = Cursor(data, order).at
    length, attributes = take(0, "i"), take(4, "h")
    size = {0: 16, 1: 4}[attributes & 3]
    end = 6 + size + length
    assert length >= 0
    assert end <= len(data)
    return (data[6 + size : end], attributes >> 2, data[6 : 6 + size]), end


def read_v2(data: bytes, order: str) -> tuple[dict[str, Any], int]:
    take = Cursor(data, order).at
    assert take(1, "I") == 0xCAFEDEED
    header, length, attributes = take(5, "i"), take(17, "i"), take(21, "h")
    assert 45 <= header <= length <= len(data)
    assert take(9, "I") == crc(data[13:header])
    assert take(13, "I") == crc(data[header:length])
    event: dict[str, Any] = {
        "version": 2,
        "opcode": {0: None, 1: "UPSERT", 2: "DELETE"}[attributes & 3],
        "replicated": bool(attributes & 0x10),
        "trace": bool(attributes & 0x20),
        "nanos": take(23, "q"),
        "source": take(31, "i"),
        "physical": take(35, "h"),
        "sequence": take(37, "q"),
        "metadata": None,
        "value": None,
    }
    kind = attributes >> 2 & 3
    if kind == 1:
        event["key"], end = take(45, "q"), 53
    elif kind == 2:
        end = 49 + take(45, "i")
        event["key"] = data[49:end]
    else:
        assert kind == 3
        event["key"], size = read_part(data[45:header], order)
        end = 45 + size
    assert end == header
    rest = data[header:length]
    for flag, name in ((0x40, "metadata"), (0x80, "payload")):
        if attributes & flag:
            part, size = read_part(rest, order)
            rest = rest[size:]
            if name == "metadata":
                event["metadata"] = part
            else:
                event["value"], event["schema_version"], event["schema"] = part
    assert not rest
    return event, length


# Writing


def v1(
    key: int | bytes = 0,
    value: bytes = b"",
    *,
    attributes: int = 1,
    sequence: int = 7,
    source: int = 101,
    schema: bytes = bytes(16),
    nanos: int = 1_700_000_000_123_456_789,
    physical: int = 3,
    logical: int = 4,
    order: str = ">",
) -> bytes:
    """An event of version 1."""
    if isinstance(key, bytes):
        attributes |= 8
        tail, body = struct.pack(order + "i", len(key)), key + value
    else:
        tail, body = struct.pack(order + "q", key), value
    length = 53 + len(tail) + len(body)
    head = struct.pack(
        order + "ihqhhqh", length, attributes, sequence, physical, logical, nanos, source
    )
    summed = head + schema + struct.pack(order + "I", crc(body)) + tail
    return b"\x00" + struct.pack(order + "I", crc(summed)) + summed + body


def part(data: bytes, digest: bytes, version: int = 1, order: str = ">") -> bytes:
    kind = {16: 0, 4: 1}[len(digest)]
    return struct.pack(order + "ih", len(data), version << 2 | kind) + digest + data


def v2(
    key: int | bytes = 0,
    payload: bytes = b"",
    *,
    schema_key: bytes = b"",
    metadata: bytes = b"",
    attributes: int = 1,
    sequence: int = 7,
    source: int = 101,
    nanos: int = 1_700_000_000_123_456_789,
    partition: int = 3,
    order: str = ">",
) -> bytes:
    """An event of version 2; payload, metadata and a schema key are parts."""
    if schema_key:
        written, kind = schema_key, 3
    elif isinstance(key, bytes):
        written, kind = struct.pack(order + "i", len(key)) + key, 2
    else:
        written, kind = struct.pack(order + "q", key), 1
    attributes |= kind << 2 | (0x40 if metadata else 0) | (0x80 if payload else 0)
    body = metadata + payload
    header = 45 + len(written)
    summed = struct.pack(
        order + "Iihqihq",
        crc(body),
        header + len(body),
        attributes,
        nanos,
        source,
        partition,
        sequence,
    )
    summed += written
    head = struct.pack(order + "BIiI", 2, 0xCAFEDEED, header, crc(summed))
    return head + summed + body
