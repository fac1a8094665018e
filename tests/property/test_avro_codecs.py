"""Column forms of values of Avro, and of Debezium's JSON, held against what reads a single one."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.property.test_codecs import COLUMNS, in_json, texts_for
from waybill.avro import columns as avro
from waybill.avro.schema import Node, parse, without_null
from waybill.avro.writing import varint
from waybill.bulk.arena import Arena, Texts
from waybill.bulk.column_codecs import ColumnWriter, by_call
from waybill.bulk.value_kinds import BAD
from waybill.envelopes.databus.values import reading as databus
from waybill.envelopes.debezium.avro import events
from waybill.envelopes.debezium.bulk import values as bulk_values
from waybill.envelopes.debezium.connect import SEMANTIC, Field
from waybill.envelopes.debezium.settings import DebeziumReadSettings, DebeziumWriteSettings
from waybill.envelopes.debezium.values.reading import Readings
from waybill.envelopes.debezium.values.writing import Writings
from waybill.envelopes.ibmcdc.values import reading as ibmcdc
from waybill.envelopes.ibmcdc.values.writing import column_writing
from waybill.errors import Refusal
from waybill.types import LogicalType, parse_type
from waybill.values.notation import KNOWN_INTEGERS, integers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.avro.reading import Leaf
    from waybill.bulk.column_codecs import Convert

UNITS = [
    f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")
]
NODES = [
    *("int", "long", "string", "bytes", "double"),
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "time-micros"},
    *({"type": "long", "logicalType": name} for name in UNITS),
    *({"type": "string", "logicalType": name} for name in ("TIMESTAMP", "DECIMAL", "CHARACTER")),
    *(
        {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": scale}
        for scale in (0, 2, 30, 31)
    ),
]
DECLARED = [None, *(parse_type(name) for name in (
    *("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "number", "string"),
    *("decimal(10,2)", "decimal(5,0)", "decimal(3,3)", "float64", "boolean", "timestamp"),
    *("timestamp(3)", "timestamp(6)", "timestamptz", "date", "bytes"),
))]  # fmt: skip
INTEGERS = sorted(
    {
        sign * number + by
        for number in (0, 1, 7, *(2**size for size in (7, 8, 15, 16, 24, 31, 32, 53, 62)),
                       2**63 - 2, *(10**size for size in range(1, 19)), 1_700_000_000_123,
                       62_135_596_800_000, 253_402_300_799_999, 9223372036825200)
        for sign in (1, -1)
        for by in (-1, 0, 1)
    }
    | {2**63 - 1, -(2**63), 9223372036825200000, -9223372036832400000}
)  # fmt: skip
BYTES = [
    b"",
    *(bytes([one]) for one in (0, 1, 127, 128, 255)),
    *(number.to_bytes(9, "big", signed=True) for number in INTEGERS),
    *(number.to_bytes(8, "big", signed=True) for number in INTEGERS),
    bytes(3),
    b"\x7f" * 20,
    b"\xff" * 70,
]


def data_of(node: Node) -> list[bytes]:
    """Values of a type as an arena holds them: varints, or bytes without their length."""
    if node.kind == "int":
        return [varint(number) for number in INTEGERS if -(2**31) <= number < 2**31]
    if node.kind == "long":
        return [varint(number) for number in INTEGERS]
    if node.kind == "string":
        return [text.encode() for text in texts_for(LogicalType("timestamp"))]
    return BYTES


def ibm_leaves() -> Iterator[tuple[str, Node, Leaf]]:
    for schema, declared in itertools.product(NODES, DECLARED):
        node = parse(json.dumps(schema))
        rules = {} if declared is None else {"v": declared}
        try:
            yield "ibmcdc", node, ibmcdc.column_reading("v", node, rules).leaf
        except Refusal:
            continue


def databus_leaves() -> Iterator[tuple[str, Node, Leaf]]:
    for schema, declared in itertools.product(NODES, DECLARED):
        node = parse(json.dumps(schema))
        column = databus.column_of(node)
        leaf = column.leaf if declared is None else databus.declared_leaf(column, declared)
        yield "databus", node, leaf


def readings() -> Iterator[Any]:
    """How Debezium's columns are read, with a schema and without."""
    for temporal, mysql in itertools.product(("adaptive", "connect", "microseconds"), (0, 1)):
        settings = DebeziumReadSettings(temporal=temporal, decimals="string")
        found = Readings(settings, "mysql" if mysql else "postgresql")
        for name, kind in itertools.product(
            (None, *SEMANTIC, "org.apache.kafka.connect.data.Decimal"),
            ("int16", "int32", "int64", "string", "bytes"),
        ):
            for declared in DECLARED:
                try:
                    yield kind, found.of_field(Field(kind, name=name), declared)
                except (ValueError, Refusal):
                    continue
        for kind, declared in itertools.product(("int", "str", "real"), DECLARED[1:]):
            try:
                yield kind, found.of_json(kind, declared)
            except (ValueError, Refusal):
                continue


READINGS = list({(kind, r.convert, r.texts, r.counts, r.type, str(r.wire)): (kind, r)
                 for kind, r in readings()}.values())  # fmt: skip


def debezium_leaves() -> Iterator[tuple[str, Node, Leaf]]:
    for kind, reading in READINGS:
        node = {"int16": "int", "int32": "int", "int": "long", "int64": "long", "str": "string"}
        inner = parse(json.dumps(node.get(kind, kind if kind == "bytes" else "string")))
        try:
            yield "debezium", inner, events._leaf(inner, reading)
        except ValueError:
            continue


LEAVES = [
    found
    for found in (*ibm_leaves(), *databus_leaves(), *debezium_leaves())
    if found[2].column is not None
]


def arena_of(data: list[bytes]) -> tuple[Arena, Texts]:
    arena = Arena(b"")
    starts = [arena.add(one) for one in data]
    lengths = [len(one) for one in data]
    return arena, Texts(np.array(starts, np.int64), np.array(lengths, np.int64))


def agree(data: list[bytes], form: Convert, single: Convert) -> int:
    """Hold both ways against each other; returns how many values the form takes."""
    arena, given = arena_of(data)
    found, expected = form(arena, given), single(arena, arena_of(data)[1])
    taken = np.flatnonzero(found.lengths != BAD).tolist()
    for row in taken:
        assert expected.lengths[row] != BAD, f"{data[row]!r} is refused"
        assert arena.text(found, row) == arena.text(expected, row), data[row]
    return len(taken)


@pytest.mark.parametrize("family", ["ibmcdc", "databus", "debezium"])
def test_forms_of_avro(family):
    """One test each: there are as many leaves as types of the schema times declared types."""
    tried = 0
    for name, node, leaf in LEAVES:
        if name == family:
            inner = without_null(node)
            form = leaf.column.convert()
            taken = agree(data_of(inner), form, avro._each(inner, leaf._replace(column=None)))
            assert taken, f"{leaf.column} takes no value of {inner.kind}"
            tried += 1
    assert tried > 5


def test_forms_of_debezium_json():
    tried = 0
    for kind, reading in READINGS:
        quoted = kind == "str"
        form = reading.texts if quoted else reading.counts
        if form is None or kind not in ("int", "str"):
            continue  # messages with a schema are not read in bulk
        data = [b"%d" % number for number in INTEGERS]
        if quoted:
            data = [in_json(text) for text in texts_for(reading.type)]
        agree(data, form.convert(), bulk_values._each(reading, quoted))
        tried += 1
    assert tried > 5


@pytest.mark.parametrize("temporal", ["adaptive", "connect", "microseconds"])
@pytest.mark.parametrize("unsigned", ["long", "precise", "number"])
def test_what_debezium_writes(temporal, unsigned):
    settings = DebeziumWriteSettings(temporal=temporal, unsigned=unsigned, schemas=False)
    for column in COLUMNS:
        writing = Writings(settings, "mysql").of(column)
        if writing.column is None or writing.convert is None:
            continue
        data = [in_json(text) for text in texts_for(column.type)]
        single = bulk_values._raw_each(writing.convert, writing.integer)
        assert agree(data, writing.column.convert(), single)


def test_texts_that_ibm_cdc_writes():
    tried = 0
    for column in COLUMNS:
        text = column_writing(column, "").text
        if text is None or text.writes is None:
            continue
        put = ColumnWriter(True, text.writes.convert())
        assert put.convert is not None
        data = [in_json(one) for one in texts_for(column.type)]
        assert agree(data, put.convert, by_call(text.write))
        tried += 1
    assert tried > 3


def test_numbers_that_ibm_cdc_writes():
    tried = 0
    for column in COLUMNS:
        writing = column_writing(column, "")
        if writing.form is None:
            continue
        data = [in_json(one) for one in texts_for(column.type)]
        single = avro.bytes_by_call(writing.write, True)
        if writing.type["type"] != "bytes":
            single = as_digits(avro.bytes_by_call(writing.write, False))
        taken = agree(data, writing.form.convert(), single)
        assert taken or writing.type["scale"] > 18, column.type
        tried += 1
    assert tried > 3


def as_digits(varints: Convert) -> Convert:
    """Varints as the digits that the column form leaves to the scanner."""
    digits = avro.counted_by(integers(*KNOWN_INTEGERS))
    return lambda arena, texts: digits(arena, varints(arena, texts))
