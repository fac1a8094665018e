"""Debezium: values in columns that are declared to hold another kind of value."""

from __future__ import annotations

import json

import pytest

from tests.contract.test_bulk import agree
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.spec.migration import Table, table_rules
from waybill.types import parse_type

ENVELOPE = registry.get("debezium-json")
SOURCE = {"connector": "mysql", "db": "shop", "table": "t", "file": "a.1", "pos": 5, "row": 0}
CONNECT = {bool: "boolean", int: "int64", float: "double", str: "string"}
NUMBERS = [1000, 20200101, 1e3, 1.5, True, [1], {"a": 1}, {"scale": 1, "value": "AQ=="}]


def rules(type_):
    table = {"key": ["id"], "columns": {"id": "int", "v": type_}}
    return table_rules({"shop.t": Table.model_validate(table)})


def event(value, before=None, number=1):
    old = None if before is None else {"id": number, "v": before}
    images = {"before": old, "after": {"id": number, "v": value}}
    source = {**SOURCE, "pos": number}
    return {**images, "source": source, "op": "c" if old is None else "u", "ts_ms": 1}


def read_as(type_, body, **settings):
    """The text of the column, or the kind of the refusal."""
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(**settings), rules(type_))
    try:
        (change,) = decoder.decode(Message("t", 0, 0, None, None, json.dumps(body).encode()))
    except Refusal as refusal:
        return refusal.kind
    return change.after.f1


def with_schema(body, kind):
    columns = [{"type": "int64", "field": "id"}, {"type": kind, "optional": True, "field": "v"}]
    row = {"type": "struct", "optional": True, "fields": columns}
    fields = [{**row, "field": "before"}, {**row, "field": "after"}]
    return {"schema": {"type": "struct", "fields": fields}, "payload": body}


@pytest.mark.parametrize("type_", ["blob", "bit(9)", "geometry"])
@pytest.mark.parametrize("value", NUMBERS)
def test_digits_and_booleans_are_no_base64(type_, value):
    """Although 1000 and true look like it."""
    assert read_as(type_, event(value)) == "value"
    if type(value) in CONNECT:
        assert read_as(type_, with_schema(event(value), CONNECT[type(value)])) == "schema"


@pytest.mark.parametrize("type_", ["datetime(3)", "timestamp(3)", "time", "date", "interval"])
@pytest.mark.parametrize("value", [1e3, 1.5, True, [1], {"a": 1}, {"wkb": "AQ==", "srid": 1}])
def test_a_time_is_a_count_or_a_text(type_, value):
    assert read_as(type_, event(value)) == "value"
    if type(value) in CONNECT:
        assert read_as(type_, with_schema(event(value), CONNECT[type(value)])) == "schema"


def test_a_count_of_an_interval_is_one_whatever_came_before_it():
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), rules("interval"))
    for offset, value in enumerate([1.5, 5]):
        body = json.dumps(event(value)).encode()
        try:
            (change,) = decoder.decode(Message("t", 0, offset, None, None, body))
        except Refusal:
            continue
    assert change.after.f1 == "PT0.000005S" == read_as("interval", with_schema(event(5), "int64"))


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("value", ["a", "", "true", "2020-01-01"])
def test_a_text_that_is_no_number_is_none_in_a_column_of_floats(type_, value):
    assert read_as(type_, event(value)) == "value"
    assert read_as(type_, event("NaN")) == "NaN"
    assert read_as(type_, event("1.5")) == "1.5"


@pytest.mark.parametrize(
    ("type_", "before", "value"),
    [
        ("datetime(3)", 5, "2020-01-01T00:00:00Z"),
        ("blob", 1000, "AQID"),
        ("decimal(5,2)", 5, "1000"),
        ("interval", "P1D", 5),
    ],
)
def test_a_row_whose_images_tell_a_value_in_two_ways_is_refused(type_, before, value):
    """One of them would be read as what it is not."""
    assert read_as(type_, event(value, before)) == "value"


@pytest.mark.parametrize(
    ("type_", "last"),
    [
        ("date", 2**31 - 1),
        ("time(3)", 2**63 - 1),
        ("datetime(3)", 2**63 - 1),
        ("datetime(6)", 2**63 - 1),
        ("timestamp(6)", 2**63 - 1),
        ("interval", 2**63 - 1),
    ],
)
def test_a_count_beyond_the_type_that_connect_has_for_it_is_refused(type_, last):
    assert read_as(type_, event(last)) != "value"
    for count in (last + 1, -last - 2, 10**30):
        assert read_as(type_, event(count)) == "value"


def test_milliseconds_of_a_day_are_no_longer_than_connects_int32():
    assert read_as("time(3)", event(2**31 - 1), temporal="connect") == "596:31:23.647"
    assert read_as("time(3)", event(2**31), temporal="connect") == "value"


@pytest.mark.parametrize(
    ("type_", "usual"),
    [("date", 18_000), ("datetime(3)", 86_400_000), ("datetime(6)", 86_400_000_000)],
)
def test_they_are_refused_at_once_as_they_are_one_by_one(type_, usual):
    odd = [1000, 1e3, True, [1], {"a": 1}, 2**31, 2**63, -(2**63) - 1, "AQID", "a", None, 10**30]
    lines = []
    for number in range(240):
        value = odd[number // 20] if number % 20 == 19 else usual
        lines.append(json.dumps(event(value, None, number), separators=(",", ":")).encode())
    for target in ("debezium-json", "canal"):
        assert agree("debezium-json", target, lines, rules(type_)) >= 30


@pytest.mark.parametrize(
    ("name", "settings"), [("debezium-json", {"schemas": True}), ("debezium-avro", {})]
)
def test_a_decimal_of_more_digits_than_its_schema_says_is_not_written(name, settings):
    """Avro's own writers refuse it, and so does the envelope with nothing but Avro's types."""
    columns = (Column("id", parse_type("int32")), Column("v", parse_type("decimal(10,2)")))
    schema = intern_schema("shop", None, "t", columns, ("id",))
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings(decimals="precise", **settings))

    def written(text):
        message = Message("t", 0, 1, 1, None, None)
        return encoder.encode(Change("insert", schema, message, after=schema.Image("1", text)), [])

    assert written("-99999999.99")
    for text in ("100000000", "123456789.12", "-100000000.00"):
        with pytest.raises(Refusal, match=rf"column 'v': {text} does not fit decimal\(10,2\)"):
            written(text)
