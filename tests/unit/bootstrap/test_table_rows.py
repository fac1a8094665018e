"""Rows of merged tables as what a new target begins with."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from waybill.bootstrap.joined_types import joined_type
from waybill.bootstrap.table_definitions import (
    dates_in,
    extra_of_connector,
    not_in_all,
    whole_schema,
)
from waybill.bootstrap.table_rows import READ, RowsOfTable
from waybill.merge.columns import MergedColumn
from waybill.merge.state import TableState
from waybill.order import order_key, read_order_key, read_position
from waybill.records import Column, intern_schema
from waybill.types import parse_type

ORDERED = order_key((7, 3), 1, 2, 40, 5)
PLACED = order_key(None, 1, 2, 41, 0)
FULL = order_key(None, 1, 0, 3, 0, full_row=True)


def rows(*stored: tuple[Any, ...], **fields: Any) -> list[dict[str, Any]]:
    given: dict[str, Any] = {
        "topic": "bootstrap:t",
        "batch": "b2-bootstrap",
        "names": ("shop", None, "orders"),
        "schema_id": "s",
        "columns": ("id", "v", "w"),
        "key": ("id",),
        "operation": "read",
        "extra": None,
        "came_up": {},
        "bag": False,
        "timed": False,
        "numbered": False,
    }
    columns = zip(*stored, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, TYPES, strict=True)]
    batches = pa.table(arrays, names=list(READ)).to_batches(2)
    return [
        row for batch in RowsOfTable(**{**given, **fields}).of(batches) for row in batch.to_pylist()
    ]


TYPES = (pa.string(), pa.string(), pa.string(), pa.int64())


def test_a_row_stands_where_its_newest_change_stood_and_keeps_its_order():
    (row,) = rows(('{"id":"1"}', ORDERED, '{"v":null,"id":"1"}', None))
    assert (row["topic"], row["partition"], row["offset"], row["index"]) == (
        "bootstrap:t",
        2,
        40,
        5,
    )
    assert (row["operation"], row["outcome"], row["order_key"]) == ("read", "bootstrap", ORDERED)
    assert (row["key"], row["before"], row["after"]) == ('{"id":"1"}', None, '{"id":"1","v":null}')
    assert (row["database"], row["schema"], row["table"]) == ("shop", None, "orders")


def test_rows_with_one_position_stand_in_several_topics():
    found = rows(*(('{"id":"1"}', order, "{}", None) for order in (PLACED, PLACED, PLACED, FULL)))
    assert [row["topic"] for row in found] == [
        "bootstrap:t",
        "bootstrap:t~1",
        "bootstrap:t~2",
        "bootstrap:t",
    ]


def test_numbered_rows_stand_at_their_number():
    found = rows(*((None, ORDERED, "{}", n) for n in (0, 5)), bag=True)
    assert [(row["partition"], row["offset"], row["key"]) for row in found] == [
        (0, 0, None),
        (0, 5, None),
    ]
    # One of equal rows is none of the changes, so it is older than all of them.
    assert {read_order_key(row["order_key"]) for row in found} == {(None, 1, True)}


@pytest.mark.parametrize(("numbered", "is_full"), [(True, False), (False, True)])
def test_without_an_id_a_row_is_older_than_all_unless_its_position_makes_one(numbered, is_full):
    (row,) = rows(("{}", PLACED, "{}", None), numbered=numbered)
    assert read_order_key(row["order_key"]) == (None, 1, is_full)
    assert read_position(row["order_key"]) == (2, 41, 0)
    (row,) = rows(("{}", FULL, "{}", None), numbered=numbered)
    assert row["order_key"] == FULL


def test_an_order_by_source_time_is_no_id_of_the_source():
    micros = 1_700_000_000_123_456
    timed = order_key((micros,), 1, 2, 41, 0)
    (row,) = rows(("{}", timed, "{}", None), timed=True, numbered=True)
    assert row["order_key"] == PLACED
    assert row["source_time"] == datetime.fromtimestamp(1_700_000_000, UTC).replace(
        microsecond=123_456
    )


def test_an_order_by_a_time_that_no_calendar_has_gives_the_time_back():
    micros = 1_700_000_000_000_000_000
    timed = order_key((micros,), 1, 2, 41, 0)
    stored = zip(("{}", timed, "{}", None), TYPES, strict=True)
    given = [pa.array([value], kind) for value, kind in stored]
    fields = {"topic": "t", "batch": "b", "names": ("shop", None, "t"), "schema_id": "s"}
    fields |= {"columns": (), "key": (), "operation": "read", "extra": None, "came_up": {}}
    made = RowsOfTable(**fields, bag=False, timed=True, numbered=True)
    (batch,) = made.of(pa.table(given, names=list(READ)).to_batches())
    assert batch.column("source_time").cast(pa.int64()).to_pylist() == [micros]


def test_columns_that_are_not_there():
    came = {"w": ORDERED}
    newer = order_key((8,), 1, 0, 0, 0)
    stored = [("{}", order, '{"id":"1","gone":"x"}', None) for order in (ORDERED, newer)]
    # Only the first can lack the column because nobody knew it.
    assert [row["after"] for row in rows(*stored, came_up=came)] == [
        '{"id":"1","w":null}',
        '{"id":"1"}',
    ]
    assert rows(*stored, bag=True)[0]["after"] == '{"id":"1","v":null,"w":null}'


def test_a_deleted_row_is_its_key():
    (row,) = rows(('{"id":"4"}', ORDERED, None, None), operation="delete")
    assert (row["before"], row["after"], row["order_key"]) == ('{"id":"4"}', None, ORDERED)


def schema(*columns: Column, key: tuple[str, ...] | None = ("id",)) -> Any:
    return intern_schema("shop", None, "orders", columns, key, "mysql")


def test_a_table_has_each_column_as_its_newest_change_described_it():
    id_, small, wide = (
        Column("id", parse_type("int64"), "bigint"),
        Column("v", parse_type("string"), "varchar(9)"),
        Column("v", parse_type("string"), "varchar(90)"),
    )
    old, gone = Column("old"), Column("gone")
    names = ("id", "old", "gone", "v", "declared")
    state = TableState(
        key=("id",),
        columns=tuple(MergedColumn(name, name, "string") for name in names),
        dropped={"gone": ORDERED},
    )
    found = whole_schema(state, [schema(wide), schema(id_, small, old, gone)])
    assert found is schema(wide, id_, old, Column("declared"))
    assert whole_schema(state, []) is None


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        (None, None),
        ('{"oms":{"dbType":"x"}}', None),
        ('{"debezium":{"source":{"connector":"mysql","file":"b"}}}', '{"connector":"mysql"}'),
    ],
)
def test_the_connector_of_ids(extra, found):
    assert extra_of_connector(extra) == found


@pytest.mark.parametrize(
    ("types", "joined"),
    [
        ("int32", "int32"),
        ("int32 int64", "int64"),
        ("int64 int32", "int64"),
        ("uint32 int32", "int64"),
        ("uint64 int8", "decimal(20,0)"),
        ("decimal(10,2) decimal(15,4)", "decimal(15,4)"),
        ("decimal(10,2) decimal(6,4)", "decimal(12,4)"),
        ("int64 decimal(10,2)", "decimal(21,2)"),
        ("float32 float64", "float64"),
        ("timestamp date", "timestamp"),
        ("date timestamp", "timestamp"),
        ("int32 string", "string"),
        ("timestamp timestamptz", "string"),
        ("unknown int32", "int32"),
        ("unknown unknown", "unknown"),
        ("date timestamp string", "string"),
    ],
)
def test_a_type_holds_the_texts_of_all_that_were_stated(types, joined):
    assert str(joined_type(parse_type(type_) for type_ in types.split())) == joined


def test_a_date_in_a_column_of_timestamps_is_its_midnight():
    id_, day = Column("id", parse_type("int64")), Column("v", parse_type("date"), "date")
    moment = Column("v", parse_type("timestamp"), "datetime")
    old = intern_schema("shop", None, "orders", (id_, day), ("id",))
    new = intern_schema("shop", None, "orders", (id_, moment), ("id",))
    assert dates_in(new, [new, old]) == {"v"}
    assert dates_in(new, [new]) == frozenset()
    texts = ["2020-01-01", "2020-01-01T05:00:00", "0000-00-00", None]
    found = rows(
        *(
            (f'{{"id":"{n}"}}', ORDERED, json.dumps({"id": f"{n}", "v": text}), None)
            for n, text in enumerate(texts)
        ),
        dates=frozenset({"v"}),
    )
    assert [json.loads(row["after"])["v"] for row in found] == [
        "2020-01-01T00:00:00",
        "2020-01-01T05:00:00",
        "0000-00-00T00:00:00",
        None,
    ]


def test_what_only_some_of_joined_tables_have_is_null_in_the_others():
    id_, v = Column("id", parse_type("int64")), Column("v", parse_type("string"))
    first = intern_schema("shop", None, "orders", (id_,), ("id",))
    other = intern_schema("shop", None, "orders", (id_, v), ("id",))
    assert not_in_all([first, other]) == {"v"}
    assert not_in_all([other]) == frozenset()
    (row,) = rows(('{"id":"1"}', ORDERED, '{"id":"1"}', None), lacking=frozenset({"v"}))
    assert json.loads(row["after"]) == {"id": "1", "v": None}
