"""Databus events in their JSON form: one object a line, the members of version 1 or 2.

The members are those of the document and of the class DbusEventSerializable. The value is Base64
(JSON) or text (JSON_PLAIN; the class calls it JSON_PLAIN_VALUE). Base64 may be broken into lines.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from waybill.counting import counted
from waybill.envelopes.databus.binary.events import event_bytes
from waybill.envelopes.databus.event import (
    DELETE,
    END_OF_PERIOD,
    PART_VERSIONS,
    UPSERT,
    Event,
    Part,
)
from waybill.envelopes.databus.json.usual_rows import usual_row
from waybill.errors import Refusal
from waybill.types import INTEGER_RANGE
from waybill.values.values import JSON_ERRORS, base64_text, check_json, json_refusal, quotes_of

_OPCODES = {"UPSERT": UPSERT, "DELETE": DELETE, None: 0}
_NAMES = {UPSERT: "UPSERT", DELETE: "DELETE"}
_PLAIN = ("JSON_PLAIN", "JSON_PLAIN_VALUE")
_KEY_PART = re.compile(
    r"Length=([0-9]{1,9});SchemaVersion=(-?[0-9]{1,5});SchemaId=0x([0-9a-f]*);Value=0x([0-9a-f]*)"
)
MAGIC = 0xCAFEDEED


class _Line(msgspec.Struct, gc=False):
    """One event; the members of both versions."""

    sequence: int
    timestampInNanos: int
    srcId: int
    opcode: str | None = None
    key: int | str | None = None
    keyBytes: str | None = None
    logicalPartitionId: int | UnsetType = UNSET
    physicalPartitionId: int | UnsetType = UNSET
    schemaId: str | None = None
    valueEnc: str | None = None
    value: str | None = None
    endOfPeriod: bool | Literal["true", "false"] = False
    isReplicated: bool = False
    traceEnabled: bool = False
    # Version 2.
    version: int | UnsetType = UNSET
    magicByte: int | None = None
    headerCrc: int | None = None
    bodyCrc: int | None = None
    keyType: str | None = None
    traceOn: bool = False
    hasPayloadMetadata: bool | None = None
    hasPayload: bool | None = None
    metadataLength: int | None = None
    metadataSchemaVersion: int = 0
    metadataSchemaId: str | None = None
    metadataValue: str | None = None
    payloadLength: int | None = None
    payloadSchemaVersion: int = 0
    payloadSchemaId: str | None = None
    payloadValue: str | None = None


_line = msgspec.json.Decoder(_Line).decode
_RANGES = {
    "sequence": "int64",
    "timestampInNanos": "int64",
    "logicalPartitionId": "int16",
    "physicalPartitionId": "int16",
    "srcId": "int32",
    "metadataSchemaVersion": "int16",
    "payloadSchemaVersion": "int16",
}


def events(data: bytes) -> Iterator[Event | Refusal]:
    """The events of a message, one a line; a refusal stands for a line that cannot be taken."""
    at, found = 0, 0
    for line in data.split(b"\n"):
        if line.strip():
            found += 1
            try:
                yield _event(line, at)
            except Refusal as refusal:
                kind, sentence = refusal.kind, refusal.sentence
                yield Refusal(kind, f"the event at byte {at} cannot be taken: {sentence}")
        at += len(line) + 1
    if not found:
        yield Refusal("json", "the message holds no event")


def _event(line: bytes, at: int) -> Event:
    return usual_row(line, at) or any_event(line, at)


def any_event(line: bytes, at: int) -> Event:
    """The event of a line, whatever members it has.

    Args:
        line: the line.
        at: the place of its first byte in the message.

    Raises:
        Refusal: it is none.
    """
    try:
        parsed = _line(line)
    except JSON_ERRORS as error:
        raise json_refusal(error) from None
    names = texts = 0
    for name in _Line.__struct_fields__:
        value = getattr(parsed, name)
        names += value is not _DEFAULTS[name]
        texts += isinstance(value, str)
    if quotes_of(line) != 2 * (names + texts):
        # Names that are not known, stated defaults, or a name that stands twice.
        check_json(line)
    for name, kind in _RANGES.items():
        low, high = INTEGER_RANGE[kind]
        value = getattr(parsed, name)
        if value is not UNSET and not low <= value <= high:
            raise Refusal("shape", f"{name} is out of the range of {kind}")
    if parsed.opcode not in _OPCODES:
        shown = str(parsed.opcode)[:40]
        raise Refusal("operation", f"the opcode {shown!r} is none; write UPSERT or DELETE")
    if parsed.valueEnc is not None and parsed.valueEnc != "JSON" and parsed.valueEnc not in _PLAIN:
        raise Refusal("shape", f"the value encoding {parsed.valueEnc[:40]!r} is none")
    return _version_1(parsed, at) if parsed.version is UNSET else _version_2(parsed, at)


_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(_Line)}


def _version_1(parsed: _Line, at: int) -> Event:
    if not -(1 << 15) <= parsed.srcId < 1 << 15:
        raise Refusal("shape", "srcId is out of the range of int16")
    ends = parsed.endOfPeriod in (True, "true")
    key = 0 if ends and parsed.key is None and parsed.keyBytes is None else _key_1(parsed)
    digest = bytes(16)
    if parsed.schemaId is not None:
        digest = _base64(parsed.schemaId, "schemaId")
        if len(digest) != 16:
            raise Refusal("shape", f"schemaId has {counted(len(digest), 'byte')}, not 16")
    source, opcode = parsed.srcId, _OPCODES[parsed.opcode]
    if ends and parsed.value is None and parsed.opcode is None:
        source = END_OF_PERIOD
    elif source > 0 and not opcode:
        # The document calls the opcode optional; without one a row is written, not deleted.
        opcode = UPSERT
    physical, logical = _partitions(parsed, only_ends=ends and source == END_OF_PERIOD)
    return Event(
        1,
        opcode,
        key,
        parsed.sequence,
        parsed.timestampInNanos,
        source,
        physical,
        logical,
        digest,
        value=_value(parsed, parsed.value, "value"),
        replicated=parsed.isReplicated,
        trace=parsed.traceEnabled,
        last=ends,
        place=at,
        json_value=parsed.valueEnc in _PLAIN,
    )


def _partitions(parsed: _Line, only_ends: bool = False) -> tuple[int, int]:
    """The physical and the logical partition of an event.

    The document has both in every event, and so has all that DbusEventSerializable writes. The end
    of a period may lack them, and they are 0 then: that class reads no more of it than the time and
    the sequence (`appendToEventBuffer`), and the sample in Databus's dbus2_json_compare.py has no
    physical partition.

    Args:
        parsed: the line.
        only_ends: whether the event is the end of a period and no row.

    Raises:
        Refusal: kind `shape`; one is missing.
    """
    physical, logical = parsed.physicalPartitionId, parsed.logicalPartitionId
    if not only_ends and logical is UNSET:
        raise Refusal("shape", "logicalPartitionId is not told")
    if not only_ends and physical is UNSET:
        raise Refusal("shape", "physicalPartitionId is not told")
    return physical or 0, logical or 0


def _key_1(parsed: _Line) -> int | bytes:
    if parsed.keyBytes is not None:
        if parsed.key is not None:
            raise Refusal("shape", "the event has both key and keyBytes")
        return _base64(parsed.keyBytes, "keyBytes")
    if isinstance(parsed.key, int):
        return _long(parsed.key)
    if parsed.key is not None:
        raise Refusal("shape", "key is a text; a key that is no number belongs in keyBytes")
    raise Refusal("shape", "key and keyBytes are both missing")


def _value(parsed: _Line, value: str | None, name: str) -> bytes | None:
    if value is None:
        return None
    if parsed.valueEnc is None:
        raise Refusal("shape", "valueEnc is missing, and there is a value")
    if parsed.valueEnc == "JSON":
        return _base64(value, name)
    return value.encode("utf-8", "surrogatepass")


def _base64(text: str, name: str) -> bytes:
    try:
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError as error:
        raise Refusal("shape", f"{name} is not Base64: {error}") from None


def _long(number: int) -> int:
    low, high = INTEGER_RANGE["int64"]
    if not low <= number <= high:
        raise Refusal("shape", "key is out of the range of int64")
    return number


# Version 2


def _version_2(parsed: _Line, at: int) -> Event:
    if parsed.version != 2:
        raise Refusal(
            "shape", f"the version {parsed.version} is not supported: expected 2, or none"
        )
    if parsed.magicByte is not None and parsed.magicByte & 0xFFFFFFFF != MAGIC:
        raise Refusal(
            "shape", f"magicByte is {parsed.magicByte}, not cafedeed, {MAGIC - (1 << 32)}"
        )
    _check_flag(parsed.hasPayloadMetadata, parsed.metadataValue, "metadata", "hasPayloadMetadata")
    _check_flag(parsed.hasPayload, parsed.payloadValue, "payload", "hasPayload")
    metadata = payload = None
    if parsed.hasPayloadMetadata or parsed.metadataValue is not None:
        metadata = _part(parsed, "metadata", parsed.metadataSchemaVersion, parsed.metadataSchemaId)
    if parsed.hasPayload or parsed.payloadValue is not None:
        payload = _part(parsed, "payload", parsed.payloadSchemaVersion, parsed.payloadSchemaId)
    event = Event(
        2,
        _OPCODES[parsed.opcode],
        _key(parsed),
        parsed.sequence,
        parsed.timestampInNanos,
        parsed.srcId,
        *_partitions(parsed),
        metadata=metadata,
        replicated=parsed.isReplicated,
        trace=parsed.traceOn,
        last=parsed.endOfPeriod in (True, "true"),
        place=at,
        json_value=parsed.valueEnc in _PLAIN,
    )
    if payload is not None:
        event.value, event.schema_version, event.digest = payload
    _check_sums(parsed, event)
    return event


def _check_flag(flag: bool | None, value: str | None, name: str, member: str) -> None:
    if flag is False and value:
        raise Refusal("shape", f"{member} is false, and there is a {name}Value")


def _key(parsed: _Line) -> int | bytes | Part:
    if parsed.key is not None and parsed.keyBytes is not None:
        raise Refusal("shape", "the event has both key and keyBytes")
    if parsed.keyType == "Number" and isinstance(parsed.key, int):
        return _long(parsed.key)
    if parsed.keyType == "String" and parsed.keyBytes is not None:
        return _base64(parsed.keyBytes, "keyBytes")
    match = _KEY_PART.fullmatch(parsed.key) if isinstance(parsed.key, str) else None
    if parsed.keyType != "Schema" or match is None:
        raise Refusal("shape", "keyType is Number, String or Schema, with a key that fits it")
    length, version, digest, data = match.groups()
    if len(data) != 2 * int(length) or len(digest) not in (8, 32):
        raise Refusal("key", "the key with a schema is cut; its JSON form holds only its beginning")
    return Part(bytes.fromhex(data), _part_version(int(version), "key"), bytes.fromhex(digest))


def _part_version(version: int, name: str) -> int:
    if version not in PART_VERSIONS:
        raise Refusal("shape", f"the schema version {version} of the {name} does not fit 14 bits")
    return version


def _part(parsed: _Line, name: str, version: int, digest: str | None) -> Part:
    data = _value(parsed, getattr(parsed, f"{name}Value"), f"{name}Value")
    if data is None or digest is None:
        raise Refusal("shape", f"there is a {name}, and not both {name}Value and {name}SchemaId")
    length = getattr(parsed, f"{name}Length")
    if length is not None and length != len(data) and parsed.valueEnc == "JSON":
        size = counted(len(data), "byte")
        raise Refusal("shape", f"{name}Length is {length}, and {name}Value has {size}")
    found = _base64(digest, f"{name}SchemaId")
    if len(found) not in (4, 16):
        raise Refusal("shape", f"{name}SchemaId has {counted(len(found), 'byte')}, not 4 or 16")
    return Part(data, _part_version(version, name), found)


def _check_sums(parsed: _Line, event: Event) -> None:
    """Hold the checksums of the binary form against the event, in both byte orders."""
    if parsed.headerCrc is None or parsed.bodyCrc is None or parsed.valueEnc != "JSON":
        return
    for little in (False, True):
        event.little = little
        try:
            header, body = _sums(event_bytes(event), little)
        except OverflowError:
            break
        if (header, body) == (parsed.headerCrc & 0xFFFFFFFF, parsed.bodyCrc & 0xFFFFFFFF):
            event.little = False
            return
    raise Refusal("binary", "headerCrc and bodyCrc are not the checksums of this event")


def _sums(data: bytes, little: bool) -> tuple[int, int]:
    order: Literal["little", "big"] = "little" if little else "big"
    return int.from_bytes(data[9:13], order), int.from_bytes(data[13:17], order)


# Writing


def line_of(event: Event) -> bytes:
    """An event as a line, without its line end."""
    members = _members_2(event) if event.version == 2 else _members_1(event)
    return msgspec.json.encode(members)


def _encoding(event: Event) -> str:
    return "JSON_PLAIN_VALUE" if event.json_value else "JSON"


def _text(event: Event, data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass") if event.json_value else base64_text(data)


def _members_1(event: Event) -> dict[str, object]:
    members: dict[str, object] = {}
    if event.opcode:
        members["opcode"] = _NAMES[event.opcode]
    if isinstance(event.key, bytes):
        members["keyBytes"] = base64_text(event.key)
    else:
        members["key"] = event.key
    members["sequence"] = event.sequence
    members["logicalPartitionId"] = event.logical
    members["physicalPartitionId"] = event.physical
    members["timestampInNanos"] = event.nanos
    members["srcId"] = event.source
    members["schemaId"] = base64_text(event.digest)
    members["valueEnc"] = _encoding(event)
    members["isReplicated"] = event.replicated
    if event.source == END_OF_PERIOD:
        members["endOfPeriod"] = True
    if event.trace:
        members["traceEnabled"] = True
    members["value"] = _text(event, event.value or b"")
    return members


def _members_2(event: Event) -> dict[str, object]:
    data = event_bytes(event)
    header, body = _sums(data, event.little)
    members: dict[str, object] = {
        "version": 2,
        "magicByte": MAGIC - (1 << 32),
        "headerCrc": header,
        "bodyCrc": body,
        "opcode": _NAMES.get(event.opcode),
    }
    key = event.key
    if isinstance(key, Part):
        version, digest, value = key.version, key.digest.hex(), key.data.hex()
        text = f"Length={len(key.data)};SchemaVersion={version};SchemaId=0x{digest};Value=0x{value}"
        members.update(keyType="Schema", key=text)
    elif isinstance(key, bytes):
        members.update(keyType="String", keyBytes=base64_text(key))
    else:
        members.update(keyType="Number", key=key)
    members["valueEnc"] = _encoding(event)
    members["isReplicated"] = event.replicated
    members["traceOn"] = event.trace
    members["hasPayloadMetadata"] = event.metadata is not None
    members["hasPayload"] = event.value is not None
    members["timestampInNanos"] = event.nanos
    members["srcId"] = event.source
    members["logicalPartitionId"] = members["physicalPartitionId"] = event.physical
    members["sequence"] = event.sequence
    payload = None
    if event.value is not None:
        payload = Part(event.value, event.schema_version, event.digest)
    for name, part in (("metadata", event.metadata), ("payload", payload)):
        if part is not None:
            members[f"{name}Length"] = len(part.data)
            members[f"{name}SchemaVersion"] = part.version
            members[f"{name}SchemaId"] = base64_text(part.digest)
            members[f"{name}Value"] = _text(event, part.data)
    return members
