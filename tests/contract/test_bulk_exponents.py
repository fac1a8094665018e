"""Numbers with an exponent, which Java writes for every larger or smaller DOUBLE, go in bulk."""

from __future__ import annotations

import tempfile

import msgspec
import pytest

from tests.contract.roundtrip import read_settings, rules_for
from tests.contract.test_bulk import agree
from tests.contract.test_bulk_avro import Side
from tests.histories import column_of, image
from waybill.envelopes import registry
from waybill.records import Change, Message, intern_schema

MESSAGES = 400
NUMBERS = ["0.5", "5.4e+24", "1e-09", "123456.25", "-2.5e-300", "1e+16", "-0.0", "1e+22"]
OTHERS = [b"5.4E24", b"1.0E-9", b"-2.5E-300", b"1E+22", b"10.0e15", b"0E0"]
"""The same as Java and others write them."""


def _lines(name: str) -> tuple[list[bytes], object, object]:
    envelope = registry.get(name)
    kinds = {"id": "bigint", "d": "double", "n": "decimal(40,3)"}
    columns = [column_of(column, kind, "mysql") for column, kind in kinds.items()]
    schema = intern_schema("shop", None, "people", tuple(columns), ("id",), "mysql")
    with tempfile.TemporaryDirectory() as folder:
        written = Side(name).written(folder)
        encoder = envelope.encoder(written)
        lines = []
        for number in range(MESSAGES):
            row = image(schema, id=str(number), d=NUMBERS[number % len(NUMBERS)], n="7.000")
            change = Change(
                "insert",
                schema,
                Message("topic", 0, number, 1_700_000_000_000, None, None),
                after=row,
                sequence=(1_700_000_000_000_000_000 + number,),
                source_time=1_700_000_000_000_000 + number * 1_000_000,
            )
            lines += [one.value for one in encoder.encode(change, [])]
    return lines, rules_for(envelope, [schema]), read_settings(envelope, written)


@pytest.mark.parametrize(
    "name",
    ["maxwell", "ogg", "dms", "oms-default", "oms-canal", "oms-dataworks", "datahub-blob"],
)
def test_numbers_with_an_exponent_go_in_bulk(name):
    lines, rules, settings = _lines(name)
    assert sum(b"e+" in line or b"e-" in line for line in lines) >= MESSAGES // 2
    for number, other in enumerate(OTHERS * 10):
        place = 100 + 3 * number
        plain = NUMBERS[place % len(NUMBERS)].encode()
        lines[place] = lines[place].replace(b'"d":%b' % plain, b'"d":%b' % other)
    assert all(map(msgspec.json.decode, lines))
    assert agree(name, "debezium-json", lines, rules, settings) >= MESSAGES * 7 // 8
