"""Confluent's framing: how a message names the schema of its key and value.

- A byte 0 and four bytes of schema id, most significant first, then the Avro data.
- A byte 1 and the 16 bytes of the schema's GUID, then the Avro data.
- The same bytes in the header `__key_schema_id` or `__value_schema_id`, and the Avro data alone.

Messages that Waybill writes without a registry and without a folder of schemas bring their schema
along, in the headers `waybill.key.schema` and `waybill.value.schema`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from waybill.counting import counted
from waybill.errors import Refusal
from waybill.protocol import Mark

if TYPE_CHECKING:
    from waybill.records import Message

ID_LENGTH, GUID_LENGTH = 5, 17
_LENGTHS = {0: ID_LENGTH, 1: GUID_LENGTH}


class Part(NamedTuple):
    """The key or the value of messages, as framing names it.

    Attributes:
        name: key or value.
        id_header: the header that may hold the id or GUID.
        text_header: the header that may hold the schema itself.
    """

    name: str
    id_header: str
    text_header: str


KEY = Part("key", "__key_schema_id", "waybill.key.schema")
VALUE = Part("value", "__value_schema_id", "waybill.value.schema")

IDS = 1 << 31
"""Schema ids are below; 0 is none."""

_OURS = frozenset(name for part in (KEY, VALUE) for name in part[1:])


class Framed(NamedTuple):
    """Where the Avro data of a key or value begins, and what names its schema.

    Attributes:
        token: the id (5 bytes) or GUID (17 bytes) with its first byte.
        start: where the data begins.
        text: the schema itself, where the message brings it.
    """

    token: bytes
    start: int
    text: bytes | None = None


def framed(part: Part, data: bytes, message: Message) -> Framed:
    """How the key or value of a message is framed.

    Raises:
        Refusal: kind `binary`; it is not framed.
    """
    text = None
    for name, content in message.headers or ():
        if name not in _OURS or content is None:
            continue
        if name == part.id_header:
            return Framed(_token(part, content), 0, _header(message, part.text_header))
        if name == part.text_header:
            text = content
    length = _LENGTHS.get(data[0]) if data else None
    if length is None:
        first = f"byte {data[0]}" if data else "nothing"
        sentence = f"the {part.name} begins with {first}, not with Confluent's 0 and a schema id"
        raise Refusal("binary", sentence)
    if len(data) < length:
        size = counted(len(data), "byte")
        raise Refusal("binary", f"the {part.name} ends inside its schema id ({size})")
    return Framed(data[:length], length, text)


def _token(part: Part, content: bytes) -> bytes:
    if content and _LENGTHS.get(content[0]) == len(content):
        return content
    raise Refusal("binary", f"the header {part.id_header} holds neither a schema id nor a GUID")


def _header(message: Message, name: str) -> bytes | None:
    found = None
    for header, content in message.headers or ():
        if header == name and content is not None:
            found = content
    return found


def mark(message: Message) -> Mark | None:
    """What shows that a message is framed."""
    value = message.value or b""
    try:
        found = framed(VALUE, value, message)
    except Refusal:
        return None
    if found.start == 0 or found.text is not None:
        return Mark(len(found.token), f"a header of the message names {named(found.token)}")
    if found.token[0] == 0 and not 0 < int.from_bytes(found.token[1:], "big") < IDS:
        return None
    # Registries count from 1, so that more bytes than the first are zero.
    size = len(found.token) - len(found.token[1:].lstrip(b"\0"))
    return Mark(size, f"the value begins with byte {value[0]} and {named(found.token)}")


def id_of(token: bytes) -> int | UUID:
    """The schema id or GUID of a token."""
    if token[0] == 0:
        return int.from_bytes(token[1:], "big")
    return UUID(bytes=token[1:])


def named(token: bytes) -> str:
    """A token as a sentence says it."""
    found = id_of(token)
    return f"schema id {found}" if isinstance(found, int) else f"schema {found}"


def prefix_of(schema_id: int) -> bytes:
    """The framing of a schema id."""
    return b"\0" + schema_id.to_bytes(4, "big")
