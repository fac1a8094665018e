"""Short images say the same as full ones, beside the columns of their rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.errors import Code, LakeError
from waybill.lake.arrow_rows import objects
from waybill.lake.metadata import Metadata, TableShape
from waybill.merge.columns import IMAGE, KEY, OWN_COLUMNS, MergedColumn
from waybill.merge.short_images import (
    ALL,
    MARK,
    MOST,
    NEEDED,
    TEXT_IMAGES,
    full_text_of_row,
    image_columns,
    image_of_row,
    may_leave_out,
)
from waybill.merge.standard_texts import has_standard, standard_text, standard_texts
from waybill.merge.upsert.images import FEWEST
from waybill.merge.upsert.shortening import short_images
from waybill.merge.upsert.values import arrow_type, typed_columns

TEXTS: dict[str, list[str]] = {
    "string": ["", "a", "~", "~19", "=", '"', "\\", "\n", "\x00", "\x7f", "🚚", "null", "é", "{}"],
    "int": ["0", "-0", "007", "2147483647", "-2147483648", "+1"],
    "bigint": ["0", "-9223372036854775808", "9223372036854775807", "0001"],
    "boolean": ["true", "false"],
    "binary": ["", "AA==", "AB==", "////", "a" * 120],
    "decimal(5,2)": ["1.10", "1.1", "1", "-0.01", "0.00", "-0.00", "999.99", "0010.00"],
    "decimal(38,10)": ["0.0000000000", "0.0000000001", "0", "9" * 28 + "." + "9" * 10],
    "date": ["2026-02-28", "0001-01-01", "9999-12-31"],
    "timestamp_ntz": [
        "2026-02-28T01:02:03",
        "2026-02-28 01:02:03",
        "2026-02-28T01:02:03.1",
        "2026-02-28T01:02:03.100",
        "2026-02-28T01:02:03.123456",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59.999999",
    ],
    "timestamp": [
        "2026-02-28T01:02:03Z",
        "2026-02-28 01:02:03Z",
        "2026-02-28T01:02:03.120Z",
        "9999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00Z",
    ],
    "double": ["1.10", "1e3", "0.1"],
    "float": ["1.10", "16777217", "1.0000000596046447753906250000001"],
}
COLUMNS = tuple(MergedColumn(f"c {i} é", f"c {i} é", type_) for i, type_ in enumerate(TEXTS))
NAMES = [column.name for column in COLUMNS]
MAY = [i for i, column in enumerate(COLUMNS) if has_standard(column.type)]


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, str | None] | None]:
    """Rows with every column, in any order, some with others besides; tombstones among them."""
    every: list[dict[str, str | None] | None] = []
    shapes = draw(st.lists(st.permutations(NAMES), min_size=1, max_size=2))
    steady = draw(st.booleans())
    first = {c.name: draw(st.sampled_from([None, *TEXTS[c.type]])) for c in COLUMNS}
    for _ in range(draw(st.integers(0, 3 * FEWEST))):
        if draw(st.integers(0, 9)) == 0:
            every.append(None)
            continue
        row = {name: first[name] for name in draw(st.sampled_from(shapes))}
        if not steady:
            for column in COLUMNS:
                row[column.name] = draw(st.sampled_from([None, *TEXTS[column.type]]))
        if draw(st.integers(0, 9)) == 0:
            row |= {"more": "1", "none": None}
        every.append(row)
    return every


def shortened(
    images: list[str | None], columns: tuple[MergedColumn, ...], may: list[int]
) -> tuple[list[str | None], list[Any]]:
    """Short images of those that are not doubtful, and the values beside them."""
    array = pa.array(images, pa.string())
    values, doubtful, texts = typed_columns(array, columns)
    sure = [None if odd else image for image, odd in zip(images, doubtful, strict=True)]
    short = short_images(
        pa.array(sure, pa.string()),
        *(columns, texts.columns, values, texts.others & ~doubtful, may),
    )
    return short.to_pylist(), values


def read_again(
    short: list[str | None], columns: tuple[MergedColumn, ...], values: list[Any]
) -> Any:
    """What a look into the lake finds in such rows."""
    names = [IMAGE, *(column.lake for column in columns)]
    table = pa.table([pa.array(short, pa.string()), *values], names=names)
    return [None if row[IMAGE] is None else image_of_row(row, "t") for row in objects(table)]


def table_of(types: dict[str, str], properties: dict[str, str]) -> Metadata:
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    return Metadata({}, {}, frozenset(), properties, TableShape(schema={"fields": fields}))


@given(rows(), st.sets(st.sampled_from(MAY)))
def test_what_is_read_of_a_short_image_is_the_row(
    every: list[dict[str, str | None] | None], may: set[int]
) -> None:
    images = [None if row is None else json.dumps(row, separators=(",", ":")) for row in every]
    short, values = shortened(images, COLUMNS, sorted(may))
    found = read_again(short, COLUMNS, values)
    doubtful = typed_columns(pa.array(images, pa.string()), COLUMNS).doubtful
    for row, image, text, odd in zip(every, found, short, doubtful, strict=True):
        assert image == (None if odd else row)
        assert text is None or text.startswith(MARK)


def test_rows_with_the_usual_texts_have_one_and_the_same_image() -> None:
    columns = (
        MergedColumn("id", "id", "bigint"),
        MergedColumn("name", "name", "string"),
        MergedColumn("price", "price", "decimal(10,2)"),
        MergedColumn("at", "at", "timestamp_ntz"),
        MergedColumn("day", "day", "date"),
    )
    usual = [
        {
            "id": str(n),
            "name": f'"{n}"\n',
            "price": f"{n}.10",
            "at": f"2026-02-28T01:02:{n:02}",
            "day": "2026-02-28",
        }
        for n in range(20)
    ]
    usual[7] |= {"price": "7.1", "name": None}
    short, values = shortened([json.dumps(row) for row in usual], columns, [0, 1, 2, 3, 4])
    image = '~{"id":"~","name":"~","price":"~","at":"~19","day":"~"}'
    assert {*short[:7], *short[8:]} == {image}
    assert short[7] == image.replace('"price":"~"', '"price":"=7.1"').replace(
        '"name":"~"', '"name":null'
    )
    assert read_again(short, columns, values) == usual


def test_a_column_that_came_later_is_not_in_rows_of_before() -> None:
    columns = (MergedColumn("id", "id", "int"), MergedColumn("later", "later", "string"))
    short, values = shortened(['{"id":"1"}'], columns[:1], [0])
    assert read_again(short, columns, [*values, pa.array([None], pa.string())]) == [{"id": "1"}]
    null, more = shortened(['{"id":"1","later":null}'], columns, [0, 1])
    assert read_again(null, columns, more) == [{"id": "1", "later": None}]


def test_a_wider_type_of_the_lake_gives_the_same_text() -> None:
    columns = (MergedColumn("id", "id", "int"), MergedColumn("price", "price", "decimal(5,2)"))
    short, (ids, prices) = shortened(['{"id":"-7","price":"1.10"}'], columns, [0, 1])
    wider = [ids.cast(pa.int64()), prices.cast(pa.decimal128(20, 2))]
    assert short == ['~{"id":"~","price":"~"}']
    assert read_again(short, columns, wider) == [{"id": "-7", "price": "1.10"}]


def test_a_full_image_is_read_as_it_is() -> None:
    assert image_of_row({IMAGE: '{"id":"~","b":"=1"}', "id": 5}, "t") == {"id": "~", "b": "=1"}


@pytest.mark.parametrize("code", ["~", "~19", "~19Z"])
@pytest.mark.parametrize("row", [{"at": None}, {}])
def test_a_value_that_is_gone_is_no_null(code: str, row: dict[str, Any]) -> None:
    found = {KEY: '{"id":"5"}', IMAGE: f'~{{"at":"{code}","n":null}}', "id": 5, **row}
    said = r'the row \{"id":"5"\} of lake\.shop\.t has no value in its column at, of which'
    with pytest.raises(LakeError, match=said) as caught:
        image_of_row(found, "lake.shop.t")
    assert caught.value.code is Code.VALUE_LOST
    public = "a row of lake.shop.t has no value in its column at, of which"
    assert caught.value.sentence.startswith(public)
    with pytest.raises(LakeError):
        full_text_of_row(found, "lake.shop.t")
    assert image_of_row({**found, "at": "x" * 30}, "t").keys() == {"at", "n"}


@pytest.mark.parametrize("said", [None, ALL])
def test_nothing_is_left_out_where_nobody_said_so(said: str | None) -> None:
    properties = {} if said is None else {TEXT_IMAGES: said}
    table = table_of({c.lake: c.type for c in COLUMNS}, properties)
    assert may_leave_out(COLUMNS, table, {}) is None


def test_nothing_is_left_out_where_that_saves_nothing_or_takes_too_long() -> None:
    def may(*columns: MergedColumn) -> tuple[int, ...] | None:
        table = table_of({c.lake: c.type for c in columns}, {TEXT_IMAGES: NEEDED})
        return may_leave_out(columns, table, {})

    assert may(MergedColumn("x", "x", "double")) is None
    many = [MergedColumn(f"c{n}", f"c{n}", "int") for n in range(MOST + 1)]
    assert may(*many[:-1]) == (*range(MOST),)
    assert may(*many) is None


def test_only_columns_that_are_the_same_everywhere_are_left_out() -> None:
    columns = (
        MergedColumn("id", "id", "int"),
        MergedColumn("ID", "ID_1234abcd", "int"),
        MergedColumn("wide", "wide", "int"),
        MergedColumn("text", "text", "int"),
        MergedColumn("next", "_waybill_next_next", "int"),
        MergedColumn("size", "size", "double"),
        MergedColumn("none", "none", "int"),
        MergedColumn("new", "new", "int"),
        MergedColumn("moves", "moves", "int"),
    )
    types = {column.lake: column.type for column in columns}
    types |= {"wide": "bigint", "text": "string", "none": "string", "next": "string"}
    becomes = {"_waybill_next_next": "next", "next": "", "moves": "new"}
    assert may_leave_out(columns, table_of(types, {TEXT_IMAGES: NEEDED}), becomes) == (0,)


def test_other_columns_are_read_only_of_tables_that_may_need_them() -> None:
    types = {**OWN_COLUMNS, "id": "int", "size": "double"}
    assert image_columns(table_of(types, {})) == (IMAGE,)
    for said in (ALL, NEEDED):
        assert image_columns(table_of(types, {TEXT_IMAGES: said})) == (IMAGE, "id")


VALUES: dict[str, list[Any]] = {
    "date": [-719_163, -719_162, 0, 2_932_896, 2_932_897, None],
    "timestamp_ntz": [-62_135_596_800_000_001, -62_135_596_800_000_000, -1, 0, None],
    "timestamp": [253_402_300_799_999_999, 253_402_300_800_000_000, 2**62, None],
}


@pytest.mark.parametrize("type_", VALUES)
def test_days_and_times_beyond_the_calendar_have_no_standard_text(type_: str) -> None:
    numbers = pa.array(VALUES[type_], pa.int32() if type_ == "date" else pa.int64())
    values = numbers.cast(arrow_type(type_))
    texts = standard_texts(values, type_).to_pylist()
    read = [row["v"] for row in objects(pa.table({"v": values}))]
    assert texts == [standard_text(value) for value in read]
    assert None in texts[:-1]
