"""The messages of the golden cases, and what comes of any message."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tests.golden import test_golden as golden
from tests.histories import by_name as images
from waybill.envelopes import registry
from waybill.errors import REFUSAL_KINDS, Refusal
from waybill.records import OPERATIONS, ROW_OPERATIONS, Message

if TYPE_CHECKING:
    from waybill.tables import TableRules

OUTCOMES = {"ok", "refused", "skipped"}


@lru_cache
def good_messages(name: str) -> list[tuple[Message, TableRules, Any]]:
    """The messages of the golden cases, with the settings of their readers."""
    found = []
    for path in sorted(Path(golden.HERE, name).glob("*.json")):
        case = msgspec.json.decode(path.read_bytes(), type=golden.Case)
        if (case.read_as or name) != name:
            continue
        settings = registry.get(name).decode_settings(**case.settings)
        for place, wire in enumerate(case.messages):
            headers = [(n, golden.bytes_of(v)) for n, v in wire.headers or ()] or None
            key, value = golden.bytes_of(wire.key), golden.bytes_of(wire.value)
            message = Message("topic", 0, place, wire.timestamp, key, value, headers)
            found.append((message, golden.rules_of(case.tables), settings))
    return found


def good_streams(name: str) -> list[tuple[list[Message], TableRules, Any]]:
    """The messages of the golden cases that are read the same way, with those settings."""
    found: dict[str, tuple[list[Message], TableRules, Any]] = {}
    for message, rules, settings in good_messages(name):
        same = repr((rules.declared, settings))
        messages, _, _ = found.setdefault(same, ([], rules, settings))
        messages.append(message)
    return list(found.values())


def reason(refusal: Refusal) -> tuple[str, str]:
    assert refusal.kind in REFUSAL_KINDS
    assert refusal.sentence
    return refusal.kind, refusal.sentence


def outcome(decoder, message) -> Any:
    """What comes of a message, checked for what every reader of changes relies on."""
    try:
        changes = decoder.decode(message)
    except Refusal as refusal:
        return reason(refusal)
    assert isinstance(changes, list)
    for change in changes:
        assert change.operation in OPERATIONS
        assert change.outcome in OUTCOMES
        if change.outcome == "refused":
            assert change.reason_kind in REFUSAL_KINDS
            continue
        assert change.order_key
        msgspec.json.encode([change.before, change.after])
        assert change.extra is None or isinstance(json.loads(change.extra), dict)
        if change.operation in ROW_OPERATIONS and change.outcome == "ok":
            assert change.after is not None or change.before is not None
            try:
                change.key_image()
                change.old_key_image()
            except Refusal:
                continue  # a key that cannot be one is refused; anything else is a fault
            assert change.schema.empty != (change.before if change.after is None else change.after)
    return changes


def said(found: Any) -> Any:
    """What changes say, apart from columns that a table was seen to have meanwhile."""
    if not isinstance(found, list):
        return found
    return [
        {
            **msgspec.structs.asdict(change),
            "schema": change.schema.qualified_name,
            "before": images(change.schema, change.before),
            "after": images(change.schema, change.after),
            "moved_from": change.moved_from and msgspec.structs.astuple(change.moved_from),
        }
        for change in found
    ]
