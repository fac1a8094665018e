"""The binary layout of Databus events, versions 1 and 2, in both byte orders: read and written.

The layout is that of "Databus event format" and of the classes DbusEventV1, DbusEventV2 and
DbusEventPart. An event is taken only if its length, both checksums and every inner length fit:
no byte is left over and none is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.envelopes.databus.event import DELETE, UPSERT, Event, Part, checksum
from waybill.errors import Refusal
from waybill.protocol import Mark

if TYPE_CHECKING:
    from waybill.records import Message

V1, V2 = 0, 2
"""The first byte of an event; that of version 1 is 0."""
MAGIC = 0xCAFEDEED
REPLICATED_UPSERT = 0x0101
"""Attributes of version 1 of a row with a long key that external replication wrote."""

V1_HEADS = tuple(Struct(f"{order}BIiHqhhqh16sIq") for order in "><")
V1_CHECKS = tuple(Struct(f"{order}IiH") for order in "><")
V2_HEADS = tuple(Struct(f"{order}BIiIIiHqihq") for order in "><")
INTEGERS = tuple(Struct(f"{order}i") for order in "><")
SHORTS = tuple(Struct(f"{order}h") for order in "><")
LONGS = tuple(Struct(f"{order}q") for order in "><")
V1_LONG, V1_BYTES, V2_FIXED = 61, 57, 45
DIGEST_SIZES = {0: 16, 1: 4}
"""Bytes of the digest of a part by its type: MD5, CRC-32."""


class Damaged(Exception):
    """An event whose frame is sound and whose content is not: the next event can still be read."""

    def __init__(self, refusal: Refusal, end: int) -> None:
        super().__init__(refusal, end)
        self.refusal = refusal
        self.end = end


def events(data: bytes, old: bool = False) -> Iterator[Event | Refusal]:
    """The events of a message, in order.

    A refusal stands for an event that cannot be taken. After one whose header or length is wrong
    nothing follows, because the place of the next event is not known: its sentence counts the bytes
    that are not read, which stand in no other count.

    Args:
        data: the message.
        old: whether its writers set each attribute of version 1 in both bytes.
    """
    at, end = 0, len(data)
    if not data:
        yield Refusal("binary", "the message is empty; an event has 57 bytes at least")
        return
    little = 0
    while at < end:
        try:
            if data[at] == V2:
                event, at = _version_2(data, at)
            else:
                event, at = _version_1(data, at, little, old)
        except Damaged as damaged:
            at = damaged.end
            yield damaged.refusal
        except Refusal as refusal:
            rest = f"the rest of the message from there, {counted(end - at, 'byte')}, is not read"
            yield Refusal(refusal.kind, f"{refusal.sentence}; {rest}")
            return
        else:
            little = event.little
            yield event


def mark(message: Message) -> Mark | None:
    """What shows that a message is a stream of events: length and checksums of a sound one."""
    found = events(message.value or b"")
    first = next((event for event in found if isinstance(event, Event)), None)
    if first is None:
        return None
    order = "little" if first.little else "big"
    text = f"length and checksums of an event of version {first.version}, {order}-endian, fit"
    return Mark(12, text)


def _refusal(at: int, what: str, kind: str = "binary") -> Refusal:
    return Refusal(kind, f"the event at byte {at} {what}")


# Version 1


def _version_1(data: bytes, at: int, little: int, old: bool) -> tuple[Event, int]:
    if data[at] == 0x7B:
        raise _refusal(
            at,
            "begins with {: a relay's error text, or JSON events",
            "shape",
        )
    if data[at] != V1:
        raise _refusal(at, f"has version {data[at]}; 0 (version 1) and 2 are known", "shape")
    size = len(data) - at
    if size < V1_BYTES:
        raise _refusal(at, f"is cut off: {_left(size)}, and a header has 57 or 61")
    found = _order_of(data, at, size, little)
    (_, _, length, attributes, sequence, physical, logical, nanos, source, digest, sum_, key) = (
        V1_HEADS[found].unpack_from(data, at)
        if size >= V1_LONG
        else V1_HEADS[found].unpack(data[at:].ljust(V1_LONG, b"\0"))
    )
    end = at + length
    if attributes & 8:
        key_size = INTEGERS[found].unpack_from(data, at + 53)[0]
        start, body = at + V1_BYTES + key_size, at + V1_BYTES
        if not 0 <= key_size <= length - V1_BYTES:
            rest = counted(length - V1_BYTES, "byte")
            what = f"has a key of {counted(key_size, 'byte')} in {rest}"
            raise Damaged(_refusal(at, what), end)
        key = data[body:start]
    else:
        start = body = at + V1_LONG
    if checksum(data[body:end]) != sum_:
        what = f"has a wrong checksum of its value ({checksum(data[body:end]):08x}, not {sum_:08x})"
        raise Damaged(_refusal(at, what), end)
    opcode = UPSERT if attributes & 1 else DELETE if attributes & 2 else 0
    # Old writers set each bit in both bytes: their bit 8 is not the replicated flag. An UPSERT with
    # a long key is the only event of theirs that cannot be distinguished from one of today.
    twice = attributes >> 8 == attributes & 0xFF and (old or attributes != REPLICATED_UPSERT)
    event = Event(
        1,
        opcode,
        key,
        sequence,
        nanos,
        source,
        physical,
        logical,
        digest,
        value=data[start:end],
        replicated=bool(attributes & 0x100) and not twice,
        trace=bool(attributes & 4),
        last=bool(attributes & 16),
        little=bool(found),
        place=at,
    )
    return event, end


def _order_of(data: bytes, at: int, size: int, little: int) -> int:
    """0 for big-endian, 1 for little-endian: the order in which the header's checksum is right."""
    sums = []
    for order in (little, 1 - little):
        stated, length, attributes = V1_CHECKS[order].unpack_from(data, at + 1)
        header = V1_BYTES if attributes & 8 else V1_LONG
        if header > size:
            continue
        right = checksum(data[at + 5 : at + header]) == stated
        if right and header <= length <= size:
            return order
        if right:
            if length > size:
                what = f"is cut off: its length is {length}, and {_left(size)}"
            else:
                what = f"has a length of {length}, less than its header"
            raise _refusal(at, what)
        sums.append(length)
    if not sums:
        raise _refusal(at, f"is cut off: {_left(size)}, and its header has {V1_LONG}")
    if any(V1_BYTES <= length <= size for length in sums):
        raise _refusal(at, "has a wrong checksum of its header")
    raise _refusal(
        at,
        f"has a wrong checksum of its header, and a length of {sums[0]} in {counted(size, 'byte')}",
    )


# Version 2


def _version_2(data: bytes, at: int) -> tuple[Event, int]:
    size = len(data) - at
    if size < V2_FIXED:
        raise _refusal(at, f"is cut off: {_left(size)}, and a header has {V2_FIXED}")
    for order in (0, 1):
        head = V2_HEADS[order].unpack_from(data, at)
        if head[1] == MAGIC:
            break
    else:
        raise _refusal(at, "is of version 2 and has no magic number cafedeed at its byte 1")
    header, header_sum, body_sum, length = head[2:6]
    if not V2_FIXED <= header <= size:
        left = counted(size, "is left", "are left")
        raise _refusal(at, f"has a header of {counted(header, 'byte')}, and {left}")
    _check(data, at, at + 13, at + header, header_sum, "header")
    if length > size:
        raise _refusal(at, f"is cut off: its length is {length}, and {_left(size)}")
    if length < header:
        raise _refusal(at, f"has a length of {length}, less than its header of {header}")
    try:
        _check(data, at, at + header, at + length, body_sum, "body")
        return _content(data, at, order, head), at + length
    except Refusal as refusal:
        raise Damaged(refusal, at + length) from None


def _check(data: bytes, at: int, start: int, end: int, stated: int, what: str) -> None:
    found = checksum(data[start:end])
    if found != stated:
        raise _refusal(at, f"has a wrong checksum of its {what} ({found:08x}, not {stated:08x})")


def _content(data: bytes, at: int, order: int, head: tuple[Any, ...]) -> Event:
    header, _, _, length, attributes, nanos, source, partition, sequence = head[2:]
    start, end = at + header, at + length
    opcode = attributes & 3
    if opcode == 3:
        raise _refusal(at, "has opcode 3; 0, 1 (UPSERT) and 2 (DELETE) are known", "operation")
    key = _key(data, at, start, attributes >> 2 & 3, order)
    metadata = payload = None
    if attributes & 0x40:
        metadata, start = _part(data, at, start, end, order, "metadata")
    if attributes & 0x80:
        payload, start = _part(data, at, start, end, order, "payload")
    if start != end:
        raise _refusal(at, f"has {counted(end - start, 'byte')} after its last part")
    event = Event(
        2,
        opcode,
        key,
        sequence,
        nanos,
        source,
        partition,
        partition,
        metadata=metadata,
        replicated=bool(attributes & 0x10),
        trace=bool(attributes & 0x20),
        little=bool(order),
        place=at,
    )
    if payload is not None:
        event.value, event.schema_version, event.digest = payload
    return event


def _key(data: bytes, at: int, end: int, kind: int, order: int) -> int | bytes | Part:
    """The key, which ends where the header does."""
    start = at + V2_FIXED
    if kind == 0:
        raise _refusal(at, "has key type 0; 1 (long), 2 (bytes) and 3 (schema) are known", "shape")
    if kind == 3:
        part, after = _part(data, at, start, end, order, "key")
        if after != end:
            raise _refusal(at, "has a key that does not end with its header")
        return part
    if kind == 1:
        if end - start != 8:
            raise _refusal(at, f"has a long key of {counted(end - start, 'byte')}")
        key: int = LONGS[order].unpack_from(data, start)[0]
        return key
    if end - start < 4 or INTEGERS[order].unpack_from(data, start)[0] != end - start - 4:
        raise _refusal(at, "has a key whose length does not end with its header")
    return data[start + 4 : end]


def _left(size: int) -> str:
    """What is left of a message."""
    return counted(size, "byte is left", "bytes are left")


def _part(data: bytes, at: int, start: int, end: int, order: int, name: str) -> tuple[Part, int]:
    """A part that begins at `start`, and where it ends."""
    if end - start < 6:
        raise _refusal(at, f"has a {name} part that is cut off")
    length = INTEGERS[order].unpack_from(data, start)[0]
    kind = SHORTS[order].unpack_from(data, start + 4)[0]
    digest = DIGEST_SIZES.get(kind & 3)
    if digest is None:
        raise _refusal(at, f"has a {name} part with digest type {kind & 3}; 0 and 1 are known")
    body = start + 6 + digest
    if body > end:
        raise _refusal(at, f"has a {name} part that is cut off")
    if not 0 <= length <= end - body:
        left = counted(end - body, "is left", "are left")
        raise _refusal(at, f"has a {name} part of {counted(length, 'byte')}, and {left}")
    return Part(data[body : body + length], kind >> 2, data[start + 6 : body]), body + length


# Writing


def event_bytes(event: Event) -> bytes:
    """The bytes of an event in the version and byte order that it names.

    Version 1 has no metadata, no key with a schema and no event without value: what the event has
    of them must have been dealt with before.
    """
    return _version_2_bytes(event) if event.version == 2 else _version_1_bytes(event)


_OPCODES = {UPSERT: 1, DELETE: 2}


def _version_1_bytes(event: Event) -> bytes:
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


def _version_2_bytes(event: Event) -> bytes:
    order = int(event.little)
    attributes = event.opcode | event.replicated << 4 | event.trace << 5
    key = event.key
    if isinstance(key, Part):
        written, kind = _part_bytes(key, order), 3
    elif isinstance(key, bytes):
        written, kind = INTEGERS[order].pack(len(key)) + key, 2
    else:
        written, kind = LONGS[order].pack(key), 1
    attributes |= kind << 2
    body = b""
    if event.metadata is not None:
        attributes |= 0x40
        body += _part_bytes(event.metadata, order)
    if event.value is not None:
        attributes |= 0x80
        body += _part_bytes(Part(event.value, event.schema_version, event.digest), order)
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


def _part_bytes(part: Part, order: int) -> bytes:
    kind = part.version << 2 | (len(part.digest) == 4)
    return b"".join(
        (INTEGERS[order].pack(len(part.data)), SHORTS[order].pack(kind), part.digest, part.data)
    )
