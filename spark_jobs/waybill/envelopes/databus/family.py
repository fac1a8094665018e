"""What a Databus event carries beside its change, from `extra` back to an event."""

from __future__ import annotations

import msgspec

from waybill.envelopes.databus.event import NO_TIME, Event, Part
from waybill.values.values import base64_bytes

_HEAD = b'{"databus":{'


class CarriedPart(msgspec.Struct, gc=False):
    """A part of version 2 in `extra`."""

    data: str
    version: int
    digest: str

    def part(self) -> Part:
        """The part."""
        return Part(base64_bytes(self.data), self.version, base64_bytes(self.digest))


class CarriedKey(msgspec.Struct, gc=False):
    """A key in `extra`: bytes, or a part."""

    bytes: str | None = None
    data: str | None = None
    version: int = 0
    digest: str = ""


class Carried(msgspec.Struct, gc=False):
    """The members of `extra`; see `decoder.family`."""

    source: int
    version: int = 1
    physical: int = 0
    logical: int = 0
    key: str | CarriedKey | None = None
    nanos: int | None = None
    metadata: CarriedPart | None = None
    replicated: bool = False
    trace: bool = False
    little: bool = False
    control: bool = False
    opcode: int = 0
    digest: str = ""
    schema_version: int = 0
    value: str | None = None
    schema_ids: str = "digest"

    def event_key(self, version: int) -> int | bytes | Part | None:
        """The event's key; None where it cannot be written in a version."""
        key = self.key
        if key is None:
            return None
        if isinstance(key, str):
            return int(key)
        if key.bytes is not None:
            return base64_bytes(key.bytes)
        if version == 1:
            return None
        return CarriedPart(key.data or "", key.version, key.digest).part()

    def value_part(self, version: int) -> tuple[bytes, int, bytes | None]:
        """Digest, schema version and value of a control event."""
        digest = base64_bytes(self.digest)
        value = None if self.value is None else base64_bytes(self.value)
        if version == 1:
            return digest[:16].ljust(16, b"\0"), 0, value or b""
        if not value and not any(digest) and not self.schema_version:
            # Version 1 always has a value, which says nothing where it is empty.
            value = None
        return digest, self.schema_version, value

    def fill(self, event: Event, losses: list[str], texts: bool = False) -> None:
        """Give an event what the one that it came from had.

        Args:
            event: it.
            losses: takes what it has no room for.
            texts: whether its parts are texts, so that they have to be UTF-8.
        """
        event.physical, event.logical = self.physical, self.logical
        event.replicated, event.trace = self.replicated, self.trace
        if (
            self.nanos is not None
            and event.nanos != NO_TIME
            and self.nanos // 1000 * 1000 == event.nanos
        ):
            event.nanos = self.nanos
        lost = self.lost_by(event.version)
        if self.metadata is not None and event.version == 2:
            part = self.metadata.part()
            if texts and not _is_text(part.data):
                lost = True
            else:
                event.metadata = part
        if lost:
            losses.append("other")

    def lost_by(self, version: int) -> bool:
        """Whether a version has no room for all of it.

        Version 2 has one partition; version 1 has no metadata, no key with a schema, and no schema
        of a value but an MD5.
        """
        if version == 2:
            return self.physical != self.logical
        key = self.key
        parted = isinstance(key, CarriedKey) and key.bytes is None
        named = self.control and (bool(self.schema_version) or len(base64_bytes(self.digest)) < 16)
        return self.metadata is not None or parted or named


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Family(msgspec.Struct, gc=False):
    databus: Carried


_decoder = msgspec.json.Decoder(_Family)


def carried_of(extra: bytes | None) -> Carried | None:
    """What `extra` carries of a Databus event; None where it is of another family."""
    if extra is None or not extra.startswith(_HEAD):
        return None
    return _decoder.decode(extra).databus
