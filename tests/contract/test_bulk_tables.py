"""Tables that differ in nothing but their names are read and written together, as one by one.

A topic of many such tables has as many forms as one table has; whatever tells a table apart after
all (declared types, another key, a name that the target refuses) keeps its messages apart.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.contract.bulk_streams import Stream
from tests.contract.roundtrip import read_settings, rules_for
from tests.contract.test_bulk_avro import Side
from tests.contract.test_exact_is_bulk import (
    NAMES,
    WRITERS,
    converted,
    read,
    read_both_ways,
    same,
    write_both_ways,
)
from tests.histories import column_of, image
from waybill.bulk import forms
from waybill.envelopes import registry
from waybill.records import Change, Message, TableSchema, intern_schema
from waybill.spec.migration import Table, table_rules

SIZE = 240
COLUMNS = [("id", "bigint"), ("name", "varchar(20)"), ("n", "int"), ("at", "datetime(3)")]
ODD = ('sh"op', "Bestellungen ü", "a.b", "back\\slash", "%s")
"""Names of tables beside the usual ones."""
KEYLESS = ("log", "journal")
"""Tables without a key, whose names some message keys are."""
SOURCES = [
    name
    for name in NAMES
    if registry.get(name).encoder is not None
    and name not in ("datahub-tuple", "dms-s3", "debezium-avro", "ibmcdc-avro")
    and not name.startswith("databus")
]
"""Envelopes whose messages name their tables."""


def tables() -> list[TableSchema]:
    made = tuple(column_of(name, kind, "mysql") for name, kind in COLUMNS)
    return [
        *(intern_schema("shop", None, f"people{n}", made, ("id",), "mysql") for n in range(9)),
        intern_schema("shop2", None, "people1", made, ("id",), "mysql"),
        *(intern_schema("shop", None, name, made, ("id",), "mysql") for name in ODD),
        *(intern_schema("shop", None, name, made, None, "mysql") for name in KEYLESS),
    ]


def changes(schemas: list[TableSchema]) -> list[Change]:
    dice = random.Random(3)
    made = []
    for number in range(SIZE):
        schema = dice.choice(schemas)
        row = {"id": str(number), "name": "Ann", "n": str(number % 100)}
        row["at"] = f"2024-02-29T23:59:59.{number:03}"
        now = {**row, "name": "Cleo", "n": dice.choice([row["n"], "7"])}
        operation = dice.choice(("insert", "update", "delete"))
        made.append(
            Change(
                operation,
                schema,
                Message("topic", 0, number, 1_700_000_000_000 + number, None, None),
                before=None if operation == "insert" else image(schema, **row),
                after=None if operation == "delete" else image(schema, **now),
                sequence=(1_700_000_000_000_000_000 + number,),
                source_time=1_700_000_000_000_000 + number * 1_000_000,
            )
        )
    return made


def stream(name: str, folder: str, **declared: Table) -> Stream:
    """Messages of all the tables; one whose name the envelope refuses has none."""
    envelope = registry.get(name)
    written = Side(name).written(folder)
    encoder = envelope.encoder(written)  # type: ignore[misc]
    messages: list[Message] = []
    for change in changes(tables()):
        for one in encoder.encode(change, []):
            place, stamp = len(messages), 1_700_000_000_000 + len(messages)
            messages.append(Message("topic", 0, place, stamp, one.key, one.value, one.headers))
    rules = rules_for(envelope, tables())
    if declared:
        rules = table_rules({f"shop.{table}": rule for table, rule in declared.items()})
    return Stream(messages, rules, read_settings(envelope, written))


@pytest.mark.parametrize("source", SOURCES)
def test_reading(source: str, tmp_path: Any) -> None:
    read_both_ways(source, stream(source, str(tmp_path)))


@pytest.mark.parametrize("target", WRITERS)
def test_writing(target: str, tmp_path: Any) -> None:
    found = read("canal", stream("canal", str(tmp_path / "read")), bulk=True)
    in_bulk = write_both_ways(target, found, str(tmp_path / "written"))
    envelope = registry.get(target)
    encoder = envelope.encoder(Side(target).written(str(tmp_path)))  # type: ignore[misc]
    if envelope.bulk_writer(encoder).names_tables:  # type: ignore[misc]
        assert in_bulk > SIZE * 3 // 4


@pytest.mark.parametrize("target", WRITERS)
def test_converting(target: str, tmp_path: Any) -> None:
    messages = stream("canal", str(tmp_path / "read"))
    expected = converted("canal", target, messages, str(tmp_path / "one"), bulk=False)
    found = converted("canal", target, messages, str(tmp_path / "many"), bulk=True)
    same(expected.pop("made"), found.pop("made"))
    assert found == expected


@pytest.mark.parametrize("name", SOURCES)
def test_carrying_on(name: str, tmp_path: Any) -> None:
    """What the family carries on may name the table too."""
    messages = stream(name, str(tmp_path / "read"))
    expected = converted(name, name, messages, str(tmp_path / "one"), bulk=False)
    assert converted(name, name, messages, str(tmp_path / "many"), bulk=True) == expected


@pytest.mark.parametrize("name", ["maxwell", "ogg", "dms", "oms-default"])
def test_columns_that_nobody_declared(name: str, tmp_path: Any) -> None:
    """Each table has other types until its first values have shown them, and new columns later."""
    stated = stream(name, str(tmp_path))
    dice = random.Random(5)
    messages = []
    for message in stated.messages * 2:
        value, place = message.value or b"", len(messages)
        if dice.random() < 0.2:
            value = value.replace(b'"Cleo"', b"null").replace(b'"Ann"', b"null")
        if place > SIZE and b"people3" in value:
            value = value.replace(b'"n":', b'"more":1,"n":')
        messages.append(Message("topic", 0, place, message.timestamp, message.key, value))
    found = read_both_ways(name, Stream(messages, table_rules({}), stated.settings))
    assert name == "oms-default" or found.in_bulk > SIZE // 2


def test_types_that_values_show_later() -> None:
    """Messages with nulls are still read in bulk once others have shown the type."""
    line = (
        '{"database":"shop","table":"%s","type":"insert","ts":1700000000,"xid":%d,'
        '"data":{"id":%d,"name":%s}}'
    )
    messages = []
    for number in range(360):
        shown = number >= 60 and (number < 120 or number % 3 == 0)
        values = (f"people{number % 2}", number, number, '"Ann"' if shown else "null")
        messages.append(Message("topic", 0, number, None, None, (line % values).encode()))
    found = read_both_ways(
        "maxwell", Stream(messages, table_rules({}), registry.get("maxwell").decode_settings())
    )
    assert found.in_bulk >= 240


def test_declared_and_undeclared_columns_of_one_type() -> None:
    """A declared number may stand in quotes, where an undeclared one would be a text."""
    line = (
        '{"data":{"id":%d,"n":%s},"metadata":{"timestamp":"2024-05-06T07:08:09.123456Z",'
        '"record-type":"data","operation":"insert","partition-key-type":"schema-table",'
        '"schema-name":"shop","table-name":"people%d"}}'
    )
    messages = []
    for number in range(240):
        quoted = number >= 200 or (number >= 120 and number % 2 == 0)
        n = f'"{number}"' if quoted else str(number)
        value = (line % (number, n, number % 2)).encode()
        messages.append(Message("topic", 0, number, None, None, value))
    rules = table_rules({"shop.people0": Table(columns={"n": "number"})})
    read_both_ways("dms", Stream(messages, rules, registry.get("dms").decode_settings()))


def test_tables_that_are_declared_otherwise_are_not_read_the_same_way() -> None:
    envelope = registry.get("maxwell")
    rules = table_rules({"shop.people1": Table(columns={"n": "number"})})
    decoder = envelope.decoder(envelope.decode_settings(), rules)  # type: ignore[misc]
    reader = envelope.bulk_reader(decoder)  # type: ignore[misc]
    first, second, third = tables()[:3]
    assert reader.reads_the_same(first, third)
    assert not reader.reads_the_same(first, second)


def test_one_form_for_all_of_the_same_columns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    learnt = []
    learn = forms.Forms._learn

    def counted(*arguments: Any) -> Any:
        learnt.append(learn(*arguments))
        return learnt[-1]

    monkeypatch.setattr(forms.Forms, "_learn", counted)
    found = read_both_ways("canal", stream("canal", str(tmp_path)))
    assert found.in_bulk == SIZE
    # Inserts, deletes, and updates of two sets of columns; all of them once more without a key.
    assert len(learnt) <= 8


@pytest.mark.parametrize(
    "declared",
    [
        {"people3": Table(key=["name"])},
        {"people3": Table(columns={"n": "string"}), "people5": Table(columns={"n": "string"})},
        {"people0": Table(columns={"n": "int"}), KEYLESS[0]: Table(key=["id"])},
    ],
    ids=["key", "types", "same"],
)
def test_declared_tables_stay_what_they_are(declared: dict[str, Table], tmp_path: Any) -> None:
    messages = stream("canal", str(tmp_path), **declared)
    assert read_both_ways("canal", messages).in_bulk == SIZE
    for target in ("canal", "debezium-json"):
        expected = converted("canal", target, messages, str(tmp_path), bulk=False)
        found = converted("canal", target, messages, str(tmp_path), bulk=True)
        assert found == expected
