"""Databus's JSON in the known-table way: rows with all that a relay writes of one, and no more."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from waybill.caches import Bounded
from waybill.envelopes.databus.event import DELETE, UPSERT, Event
from waybill.values.known_messages import KnownMessage
from waybill.values.values import JSON_ERRORS

_Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Int16 = Annotated[int, Meta(ge=-(1 << 15), le=(1 << 15) - 1)]


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A row in version 1 with a number as its key, in the order of DbusEventSerializable."""

    opcode: Literal["UPSERT", "DELETE"]
    key: _Int64
    sequence: _Int64
    logicalPartitionId: _Int16
    physicalPartitionId: _Int16
    timestampInNanos: _Int64
    srcId: Annotated[int, Meta(ge=1, le=(1 << 15) - 1)]
    schemaId: str
    valueEnc: Literal["JSON"]
    isReplicated: bool
    value: str


_row = KnownMessage(_Row)
_digests: Bounded[str, bytes] = Bounded()


def usual_row(line: bytes, at: int) -> Event | None:
    """The event of a line, None if it has to be read exactly.

    Args:
        line: the line.
        at: the place of its first byte in the message.
    """
    try:
        row = _row(line)
        if row is None:
            return None
        digest = _digests.get(row.schemaId)
        if digest is None:
            digest = a2b_base64(row.schemaId, strict_mode=True)
            if len(digest) != 16:
                return None
            _digests[row.schemaId] = digest
        value = a2b_base64(row.value, strict_mode=True)
    except JSON_ERRORS:
        return None
    return Event(
        1,
        UPSERT if row.opcode == "UPSERT" else DELETE,
        row.key,
        row.sequence,
        row.timestampInNanos,
        row.srcId,
        row.physicalPartitionId,
        row.logicalPartitionId,
        digest,
        value=value,
        replicated=row.isReplicated,
        place=at,
    )
