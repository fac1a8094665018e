"""Avro messages that are read or written at once become what they become one by one.

Messages come in blocks of Arrow, as in the stages: with keys, times and headers, and some of them
damaged.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.outbox_rows import accepted_halves, agree_on_the_outbox
from tests.contract.roundtrip import read_settings, rules_for
from tests.histories import SOURCE_TYPES, column_of, image
from tests.value_texts import HARD, edges_of
from waybill.batches.arrow_blocks import messages_block
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.batches.messages import messages_of
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.lake_columns import HEADERS, TIMESTAMP
from waybill.records import Change, Message, TableSchema, intern_schema

if TYPE_CHECKING:
    from waybill.tables import TableRules

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
JSON, CANAL = Side("debezium-json"), Side("canal")
OMS = Side("oms-default", {"sequence_from": "position"})
"""The streams here have no positions, or only some."""

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
    suffix = "-".join(str(setting) for setting in value.settings.values())
    return f"{value.name}-{suffix}" if suffix else value.name


pairs = pytest.mark.parametrize(("source", "target"), PAIRS, ids=name_of)
sources = pytest.mark.parametrize("source", SOURCES, ids=name_of)


# Streams


def table_of(dice: random.Random, name: str) -> TableSchema:
    dialect = dice.choice(["mysql", "mysql", "postgresql", ""])
    kinds = [kind for kind in SOURCE_TYPES[dialect] if kind not in ("interval", "geometry")]
    names = ["id", *dice.sample(["name", "amount", "at", "列", "a b", "op", "f0", "x:y", "v_1"], 4)]
    types = ["bigint" if dialect else "int64", *(dice.choice(kinds) for _ in names[1:])]
    columns = tuple(column_of(n, kind, dialect) for n, kind in zip(names, types, strict=True))
    key = dice.choice([("id",), ("id",), ("id",), ("id", names[1]), ()])
    schema = dice.choice([None, None, "public"])
    return intern_schema("shop", schema, name, columns, key, dialect)


def changes_of(dice: random.Random, size: int) -> list[Change]:
    """Changes of one table or two, most of them of one shape."""
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
        self, source: Side, target: Side, rules: TableRules, read: Any, folder: str
    ) -> None:
        reads, writes = registry.get(source.name), registry.get(target.name)
        self.refused: list[tuple[int, int, str, str]] = []
        self.made: list[tuple[bytes | None, bytes | None]] = []
        self.converter = Converter(
            reads,
            writes,
            rules,
            read,
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
    read: Any,
    folder: str,
) -> int:
    """Hold both ways against each other; returns how many changes were written at once."""
    batches = [batch_of(messages[n : n + BLOCK]) for n in range(0, len(messages), BLOCK)]
    one = Outcome(source, target, rules, read, folder)
    for batch in batches:
        out: list[Any] = []
        one.converter.convert(list(messages_of(batch)), out, [])
        one.made += [(encoded.key, encoded.value) for encoded in out]
    other = Outcome(source, target, rules, read, folder)
    for batch in batches:
        keys, values = other.bulk.convert(messages_block(batch)).arrays()
        other.made += zip(keys.to_pylist(), values.to_pylist(), strict=True)
    expected, found = one.finish(), other.finish()
    for place, (was, now) in enumerate(zip(expected["made"], found["made"], strict=False)):
        assert was == now, f"message {place} written"
    assert found == expected
    return other.bulk.in_bulk


@pairs
@properties(2)
@given(seed=st.integers(0, 2**32))
def test_streams(source, target, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        agree(source, target, *stream(source, dice, folder), folder)


@pairs
@properties(2)
@given(seed=st.integers(0, 2**32))
def test_damaged_streams(source, target, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        messages, rules, read = stream(source, dice, folder)
        messages = [damaged(dice, message) for message in messages]
        agree(source, target, messages, rules, read, folder)


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
        settings = read_settings(envelope, written)
        # Canal writes no update without the row before, and no row without a time.
        fewest = 0 if source == ROWS and target == CANAL else 250
        assert agree(source, target, messages, rules, settings, folder) >= fewest


# In the stages


def decoded(
    source: Side, batches: list[pa.RecordBatch], rules: TableRules, read: Any, bulk: bool
) -> Any:
    envelope = registry.get(source.name)
    decoder = envelope.decoder(read, rules)  # type: ignore[misc]
    work = ChangeBatches(decoder, "batch")
    in_bulk = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1)  # type: ignore[misc]
    made = [
        in_bulk.rows(batch) if bulk else work.rows(work.changes(messages_of(batch)))
        for batch in batches
    ]
    rows = [row for batch in made for row in batch.to_pylist()]
    changes = [row for row in rows if row["outcome"] != "schema"]
    schemas = {row["schema_id"]: row["extra"] for row in rows if row["outcome"] == "schema"}
    return changes, schemas, (work.messages, work.decoded)


@sources
@properties(2)
@given(seed=st.integers(0, 2**32))
def test_rows_of_changes(source, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        messages, rules, read = stream(source, dice, folder)
        messages = [damaged(dice, message) for message in messages]
        batches = [batch_of(messages[n : n + BLOCK]) for n in range(0, len(messages), BLOCK)]
        expected = decoded(source, batches, rules, read, bulk=False)
        found = decoded(source, batches, rules, read, bulk=True)
    for one, other in zip(expected[0], found[0], strict=True):
        assert one == other
    assert found == expected


@pairs
@properties(2)
@given(seed=st.integers(0, 2**32))
def test_rows_of_the_outbox(source, target, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        messages, rules, read = stream(source, dice, folder)
        decoder = registry.get(source.name).decoder(read, rules)  # type: ignore[misc]
        work = ChangeBatches(decoder, "batch")
        table = pa.Table.from_batches(work.convert(iter([batch_of(messages)])))
        agree_on_the_outbox(target.name, target.written(folder), *accepted_halves(table))
