"""Refused messages as lines of JSON: where from, why, and the exact bytes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from waybill.records import Message


def quarantine_line(message: Message, index: int, kind: str, sentence: str) -> bytes:
    """One refused message as one line.

    The bytes stand as text under `value` (`key`) where they are UTF-8, else as Base64 under
    `value_base64` (`key_base64`).
    """
    row: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "index": index,
        "kind": kind,
        "reason": sentence,
    }
    row.update(text_or_base64("key", message.key))
    row.update(text_or_base64("value", message.value))
    return msgspec.json.encode(row) + b"\n"


def text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    """Bytes as a field that JSON can hold; nothing for a key that is not there."""
    if value is None:
        return {} if name == "key" else {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
