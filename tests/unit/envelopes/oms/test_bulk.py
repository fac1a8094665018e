"""What OMS' messages mean does not hang on those before, be they read at once or one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from waybill.bulk.block import Block
from waybill.envelopes import registry
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type


def canal(row: dict[str, Any]) -> bytes:
    types = {"id": "int64", "name": "varchar"}
    message = {"database": "shop", "data": [row], "old": None, "mysqlType": types, "type": "INSERT"}
    rest = {"pkNames": ["id"], "sqlType": None, "table": "t", "es": 1000, "isDdl": False}
    return dumped({**message, **rest})


def dataworks(row: dict[str, Any]) -> bytes:
    columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "varchar"}]
    source = {"dbType": "mysql", "dbName": "shop", "table": "t"}
    payload = {"before": None, "after": {"data": row}, "op": "INSERT", "scn": "7"}
    schema = {"source": source, "column": columns, "pk": ["id"]}
    return dumped({"version": "2.0", "schema": schema, "payload": payload})


def shareplex(data: dict[str, Any], key: dict[str, Any] | None = None) -> bytes:
    message = {"data": data, "meta": {"op": "upd" if key else "ins", "table": "shop.t"}}
    return dumped(message if key is None else {**message, "key": key})


def dumped(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


@pytest.mark.parametrize(("source", "made"), [("oms-canal", canal), ("oms-dataworks", dataworks)])
def test_a_column_without_a_type_stays_with_its_message(source, made):
    """A message is of the table that it describes, not of that of a message before it."""
    envelope = registry.get(source)
    decoder = envelope.decoder(envelope.decode_settings(), TableRules({}))  # type: ignore[misc]

    def names(row: dict[str, Any]) -> list[tuple[str, str]]:
        (change,) = decoder.decode(Message("t", 0, 0, None, None, made(row)))
        return [(column.name, str(column.type)) for column in change.schema.columns]

    stated = [("id", "int64"), ("name", "string")]
    for _ in range(2):
        assert names({"id": 1, "name": "a"}) == stated
        assert names({"id": 1, "name": "a", "more": 5}) == [*stated, ("more", "number")]
        assert names({"id": 1, "name": "a", "more": None}) == [*stated, ("more", "unknown")]
        assert names({"id": 1, "name": "a", "more": "x"}) == [*stated, ("more", "string")]


@pytest.mark.parametrize("source", ["oms-default", "oms-extended"])
@pytest.mark.parametrize("number", ["0", "-0", " -0", "7"])
def test_what_is_carried_on_stands_as_it_came(source, number):
    """Also where messages like it were decoded before: -0 is another integer then."""
    envelope = registry.get(source)
    settings = envelope.decode_settings(sequence_ids="none")
    decoder = envelope.decoder(settings, TableRules({}))  # type: ignore[misc]
    meta = {"table_name": "t", "db": "shop", "record_primary_key": "id", "timestamp": "1"}
    light = {"__light_type": {"id": {"schemaType": "INT32"}}} if source == "oms-extended" else {}
    row = {"id": 1, **light}
    message = dumped({"recordType": "INSERT", "postStruct": row, "allMetaData": meta})
    sent = message.replace(b'"allMetaData":{', f'"allMetaData":{{"checkpoint":{number},'.encode())
    settings = {decoder.decode(Message("t", 0, 0, None, None, sent))[0].extra for _ in range(3)}
    assert settings == {f'{{"oms":{{"checkpoint":{number.strip()}}}}}'.encode()}


def test_columns_that_come_later_join_the_table():
    """Forms that were learnt before are read by the columns that the decoder knows by now."""
    kinds = {"id": "int64", "name": "string", "more": "number"}
    declared = {name: parse_type(kind, "") for name, kind in kinds.items()}
    rules = TableRules({"shop.t": TableRule(("id",), declared)})
    lines = [shareplex({"id": i, "name": f"a{i}"}) for i in range(40)]
    lines += [shareplex({"name": f"b{i}"}, {"id": i, "name": f"a{i}"}) for i in range(40)]
    lines += [shareplex({"id": 1, "more": 1.5, "name": "c"})]
    lines += lines[:81] * 3
    expected, found = outcome(lines, rules, False), outcome(lines, rules, True)
    assert found[0] == expected[0]
    assert found[1] == expected[1]
    assert found[2] > 150


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "target", ["oms-default", "oms-extended", "oms-canal", "oms-dataworks", "oms-shareplex"]
)
def test_zeros_at_the_end_of_a_fraction_are_not_written_by_any_of_them(target, keep):
    kinds = {"id": "int", "t": "time(6)", "dt": "datetime(6)", "ts": "timestamp(6)"}
    rest = {"pkNames": ["id"], "isDdl": False, "old": None, "type": "INSERT", "es": 1, "ts": 1}
    place = {"database": "shop", "table": "t", "mysqlType": kinds, **rest}

    def line(i: int) -> bytes:
        fraction = f"{i * 1000:06d}" if i else "000000"
        clock = f"10:00:00.{fraction}"
        times = {"t": clock, "dt": f"2020-01-01 {clock}", "ts": f"2020-01-01 {clock}"}
        return dumped({**place, "data": [{"id": str(i), **times}]})

    lines, rules = [line(i) for i in range(120)], TableRules({})
    between = {"source": "canal", "target": target, "written": {"trailing_zeros": keep}}
    expected = outcome(lines, rules, False, **between)
    found = outcome(lines, rules, True, **between)
    assert found == (*expected[:2], 120)
    texts = b"".join(value for _, value in expected[0])
    kept = [b'"10:00:00.020000"', b'"2020-01-01 10:00:00.000000"', b'"1577872800.020000"']
    short = [b'"10:00:00.02"', b'"2020-01-01 10:00:00"', b'"1577872800.02"']
    assert [text in texts for text in kept] == [keep] * 3
    assert [text in texts for text in short] == [not keep] * 3


def outcome(
    lines: list[bytes],
    rules: TableRules,
    bulk: bool,
    source: str = "oms-shareplex",
    target: str = "oms-dataworks",
    written: dict[str, Any] | None = None,
) -> tuple[list[Any], Any, int]:
    reads, writes = registry.get(source), registry.get(target)
    read = {"sequence_ids": "none"} if source == "oms-shareplex" else {}
    settings: list[Any] = [reads.decode_settings(**read), writes.encode_settings(**written or {})]
    converter = Converter(reads, writes, rules, *settings, lambda *_: pytest.fail("refused"))
    in_bulk = BulkConverter(reads, writes, converter, fewest=1)
    messages = [Message("t", 0, i, 1000, None, line) for i, line in enumerate(lines)]
    made: list[Any] = []
    for first in range(0, len(messages), 27):
        part = messages[first : first + 27]
        if not bulk:
            out: list[Any] = []
            converter.convert(part, out, [])
            made += [(one.key, one.value) for one in out]
            continue
        values = [message.value or b"" for message in part]
        ends = np.cumsum([len(value) for value in values])
        offsets = np.array([message.offset for message in part])
        begins, zeros = ends - [len(value) for value in values], np.zeros_like(offsets)
        block = Block(
            b"".join(values), begins, ends, zeros, offsets, zeros + 1000, part.__getitem__
        )
        keys, texts = in_bulk.convert(block).arrays()
        made += zip(keys.to_pylist(), texts.to_pylist(), strict=True)
    return made, +converter.account.losses, in_bulk.in_bulk
