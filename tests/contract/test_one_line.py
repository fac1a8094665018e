"""Messages that come in several lines are written in one, because no line of a file holds more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.contract.bulk_streams import Stream
from tests.contract.test_exact_is_bulk import BLOCK, read_both_ways, write_both_ways
from tests.golden.test_golden import CASES, Case, bytes_of, rules_of
from waybill.envelopes import registry
from waybill.errors import Refusal, WaybillError
from waybill.records import Change, Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

SOURCES = [e.name for e in registry.all_envelopes() if e.decoder is not None and not e.is_binary]
TARGETS = [e for e in registry.all_envelopes() if e.encoder is not None and not e.is_binary]
BREAKS = (b"\n", b"\r", b"\r\n")


def in_lines(value: bytes, end: bytes) -> bytes:
    """JSON with a line for every value in it."""
    return msgspec.json.format(value, indent=2).replace(b"\n", end)


def golden_messages(name: str) -> Iterator[tuple[Case, list[Message]]]:
    """The messages of golden cases that are JSON."""
    for path in CASES:
        case = msgspec.json.decode(path.read_bytes(), type=Case)
        if (case.read_as or path.parent.name) != name:
            continue
        messages = []
        for number, wire in enumerate(case.messages):
            value = bytes_of(wire.value)
            try:
                msgspec.json.format(value or b"")
            except (ValueError, RecursionError):
                continue
            offset = number if wire.offset is None else wire.offset
            headers = wire.headers and [(n, bytes_of(v)) for n, v in wire.headers]
            key = bytes_of(wire.key)
            place = wire.topic, wire.partition, offset, wire.timestamp
            messages.append(Message(*place, key, value, headers))
        yield case, messages


def written(case: Case, name: str, messages: list[Message]) -> Iterator[tuple[Any, Change, Any]]:
    """What every envelope of JSON writes of messages: its name, the change, the values."""
    source = registry.get(name)
    settings = source.decode_settings.model_validate(case.settings)
    decoder = source.decoder(settings, rules_of(case.tables))  # type: ignore[misc]
    for message in messages:
        try:
            changes = decoder.decode(message)
        except Refusal:
            continue
        for change in changes:
            if change.outcome != "ok" or change.half is not None:
                continue
            for target in TARGETS:
                names = target.encode_settings.model_fields
                given = {"control_messages": True} if "control_messages" in names else {}
                model = target.encode_settings.model_validate(given).for_source(source, settings)
                try:
                    made = target.encoder(model).encode(change, [])  # type: ignore[misc]
                except (Refusal, WaybillError):
                    continue
                yield target.name, change, [one.value for one in made]


@pytest.mark.parametrize("name", SOURCES)
def test_what_came_in_lines_is_written_in_one(name):
    count = 0
    for number, (case, messages) in enumerate(golden_messages(name)):
        broken = []
        for message in messages:
            value = message.value and in_lines(message.value, BREAKS[number % len(BREAKS)])
            broken.append(msgspec.structs.replace(message, value=value))
        for target, change, values in written(case, name, broken):
            for value in values:
                count += value is not None
                place = f"{target} of offset {change.message.offset}: {case.about}"
                assert value is None or not {10, 13}.intersection(value), place
    assert count > 20


ROW: dict[str, Any] = {"id": 1, "n": "a\nb", "doc": '{\n"a": 1}'}
SOURCE: dict[str, Any] = {
    "version": "3.0",
    "connector": "mysql",
    "name": "s",
    "ts_ms": 1_700_000_000_000,
    "snapshot": "false",
    "db": "shop",
    "table": "orders",
    "server_id": 1,
    "gtid": None,
    "file": "bin.000001",
    "pos": 4,
    "row": 0,
    "note": {"a": [1, {"b": 2}]},
}
TYPES = {"id": "int64", "n": "string", "doc": "json"}
RULES = TableRules(
    {"shop.orders": TableRule(("id",), {name: parse_type(t) for name, t in TYPES.items()})}
)


def debezium(number: int) -> bytes:
    """A message of Debezium; every second block of messages has line breaks."""
    op = "cud"[number % 3]
    source = {**SOURCE, "pos": number}
    event = {
        "before": None if op == "c" else ROW,
        "after": None if op == "d" else {**ROW, "n": f"x{number}"},
        "source": source,
        "op": op,
        "ts_ms": 1_700_000_000_000 + number,
        "transaction": {"id": "x", "total_order": 1, "data_collection_order": number},
    }
    compact = json.dumps(event, separators=(",", ":")).encode()
    return compact if number // BLOCK % 2 else in_lines(compact, BREAKS[number % 3])


def test_bulk_and_exact_write_debezium_in_one_line(tmp_path):
    """Half of the messages have line breaks; both ways read and write them the same."""
    name = "debezium-json"
    settings = registry.get(name).decode_settings.model_validate({})
    messages = [Message("t", 0, n, 1, b'{"id":1}', debezium(n), None) for n in range(120)]
    stream = Stream(messages, RULES, settings)
    found = read_both_ways(name, stream)
    assert found.in_bulk >= 40
    rows = [row for row in found.rows.to_pylist() if row["outcome"] == "ok"]
    assert len(rows) == 120
    assert not any({"\n", "\r"}.intersection(row["extra"]) for row in rows)
    # What the row says stays as it was sent, line feeds in texts among it.
    assert json.loads(rows[1]["before"])["n"] == "a\nb"
    assert write_both_ways(name, found, str(tmp_path)) >= 40
