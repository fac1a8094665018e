"""Winners, their values and the rows they meet, without Spark, against plain Python."""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.lake.data_files import DataFileWriter
from waybill.lake.position_deletes import write_deletes
from waybill.lake.stored_files import StoredFile
from waybill.merge.columns import BY_CHANGE, DELETED, GONE, KEY, ORDER, OWN_COLUMNS, MergedColumn
from waybill.merge.exact_casts import fits
from waybill.merge.upsert.stored import look_up
from waybill.merge.upsert.values import exact, typed_columns
from waybill.merge.upsert.winners import (
    CHANGES_READ,
    WINNERS,
    ReducedTable,
    buckets_of,
    reduced,
    winners,
)
from waybill.merge.upsert.writing import (
    DOUBTFUL,
    LARGE,
    WRITTEN,
    UpsertTarget,
    packed,
    unpacked,
    written,
)

KEYS = st.sampled_from(["", "1", "12", "123456789", '{"id":"1"}', "ключ", "ключи"])
ORDERS = st.sampled_from(["1/11/5", "1/12/10", "1/12/9", "", "1/11"])
IMAGES = st.sampled_from(['{"a":"1"}', '{"a":"2"}', "{}", None])
ROWS = st.lists(
    st.tuples(st.integers(0, 2), KEYS, ORDERS, IMAGES, st.booleans()), min_size=0, max_size=40
)


def table_of(rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    rows_of = [
        {"number": n, "key": k, "order": o, "live": i is not None, "image": i, "whole": w}
        for n, k, o, i, w in rows
    ]
    return pa.Table.from_pylist(rows_of, WINNERS)


def newest(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[int, str], tuple[Any, ...]]:
    """As Spark's aggregate has it: the greatest by order, whether it is a row, image, whole."""
    found: dict[tuple[int, str], tuple[Any, ...]] = {}
    for number, key, order, image, whole in rows:
        one = (order.encode(), image is not None, (image or "").encode(), whole)
        found[number, key] = max(found.get((number, key), one), one)
    return found


def by_key(table: pa.Table) -> dict[tuple[int, str], tuple[Any, ...]]:
    found = {
        (r["number"], r["key"]): (
            r["order"].encode(), r["live"], (r["image"] or "").encode(), r["whole"]
        )
        for r in table.to_pylist()
    }  # fmt: skip
    assert len(found) == table.num_rows
    return found


@given(ROWS, st.integers(0, 40))
def test_the_newest_of_every_key_wins_however_rows_are_cut(rows, cut):
    table = table_of(rows)
    assert by_key(reduced(table)) == newest(rows)
    parts = [reduced(table.slice(0, cut)), reduced(table.slice(cut))]
    assert by_key(reduced(pa.concat_tables(parts))) == newest(rows)


@given(ROWS)
def test_every_winner_goes_to_one_bucket_of_its_table(rows):
    table = reduced(table_of(rows))
    if not table.num_rows:
        return
    counts = {0: 1, 1: 3, 2: 7}
    dealt = list(buckets_of(table, counts))
    assert all(0 <= bucket < counts[number] for number, bucket, _ in dealt)
    assert by_key(pa.concat_tables([part for _, _, part in dealt])) == by_key(table)
    again = list(buckets_of(table.slice(table.num_rows // 2), counts))
    place = {key: bucket for number, bucket, part in dealt for key in by_key(part)}
    assert all(place[key] == bucket for _, bucket, part in again for key in by_key(part))


def test_only_rows_of_wanted_tables_above_their_truncate_count():
    rows = [
        ("db", None, "t", "x", "1", "1/2", "insert", '{"a":"1"}'),
        ("db", None, "t", "x", "1", "1/3", "delete", None),
        ("db", None, "t", "x", "2", "1/1", "insert", '{"a":"1"}'),
        ("db", None, "t", "x", None, "1/9", "ddl", None),
        ("db", "s", "t", "x", "9", "1/2", "insert", '{"a":"9"}'),
        (None, None, None, "topic", "7", "1/2", "update", None),
        ("", None, "u", "x", "8", "1/2", "read", "{}"),
    ]
    names = CHANGES_READ
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows],
        pa.schema([(name, pa.string()) for name in names]),
    )
    tables = {
        "db.t": ReducedTable(0, 1, "1/1"),
        "topic": ReducedTable(1, 1, ""),
        ".u": ReducedTable(2, 1, ""),
    }
    (found,) = winners([batch], tables)
    kept = [(r["number"], r["key"], r["live"], r["image"], r["whole"]) for r in found.to_pylist()]
    assert sorted(kept) == [
        (0, "1", False, None, False),
        (1, "7", True, "{}", False),
        (2, "8", True, "{}", True),
    ]


TWICE_ROUNDED = "1.0000000596046447753906250000001"
"""Just above the middle of two floats, which is the nearest double."""
TYPES = (
    *("boolean", "int", "bigint", "float", "double", "binary", "date"),
    *("timestamp_ntz", "timestamp", "decimal(5,2)", "decimal(38,0)", "decimal(4,4)"),
)
TEXTS = st.one_of(
    st.sampled_from(
        [
            *(
                "true",
                "false",
                "TRUE",
                "0",
                "-0",
                "007",
                "+1",
                "1.",
                ".5",
                "1e5",
                "1E400",
            ),
            "1e-400",
            *(
                "2147483647",
                "2147483648",
                "-2147483648",
                "9223372036854775807",
                "1e",
                "NaN",
            ),
            "1e-400",
            *("9223372036854775808", "3.4028235e38", "3.5e38", "1e-46", "0.00", "-Infinity"),
            TWICE_ROUNDED,
            *("0000-02-29", "0000-12-31", "0000-02-30", "0000-00-00", "0000-02-29 00:00:00.5Z"),
            *("0000-01-01T00:00:00", "0000-12-31 23:59:59.999999Z"),
            *("2026-02-28", "2026-02-30", "0000-01-01", "0001-01-01", "10000-01-01", "-0044-03-15"),
            *("2026-01-01 00:00:00", "2026-01-01T24:00:00", "2026-01-01 23:59:60", "2026-1-1"),
            *("2026-01-01 00:00:00.123456", "2026-01-01 00:00:00.1234560", "2026-01-01 00:00"),
            *("2026-01-01 00:00:00Z", "2026-01-01 00:00:00.5Z", "2026-01-01 00:00:00+02:00"),
            *("YQ==", "YQ=", "YQ", "", " 1", "1 ", "１", "123.45", "1234.5", "0.12345", "999.995"),
        ]
    ),
    st.integers(-(10**40), 10**40).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.floats(allow_nan=False).map(repr),
    st.datetimes().map(lambda t: t.isoformat(sep=" ")),
    st.binary().map(lambda b: base64.b64encode(b).decode()),
    st.text(max_size=5),
    st.none(),
)


CYCLE = 400
"""Years after which the calendar repeats itself."""
DAY = 24 * 60 * 60 * 1_000_000
"""Microseconds of a day."""
TIMES = ("date", "timestamp_ntz", "timestamp")


def counted(text: str, type_: str) -> int:
    """Days, or microseconds, from 1970 to a time: Python has none of the year 0."""
    early = text.startswith("0000")
    moment = dt.datetime.fromisoformat(f"{CYCLE:04}{text[4:]}" if early else text)
    epoch = dt.datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    cycle = dt.date(1 + CYCLE, 1, 1) - dt.date(1, 1, 1)
    passed = moment - epoch - cycle * early
    return passed // dt.timedelta(days=1) if type_ == "date" else passed // dt.timedelta.resolution


def nearest_float(text: str) -> float:
    """The 32-bit number nearest to a text; of two equally near ones that whose last bit is 0.

    By way of the nearest 64-bit number it would be rounded twice.
    """
    near = np.float32(text)
    around = [near, np.nextafter(near, np.float32("inf")), np.nextafter(near, np.float32("-inf"))]
    exactly = Fraction(text)

    def rank(one: np.float32) -> tuple[Fraction, int]:
        (bits,) = struct.unpack("<I", struct.pack("<f", one))
        return abs(Fraction(float(one)) - exactly), bits & 1

    return float(min((one for one in around if np.isfinite(one)), key=rank))


def value_of(text: str, type_: str) -> Any:
    """The value of a plain text, by Python's own means; of a time as `counted` has it."""
    if type_ == "boolean":
        return text == "true"
    if type_ in ("int", "bigint"):
        return int(text)
    if type_ == "double":
        return float(text)
    if type_ == "float":
        return nearest_float(text)
    if type_ == "binary":
        return base64.b64decode(text)
    if type_ in TIMES:
        return counted(text, type_)
    return Decimal(text)


@pytest.mark.parametrize("type_", TYPES)
@given(texts=st.lists(TEXTS, max_size=12))
def test_what_is_not_doubtful_is_exactly_its_value(type_, texts):
    values, doubtful = exact(pa.array(texts, pa.string()), type_)
    if type_ in TIMES:
        values = values.cast(pa.int32() if type_ == "date" else pa.int64())
    for text, value, odd in zip(texts, values.to_pylist(), doubtful, strict=True):
        if text is None or odd:
            assert value is None
            assert not (text is None and odd)
        else:
            assert fits(text, type_)
            assert value == value_of(text, type_)


def test_a_float_is_rounded_once():
    """To the next of 1, as Java has it, and not to 1 by way of a double."""
    (value,) = exact(pa.array([TWICE_ROUNDED], pa.string()), "float")[0].to_pylist()
    assert value == nearest_float(TWICE_ROUNDED) == 1 + 2**-23
    assert np.float32(float(TWICE_ROUNDED)) == 1


@pytest.mark.parametrize(
    ("type_", "text", "number"),
    [
        ("date", "0000-01-01", -719_528),
        ("date", "0000-02-29", -719_469),
        ("date", "0000-12-31", -719_163),
        ("timestamp_ntz", "0000-01-01T00:00:00", -719_528 * DAY),
        ("timestamp_ntz", "0000-02-29 00:00:00.000001", -719_469 * DAY + 1),
        ("timestamp", "0000-12-31 23:59:59.999999Z", -719_162 * DAY - 1),
    ],
)
def test_times_of_the_year_0_are_those_of_the_calendar_without_a_gap(type_, text, number):
    """As Spark has them: a leap year, whose last day is the one before the year 1."""
    values, doubtful = exact(pa.array([text], pa.string()), type_)
    assert (fits(text, type_), doubtful.tolist()) == (True, [False])
    assert values.cast(pa.int32() if type_ == "date" else pa.int64()).to_pylist() == [number]
    assert value_of(text, type_) == number


@pytest.mark.parametrize(
    ("type_", "text"), [("date", "0000-02-30"), ("timestamp", "0000-00-00 00:00:00Z")]
)
def test_what_is_no_day_of_the_year_0_is_doubtful(type_, text):
    _, doubtful = exact(pa.array([text], pa.string()), type_)
    assert (fits(text, type_), doubtful.tolist()) == (False, [True])


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int", "2147483647"),
        ("bigint", "-9223372036854775808"),
        ("decimal(5,2)", "-123.4"),
        ("double", "1.5e10"),
        ("float", "1.5e10"),
        ("date", "2026-02-28"),
        ("timestamp_ntz", "2026-02-28T01:02:03.000001"),
        ("timestamp", "2026-02-28 01:02:03Z"),
        ("binary", "YQ=="),
    ],
)
def test_usual_texts_are_not_doubtful(type_, text):
    _, doubtful = exact(pa.array([text, None, "?" * 40], pa.string()), type_)
    assert doubtful.tolist() == [False, False, True]


def test_images_become_columns_and_what_leaves_one_out_is_doubtful():
    columns = (MergedColumn("id", "id", "int"), MergedColumn('na"me', "name", "string"))
    images = [
        json.dumps({"id": "1", 'na"me': "x"}),
        None,
        json.dumps({"id": "2"}),
        json.dumps({'na"me': None, "id": None, "more": "1"}),
        json.dumps({"id": "two", 'na"me': ""}),
    ]
    (ids, names), doubtful, _ = typed_columns(pa.array(images, pa.string()), columns)
    assert ids.to_pylist() == [1, None, 2, None, None]
    assert names.to_pylist() == ["x", None, None, None, ""]
    assert doubtful.tolist() == [False, False, True, False, True]


# Rows that are there


@given(
    st.lists(st.tuples(KEYS, ORDERS, st.booleans()), max_size=30),
    st.dictionaries(KEYS, ORDERS, max_size=6),
    st.integers(1, 7),
    st.integers(1, 3),
)
def test_winners_meet_the_rows_that_live(tmp_path_factory, there, wanted, group_rows, files):
    """Rows of several files and row groups, some of them deleted."""
    folder = tmp_path_factory.mktemp("table")
    stored, gone = [], {}
    for number in range(files):
        mine = there[number::files]
        path = str(folder / f"{number}.parquet")
        keys, orders = [row[0] for row in mine], [row[1] for row in mine]
        table = pa.table({KEY: pa.array(keys, pa.string()), ORDER: pa.array(orders, pa.string())})
        pq.write_table(table, path, row_group_size=group_rows)
        gone[number] = [place for place, row in enumerate(mine) if row[2]]
        writer = DataFileWriter(str(folder), str(folder), pa.schema([]), ())
        deletes = [
            write_deletes(writer, StoredFile(path, path), gone[number]),
            write_deletes(writer, StoredFile(f"{path}.other", path), [0, 1, 2]),
        ]
        stored.append(StoredFile(path, path, tuple(delete.path for delete in deletes)))
    keys, orders = list(wanted), list(wanted.values())
    found = look_up(stored, pa.array(keys, pa.string()), pa.array(orders, pa.string()))
    newer, replaced = set(), {}
    for number in range(files):
        for place, (key, order, deleted) in enumerate(there[number::files]):
            if key not in wanted or deleted:
                continue
            if order.encode() < wanted[key].encode():
                replaced.setdefault(number, []).append(place)
            else:
                newer.add(key)
    assert {key for key, is_newer in zip(keys, found.newer, strict=True) if is_newer} == newer
    assert {number: places.tolist() for number, places in found.replaced.items()} == replaced


# Writing


def written_of(folder, rows, *bounds, most_held=10_000) -> list[dict[str, Any]]:
    """What a task tells of winners that came in one piece each."""
    schema = pa.schema(
        [
            *(
                (name, pa.bool_() if kind == "boolean" else pa.string())
                for name, kind in OWN_COLUMNS.items()
            ),
            ("id", pa.int32()),
        ]
    )
    writer = DataFileWriter(str(folder), str(folder), schema, ())
    target = UpsertTarget((MergedColumn("id", "id", "int"),), "b1", writer, (), *bounds)
    kinds = {"part": pa.int32(), "number": pa.int32(), "bucket": pa.int32(), "winners": pa.binary()}
    given = [
        {"part": 0, "number": 0, "bucket": bucket, "winners": packed(table_of(piece))}
        for bucket, piece in rows
    ]
    batch = pa.RecordBatch.from_pylist(given, pa.schema(list(kinds.items())))
    return [row for found in written({0: target}, most_held)([batch]) for row in found.to_pylist()]


@pytest.mark.parametrize(("most", "size"), [(1, 10_000), (2, 40), (2, 10_000)])
def test_winners_in_doubt_are_handed_back_as_long_as_they_are_few(tmp_path, most, size):
    rows = [
        (0, "1", "1/2", '{"id":"1"}', True),
        (0, "2", "1/2", '{"id":"two"}', True),
        (0, "3", "1/2", "{}", False),
        (0, "4", "1/3", None, False),
    ]
    found = written_of(tmp_path, [(0, rows)], most, size)
    doubtful = [row for row in found if row["kind"] == DOUBTFUL]
    files = [row for row in found if row["kind"] == WRITTEN]
    assert [row["rows"] for row in doubtful] == [2]
    if most == 1 or size == 40:
        assert (doubtful[0]["content"], files) == (None, [])
        return
    assert {row["key"] for row in unpacked(doubtful[0]["content"]).to_pylist()} == {"2", "3"}
    (file,) = files
    table = pq.read_table(file["path"]).to_pylist()
    assert [(row[KEY], row[DELETED], row["id"], row[GONE]) for row in table] == [
        ("1", False, 1, None),
        ("4", True, None, BY_CHANGE),
    ]


def test_a_part_of_the_keys_that_a_task_cannot_hold_is_left(tmp_path):
    """Its neighbours are written, and what comes of it behind the bound is not kept either."""
    large = [(0, f"{n}", "1/2", json.dumps({"id": "1", "d": "x" * 2000}), True) for n in range(5)]
    small = [(0, "7", "1/2", '{"id":"7"}', True)], [(0, "8", "1/2", '{"id":"8"}', True)]
    pieces = [(0, small[0]), *((1, [one]) for one in large), (2, small[1])]
    found = written_of(tmp_path, pieces, 100, 10_000, most_held=3000)
    assert [(row["kind"], row["rows"]) for row in found] == [(WRITTEN, 1), (LARGE, 0), (WRITTEN, 1)]
