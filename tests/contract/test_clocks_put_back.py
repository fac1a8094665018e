"""The hour that clocks show twice when they are put back, in every source that reads wall clocks.

A wall clock that names its zone is none of the two instants more than the other and is refused as
one; one with an offset stays the instant that it is, the second as well. Where a setting names the
zone of all wall clocks the first is taken, as the documents of the settings say, and the second is
never written as the first.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from tests.histories import image
from tests.unit.envelopes.oms.test_zones import DECLARED, TIMES, _lines
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.row_times.typed import times_check
from waybill.tables import TableRules
from waybill.types import parse_type

BERLIN = "Europe/Berlin"
SECOND = "2020-10-25 02:30:00 +01:00"
FIRST = "2020-10-25 02:30:00 +02:00"
ZONED = (TIMES[0], TIMES[1], FIRST, SECOND)
INSTANTS = ("2020-11-24T16:01:02.012345Z", None, "2020-10-25T00:30:00Z", "2020-10-25T01:30:00Z")
"""What they are; nothing says which instant the second one is."""

OMS = ["oms-default", "oms-extended", "oms-canal", "oms-dataworks", "oms-shareplex"]


def written_by(source: str) -> list[bytes]:
    """Rows of the times above, as an OMS format writes them."""
    lines = _lines("ZONED_DATETIME", ZONED)
    if source == "oms-dataworks":
        return lines
    outcome = Outcome("oms-dataworks", source, TableRules({}))
    values: list[bytes] = one_by_one(outcome, lines)["values"]
    assert len(values) == len(lines)
    return values


@pytest.mark.parametrize("source", OMS)
def test_a_time_that_names_its_zone_is_no_instant_in_the_hour_that_comes_twice(source):
    lines = written_by(source)
    for target in ("datahub-blob", "oms-default", "debezium-json"):
        found = one_by_one(Outcome(source, target, DECLARED), lines)
        assert [place for place, *_ in found["refused"]] == list(range(1, 150, 4))
        for _, _, kind, sentence in found["refused"]:
            assert (kind, "Europe/Berlin showed twice" in sentence) == ("value", True)
        agree(source, target, lines, DECLARED)


@pytest.mark.parametrize("source", OMS)
def test_the_second_of_two_equal_clocks_stays_the_second(source):
    found = one_by_one(Outcome(source, "datahub-blob", DECLARED), written_by(source))
    documents = [
        json.loads(value)["payload"]["after"]["dataColumn"]["c"] for value in found["values"]
    ]
    expected = [text for text in INSTANTS if text is not None]
    assert documents[:6] == expected * 2


# Zones by a setting


def read(name: str, settings: Any, line: bytes) -> Change:
    decoder = registry.get(name).decoder(settings, DECLARED)  # type: ignore[misc]
    (change,) = decoder.decode(Message("d.t", 0, 1, 1_700_000_000_000, None, line))
    return change


ROW = {"id": 1, "c": "2020-10-25 02:30:00"}
OGG = {
    "table": "d.t",
    "op_type": "I",
    "op_ts": "2024-05-06 07:08:09.000000",
    "current_ts": "2024-05-06T07:08:09.000000",
}
MAXWELL = {"database": "d", "table": "t", "type": "insert", "ts": 1_700_000_000}
CANAL: dict[str, Any] = {
    "database": "d",
    "table": "t",
    "type": "INSERT",
    "isDdl": False,
    "es": 1_700_000_000_000,
    "ts": 1_700_000_000_000,
    "id": 1,
    "old": None,
    "sql": "",
    "gtid": "",
    "pkNames": ["id"],
    "mysqlType": {"id": "int", "c": "timestamp(6)"},
    "sqlType": {"id": 4, "c": 93},
}

SET: dict[str, tuple[str, dict[str, Any], Any]] = {
    "canal": ("canal", {"timezone": BERLIN}, lambda row: {**CANAL, "data": [row]}),
    "canal, values of JSON": (
        "canal",
        {"timezone": BERLIN, "values": "json"},
        lambda row: {**CANAL, "data": [row]},
    ),
    "maxwell": ("maxwell", {"timezone": BERLIN}, lambda row: {**MAXWELL, "data": row}),
    "ogg": ("ogg", {"column_timezone": BERLIN}, lambda row: {**OGG, "after": row}),
}
"""Sources whose wall clocks are in the zone of a setting, and how one tells a row."""


@pytest.mark.parametrize("source", SET)
def test_where_a_setting_names_the_zone_the_first_is_taken(source):
    name, settings, made = SET[source]
    reading = registry.get(name).decode_settings(**settings)
    clocks = ["2020-10-25 02:30:00", "2020-10-25 01:30:00", "2020-10-25 03:30:00"]
    if name == "canal" and "values" not in settings:
        texts = [{"id": "1", "c": clock} for clock in clocks]
    else:
        texts = [{"id": 1, "c": clock} for clock in clocks]
    lines = [json.dumps(made(row), separators=(",", ":")).encode() for row in texts * 50]
    values = [read(name, reading, line).after.f1 for line in lines]
    expected = ["2020-10-25T00:30:00Z", "2020-10-24T23:30:00Z", "2020-10-25T02:30:00Z"]
    assert values == expected * 50
    if reading.in_bulk:
        agree(name, "debezium-json", lines, DECLARED, reading)


@pytest.mark.parametrize("source", SET)
def test_a_wall_clock_that_was_never_shown_is_no_instant(source):
    name, settings, made = SET[source]
    reading = registry.get(name).decode_settings(**settings)
    id_ = "1" if source == "canal" else 1
    row = {"id": id_, "c": "2020-03-29 02:30:00"}
    lines = [json.dumps(made(row), separators=(",", ":")).encode()] * 20
    # In the stages the row is refused where it is held against the types of its columns.
    check = times_check(read(name, reading, lines[0]).schema)
    assert check is not None
    with pytest.raises(Refusal, match="wall clock"):
        check(read(name, reading, lines[0]))
    if reading.in_bulk:
        agree(name, "debezium-json", lines, DECLARED, reading)


@pytest.mark.parametrize("name", ["canal", "maxwell", "oms-dataworks"])
def test_the_second_is_not_written_as_the_first(name):
    envelope = registry.get(name)
    settings = {"timezone": BERLIN}
    columns = (Column("id", parse_type("int32")), Column("c", parse_type("timestamptz")))
    schema = intern_schema("d", None, "t", columns, ("id",))
    values: list[str | None] = []
    for text in ("2020-10-25T00:30:00Z", "2020-10-25T01:30:00Z"):
        encoder = envelope.encoder(envelope.encode_settings(**settings))  # type: ignore[misc]
        message = Message("t", 0, 1, 1_700_000_000_000, None, None)
        after = image(schema, id="1", c=text)
        change = Change("insert", schema, message, after=after, sequence=(7,), source_time=0)
        try:
            (made,) = encoder.encode(change, [])
        except Refusal:
            values.append(None)
            continue
        decoder = envelope.decoder(envelope.decode_settings(**settings), DECLARED)  # type: ignore[misc]
        (again,) = decoder.decode(Message("t", 0, 1, 1, None, made.value))
        values.append(again.after.f1)
    assert values[0] == "2020-10-25T00:30:00Z"
    assert values[1] in (None, "2020-10-25T01:30:00Z")
