"""Runs the golden cases: messages with the canonical changes beside them (README.md here)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
import pytest

from waybill.batches.messages import decode_message
from waybill.envelopes import registry
from waybill.envelopes.pairs import PairJoiner
from waybill.errors import Refusal
from waybill.made_ids import lost_of
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.json"))
ENVELOPES = [path.name for path in sorted(HERE.iterdir()) if path.is_dir() and path.name[0] != "_"]


class Wire(msgspec.Struct, forbid_unknown_fields=True):
    """A message as a case states it; raw JSON, so that no digit of a number is lost."""

    value: msgspec.Raw
    key: msgspec.Raw = msgspec.Raw(b"null")
    headers: list[tuple[str, msgspec.Raw]] | None = None
    timestamp: int | None = 1_700_000_000_000
    partition: int = 0
    offset: int | None = None
    topic: str = "topic"


class Case(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    messages: list[Wire]
    changes: list[dict]
    settings: dict = {}
    tables: dict = {}
    encoded: list[msgspec.Raw] | None = None
    losses: list[str] | None = None
    write_settings: dict = {}
    read_as: str | None = None
    write_as: str | None = None


class WireOut(msgspec.Struct, forbid_unknown_fields=True):
    """A message that the encoder must write."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    key: msgspec.Raw = msgspec.Raw(b"")
    headers: list[tuple[str, msgspec.Raw]] | None = None
    refused: str | None = None


def compact(raw: bytes) -> bytes:
    """JSON without the blanks between its tokens, digits untouched."""
    return msgspec.json.format(raw, indent=-1)


def bytes_of(raw: msgspec.Raw) -> bytes | None:
    if bytes(raw)[:1] != b"{":
        stated = msgspec.json.decode(raw, type=str | None)
        return None if stated is None else stated.encode()
    ((notation, inner),) = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items()
    if notation == "base64":
        return base64.b64decode(msgspec.json.decode(inner), validate=True)
    assert notation == "json", f"a value is a text, null, json or base64, not {notation}"
    return compact(bytes(inner))


def exact(value: bytes | None):
    """JSON to compare: names unordered, numbers by their digits."""
    if value is None:
        return None
    return json.loads(value, parse_float=lambda t: ("number", t), parse_int=lambda t: ("number", t))


def rules_of(tables: dict) -> TableRules:
    return TableRules(
        {
            name: TableRule(
                tuple(rule["key"]) if "key" in rule else None,
                {column: parse_type(text) for column, text in rule.get("columns", {}).items()},
            )
            for name, rule in tables.items()
        }
    )


def plain(image) -> dict | None:
    return None if image is None else msgspec.json.decode(msgspec.json.encode(image))


def shown(change, names) -> dict:
    """The stated fields of a change, as the case spells them."""
    schema = change.schema
    take = {
        "database": lambda: schema.database,
        "schema": lambda: schema.schema,
        "table": lambda: schema.table,
        "key": lambda: plain(change.key_image()),
        "old_key": lambda: plain(change.old_key_image()),
        "before": lambda: plain(change.before),
        "after": lambda: plain(change.after),
        "sequence": lambda: None if change.sequence is None else list(change.sequence),
        "extra": lambda: None if change.extra is None else msgspec.json.decode(change.extra),
        "message": lambda: change.message.offset,
        "types": lambda: {column.name: str(column.type) for column in schema.columns},
        "key_columns": lambda: None if schema.key is None else list(schema.key),
    }
    return {name: take[name]() if name in take else getattr(change, name) for name in names}


def read(case: Case, envelope: str) -> list:
    """The changes of the case's messages, halves of updates joined."""
    declaration = registry.get(envelope)
    settings = declaration.decode_settings(**case.settings)
    decoder = declaration.decoder(settings, rules_of(case.tables))
    joiner = PairJoiner()
    changes = []
    for place, wire in enumerate(case.messages):
        headers = wire.headers and [(name, bytes_of(value)) for name, value in wire.headers]
        offset = place if wire.offset is None else wire.offset
        message = Message(
            wire.topic,
            wire.partition,
            offset,
            wire.timestamp,
            bytes_of(wire.key),
            bytes_of(wire.value),
            headers,
        )
        for change in decode_message(decoder, message):
            if declaration.pairs and change.half is not None and "half" not in str(case.changes):
                changes += joiner.push(change)
            else:
                changes.append(change)
    return changes + joiner.rest()


def write(case: Case, envelope: str, source: str, changes: list) -> tuple[list, list[str]]:
    """What the encoder makes of the accepted changes; a refusal stands as its kind."""
    declaration, read = registry.get(envelope), registry.get(source)
    settings = declaration.encode_settings(**case.write_settings)
    reading = read.decode_settings(**case.settings)
    encoder = declaration.encoder(settings.for_source(read, reading))
    written, losses = [], []
    for change in changes:
        if change.outcome != "ok":
            continue
        try:
            written += encoder.encode(change, losses)
        except Refusal as refusal:
            written.append(refusal.kind)
    return written, losses


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path):
    case = msgspec.json.decode(path.read_bytes(), type=Case)
    assert case.about.endswith("."), "say in one sentence what the case shows"
    changes = read(case, case.read_as or path.parent.name)
    outcomes = [(change.outcome, change.reason_kind, change.reason) for change in changes]
    assert len(changes) == len(case.changes), outcomes
    for change, stated in zip(changes, case.changes, strict=True):
        expected = {"outcome": "ok", **stated}
        reason = expected.pop("reason", None)
        assert shown(change, expected) == expected, change.reason
        assert reason is None or reason in change.reason
    if case.encoded is None:
        return
    written, losses = write(
        case, case.write_as or path.parent.name, case.read_as or path.parent.name, changes
    )
    assert len(written) == len(case.encoded), written
    for message, raw in zip(written, case.encoded, strict=True):
        expected = msgspec.json.decode(raw, type=WireOut)
        if expected.refused is not None or isinstance(message, str):
            assert message == expected.refused
            continue
        if b'"json"' in bytes(expected.value)[:20]:
            assert exact(message.value) == exact(bytes_of(expected.value))
        else:
            assert message.value == bytes_of(expected.value)
        if bytes(expected.key):
            assert message.key == bytes_of(expected.key)
        if expected.headers is not None:
            headers = [(name, bytes_of(value)) for name, value in expected.headers]
            assert message.headers == headers
    if case.losses is not None:
        assert lost_of(losses) == case.losses


@pytest.mark.parametrize("envelope", registry.names())
def test_every_envelope_has_cases(envelope):
    assert list((HERE / envelope).glob("*.json"))
