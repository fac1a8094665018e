"""A stream recorded from Maxwell 1.22.6 leads to the database's own tables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import msgspec
import pytest

from tests.captures import (
    CAPTURES,
    DECLARED,
    Replay,
    compare,
    declared,
    known_losses,
    lines,
    unpacked,
)
from waybill.batches.messages import decode_message
from waybill.envelopes import registry
from waybill.records import Message
from waybill.spec.migration import Table, table_rules

FOLDER = "maxwell-mariadb"
TRUNCATED = "states/s5-after-truncate"

pytestmark = [
    pytest.mark.captures,
    pytest.mark.skipif(
        not (CAPTURES / FOLDER).is_dir(), reason="the recorded streams are not here"
    ),
]

ENVELOPE = registry.get("maxwell")


def decoder_of():
    tables = declared(FOLDER, set(DECLARED), orders__status="enum", orders__tags="set")
    rules = table_rules({name: Table.model_validate(table) for name, table in tables.items()})
    # MariaDB has no JSON type of its own: documents come as strings.
    settings = ENVELOPE.decode_settings(json_columns="text", doubled_quotes=True)
    return ENVELOPE.decoder(settings, rules)


def filled(tables: dict) -> dict:
    """BINARY(8) of the binlog lacks its trailing zero bytes, which no message carries."""
    padded = {name: {key: dict(row) for key, row in rows.items()} for name, rows in tables.items()}
    for row in padded["orders"].values():
        if row["hash8"] is not None:
            data = unpacked(row["hash8"]).ljust(8, b"\0")
            row["hash8"] = msgspec.to_builtins(data)
    return padded


@pytest.mark.parametrize("through", ["maxwell", "maxwell again"])
def test_the_recorded_stream_leads_to_the_dumped_tables(through):
    decoder, replay = decoder_of(), Replay(FOLDER)
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(json_columns="text", statements=True))
    points = defaultdict(list)
    for point in replay.capture["points"]:
        points[point["messages"]].append(point)
    known, outcomes, cells = known_losses(FOLDER), Counter(), 0
    losses: Counter = Counter()
    for n, line in enumerate(lines(FOLDER, "messages.jsonl"), 1):
        (change,) = decode_message(decoder, Message("t", 0, n, 0, None, line))
        outcomes[change.outcome, change.operation] += 1
        assert change.outcome != "refused", change.reason
        if change.outcome != "ok":
            continue
        if through == "maxwell again":
            lost: list[str] = []
            (out,) = encoder.encode(change, lost)
            losses.update(lost)
            (again,) = decoder.decode(Message("t", 0, n, 0, out.key, out.value))
            assert described(again) == described(change)
            change = again
        if change.operation not in ("ddl", "other"):
            replay.apply(change)
        for point in points[n]:
            if point["folder"] == TRUNCATED:
                # Maxwell sends nothing for a TRUNCATE.
                replay.tables["notes"].clear()
            state = known[point["state"]]
            cells += compare(FOLDER, point["folder"], filled(replay.tables), state)
    assert outcomes == {
        ("skipped", "other"): 3,
        ("ok", "other"): 6,
        ("ok", "read"): 900,
        ("ok", "insert"): 828,
        ("ok", "update"): 1744,
        ("ok", "delete"): 415,
        ("ok", "ddl"): 2,
    }
    assert cells > 60_000
    assert losses.keys() <= {"types"}


def described(change) -> tuple:
    """Everything that a change means, whatever objects it is made of."""

    def plain(image):
        return None if image is None else json.loads(msgspec.json.encode(image))

    extra = None if change.extra is None else json.loads(change.extra)
    schema = change.schema
    return (
        *(change.operation, schema.database, schema.table, schema.key),
        *(plain(change.before), plain(change.after), change.order_key),
        *(change.source_time, change.transaction, change.ddl_text, extra),
    )


def test_the_order_keys_are_the_order():
    """Sorted by order key, in whatever order they came, the changes give the final tables."""
    decoder, replay = decoder_of(), Replay(FOLDER)
    messages = lines(FOLDER, "messages.jsonl")
    truncated = next(p["messages"] for p in replay.capture["points"] if p["folder"] == TRUNCATED)
    changes = []
    for n in reversed(range(len(messages))):
        # All at one offset, so that nothing but the binlog tells the order.
        for change in decoder.decode(Message("t", 0, 0, 0, None, messages[n])):
            if change.outcome == "ok" and change.operation not in ("ddl", "other"):
                changes.append((change.order_key, n, change))
    cleared = False
    for _, n, change in sorted(changes, key=lambda found: found[0]):
        if n >= truncated and not cleared:
            replay.tables["notes"].clear()
            cleared = True
        replay.apply(change)
    compare(FOLDER, "final", filled(replay.tables), known_losses(FOLDER)["final"])


def test_messages_come_back_byte_by_byte():
    """But for notations of JSON: escapes, and floats in Java's digits."""
    decoder = decoder_of()
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(json_columns="text", statements=True))
    same = 0
    for n, line in enumerate(lines(FOLDER, "messages.jsonl")):
        for change in decoder.decode(Message("t", 0, n, 0, None, line)):
            if change.outcome == "ok" and change.schema.table == "customers":
                (out,) = encoder.encode(change, [])
                same += out.value == line
    assert same > 500
