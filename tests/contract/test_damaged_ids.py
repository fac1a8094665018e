"""The gate holds the sequence id that a message carries against the one that it has to carry."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.contract.order_conversion import NAMES, RULES
from tests.contract.order_readers import ARRIVAL, READERS
from tests.contract.order_sources import SOURCES, History, messages_of
from waybill.batches.decoding import ChangeBatches
from waybill.batches.encoding import MessageBatches
from waybill.envelopes import registry
from waybill.lake_columns import ARCHIVE, CHANGE_PLACE, CHANGES, OUTBOX
from waybill.order import order_key, read_order_key
from waybill.records import TableSchema
from waybill.spec.endpoints import Source, Target
from waybill.tables import TableRules
from waybill.validate.comparing import MINE, THEIRS, Comparison
from waybill.validate.readers import readers_of

if TYPE_CHECKING:
    from waybill.validate.readers import TargetReader

ORIGINS = ("oms-default", "debezium-mysql", "databus-json", "canal")
"""A source of one number, of several parts, of numbers that changes share, and of none."""

WITHOUT = {
    *((name, target) for name in ORIGINS for target in ("canal", "oms-canal", "ibmcdc-avro")),
    *(("canal", t) for t in ("debezium-json", "debezium-avro", "maxwell", "ogg", "dms", "dms-s3")),
}
"""Pairs of a source and a target whose messages have no ids: the target has none in any case, or
only those of its source."""

MESSAGE = ("topic", "partition", "offset", "key", "value")

FEW = 60
PAIRS = [(name, target) for name in ORIGINS for target in registry.names()]


@pytest.fixture(params=["on", "off"], autouse=True)
def bulk(request, monkeypatch):
    """Both ways of reading and writing."""
    monkeypatch.setenv("WAYBILL_BULK", request.param)


class Read(NamedTuple):
    """What the changes of a source are read as."""

    settings: Any
    schemas: dict[str, TableSchema]
    changes: pa.Table

    def with_other_ids(self) -> pa.Table:
        """The same changes at other places of the order."""
        rows = self.changes.to_pylist()
        for row in rows:
            sequence, rank, full = read_order_key(row["order_key"])
            row["offset"] += 7
            if sequence is not None:
                sequence = (*sequence[:-1], sequence[-1] + 7)
            place = (row["partition"], row["offset"], row["index"])
            row["order_key"] = order_key(sequence, rank, *place, full)
        return pa.Table.from_pylist(rows, CHANGES)


@cache
def read_changes(name: str, bulk: str | None) -> Read:
    """The changes of a source, for all targets; `bulk` is the setting by which they are read."""
    assert bulk == os.environ.get("WAYBILL_BULK")
    origin = SOURCES[name]
    reads = registry.get(origin.envelope)
    reading = reads.decode_settings(**dict(origin.settings))
    history = History(96)
    for key in range(FEW):
        history.tell(0, False, (None, {"id": key, "v": "a"}), "insert")
    for key in range(FEW):
        history.tell(0, False, (history.rows[key], {"id": key, "v": "b"}), "update")
    rows = [
        {
            **{field: getattr(m, field) for field in MESSAGE},
            "headers": pairs(m.headers),
            "batch": "b1",
        }
        for event in messages_of(origin, history)
        for m in event
    ]
    archive = pa.RecordBatch.from_pylist(rows, ARCHIVE)
    decoder = reads.decoder(reading, TableRules(dict.fromkeys(NAMES, RULES)))
    decoding = ChangeBatches(decoder, "b1", None, reads.bulk_reader)
    changes = pa.Table.from_batches(list(decoding.convert(iter([archive]))), CHANGES)
    schemas = changes.filter(pc.equal(changes["outcome"], "schema")).to_pylist()
    found = {r["schema_id"]: TableSchema.from_json(r["extra"]) for r in schemas}
    accepted = changes.filter(pc.equal(changes["outcome"], "ok")).combine_chunks()
    return Read(reading, found, accepted)


@cache
def other_ids(name: str, bulk: str | None) -> pa.Table:
    return read_changes(name, bulk).with_other_ids()


class Batch:
    """The changes of a source, and what a target gets of them."""

    def __init__(self, name: str, target: str) -> None:
        self.name, self.target = name, target
        origin, reads = SOURCES[name], registry.get(SOURCES[name].envelope)
        read = read_changes(name, os.environ.get("WAYBILL_BULK"))
        self.schemas, self.changes = dict(read.schemas), read.changes
        came = {"envelope": origin.envelope, "files": {"path": "in", "topic": "shop.t"}}
        goes = {"envelope": target, "files": {"path": "out"}, "settings": settings_of(target)}
        source = Source.model_validate({**came, "settings": dict(origin.settings)})
        found = readers_of(source, [Target.model_validate(goes)], self.schemas.values())
        (self.reader,) = found.values()
        settings = registry.get(target).encode_settings(**settings_of(target))
        self.settings = settings.for_source(reads, read.settings)

    def messages(self, changes: pa.Table) -> list[dict[str, Any]]:
        """Rows of the outbox."""
        envelope = registry.get(self.target)
        encoder = envelope.encoder(self.settings)
        work = MessageBatches(encoder, self.target, "b1", self.schemas, envelope.bulk_writer)
        rows = pa.Table.from_batches(list(work.convert(iter(changes.to_batches()))), OUTBOX)
        assert pc.all(pc.equal(rows["outcome"], "ok")).as_py()
        return rows.to_pylist()

    def with_other_ids(self) -> pa.Table:
        """The same changes at other places of the order."""
        return other_ids(self.name, os.environ.get("WAYBILL_BULK"))

    def wrong(self, messages: list[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
        """What the gate has against messages, by the place of their change."""
        reader: TargetReader = self.reader
        comparison = Comparison(self.target, reader, self.schemas)
        table = pa.Table.from_pylist(messages, OUTBOX).select(THEIRS.names)
        found = comparison.compare(self.changes.select(MINE.names), table)
        return {one.place: one.what for one in found}


def settings_of(target: str) -> dict[str, Any]:
    """The settings of its writing, so that its messages have ids if they can."""
    return (READERS.get(target) or ARRIVAL[target])[1]


def pairs(headers: Any) -> Any:
    return headers and [{"key": key, "value": value} for key, value in headers]


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_a_wrong_id_is_found_and_nothing_else(name, target):
    batch = Batch(name, target)
    messages = batch.messages(batch.changes)
    assert batch.wrong(messages) == {}
    others = batch.messages(batch.with_other_ids())
    assert len(others) == len(messages)
    firsts = [number for number, message in enumerate(messages) if message["message"] == 0]
    damaged, places = [dict(message) for message in messages], set()
    # Neither the first of its kind nor among those that are always taken one by one.
    for number in (firsts[35], firsts[FEW + 35]):
        message, other = damaged[number], others[number]["value"]
        if (name, target) == ("debezium-mysql", "debezium-json"):
            other = re.sub(rb'"pos":(\d+)', lambda found: b'"pos":1' + found[1], message["value"])
        if (name, target) not in WITHOUT and other != message["value"]:
            message["value"] = other
            places.add(tuple(message[column] for column in CHANGE_PLACE))
    # Debezium to Debezium carries the place on as it came, and not by the order.
    missing = {("debezium-mysql", "debezium-avro"), *WITHOUT}
    assert len(places) == (0 if (name, target) in missing else 2)
    found = batch.wrong(damaged)
    assert found.keys() == places
    # The halves of an update belong together by their id.
    known = ("sequence id", "without its other half")
    assert all(any(words in what for words in known) for what in found.values()), found


def lost(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return messages[:1]


def of_another_window(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    end = json.loads(messages[1]["value"])
    end["sequence"] += 1
    return [messages[0], {**messages[1], "value": json.dumps(end).encode()}]


def none(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a reader takes for an event of the system, and leaves out."""
    value = messages[1]["value"]
    assert b'"endOfPeriod":true' in value
    return [messages[0], {**messages[1], "value": value.replace(b":true", b":false")}]


def too_early(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    row = json.loads(messages[0]["value"])
    return [
        {**messages[0], "value": json.dumps({**row, "endOfPeriod": True}).encode()},
        messages[1],
    ]


@pytest.mark.parametrize("damage", [lost, of_another_window, none, too_early])
@pytest.mark.parametrize("name", ["oms-default", "debezium-mysql"])
def test_a_wrong_end_of_a_window_of_databus_is_found(name, damage):
    """No row shows it, and a consumer waits for the end, or takes half a window."""
    batch = Batch(name, "databus-json")
    messages = batch.messages(batch.changes)
    firsts = [number for number, message in enumerate(messages) if message["message"] == 0]
    damaged, places = [], set()
    for number in firsts:
        mine = [
            m for m in messages[number : number + 3] if m["offset"] == messages[number]["offset"]
        ]
        if number in (firsts[35], firsts[FEW + 35]):
            places.add(tuple(mine[0][column] for column in CHANGE_PLACE))
            mine = damage(mine)
        damaged += mine
    assert batch.wrong(messages) == {}
    found = batch.wrong(damaged)
    assert found.keys() == places
    assert all("the end of the window" in what for what in found.values()), found
