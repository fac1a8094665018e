"""Avro messages that are read or written at once become what they become one by one.

Messages come in blocks of Arrow, as in the stages: with keys, times and headers, and some of them
damaged.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.roundtrip import read_settings, rules_for
from tests.contract.test_garbage import good_messages
from tests.histories import HARD, SOURCE_TYPES, column_of, edges_of, image
from waybill.bulk.arrow_blocks import messages_block
from waybill.bulk.change_batches import BulkChangeBatches
from waybill.bulk.converter import BulkConverter
from waybill.bulk.message_batches import BulkMessageBatches
from waybill.envelopes import registry
from waybill.envelopes.avro.framing import prefix_of
from waybill.envelopes.avro.json_writing import json_writer
from waybill.envelopes.avro.schema import Node, parse, without_null
from waybill.envelopes.batch import CHANGE, ChangeBatches, MessageBatches, messages_of
from waybill.envelopes.notation.values import base64_text
from waybill.errors import Refusal
from waybill.inprocess.converter import Converter
from waybill.layout import HEADERS, TIMESTAMP
from waybill.records import Change, Message, TableSchema, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import LogicalType

SIZE = 60
BLOCK = 15


class Side(NamedTuple):
    """An envelope with settings."""

    name: str
    settings: Mapping[str, Any] = MappingProxyType({})

    def written(self, folder: str) -> Any:
        """The settings of a writer that keeps its schemas in a folder."""
        schemas = {"schemas": folder} if self.name.endswith("avro") else {}
        return registry.get(self.name).encode_settings(**schemas, **self.settings)


ROWS, AUDIT = Side("ibmcdc-avro"), Side("ibmcdc-avro", {"form": "audit"})
EVENTS = Side("debezium-avro")
MYSQL = Side("debezium-avro", {"connector": "mysql", "decimals": "precise", "temporal": "connect"})
LONG = Side("debezium-avro", {"unsigned": "long", "unavailable": "x", "tombstones": False})
JSON, CANAL, OMS = Side("debezium-json"), Side("canal"), Side("oms-default")

PAIRS = [
    *((source, JSON) for source in (ROWS, AUDIT, EVENTS, MYSQL, LONG)),
    *((source, target) for source in (AUDIT, EVENTS) for target in (ROWS, AUDIT, EVENTS, MYSQL)),
    *((JSON, target) for target in (ROWS, AUDIT, EVENTS, MYSQL, LONG)),
    *((CANAL, target) for target in (ROWS, AUDIT, EVENTS)),
    *((source, CANAL) for source in (AUDIT, EVENTS)),
    (OMS, EVENTS),
    (EVENTS, OMS),
]
SOURCES = [ROWS, AUDIT, EVENTS, MYSQL, LONG]


def name_of(value: Any) -> str:
    told = "-".join(str(setting) for setting in value.settings.values())
    return f"{value.name}-{told}" if told else value.name


pairs = pytest.mark.parametrize(("source", "target"), PAIRS, ids=name_of)
sources = pytest.mark.parametrize("source", SOURCES, ids=name_of)


# Streams


def table_of(dice: random.Random, name: str) -> TableSchema:
    dialect = dice.choice(["mysql", "mysql", "postgresql", ""])
    kinds = [kind for kind in SOURCE_TYPES[dialect] if kind not in ("interval", "geometry")]
    names = ["id", *dice.sample(["name", "amount", "at", "列", "a b", "op", "f0", "x:y", "v_1"], 4)]
    told = ["bigint" if dialect else "int64", *(dice.choice(kinds) for _ in names[1:])]
    columns = tuple(column_of(n, kind, dialect) for n, kind in zip(names, told, strict=True))
    key = dice.choice([("id",), ("id",), ("id",), ("id", names[1]), ()])
    schema = dice.choice([None, None, "public"])
    return intern_schema("shop", schema, name, columns, key, dialect)


def changes_of(dice: random.Random, size: int) -> list[Change]:
    """Changes of one table or two, most of them alike."""
    tables = [table_of(dice, name) for name in ("orders", "items")[: dice.choice([1, 1, 2])]]
    hard = dice.random() < 0.3
    sequenced, timed = dice.random() < 0.5, dice.random() < 0.8
    transactions = dice.choice([[None], [None], ["gtid:7"], ["7", "8", 'a"b'], ["1", None]])
    stored: dict[tuple[str | None, int], dict[str, str | None]] = {}
    found = []
    for number in range(size):
        schema = dice.choice(tables)
        key = dice.randrange(6)
        was, now = stored.get((schema.table, key)), row_of(dice, schema, key, hard)
        operation = "insert" if was is None else dice.choice(["update", "update", "delete"])
        if was is None and dice.random() < 0.1:
            operation = dice.choice(["read", "upsert"])
        if operation == "update" and was is not None:
            kept = dice.sample(schema.names, dice.randrange(len(schema.names)))
            now = {**now, **{name: was[name] for name in kept}}
            if dice.random() < 0.05:
                now = {**now, "id": str(key + 100)}
        before = was if operation in ("update", "delete") else None
        if before is not None and dice.random() < 0.05:
            before = {name: before[name] for name in schema.names[:3]}
        moment = 1_700_000_000_123_456 + number * dice.choice([1, 1000, 1_000_000])
        change = Change(
            operation,
            schema,
            Message("topic", 0, number, 1_700_000_000_000 + number, None, None),
            before=None if before is None else image(schema, **before),
            after=None if operation == "delete" else image(schema, **now),
            sequence=(1_700_000_000_000_000_000 + number,) if sequenced else None,
            source_time=dice.choice([moment] * 20 + [0, -1]) if timed else None,
            transaction=dice.choice(transactions),
        )
        stored.pop((schema.table, key), None)
        if operation != "delete":
            stored[schema.table, key] = now
        found.append(change)
    return found


def row_of(dice: random.Random, schema: TableSchema, key: int, hard: bool) -> dict[str, str | None]:
    values: dict[str, str | None] = {"id": str(key)}
    for column in schema.columns[1:]:
        texts = edges_of(column.type)
        if hard and column.type.kind in HARD:
            texts = texts + HARD[column.type.kind]
        text = dice.choice(texts)
        if column.type.kind == "string":
            text = dice.choice([text, "Änn 订单 🚚", 'a"\\b\n\t', "\x01", "", "x"])
        values[column.name] = None if dice.random() < 0.1 else text
    return values


def stream(
    source: Side, dice: random.Random, folder: str, size: int = SIZE
) -> tuple[list[Message], TableRules, Any]:
    """Messages of an envelope, what has to be declared of their tables, and how they are read."""
    changes = changes_of(dice, size)
    envelope = registry.get(source.name)
    written = source.written(folder)
    encoder = envelope.encoder(written)  # type: ignore[misc]
    messages: list[Message] = []
    for change in changes:
        try:
            encoded = encoder.encode(change, [])
        except Refusal:
            continue
        for one in encoded:
            place = dice.randrange(2), len(messages)
            stamp = 1_700_000_000_500 + len(messages)
            messages.append(Message("topic", *place, stamp, one.key, one.value, one.headers))
    rules = rules_for(
        envelope, list({change.schema.id: change.schema for change in changes}.values())
    )
    return messages, rules, read_settings(envelope, written)


def damaged(dice: random.Random, message: Message) -> Message:
    """The message, or one that is damaged."""
    how = dice.randrange(40)
    key, value, headers = message.key, message.value, message.headers
    if how < 8 and value:
        value = harmed(dice, value)
    elif how < 10 and key:
        key = harmed(dice, key)
    elif how == 10:
        key = dice.choice([None, b"", b"text", b'{"id":1}', key])
    elif how == 11:
        value = dice.choice([None, b"", b"\0", b"\0\0\0\0\7x", b"{}"])
    elif how == 12:
        headers = [*(headers or ()), ("h", dice.choice([b"v", None]))]
    return Message(
        message.topic, message.partition, message.offset, message.timestamp, key, value, headers
    )


def harmed(dice: random.Random, data: bytes) -> bytes:
    at = dice.randrange(len(data) + 1)
    how = dice.randrange(7)
    if how == 0:
        return data[:at]
    if how == 1:
        return data + dice.randbytes(1)
    if how == 2:
        return (
            data[:at] + dice.choice([b"\xff", b"\x80\0", b"\x02", b"\0", b"\x01"]) + data[at + 1 :]
        )
    if how == 3:
        return data[:at] + dice.choice([b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80"]) + data[at:]
    if how == 4:
        return data[:1] + dice.randbytes(4) + data[5:]
    if how == 5:
        return data[:at] + data[at + 1 :]
    return data[:at] + dice.randbytes(1) + data[at + 1 :]


def batch_of(messages: list[Message]) -> pa.RecordBatch:
    """The messages as the archive has them."""
    return pa.RecordBatch.from_pydict(
        {
            "topic": [m.topic for m in messages],
            "partition": pa.array([m.partition for m in messages], pa.int32()),
            "offset": pa.array([m.offset for m in messages], pa.int64()),
            "timestamp": pa.array(
                [None if m.timestamp is None else m.timestamp * 1000 for m in messages], pa.int64()
            ).cast(TIMESTAMP),
            "key": pa.array([m.key for m in messages], pa.binary()),
            "value": pa.array([m.value for m in messages], pa.binary()),
            "headers": pa.array(
                [
                    m.headers and [{"key": name, "value": content} for name, content in m.headers]
                    for m in messages
                ],
                HEADERS,
            ),
        }
    )


# From messages to messages


class Outcome:
    """What a converter made, refused and counted."""

    def __init__(
        self, source: Side, target: Side, rules: TableRules, told: Any, folder: str
    ) -> None:
        reads, writes = registry.get(source.name), registry.get(target.name)
        self.refused: list[tuple[int, int, str, str]] = []
        self.made: list[tuple[bytes | None, bytes | None]] = []
        self.converter = Converter(
            reads,
            writes,
            rules,
            told,
            target.written(folder),
            lambda message, index, kind, why: self.refused.append(
                (message.offset, index, kind, why)
            ),
        )
        self.bulk = BulkConverter(reads, writes, self.converter, fewest=1)

    def finish(self) -> dict[str, Any]:
        self.converter.finish()
        account = self.converter.account
        return {
            "made": self.made,
            "refused": sorted(self.refused),
            "losses": +account.losses,
            "skipped": +account.skipped,
            "extra": +account.extra,
        }


def agree(
    source: Side,
    target: Side,
    messages: list[Message],
    rules: TableRules,
    told: Any,
    folder: str,
) -> int:
    """Hold both ways against each other; returns how many changes were written at once."""
    batches = [batch_of(messages[n : n + BLOCK]) for n in range(0, len(messages), BLOCK)]
    one = Outcome(source, target, rules, told, folder)
    for batch in batches:
        out: list[Any] = []
        one.converter.convert(list(messages_of(batch)), out, [])
        one.made += [(encoded.key, encoded.value) for encoded in out]
    other = Outcome(source, target, rules, told, folder)
    for batch in batches:
        keys, values = other.bulk.convert(messages_block(batch)).arrays()
        other.made += zip(keys.to_pylist(), values.to_pylist(), strict=True)
    expected, found = one.finish(), other.finish()
    for place, (was, now) in enumerate(zip(expected["made"], found["made"], strict=False)):
        assert was == now, f"message {place} written"
    assert found == expected
    return other.bulk.at_once


@pairs
@properties(8)
@given(seed=st.integers(0, 2**32))
def test_streams(source, target, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        agree(source, target, *stream(source, dice, folder), folder)


@pairs
@properties(8)
@given(seed=st.integers(0, 2**32))
def test_damaged_streams(source, target, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        messages, rules, told = stream(source, dice, folder)
        messages = [damaged(dice, message) for message in messages]
        agree(source, target, messages, rules, told, folder)


@pairs
def test_most_messages_are_converted_at_once(source, target):
    dice = random.Random(7)
    columns = [("id", "bigint"), ("name", "varchar(20)"), ("n", "int"), ("at", "datetime(3)")]
    made = [column_of(name, kind, "mysql") for name, kind in columns]
    schema = intern_schema("shop", None, "people", tuple(made), ("id",), "mysql")
    envelope = registry.get(source.name)
    with tempfile.TemporaryDirectory() as folder:
        written = source.written(folder)
        encoder = envelope.encoder(written)  # type: ignore[misc]
        messages: list[Message] = []
        for number in range(400):
            row = {
                "id": str(number),
                "name": dice.choice(["Ann", None]),
                "n": str(dice.randrange(100)),
                "at": f"2024-02-29T23:59:59.{number:03}",
            }
            operation = ("insert", "update", "delete")[number % 3]
            now = {**row, "name": "Cleo", "at": f"2024-03-01T00:00:00.{number:03}"}
            change = Change(
                operation,
                schema,
                Message("topic", 0, number, None, None, None),
                before=None if operation == "insert" else image(schema, **row),
                after=None if operation == "delete" else image(schema, **now),
                source_time=1_700_000_000_000_000 + number * 1_000_000,
            )
            messages += [
                Message("topic", 0, number, 1_700_000_000_000 + number, one.key, one.value)
                for one in encoder.encode(change, [])
            ]
        rules = rules_for(envelope, [schema])
        told = read_settings(envelope, written)
        # Canal writes no update without the row before, and no row without a time.
        fewest = 0 if source == ROWS and target == CANAL else 250
        assert agree(source, target, messages, rules, told, folder) >= fewest


# What Waybill itself does not write


GOLDEN = [
    *((name, target) for name in ("ibmcdc-avro", "debezium-avro") for target in (JSON, AUDIT)),
    ("debezium-json", EVENTS),
    ("debezium-json", ROWS),
]


@pytest.mark.parametrize(("name", "target"), GOLDEN)
def test_golden_messages(name, target):
    """Every golden message several times, so that its form is known when it comes again."""
    by_settings: dict[tuple[str, str], list[Any]] = {}
    for message, rules, told in good_messages(name):
        by_settings.setdefault((repr(rules), repr(told)), []).append((message, rules, told))
    assert by_settings
    for found in by_settings.values():
        _, rules, told = found[0]
        with tempfile.TemporaryDirectory() as folder:
            agree(Side(name), target, [m for m, _, _ in found] * 6, rules, told, folder)


def event_of(dice: random.Random, connector: str, number: int, wide: bool) -> bytes:
    """An event as a connector writes it, in JSON."""
    op = dice.choice("ccuud")
    snapshot = "false" if dice.random() < 0.9 else dice.choice(["true", "last", "incremental"])
    if snapshot in ("true", "last"):
        op = "r"
    millis = 1_700_000_000_000 + number
    source: dict[str, Any] = {
        "version": "2.7.0.Final",
        "connector": connector,
        "name": "server",
        "ts_ms": dice.choice([millis] * 20 + [0, -5, 2**62]),
        "snapshot": snapshot,
        "db": "shop",
        "sequence": None,
    }
    if wide:
        source["ts_us"] = dice.choice([millis * 1000 + 7] * 20 + [-1])
        source["ts_ns"] = millis * 1_000_000
    if connector == "mysql":
        source.update(table="t", server_id=dice.randrange(300), gtid=f"g:{number}", pos=number * 7)
        source.update(file=f"binlog.{dice.choice(['000007', '000008', 'x'])}", row=0)
        source.update(thread=dice.choice([None, 9]), query=dice.choice([None, 'a "b"']))
    elif connector == "postgresql":
        own = dice.choice([str(number * 9), str(number * 9), None])
        commit = dice.choice([str(number * 8), None])
        source["sequence"] = msgspec.json.encode([commit, own]).decode()
        source.update(schema="public", table="t", txId=dice.choice([5, 5, 5, None]))
        source.update(lsn=number * 9, xmin=None)
    else:
        source.update(schema="dbo", table="t", commit_lsn=f"00000027:00000ac0:{number % 9999:04x}")
        source.update(change_lsn="00000027:00000ac0:0001", event_serial_no=1)
    row = {
        "id": number % 50,
        "name": dice.choice(["Ann", "Ünder\n", None, "__debezium_unavailable_value"]),
    }
    event: dict[str, Any] = {
        "before": row if op in "ud" else None,
        "after": None if op == "d" else {**row, "name": "Bob"},
        "source": source,
    }
    block = None
    if wide:
        block = {"id": f"tx{number % 9}", "total_order": number, "data_collection_order": 1}
    event.update(transaction=block, op=op, ts_ms=millis + 3)
    return msgspec.json.encode(event)


@pytest.mark.parametrize("target", [JSON, CANAL, EVENTS, AUDIT], ids=name_of)
@pytest.mark.parametrize("connector", ["mysql", "postgresql", "sqlserver"])
@properties(8)
@given(seed=st.integers(0, 2**32))
def test_events_of_connectors(connector, target, seed):
    """Positions, transactions and what else connectors tell, read as Avro and as JSON."""
    dice = random.Random(seed)
    wide = dice.random() < 0.5
    columns = {"id": LogicalType("int64"), "name": LogicalType("string")}
    schema = None if connector == "mysql" else "public" if connector == "postgresql" else "dbo"
    name = "shop.t" if schema is None else f"shop.{schema}.t"
    rules = TableRules({name: TableRule(key=("id",), columns=columns)})
    lines = [event_of(dice, connector, number, wide) for number in range(SIZE)]
    keys = [b'{"id":%d}' % (number % 50) for number in range(SIZE)]
    messages = [
        Message("topic", 0, number, 1_700_000_000_000, key, line)
        for number, (key, line) in enumerate(zip(keys, lines, strict=True))
    ]
    settings = registry.get("debezium-json").decode_settings()
    told = {"replica_identity": dice.choice(["default", "full"])}
    with tempfile.TemporaryDirectory() as folder:
        agree(JSON, EVENTS, messages, rules, settings, folder)
        made = Outcome(JSON, EVENTS, rules, settings, folder)
        out: list[Any] = []
        made.converter.convert(messages, out, [])
        events = [
            Message("topic", 0, number, 1_700_000_000_000, one.key, one.value)
            for number, one in enumerate(out)
        ]
        read = registry.get("debezium-avro").decode_settings(schemas=folder, **told)
        agree(EVENTS, target, events, rules, read, folder)
        agree(EVENTS, target, [damaged(dice, event) for event in events], rules, read, folder)


def audit_of(dice: random.Random) -> dict[str, Any]:
    """The schema of an audit topic as other configurations of the source write it."""
    text: Any = [{"type": "string"}, "null"]
    fields: dict[str, Any] = {"A_ENTTYP": text, "A_TIMSTAMP": text}
    if dice.random() < 0.5:
        fields["A_UTC_TIMESTMP"] = dice.choice([text, ["null", "string"], "string"])
    fields["A_CCID"] = dice.choice([text, "long", ["null", "long"], "int"])
    fields["A_USER"] = text
    if dice.random() < 0.5:
        fields["A_SEQNO"] = "long"
    columns: dict[str, Any] = {
        "id": "long",
        "name": dice.choice([text, "string"]),
        "d": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}],
        "t": dice.choice(
            [
                {"type": "long", "logicalType": dice.choice(TIMES)},
                {"type": "string", "logicalType": "TIMESTAMP"},
                {"type": "int", "logicalType": "date"},
            ]
        ),
        "f": ["null", dice.choice(["float", "double", "boolean"])],
        "b": ["bytes", "null"],
    }
    fields.update(columns)
    fields.update({f"B_{name}": ["null", "string"] for name in ("name",)})
    return {
        "type": "record",
        "name": "orders",
        "namespace": "value.SOURCEDB.shop",
        "fields": [{"name": name, "type": type_} for name, type_ in fields.items()],
    }


TIMES = [
    *("timestamp-millis", "timestamp-micros", "local-timestamp-micros", "local-timestamp-nanos"),
]


def audit_value(dice: random.Random, name: str, node: Node, number: int) -> Any:
    inner = without_null(node)
    if inner is not node and dice.random() < 0.15 and name != "A_ENTTYP":
        return None
    if name == "A_ENTTYP":
        return dice.choice(["PT", "PT", "UP", "UP", "DL", "RR", "UB", "??"])
    if name in ("A_TIMSTAMP", "A_UTC_TIMESTMP"):
        return dice.choice(
            [
                *[f"2024-02-29 12:00:00.{number:012}"] * 3,
                *[f"2024-02-29 12:00:{number % 60:02}.000001"] * 9,
                *("", "never", "1969-12-31 23:59:59"),
            ]
        )
    if inner.kind in ("int", "long"):
        return dice.choice([number, number, 0, -1, 2**31 - 1, -(2**31)])
    if inner.kind == "bytes":
        return base64_text(dice.randbytes(dice.choice([1, 2, 8, 8, 9, 0])))
    if inner.kind in ("float", "double"):
        return dice.choice([0.5, 1.0, -0.0, 1e22, "NaN"])
    if inner.kind == "boolean":
        return dice.random() < 0.5
    texts = ["A", "A", "A", 'b"\n', "", "2024-02-29 12:00:00.5", "2024-02-29T12:00:00"]
    return "A" if name == "A_USER" and dice.random() < 0.9 else dice.choice(texts)


@pytest.mark.parametrize("target", [JSON, OMS, AUDIT], ids=name_of)
@properties(20)
@given(seed=st.integers(0, 2**32))
def test_audit_topics(target, seed):
    """Audit columns of other names and types, images that are told in part, and declared types."""
    dice = random.Random(seed)
    told = audit_of(dice)
    text = msgspec.json.encode(told).decode()
    node = parse(text)
    write = json_writer(node)
    messages = []
    for number in range(SIZE):
        values = {f.name: audit_value(dice, f.name, f.node, number) for f in node.fields}
        out = bytearray(prefix_of(1))
        write(out, values)
        message = Message("topic", 0, number, 1_700_000_000_000, None, bytes(out))
        messages.append(damaged(dice, message) if dice.random() < 0.3 else message)
    columns = {}
    if dice.random() < 0.5:
        columns = {"name": LogicalType("string"), "d": LogicalType("decimal", 20, 3)}
    if dice.random() < 0.3:
        columns["id"] = LogicalType("int32")
    rules = TableRules({"shop.orders": TableRule(key=("id",), columns=columns)})
    settings = {"schemas": {"avro": {"1": {"schema": text}}}}
    read = registry.get("ibmcdc-avro").decode_settings(**settings)
    with tempfile.TemporaryDirectory() as folder:
        agree(AUDIT, target, messages, rules, read, folder)


# In the stages


def decoded(
    source: Side, batches: list[pa.RecordBatch], rules: TableRules, told: Any, bulk: bool
) -> Any:
    envelope = registry.get(source.name)
    decoder = envelope.decoder(told, rules)  # type: ignore[misc]
    work = ChangeBatches(decoder, "batch")
    at_once = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1)  # type: ignore[misc]
    made = [
        at_once.rows(batch) if bulk else work.rows(work.changes(messages_of(batch)))
        for batch in batches
    ]
    rows = [row for batch in made for row in batch.to_pylist()]
    changes = [row for row in rows if row["outcome"] != "schema"]
    schemas = {row["schema_id"]: row["extra"] for row in rows if row["outcome"] == "schema"}
    return changes, schemas, (work.messages, work.decoded)


@sources
@properties(8)
@given(seed=st.integers(0, 2**32))
def test_rows_of_changes(source, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        messages, rules, told = stream(source, dice, folder)
        messages = [damaged(dice, message) for message in messages]
        batches = [batch_of(messages[n : n + BLOCK]) for n in range(0, len(messages), BLOCK)]
        expected = decoded(source, batches, rules, told, bulk=False)
        found = decoded(source, batches, rules, told, bulk=True)
    for one, other in zip(expected[0], found[0], strict=True):
        assert one == other
    assert found == expected


def encoded(
    target: Side, batches: list[pa.RecordBatch], schemas: Any, folder: str, bulk: bool
) -> list[Any]:
    envelope = registry.get(target.name)
    encoder = envelope.encoder(target.written(folder))  # type: ignore[misc]
    work = MessageBatches(encoder, "label", "batch", schemas)
    at_once = BulkMessageBatches(work, envelope.bulk_writer(encoder), fewest=1)  # type: ignore[misc]
    rows: list[Any] = []
    for batch in batches:
        made = at_once.rows(batch) if bulk else work.batch_of(work.tuples(batch)[0])
        rows += made.to_pylist()
    return rows


@pairs
@properties(6)
@given(seed=st.integers(0, 2**32))
def test_rows_of_the_outbox(source, target, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        messages, rules, told = stream(source, dice, folder)
        decoder = registry.get(source.name).decoder(told, rules)  # type: ignore[misc]
        work = ChangeBatches(decoder, "batch")
        table = pa.Table.from_batches(work.convert(iter([batch_of(messages)])))
        schemas = {
            row["schema_id"]: TableSchema.from_json(row["extra"])
            for row in table.to_pylist()
            if row["outcome"] == "schema"
        }
        accepted = table.filter(pa.compute.equal(table["outcome"], "ok")).select(CHANGE.names)
        batches = accepted.combine_chunks().to_batches(max_chunksize=max(1, len(accepted) // 2))
        expected = encoded(target, batches, schemas, folder, bulk=False)
        found = encoded(target, batches, schemas, folder, bulk=True)
    for one, other in zip(expected, found, strict=True):
        assert one == other
