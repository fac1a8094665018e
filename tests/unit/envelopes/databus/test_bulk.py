"""Databus events that are read at once become the changes that they become one by one."""

from __future__ import annotations

import json
import random
import struct
import zlib
from base64 import b64encode
from binascii import a2b_base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import databus_layout as layout
from tests.contract.effort import properties
from tests.databus_events import (
    ITEM,
    MOMENT,
    ODD,
    OWN,
    PERSON,
    SCHEMAS,
    Data,
    agree,
    decoded,
    event_of,
    harmed,
    id_of,
    line_of,
    message_of,
    row_of,
    sized,
)
from waybill.avro.writing import varint
from waybill.bulk.block import Scanned
from waybill.envelopes import registry
from waybill.envelopes.databus.bulk.reading import DatabusReader
from waybill.envelopes.databus.bulk.scanning import BinaryScanner, number_of
from waybill.envelopes.databus.decoder import TRANSACTION_HEADER
from waybill.envelopes.databus.kernels.binary_scanning import checksum, number
from waybill.envelopes.databus.kernels.json_scanning import decoded as base64_decoded
from waybill.envelopes.databus.settings import DatabusReadSettings
from waybill.errors import Refusal
from waybill.tables import TableRules

SETTINGS = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"windows": "ignore", "names": "columns"},
        {"schema_ids": "version", "database": "shop"},
        {"old_writers": True, "rules": TableRules({})},
    ],
    ids=["usual", "columns", "version", "old"],
)


@pytest.mark.parametrize(
    ("name", "make"), [("databus-binary", event_of), ("databus-json", line_of)], ids=["b", "j"]
)
@SETTINGS
@properties(8)
@given(seed=st.integers(0, 2**32))
def test_events(settings, name, make, seed):
    dice = random.Random(seed)
    values = [make(dice, number) for number in range(120)]
    for _ in range(12):
        at = dice.randrange(len(values))
        values[at] = harmed(dice, values[at] or b"")
    agree(values, name=name, **settings)


USUAL = {
    "v1": lambda data, number: data.v1(number),
    "delete": lambda data, number: data.v1(number, attributes=2, logical=number % 5),
    "little": lambda data, number: data.v1(number, order="<"),
    "bytes": lambda data, number: data.v1(b"%d" % (number * 37)),
    "v2": lambda data, number: data.v2(number),
    "v2-bytes": lambda data, number: data.v2(b"%d" % (number * 37), order="<"),
    "no-time": lambda data, number: data.v1(number, nanos=-1),
    "fine": lambda data, number: data.v1(number, nanos=MOMENT * 10**6 + 1 + number),
    "replicated": lambda data, number: data.v1(number, attributes=0x102),
}


@pytest.mark.parametrize("kind", USUAL)
@pytest.mark.parametrize("windows", ["transactions", "ignore"])
def test_usual_events_are_read_at_once(kind, windows):
    values = [USUAL[kind](Data(102, ITEM, 7, varint(number)), number) for number in range(1, 100)]
    if kind == "fine":
        values = [value for number, value in enumerate(values, 1) if (number + 1) % 1000]
    assert agree(values, windows=windows) == len(values)


def test_events_of_many_columns_are_read_at_once():
    dice = random.Random(3)
    values = [Data(101, PERSON, 1, row_of(dice)).v1(number) for number in range(400)]
    assert agree(values, size=400) > 250


def test_versions_are_read_at_once():
    values = [
        Data(102, ITEM, 7, varint(number)).v1(number, schema=b"\0\x07" + bytes(14))
        for number in range(50)
    ]
    assert agree(values, schema_ids="version") == 50


def test_sources_with_the_same_schema_have_tables_of_their_own():
    entry = {"source": "shop.Item", "version": 1, "schema": ITEM}
    entries = [{**entry, "srcId": 1, "table": "one"}, {**entry, "srcId": 2, "table": "two"}]
    data = Data(1, ITEM, 1, varint(7))
    digest = b"\0\x01" + bytes(14)
    values = [data.v1(n, source=1 + n % 2, schema=digest) for n in range(20)]
    messages = [message_of(value, offset) for offset, value in enumerate(values)]
    expected, found, in_bulk = decoded(messages, schemas={"databus": entries}, schema_ids="version")
    assert found == expected
    assert in_bulk == 20
    tables = {json.loads(text)["table"] for text in expected[1].values()}
    assert tables == {"one", "two"}


def repaired(value: bytes, order: str) -> bytes:
    """An event of version 1 with the checksums that its bytes have."""
    keyed = value[9 if order == "<" else 10] & 8
    body = 57 if keyed else 61
    value = value[:49] + struct.pack(order + "I", layout.crc(value[body:])) + value[53:]
    return value[:1] + struct.pack(order + "I", layout.crc(value[5:body])) + value[5:]


@pytest.mark.parametrize("order", [">", "<"])
def test_a_byte_of_a_usual_event_is_another(order):
    data = Data(101, PERSON, 1, row_of(random.Random(1)))
    good = [data.v1(number, order=order) for number in range(20)]
    values: list[bytes | None] = list(good)
    for place in range(len(good[0])):
        for sign in (1, 0x80):
            other = bytearray(good[0])
            other[place] ^= sign
            values += [bytes(other), repaired(bytes(other), order)]
    for place in range(len(good[0])):
        values += [good[0][:place], good[0][:place] + b"\0" + good[0][place:]]
    assert agree(values, size=len(values)) > 40


def test_a_byte_of_version_2_is_another():
    data = Data(102, ITEM, 7, varint(300))
    good = data.v2(b"key", order="<")
    values: list[bytes | None] = [good] * 20
    for place in range(len(good)):
        for sign in (1, 0x80):
            other = bytearray(good)
            other[place] ^= sign
            head = struct.unpack_from("<i", other, 5)[0]
            if 45 <= head <= len(other):
                struct.pack_into("<I", other, 13, layout.crc(bytes(other[head:])))
                struct.pack_into("<I", other, 9, layout.crc(bytes(other[13:head])))
            values.append(bytes(other))
        values.append(good[:place])
    assert agree(values, size=len(values)) > 20


def test_several_events_and_none():
    good = [Data(102, ITEM, 7, varint(number)).v1(number) for number in range(9)]
    end = layout.v1(0, b"", attributes=0, source=-2)
    values = [*good, good[0] + good[1], good[2] + end, end, b"", None, good[3] + b"\0", *good]
    assert agree(values, size=len(values)) == 18


def test_the_order_of_bytes_decides_what_they_mean():
    """Attributes of both bytes stand the same in both orders; only the checksum tells them."""
    schema = {"schema": id_of(ITEM), "source": 0x0101, "attributes": 0x0101}
    values = [
        layout.v1(1, varint(number), order=order, nanos=MOMENT * 10**6, **schema)
        for number in range(20)
        for order in "><"
    ]
    assert agree(values, size=40) == 40


def test_headers_say_more():
    good = [Data(102, ITEM, 7, varint(number)).v1(number) for number in range(20)]
    messages = [message_of(value, offset) for offset, value in enumerate(good)]
    messages += [
        message_of(good[0], 20, [("waybill.operation", b"insert"), (TRANSACTION_HEADER, b"t")]),
        message_of(good[1], 21, [("waybill.operation", b"nothing")]),
        message_of(good[2], 22, [("other", None)]),
        message_of(good[3], 23, []),
    ]
    expected, found, in_bulk = decoded(messages)
    assert found == expected
    assert in_bulk == 21


def test_schemas_of_one_number_are_read_one_by_one():
    """The first bytes of a digest find a schema; nothing may be taken for one of another."""
    decoder = registry.get("databus-binary").decoder(  # type: ignore[misc]
        DatabusReadSettings(schemas=SCHEMAS), TableRules({})
    )
    one, other = decoder.book.by_id[id_of(ITEM)], decoder.book.by_id[id_of(ODD)]
    twin = id_of(ITEM)[:8] + bytes(8)
    decoder.book.by_id[twin] = other
    assert number_of(twin) == number_of(id_of(ITEM))
    assert one is not other
    scanner = DatabusReader(decoder, BinaryScanner).scanner
    twins = [Data(102, ITEM, 7, varint(1)).v1(1), Data(104, OWN, 1, sized(b"k")).v1(1)]
    begins = np.array([0, len(twins[0])])
    texts = Scanned(b"".join(twins), begins, begins + [len(twin) for twin in twins])
    assert texts.scan_by(scanner).counts.tolist() == [-1, 8]
    assert len(scanner.paths(twins[1])) == 8
    with pytest.raises(ValueError, match="no program"):
        scanner.paths(twins[0])
    with pytest.raises(ValueError, match="not made of values"):
        scanner.value_encoders(twins[1])
    with pytest.raises(ValueError, match="no event"):
        scanner.paths(twins[1][:-1])


LINES: dict[str, Any] = {
    "usual": {},
    "delete": {"opcode": "DELETE", "logicalPartitionId": -3},
    "replicated": {"isReplicated": True},
    "no-time": {"timestampInNanos": -1},
    "fine": {"timestampInNanos": MOMENT},
    "large": {"sequence": 2**63 - 1, "timestampInNanos": 2**63 - 1},
}


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("windows", ["transactions", "ignore"])
def test_usual_lines_are_read_at_once(kind, windows):
    values = [Data(102, ITEM, 7, varint(n)).line(n * 37, **LINES[kind]) for n in range(100)]
    assert agree(values, windows=windows, name="databus-json") == 100


def test_lines_of_many_columns_are_read_at_once():
    dice = random.Random(3)
    values = [Data(101, PERSON, 1, row_of(dice)).line(number) for number in range(400)]
    assert agree(values, size=400, name="databus-json") > 250


def test_a_byte_of_a_usual_line_is_another():
    data = Data(101, PERSON, 1, row_of(random.Random(1)))
    good = [data.line(number) for number in range(20)]
    values: list[bytes | None] = list(good)
    for place in range(len(good[0])):
        before, behind = good[0][:place], good[0][place + 1 :]
        values += [before, before + b"0" + good[0][place:], before + behind]
        values += [before + sign + behind for sign in (b"1", b"A", b'"', b"\xc3", b"=", b" ")]
    assert agree(values, size=len(values), name="databus-json") > 40


@properties(30)
@given(data=st.binary(max_size=40), end=st.text('ABQZgw+/=-"', max_size=5))
def test_base64(data, end):
    for text in (b64encode(data), b64encode(data) + end.encode(), b64encode(data)[:-3]):
        arena = np.zeros(2 * len(text) + 24, np.uint8)
        arena[: len(text)] = np.frombuffer(text, np.uint8)
        stop = base64_decoded(arena, 0, len(text), len(text))
        try:
            found = a2b_base64(text, strict_mode=True)
        except ValueError:
            found = b""
        if not found or b64encode(found) != text:
            assert stop == -1
        else:
            assert arena[len(text) : stop].tobytes() == found


@properties(30)
@given(data=st.binary(max_size=70), start=st.integers(0, 9))
def test_checksums(data, start):
    arena = np.frombuffer(bytes(start) + data + bytes(8), np.uint8)
    found = checksum(arena, start, start + len(data))
    assert found == zlib.crc32(data, 0xFFFFFFFF) ^ 0xFFFFFFFF


@properties(30)
@given(data=st.binary(min_size=1, max_size=8), little=st.booleans())
def test_numbers(data, little):
    arena = np.frombuffer(data + bytes(8), np.uint8)
    order = "little" if little else "big"
    assert number(arena, 0, len(data), little) == int.from_bytes(data, order, signed=True)


def test_a_schema_that_cannot_be_used():
    schemas = {"databus": [{"source": "shop.Bad", "schema": ITEM.replace("long", "nonsense")}]}
    text = schemas["databus"][0]["schema"]
    decoder = registry.get("databus-binary").decoder(  # type: ignore[misc]
        DatabusReadSettings(schemas=schemas), TableRules({})
    )
    with pytest.raises(Refusal):
        decoder.decode(message_of(layout.v1(1, b"\2", schema=id_of(text)), 0))
    assert agree([layout.v1(1, b"\2", schema=id_of(text))] * 9, schemas=schemas) == 0
