"""A change of the key that came as two messages is written as two, in every target.

What is written is merged by a reader that knows nothing but what the target's format says of a
message: which row it puts there, which it takes away. Two binary
formats are opened by their decoders first.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.contract.roundtrip import read_settings
from waybill.batches.bulk_encoding import BulkMessageBatches
from waybill.batches.decoding import ChangeBatches
from waybill.batches.encoding import MessageBatches
from waybill.batches.message_rows import CHANGE
from waybill.envelopes import registry
from waybill.protocol import MOVED_APART, Encoded
from waybill.records import Change, Message, TableSchema
from waybill.tables import TableRule, TableRules

TARGETS = [e.name for e in registry.all_envelopes() if e.encoder is not None]
RULES = TableRules({"shop.orders": TableRule(("id",), {})})
Row = dict[str, Any]
Images = tuple[Row | None, Row | None]
Effect = tuple[str, str, str | None]
"""`put` or `take`, the key, the other column."""


class Source:
    """Debezium's events of a table, in the order of the source, spread over partitions by key."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[str, str] = {}
        self.messages: list[Message] = []
        envelope = registry.get("debezium-avro")
        assert envelope.encoder is not None
        self.written = envelope.encode_settings()
        self.avro = envelope.encoder(self.written)
        self.json = registry.get("debezium-json").decoder(  # type: ignore[misc]
            registry.get("debezium-json").decode_settings(), TableRules()
        )

    def insert(self, key: int, v: str) -> None:
        self.rows[str(key)] = v
        self._event("c", key, None, v)

    def delete(self, key: int) -> None:
        self._event("d", key, self.rows.pop(str(key)), None)

    def move(self, old: int, new: int, v: str) -> None:
        was = self.rows.pop(str(old))
        self.rows[str(new)] = v
        self._event("d", old, was, None, ("newkey", new))
        self._event("c", new, None, v, ("oldkey", old))

    def _event(
        self, op: str, key: int, before: str | None, after: str | None, tie: Any = None
    ) -> None:
        at = len(self.messages)
        value = {
            "before": None if before is None else {"id": key, "v": before},
            "after": None if after is None else {"id": key, "v": after},
            "source": {
                "version": "2.7.4.Final",
                "connector": "mysql",
                "name": "dbz",
                "ts_ms": 1_700_000_000_000,
                "snapshot": "false",
                "db": "shop",
                "table": "orders",
                "file": "mysql-bin.000003",
                "pos": 900 + at,
                "row": 0,
            },
            "op": op,
            "ts_ms": 1_700_000_000_456,
        }
        headers = None
        if tie is not None:
            headers = [(f"__debezium.{tie[0]}", json.dumps({"id": tie[1]}).encode())]
        key_text = json.dumps({"id": key}).encode()
        message = Message("orders", key % 2, at, 0, key_text, json.dumps(value).encode(), headers)
        if self.name == "debezium-avro":
            message = self._in_avro(message)
        self.messages.append(message)
        if op == "d":
            empty = Message("orders", key % 2, at + 1, 0, message.key, None, message.headers)
            self.messages.append(empty)

    def _in_avro(self, message: Message) -> Message:
        """The event as Debezium's Avro converter has it."""
        (change,) = self.json.decode(message)
        (found, *_) = self.avro.encode(change, [])
        return Message(
            message.topic,
            message.partition,
            message.offset,
            0,
            found.key,
            found.value,
            found.headers,
        )

    def changes(self) -> list[Change]:
        envelope = registry.get(self.name)
        assert envelope.decoder is not None
        settings = envelope.decode_settings()
        if self.name == "debezium-avro":
            settings = read_settings(envelope, self.written)
        decoder = envelope.decoder(settings, TableRules())
        found = [change for message in self.messages for change in decoder.decode(message)]
        return [change for change in found if change.outcome == "ok"]


def moved(source: Source) -> None:
    source.insert(1, "a")
    source.move(1, 2, "b")


def used_again(source: Source) -> None:
    source.insert(1, "a")
    source.move(1, 2, "b")
    source.insert(1, "c")
    source.move(2, 4, "d")
    source.move(1, 2, "e")


def swapped(source: Source) -> None:
    source.insert(1, "a")
    source.insert(2, "b")
    source.move(1, 9, "a")
    source.move(2, 1, "b")
    source.move(9, 2, "a")


def gone(source: Source) -> None:
    source.insert(1, "a")
    source.move(1, 2, "b")
    source.delete(2)
    source.insert(2, "c")


STREAMS = [moved, used_again, swapped, gone]


def effects(target: str, message: Encoded, opened: Any) -> Iterator[Effect]:
    """What a message of a target does, by the words of its format."""
    if target in ("databus-binary", "ibmcdc-avro"):
        yield from _of_decoder(opened, message)
        return
    if message.value is None:
        return
    value = _debezium_avro(message) if target == "debezium-avro" else json.loads(message.value)
    took, put = _databus(value, message) if target == "databus-json" else IMAGES[target](value)
    if took is not None:
        yield "take", str(took["id"]), None
    if put is not None:
        yield "put", str(put["id"]), put["v"]


def _canal(value: Row) -> Images:
    row = value["data"][0]
    if value["type"] == "UPDATE":
        return {**row, **value["old"][0]}, row
    return (row, None) if value["type"] == "DELETE" else (None, row)


def _maxwell(value: Row) -> Images:
    row = value["data"]
    if value["type"] == "update":
        return {**row, **value["old"]}, row
    return (row, None) if value["type"] == "delete" else (None, row)


def _tuple(value: Row) -> Images:
    return (value, None) if value["_before_image_"] == "Y" else (None, value)


def _shareplex(value: Row) -> Images:
    operation, row = value["meta"]["op"], value["data"]
    if operation == "upd":
        return value["key"], {**value["key"], **row}
    return (row, None) if operation == "del" else (None, row)


def _dms(value: Row) -> Images:
    if value["metadata"]["operation"] == "delete":
        return value["data"], None
    return value.get("before-image"), value["data"]


def _in(value: Row, name: str) -> Images:
    before, after = (value["payload"].get(which) or {} for which in ("before", "after"))
    return before.get(name), after.get(name)


IMAGES: dict[str, Callable[[Row], Images]] = {
    "canal": _canal,
    "oms-canal": _canal,
    "tidb-canal": _canal,
    "maxwell": _maxwell,
    "ogg": lambda value: (value.get("before"), value.get("after")),
    "datahub-blob": lambda value: _in(value, "dataColumn"),
    "datahub-tuple": _tuple,
    "oms-default": lambda value: (value["prevStruct"], value["postStruct"]),
    "oms-extended": lambda value: (value["prevStruct"], value["postStruct"]),
    "oms-dataworks": lambda value: _in(value, "data"),
    "oms-shareplex": _shareplex,
    "dms": _dms,
    "dms-s3": lambda value: (value, None) if value["Op"] == "D" else (None, value),
    "debezium-json": lambda value: (value["before"], value["after"]),
    "debezium-avro": lambda value: (value["before"], value["after"]),
}
"""The row that a message takes away, and the one that it puts there."""


def _databus(value: Row, message: Encoded) -> Images:
    if value.get("endOfPeriod"):
        return None, None
    text = dict(message.headers or ())["databus.schema"]
    assert text is not None
    body = io.BytesIO(base64.b64decode(value["value"]))
    row: Any = fastavro.schemaless_reader(body, json.loads(text), None)
    return (row, None) if value["opcode"] == "DELETE" else (None, row)


def _debezium_avro(message: Encoded) -> Row:
    text = dict(message.headers or ())["waybill.value.schema"]
    assert text is not None
    assert message.value is not None
    found: Any = fastavro.schemaless_reader(io.BytesIO(message.value[5:]), json.loads(text), None)
    return found  # type: ignore[no-any-return]


def _of_decoder(decoder: Any, message: Encoded) -> Iterator[Effect]:
    again = Message("out", 0, 0, None, message.key, message.value, message.headers)
    for change in decoder.decode(again):
        if change.outcome != "ok" or change.operation == "commit":
            continue
        at = change.schema.index
        for what, image in (("take", change.before), ("put", change.after)):
            if image is not None:
                v = getattr(image, f"f{at['v']}") if what == "put" else None
                yield what, str(getattr(image, f"f{at['id']}")), v


def one_by_one(target: str, changes: list[Change]) -> tuple[list[Encoded], list[str]]:
    envelope = registry.get(target)
    assert envelope.encoder is not None
    encoder, losses = envelope.encoder(envelope.encode_settings()), list[str]()
    return [out for change in changes for out in encoder.encode(change, losses)], losses


def through_the_lake(target: str, changes: list[Change]) -> tuple[list[Encoded], list[str]]:
    """As rows of `changes`, and as many at once as can be."""
    envelope = registry.get(target)
    assert envelope.encoder is not None
    work = ChangeBatches(_Nothing(), "batch")
    schemas: dict[str, TableSchema] = {change.schema.id: change.schema for change in changes}
    stored = pa.Table.from_batches([work.rows(changes)]).filter(pa.compute.field("outcome") == "ok")
    encoder = envelope.encoder(envelope.encode_settings())
    written: Any = MessageBatches(encoder, target, "batch", schemas)
    if envelope.bulk_writer is not None:
        written = BulkMessageBatches(written, envelope.bulk_writer(encoder), fewest=1)
    found: list[Encoded] = []
    losses: list[str] = []
    for batch in stored.select(CHANGE.names).combine_chunks().to_batches():
        out = written.rows(batch) if envelope.bulk_writer else next(written.convert(iter([batch])))
        rows = sorted(out.to_pylist(), key=lambda row: (_PLACE[row["offset"]], row["message"]))
        for row in rows:
            assert row["outcome"] == "ok", row
            headers = [(h["key"], h["value"]) for h in row["headers"] or ()]
            found.append(Encoded(row["key"], row["value"], headers or None))
            losses += row["losses"] or ()
    return found, losses


_PLACE = range(1_000)
"""The offsets of a source go on over its partitions, so they are the order of what came."""


class _Nothing:
    def decode(self, message: Message) -> list[Change]:
        raise AssertionError("nothing is read")


@pytest.mark.parametrize("way", [one_by_one, through_the_lake])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", ["debezium-json", "debezium-avro"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_reader_finds_the_table_of_the_source(target, name, stream, way):
    source = Source(name)
    stream(source)
    changes = source.changes()
    messages, losses = way(target, changes)
    envelope = registry.get(target)
    opened = None
    if envelope.decoder is not None:
        opened = envelope.decoder(envelope.decode_settings(), RULES)
    table: dict[str, Any] = {}
    for message in messages:
        for what, key, v in effects(target, message, opened):
            if what == "put":
                table[key] = v
            else:
                assert key in table, f"key {key} is removed a second time by {message.value!r}"
                del table[key]
    assert table == source.rows
    moves = sum(change.moved_apart for change in changes)
    assert moves
    if not envelope.moves_apart:
        assert losses.count("key_change") == moves


@pytest.mark.parametrize("way", [one_by_one, through_the_lake])
@pytest.mark.parametrize("name", ["debezium-json", "debezium-avro"])
def test_debezium_keeps_both_events_and_their_headers(name, way):
    source = Source("debezium-json")
    moved(source)
    messages, losses = way(name, source.changes())
    ties = [
        [header for header, _ in m.headers or () if header.startswith("__debezium.")]
        for m in messages
    ]
    assert ties == [[], ["__debezium.newkey"], ["__debezium.newkey"], ["__debezium.oldkey"]]
    assert [m.value is None for m in messages] == [False, False, True, False]
    assert "key_change" not in losses


def test_a_row_that_is_not_sent_whole_under_its_new_key_is_counted():
    """PostgreSQL sends large values that were not touched under the old key alone."""
    source = Source("debezium-json")
    moved(source)
    cut = source.changes()[-1]
    cut.after = cut.schema.Image("2")
    for target in TARGETS:
        envelope = registry.get(target)
        if envelope.moves_apart:
            continue
        _, losses = one_by_one(target, [cut])
        assert sorted(set(losses) & MOVED_APART.keys()) == sorted(MOVED_APART), target
        assert losses.count("unchanged_columns") == 1, target


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_declared(target):
    envelope = registry.get(target)
    lost = registry.get("debezium-json").losses_to(envelope, {})
    assert ("key_change" in lost) is True
    elsewhere = registry.get("canal").losses_to(envelope, {})
    assert MOVED_APART["key_change"] not in elsewhere.values()
