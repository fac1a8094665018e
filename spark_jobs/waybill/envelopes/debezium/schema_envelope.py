"""Takes a message apart: the inline schema, if there is one, and the payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.envelopes.debezium.row_readers import NO_KEY, KeyShape, fields_of
from waybill.errors import Refusal

if TYPE_CHECKING:
    from msgspec import Raw

_WRAPPED = {"schema", "payload"}


class Opened(NamedTuple):
    """A message without its wrapping.

    Attributes:
        payload: the JSON object that the message is about.
        fields: the names in it, values untouched.
        schema: the JSON of the inline schema, None where there is none.
        prefix: the bytes before the payload; empty without wrapping.
        whole: whether prefix, payload and one brace are all of the message, so that a message that
            begins with the prefix can be opened by cutting.
    """

    payload: bytes | Raw
    fields: dict[str, Raw]
    schema: bytes | None = None
    prefix: bytes = b""
    whole: bool = True


def opening(value: bytes) -> Opened | None:
    """A message without its wrapping; None for a tombstone that a converter wrote as JSON.

    A row may have columns named schema and payload; the wrapping has exactly these two, and both
    are objects or null.

    Raises:
        ValueError: the message is no JSON object.
        Refusal: a schema without payload, which only flattened deletes have.
    """
    if value.strip() == b"null":
        return None
    fields = fields_of(value)
    if fields.keys() != _WRAPPED:
        return Opened(value, fields)
    schema, payload = bytes(fields["schema"]), bytes(fields["payload"])
    if schema[:1] not in (b"{", b"n") or payload[:1] not in (b"{", b"n"):
        return Opened(value, fields)
    if payload == b"null":
        if schema == b"null":
            return None
        sentence = "a schema with a payload of null is a delete of a flattened topic, no envelope"
        raise Refusal("shape", sentence)
    prefix = value[: -len(payload) - 1]
    whole = value == prefix + payload + b"}" and schema in prefix
    return Opened(payload, fields_of(payload), None if schema == b"null" else schema, prefix, whole)


def opened_key(key: bytes) -> Opened:
    """A message key, or a header that holds one, without its wrapping.

    Raises:
        Refusal: it is no JSON object.
    """
    try:
        opened = opening(key)
    except ValueError as error:
        raise Refusal("key", f"a key is not a JSON object: {error}") from None
    if opened is None:
        raise Refusal("key", "a key is null")
    return opened


def key_shape(key: bytes | None) -> KeyShape:
    """How a message key looks; keys of other converters tell no columns."""
    if key is None:
        return NO_KEY
    try:
        opened = opening(key)
    except (ValueError, RecursionError, Refusal):
        return KeyShape(None)
    if opened is None:
        return KeyShape(None)
    if opened.prefix and not opened.whole:
        return KeyShape(None)
    return KeyShape(tuple(opened.fields), opened.prefix)


def is_no_key(key: bytes | None) -> bool:
    """Whether a message has no key, or one that is null as a converter writes it."""
    try:
        return key is None or opening(key) is None
    except (ValueError, RecursionError, Refusal):
        return False
