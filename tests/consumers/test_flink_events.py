"""What is no row of a table, in the topic: what Flink reads over, and at what it ends by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.consumers.flink_formats import WRITTEN
from tests.contract.probes import change, table
from waybill.envelopes import registry as envelopes
from waybill.records import NO_TABLE, Change

pytestmark = pytest.mark.consumers

ORDERS = table({"id": "bigint", "title": "varchar(20)", "amount": "decimal(20,2)"})
COLUMNS = {"id": "BIGINT", "title": "STRING", "amount": "DECIMAL(20, 2)"}
FIRST = {"id": "1", "title": "first", "amount": "1.10"}
SECOND = {"id": "2", "title": "second", "amount": "0.00"}
THIRD = {"id": "3", "title": "third", "amount": "3.00"}
CHANGED = {"id": "2", "title": "changed", "amount": "7.00"}

GTID = b'{"canal":{"type":"GTID"}}'
XA = b"""{"canal":{"type":"XACOMMIT","sql":"XA COMMIT 'x'"}}"""
"""What a change has with it that was such an event of Canal's."""

EVENTS: dict[str, list[Change]] = {
    "heartbeat": [change("heartbeat", schema=NO_TABLE)],
    "transaction": [
        change("begin", schema=NO_TABLE, transaction="tx-1"),
        change("commit", schema=NO_TABLE, transaction="tx-1"),
    ],
    "CREATE": [change("ddl", schema=ORDERS, ddl_text="CREATE TABLE shop.other (id BIGINT)")],
    "ALTER": [change("ddl", schema=ORDERS, ddl_text="ALTER TABLE shop.orders ADD COLUMN c INT")],
    "TRUNCATE": [change("truncate", schema=ORDERS)],
    "GTID": [
        change("other", schema=NO_TABLE, sequence=None, extra=GTID, transaction="a-1"),
        change("other", schema=NO_TABLE, sequence=None, extra=XA),
    ],
    "full row": [change("read", after=THIRD, schema=ORDERS, full_row=True, sequence=None)],
}

ENDS = {
    ("canal-json", "ALTER"): 'Unknown "type" value "ALTER"',
    ("canal-json", "TRUNCATE"): 'Unknown "type" value "TRUNCATE"',
    ("canal-json", "GTID"): 'Unknown "type" value "GTID"',
    ("maxwell-json", "CREATE"): 'Unknown "type" value "table-create"',
    ("maxwell-json", "ALTER"): 'Unknown "type" value "table-alter"',
    ("maxwell-json", "full row"): 'Unknown "type" value "bootstrap-insert"',
    ("ogg-json", "TRUNCATE"): 'Unknown "op_type" value "T"',
    ("debezium-json", "TRUNCATE"): 'Unknown "op" value "t"',
}
"""What Flink has no word for (its own documents and code), by format and event: what it says."""

ASKED = {"maxwell-json": {"statements": True}}
"""Settings with which those are written that Flink has no word for, where that is not usual."""

ROWS_ONLY: dict[str, dict[str, Any]] = {
    "canal-json": {"statements": False},
    "maxwell-json": {"full_rows": "insert"},
    "ogg-json": {"truncates": False},
    "debezium-json": {"truncates": False},
}
"""Settings that leave out what Flink has no word for, and write full rows as it knows them."""

CONTROLLED = {"transaction", "CREATE", "heartbeat"}
"""Of which Debezium has messages of its own; they are written where a setting asks for them."""


def written(label: str, *events: str, **settings: Any) -> list[tuple[bytes | None, bytes | None]]:
    """A topic with events between changes of rows."""
    envelope = envelopes.get(WRITTEN[label].envelope)
    encoder = envelope.encoder(envelope.encode_settings(**settings))
    changes = [
        change("insert", after=FIRST, schema=ORDERS),
        *(each for event in events for each in EVENTS[event]),
        change("insert", after=SECOND, schema=ORDERS),
        change("update", SECOND, CHANGED, schema=ORDERS),
    ]
    losses: list[Any] = []
    return [(m.key, m.value) for each in changes for m in encoder.encode(each, losses)]


def read(flink, publish, label, messages, **options):
    prefix = WRITTEN[label].format
    given = {f"{prefix}.{name.replace('_', '-')}": value for name, value in options.items()}
    named = flink.table(publish(messages), prefix, COLUMNS, ("id",), given)
    return flink.read(named, COLUMNS)


def rows(*images: dict[str, str]) -> dict[tuple, int]:
    return {tuple(image.values()): 1 for image in images}


@pytest.mark.parametrize("label", ["canal-json", "maxwell-json", "ogg-json", "debezium-json"])
def test_events_among_rows(flink, publish, label):
    read_over = [e for e in EVENTS if (label, e) not in ENDS]
    reading = read(flink, publish, label, written(label, *read_over))
    assert reading.error is None
    there = rows(FIRST, CHANGED, *([THIRD] if "full row" in read_over else []))
    assert (dict(+reading.rows), reading.strays) == (there, [])


@pytest.mark.parametrize("label", list(ROWS_ONLY))
def test_every_event_among_rows_for_readers_of_rows_only(flink, publish, label):
    reading = read(flink, publish, label, written(label, *EVENTS, **ROWS_ONLY[label]))
    assert reading.error is None
    assert (dict(+reading.rows), reading.strays) == (rows(FIRST, CHANGED, THIRD), [])


@pytest.mark.parametrize(("label", "event"), list(ENDS))
def test_what_flink_has_no_word_for_ends_the_job(flink, publish, label, event):
    messages = written(label, event, **ASKED.get(label, {}))
    assert ENDS[label, event] in read(flink, publish, label, messages).error


@pytest.mark.parametrize("event", sorted(CONTROLLED))
def test_debezium_s_control_messages_end_the_job(flink, publish, event):
    messages = written("debezium-json", event, control_messages=True)
    assert len(messages) > 3
    assert "Corrupt Debezium JSON message" in read(flink, publish, "debezium-json", messages).error


@pytest.mark.parametrize(
    ("label", "event"), [case for case in ENDS if case[1] in ("CREATE", "ALTER")]
)
def test_a_statement_among_rows_with_errors_ignored(flink, publish, label, event):
    messages = written(label, event, **ASKED.get(label, {}))
    reading = read(flink, publish, label, messages, ignore_parse_errors="true")
    assert reading.error is None
    assert (dict(+reading.rows), reading.strays) == (rows(FIRST, CHANGED), [])


def test_a_damaged_message_ends_the_job(flink, publish):
    """What makes the other tests fail is seen."""
    messages = written("canal-json", "transaction")
    messages.insert(1, (None, b'{"data":[{"id":"x"'))
    assert "Corrupt" in read(flink, publish, "canal-json", messages).error


MOVED = {"id": "7", "title": "changed", "amount": "7.00"}


@pytest.mark.parametrize("key", [("id",), ()], ids=["key declared", "no key declared"])
@pytest.mark.parametrize("label", ["canal-json", "maxwell-json", "ogg-json", "debezium-json"])
def test_a_change_of_the_key_into_a_table_that_is_written_by_key(
    flink, publish, broker, label, key
):
    """One update that moves a row leaves the old one there, unless Flink knows of no key."""
    envelope = envelopes.get(WRITTEN[label].envelope)
    encoder = envelope.encoder(envelope.encode_settings())
    changes = [
        change("insert", after=FIRST, schema=ORDERS),
        change("insert", after=CHANGED, schema=ORDERS),
        change("update", CHANGED, MOVED, schema=ORDERS),
    ]
    messages = [(m.key, m.value) for each in changes for m in encoder.encode(each, [])]
    source = flink.table(publish(messages), WRITTEN[label].format, COLUMNS, key, {})
    target = publish([])
    flink.copy(source, target, COLUMNS, "id", "" if key else "ON CONFLICT DO DEDUPLICATE")
    left_behind = label != "debezium-json" and key
    assert standing(broker, target) == {"1", "7"} | ({"2"} if left_behind else set())


def standing(broker, topic: str) -> set[str]:
    """Keys of the rows that stand in a topic of `upsert-kafka`."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": topic})
    place = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    consumer.assign([place])
    there: set[str] = set()
    while consumer.position([place])[0].offset < end:
        message = consumer.poll(30)
        assert message is not None
        key = str(json.loads(message.key())["id"])
        if message.value() is None:
            there.discard(key)
        else:
            there.add(key)
    consumer.close()
    return there
