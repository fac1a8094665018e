"""Streams of every envelope that is read in bulk: golden, plain, generated and hostile messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tests import databus_events
from tests.contract.outcomes import good_streams
from tests.contract.roundtrip import read_settings, rules_for
from tests.contract.test_bulk_avro import Side, damaged, stream
from tests.histories import column_of, image
from waybill.avro.writing import varint
from waybill.envelopes import registry
from waybill.envelopes.databus.settings import DatabusReadSettings
from waybill.records import Change, Message, intern_schema

if TYPE_CHECKING:
    from waybill.tables import TableRules

SEEDS = range(3)
"""Of the generated streams, and of the hostile ones."""
TIMES = 6
"""Every golden message comes so often, so that its form is known when it comes again."""
_DATABUS = {
    "databus-binary": databus_events.event_of,
    "databus-json": databus_events.line_of,
}


class Stream(NamedTuple):
    """Messages of one topic, and the settings of their reader."""

    messages: list[Message]
    rules: TableRules
    settings: Any


def golden(name: str, _: str) -> Iterator[Stream]:
    for messages, rules, settings in good_streams(name):
        yield Stream(messages * TIMES, rules, settings)


def plain(name: str, folder: str) -> Iterator[Stream]:
    """What the bench measures: a plain table, no transactions."""
    if name in _DATABUS:
        data = [databus_events.Data(102, databus_events.ITEM, 7, varint(n)) for n in range(1, 400)]
        events = [
            one.v1(n) if name == "databus-binary" else one.line(n) for n, one in enumerate(data)
        ]
        yield _databus(list(events))
        return
    dice = random.Random(7)
    columns = [("id", "bigint"), ("name", "varchar(20)"), ("n", "int"), ("at", "datetime(3)")]
    made = [column_of(name, kind, "mysql") for name, kind in columns]
    schema = intern_schema("shop", None, "people", tuple(made), ("id",), "mysql")
    envelope = registry.get(name)
    written = Side(name).written(folder)
    encoder = envelope.encoder(written)  # type: ignore[misc]
    messages: list[Message] = []
    for number in range(400):
        row = {
            "id": str(number),
            "name": dice.choice(["Ann", "Bob"]),
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
            sequence=(1_700_000_000_000_000_000 + number,),
            source_time=1_700_000_000_000_000 + number * 1_000_000,
        )
        for one in encoder.encode(change, []):
            place, stamp = len(messages), 1_700_000_000_000 + number
            messages.append(Message("topic", 0, place, stamp, one.key, one.value, one.headers))
    yield Stream(messages, rules_for(envelope, [schema]), read_settings(envelope, written))


def generated(name: str, folder: str, seeds: range = SEEDS) -> Iterator[Stream]:
    for seed in seeds:
        dice = random.Random(seed)
        if name in _DATABUS:
            yield _databus([_DATABUS[name](dice, number) for number in range(120)])
        else:
            yield Stream(*stream(Side(name), dice, folder, 120))


def hostile(name: str, folder: str, seeds: range = SEEDS) -> Iterator[Stream]:
    """Golden and generated messages, some of which are damaged or have the key of another."""
    for number, found in enumerate([*golden(name, folder), *generated(name, folder, seeds)]):
        dice = random.Random(number)
        yield found._replace(messages=[damaged(dice, message) for message in found.messages])


def _databus(values: list[bytes]) -> Stream:
    messages = [databus_events.message_of(value, number) for number, value in enumerate(values)]
    settings = DatabusReadSettings(schemas=databus_events.SCHEMAS)
    return Stream(messages, databus_events.RULES, settings)


STREAMS: dict[str, Callable[[str, str], Iterator[Stream]]] = {
    "golden": golden,
    "plain": plain,
    "generated": generated,
    "hostile": hostile,
}
