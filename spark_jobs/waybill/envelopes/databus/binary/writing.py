"""Writes the binary layout of Databus events, versions 1 and 2, in both byte orders."""

from __future__ import annotations

from waybill.envelopes.databus.binary.reading import (
    INTEGERS,
    LONGS,
    MAGIC,
    SHORTS,
    V1,
    V1_BYTES,
    V1_HEADS,
    V1_LONG,
    V2,
    V2_FIXED,
    V2_HEADS,
)
from waybill.envelopes.databus.event import DELETE, UPSERT, Event, Part, checksum


def event_bytes(event: Event) -> bytes:
    """The bytes of an event in the version and byte order that it names.

    Version 1 has no metadata, no key with a schema and no event without value: what the event has
    of them must have been dealt with before.
    """
    return _version_2(event) if event.version == 2 else _version_1(event)


_OPCODES = {UPSERT: 1, DELETE: 2}


def _version_1(event: Event) -> bytes:
    order = int(event.little)
    value = event.value or b""
    # A data event has exactly one opcode bit; a control event has none.
    attributes = _OPCODES.get(event.opcode, 0) | event.trace << 2 | event.replicated << 8
    key = event.key
    if isinstance(key, bytes):
        attributes |= 8
        body, header, tail = key + value, V1_BYTES, INTEGERS[order].pack(len(key))
    else:
        assert isinstance(key, int), "version 1 has no keys with a schema"
        body, header, tail = value, V1_LONG, LONGS[order].pack(key)
    head = V1_HEADS[order].pack(
        V1,
        0,
        header + len(body),
        attributes,
        event.sequence,
        event.physical,
        event.logical,
        event.nanos,
        event.source,
        event.digest,
        checksum(body),
        0,
    )
    summed = head[5:53] + tail
    return b"".join((head[:1], _unsigned(checksum(summed), order), summed, body))


def _unsigned(value: int, order: int) -> bytes:
    return value.to_bytes(4, "little" if order else "big")


def _version_2(event: Event) -> bytes:
    order = int(event.little)
    attributes = event.opcode | event.replicated << 4 | event.trace << 5
    key = event.key
    if isinstance(key, Part):
        written, kind = _part(key, order), 3
    elif isinstance(key, bytes):
        written, kind = INTEGERS[order].pack(len(key)) + key, 2
    else:
        written, kind = LONGS[order].pack(key), 1
    attributes |= kind << 2
    body = b""
    if event.metadata is not None:
        attributes |= 0x40
        body += _part(event.metadata, order)
    if event.value is not None:
        attributes |= 0x80
        body += _part(Part(event.value, event.schema_version, event.digest), order)
    header = V2_FIXED + len(written)
    head = V2_HEADS[order].pack(
        V2,
        MAGIC,
        header,
        0,
        checksum(body),
        header + len(body),
        attributes,
        event.nanos,
        event.source,
        event.physical,
        event.sequence,
    )
    summed = head[13:] + written
    return b"".join((head[:9], _unsigned(checksum(summed), order), summed, body))


def _part(part: Part, order: int) -> bytes:
    kind = part.version << 2 | (len(part.digest) == 4)
    return b"".join(
        (INTEGERS[order].pack(len(part.data)), SHORTS[order].pack(kind), part.digest, part.data)
    )
