"""IBM CDC: columns that are declared to hold another kind of value than their Avro type does."""

from __future__ import annotations

import io

import fastavro
import pytest

from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.spec.migration import Table, table_rules

ENVELOPE = registry.get("ibmcdc-avro")
VALUES = [("int", 1000), ("long", 20200101), ("double", 1.5), ("boolean", True)]
STRUCTURE = ({"type": "array", "items": "int"}, [1])


def read_as(avro, value, declared):
    """The text of a column, or the kind of the refusal."""
    fields = [{"name": "ID", "type": "int"}, {"name": "V", "type": [avro, "null"]}]
    schema = {"type": "record", "name": "T", "namespace": "value.SOURCEDB.S", "fields": fields}
    settings = ENVELOPE.decode_settings(schemas={"avro": {"1": {"schema": schema}}})
    rules = table_rules({"S.T": Table.model_validate({"key": ["ID"], "columns": {"V": declared}})})
    out = io.BytesIO(b"\0\0\0\0\1")
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"ID": 1, "V": value})
    try:
        (change,) = ENVELOPE.decoder(settings, rules).decode(
            Message("t", 0, 0, None, None, out.getvalue())
        )
    except Refusal as refusal:
        return refusal.kind
    return change.after.f1


@pytest.mark.parametrize("declared", ["blob", "bit(9)", "geometry"])
@pytest.mark.parametrize(("avro", "value"), [*VALUES, STRUCTURE])
def test_digits_and_booleans_are_no_base64(avro, value, declared):
    """Although 1000 and true look like it."""
    assert read_as(avro, value, declared) == "schema"
    assert read_as("bytes", b"\1\2", declared) == "AQI="
    assert read_as("string", "AQI=", declared) == "AQI="


@pytest.mark.parametrize("declared", ["datetime", "timestamp", "date", "time", "interval"])
@pytest.mark.parametrize(("avro", "value"), [*VALUES, ("bytes", b"\1\2"), STRUCTURE])
def test_a_time_is_no_number_without_a_unit(avro, value, declared):
    assert read_as(avro, value, declared) == "schema"
    assert read_as("string", "2020-01-01", declared) == "2020-01-01"
