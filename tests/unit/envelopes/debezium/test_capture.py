"""Streams recorded from Debezium 3.5 lead to the databases' own tables, with and without schema."""

from __future__ import annotations

import functools
import json
from collections import Counter, defaultdict

import msgspec
import pytest

from tests.captures import CAPTURES, DECLARED, Replay, compare, known_losses, lines, rules
from waybill.batches.messages import decode_message
from waybill.envelopes import registry
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

FOLDERS = ("debezium-mariadb", "debezium-postgres-default")
FILES = ("messages.jsonl", "messages-schemaless.jsonl")

pytestmark = [
    pytest.mark.captures,
    pytest.mark.skipif(
        not all((CAPTURES / folder).is_dir() for folder in FOLDERS),
        reason="the recorded streams are not here",
    ),
]

ENVELOPE = registry.get("debezium-json")


@functools.cache
def messages(folder: str, name: str) -> list[Message]:
    found = []
    for line in lines(folder, name):
        raw = json.loads(line)
        key, value = (None if raw[n] is None else raw[n].encode() for n in ("key", "value"))
        headers = [(h["key"], h["value"] and h["value"].encode()) for h in raw["headers"]]
        found.append(Message(raw["topic"], 0, raw["offset"], 0, key, value, headers))
    return found


def decoder_for(folder: str, file: str):
    # A schema says all but one thing: that the sign of a BIGINT UNSIGNED is none.
    kinds = set(DECLARED) if file == "messages-schemaless.jsonl" else {"uint64"}
    return ENVELOPE.decoder(ENVELOPE.decode_settings(), rules(folder, kinds))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_recorded_stream_leads_to_the_dumped_tables(folder, file):
    decoder, replay = decoder_for(folder, file), Replay(folder)
    points = defaultdict(list)
    for point in replay.capture["points"]:
        points[point["messages"]].append(point)
    known, outcomes, cells = known_losses(folder), Counter(), 0
    for n, message in enumerate(messages(folder, file), 1):
        (change,) = decode_message(decoder, message)
        outcomes[change.outcome, change.operation] += 1
        assert change.outcome != "refused", change.reason
        if change.outcome == "ok" and change.operation != "ddl":
            replay.apply(change)
        for point in points[n]:
            cells += compare(folder, point["folder"], replay.tables, known[point["state"]])
    maria = folder == "debezium-mariadb"
    moves = 267 if maria else 283
    assert outcomes == {
        ("ok", "read"): 900,
        ("ok", "insert"): (1112 if maria else 1077) - moves,
        ("ok", "update"): (1408 if maria else 1506) + moves,
        ("ok", "delete"): 703,
        ("ok", "truncate"): 1,
        ("skipped", "other"): 703,
        **({("ok", "ddl"): 29} if maria else {}),
    }
    assert replay.kept == (0 if maria else 236)
    assert cells > 60_000


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_order_keys_are_the_order(folder, file):
    """Sorted by order key, in whatever order they came, the changes give the final tables."""
    decoder, replay = decoder_for(folder, file), Replay(folder)
    changes = [
        change
        for message in reversed(messages(folder, file))
        for change in decoder.decode(message)
        if change.outcome == "ok" and change.operation != "ddl"
    ]
    for change in sorted(changes, key=lambda change: change.order_key):
        replay.apply(change)
    compare(folder, "final", replay.tables, known_losses(folder)["final"])


def described(change) -> tuple:
    """Everything that a change means, whatever objects it is made of."""
    schema = change.schema

    def plain(image):
        return None if image is None else msgspec.json.decode(msgspec.json.encode(image))

    extra = None if change.extra is None else msgspec.json.decode(change.extra)
    return (
        *(change.operation, schema.database, schema.schema, schema.table, schema.key),
        *(plain(change.before), plain(change.after), plain(change.moved_from)),
        *(change.order_key, change.source_time, change.transaction, change.ddl_text, extra),
    )


@pytest.mark.parametrize("written", ["plain", "schemas", "schemas, precise"])
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_written_again_the_stream_means_the_same(folder, file, written):
    settings = {"control_messages": True, "schemas": "schemas" in written}
    if "precise" in written:
        settings |= {"decimals": "precise", "unsigned": "long"}
    decoder = decoder_for(folder, file)
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(**settings))
    # What the message does not say any more has to be declared.
    again = ENVELOPE.decoder(
        ENVELOPE.decode_settings(decimals="string"),
        TableRules() if "schemas" in written else rules_of_types(folder, file),
    )
    count = 0
    for message in messages(folder, file):
        (change,) = decoder.decode(message)
        if change.outcome != "ok":
            continue
        out = encoder.encode(change, [])
        back = [
            found
            for one in out
            for found in again.decode(
                Message(message.topic, 0, message.offset, 0, one.key, one.value, one.headers)
            )
        ]
        assert [found.reason_kind for found in back[1:]] == ["tombstone"] * (len(back) - 1)
        assert described(back[0]) == described(change)
        if "schemas" in written and change.operation != "ddl":
            assert types_of(back[0]) == types_of(change)
        count += 1
    assert count > 4000


def types_of(change) -> list[str]:
    """Types without the digits of the second, which are in the unit of the message."""
    return [f"{column.type.kind}.{column.type.scale}" for column in change.schema.columns]


def rules_of_types(folder: str, file: str) -> TableRules:
    """The types that a decoder finds, as declarations for messages without schema."""
    decoder, found = decoder_for(folder, file), defaultdict(dict)
    units = {"MicroTimestamp": "(6)", "MicroTime": "(6)", "Timestamp": "(3)", "Time": "(3)"}
    for message in messages(folder, file):
        for change in decoder.decode(message):
            for column in change.schema.columns:
                unit = units.get((column.source_type or "").rpartition(".time.")[2], "")
                type_ = parse_type(f"{column.type}{unit}")
                found[change.schema.qualified_name][column.name] = type_
    return TableRules({name: TableRule(None, columns) for name, columns in found.items()})
