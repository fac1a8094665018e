"""Bit strings in the JSON envelopes: as wide as their column, and numbers that readers take."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.probes import change
from tests.contract.probes import table as table_of
from tests.contract.test_bulk import Outcome, agree, in_bulk
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type
from waybill.values.json_columns import Style, notation_of, read_one
from waybill.values.values import base64_text

HEX, BASE64, DIGITS = Style(hex=True), Style(), Style(digits=True)
RULES = TableRules(
    {"shop.t": TableRule(("id",), {"id": parse_type("int64"), "b": parse_type("bit(9)")})}
)


@pytest.mark.parametrize(
    ("style", "raw", "text"),
    [
        (HEX, '"0x000102"', "AQI="),
        (HEX, '"1"', None),
        (HEX, '"0x01"', "AAE="),
        (HEX, '"0x0AFF"', None),
        (BASE64, '"AAEC"', "AQI="),
        (BASE64, '"YQ=="', "AGE="),
        (BASE64, '"Cv8="', None),
        (DIGITS, "511", "Af8="),
        (DIGITS, "512", None),
        (DIGITS, "-1", None),
        (DIGITS, "9" * 5000, None),
    ],
)
def test_a_bit_string_is_as_wide_as_its_column(style, raw, text):
    notation = notation_of(parse_type("bit(9)"), style)
    if text is None:
        with pytest.raises(Refusal):
            read_one(notation, raw.encode())  # type: ignore[arg-type]
    else:
        assert read_one(notation, raw.encode()) == text  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["ogg", "dms-s3"])
def test_bit_strings_are_read_the_same_way_one_by_one_and_at_once(source):
    bits = [["AAEC", "AQI=", "Cv8="], ["0x000102", "0x01", "0x0AFF"]][source == "dms-s3"]
    lines = [
        (
            b'{"table":"shop.t","op_type":"I","after":{"id":%d,"b":"%b"}}'
            if source == "ogg"
            else b'{"Op":"I","id":%d,"b":"%b"}'
        )
        % (i, bits[i % (2 if i < 90 else 3)].encode())
        for i in range(300)
    ]
    settings = None
    if source == "dms-s3":
        settings = registry.get(source).decode_settings(table="shop.t")
    assert agree(source, "maxwell", lines, RULES, settings) >= 90
    refused = in_bulk(Outcome(source, "maxwell", RULES, settings), lines)["refused"]
    assert len(refused) == 70


@pytest.mark.parametrize("name", ["maxwell", "ogg", "dms", "dms-s3"])
@pytest.mark.parametrize("bits", [2, 9, 64, 200, 14_000])
def test_the_largest_bit_string_comes_back(name, bits):
    envelope = registry.get(name)
    value = base64_text(((1 << bits) - 1).to_bytes((bits + 7) // 8, "big"))
    schema = table_of({"id": "bigint", "b": f"bit({bits})"}, ("id",))
    encoder = envelope.encoder(envelope.encode_settings())  # type: ignore[misc]
    row = change("insert", after={"id": "1", "b": value}, schema=schema)
    (encoded,) = encoder.encode(row, [])
    rule = TableRule(("id",), {column.name: column.type for column in schema.columns})
    rules = TableRules({schema.qualified_name: rule})
    decoder = envelope.decoder(envelope.decode_settings(), rules)  # type: ignore[misc]
    message = row.message
    message.key, message.value = encoded.key, encoded.value
    (found,) = decoder.decode(message)
    assert found.after.f1 == value


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("maxwell", {}),
        ("ogg", {}),
        ("dms", {}),
        ("dms-s3", {}),
        ("canal", {}),
        ("oms-default", {"version": "earlier"}),
    ],
)
def test_what_no_reader_takes_is_refused_and_ends_no_run(name, settings):
    envelope = registry.get(name)
    schema = table_of({"id": "bigint", "b": "bit(9)"}, ("id",))
    encoder: Any = envelope.encoder(envelope.encode_settings(**settings))  # type: ignore[misc]
    row = change("insert", after={"id": "1", "b": base64_text(b"\xff" * 4000)}, schema=schema)
    with pytest.raises(Refusal) as caught:
        encoder.encode(row, [])
    assert caught.value.kind == "encoding"
