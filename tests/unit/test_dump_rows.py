"""Rows of dumps: every value exact, null and empty apart, errors that name the file."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waybill.convert.full_loads import WithFullLoads
from waybill.errors import ConfigurationError, Refusal, SourceError
from waybill.full_load import HEADER, FullLoad
from waybill.records import Message
from waybill.sources.dump_rows import dump_rows, dump_types
from waybill.sources.dumps import plan_dumps
from waybill.sources.streams import opened
from waybill.spec import Dump, Table, table_rules


def rows_of(path):
    with opened(str(path)) as stream:
        return [row for part in dump_rows(str(path), stream) for row in part]


def test_csv_tells_null_from_empty_and_keeps_digits(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('id,amount,"a ""b"""\r\n1,1.10,\r\n02,"","x\ny"\r\n3,NaN,é\r\n'.encode())
    assert [msgspec.json.decode(row) for row in rows_of(path)] == [
        {"id": "1", "amount": "1.10", 'a "b"': None},
        {"id": "02", "amount": "", 'a "b"': "x\ny"},
        {"id": "3", "amount": "NaN", 'a "b"': "é"},
    ]


def test_packed_csv(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"id\n7\n"))
    assert rows_of(path) == [b'{"id":"7"}']


@pytest.mark.parametrize("data", [b"id,n\n1\n", b"id\n\xff\n", b"id,id\n1,2\n", b""])
def test_csv_that_cannot_be_read(tmp_path, data):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"t\.csv (cannot be read as CSV|has several columns)"):
        rows_of(path)


def test_lines_stay_as_they_are(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"n": 1.10}\n\n{"n":null }')
    assert rows_of(path) == [b'{"n": 1.10}', b'{"n":null }']


PARQUET = pa.table(
    {
        "u": pa.array([2**64 - 1, None], pa.uint64()),
        "d": pa.array([Decimal("1.10"), Decimal("-0.05")], pa.decimal128(30, 2)),
        "f": pa.array([0.1, float("nan")], pa.float32()),
        "g": pa.array([1e300, -0.0], pa.float64()),
        "b": pa.array([b"\0\xff", b""], pa.binary()),
        "s": pa.array(["", None], pa.string()),
        "t": pa.array([1577934245600000, None], pa.timestamp("us")),
        "z": pa.array([datetime(2020, 1, 2, tzinfo=UTC), None], pa.timestamp("us", "Asia/Tokyo")),
        "day": pa.array([date(1, 1, 1), None], pa.date32()),
        "yes": pa.array([True, False]),
        "list": pa.array([[1, 2], None], pa.list_(pa.int64())),
    }
)


def test_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(PARQUET, path)
    load = FullLoad("shop.public.t", None, dump_types(str(path)))
    rules = table_rules({"shop.public.t": Table(key=["u"])})
    decoder = WithFullLoads(None, rules)
    changes = [
        decoder.decode(Message(load.topic, 0, n, None, None, row, [(HEADER, load.to_header())]))[0]
        for n, row in enumerate(rows_of(path))
    ]
    first, second = (msgspec.structs.astuple(change.after) for change in changes)
    assert first == (
        *("18446744073709551615", "1.10", "0.1", "1e+300", "AP8=", ""),
        *("2020-01-02T03:04:05.600000", "2020-01-02T00:00:00Z", "0001-01-01", "true", "[1,2]"),
    )
    assert second == (*(None, "-0.05", "NaN", "-0.0", "", None, None, None, None, "false", None),)
    schema = changes[0].schema
    assert schema.qualified_name == "shop.public.t"
    assert [str(c.type) for c in schema.columns] == [
        *("uint64", "decimal(30,2)", "float32", "float64", "bytes", "string", "timestamp"),
        *("timestamptz", "date", "boolean", "json"),
    ]
    assert changes[0].full_row
    assert changes[0].order_key.startswith("0/")


def read(value, as_of=None, **table):
    load = FullLoad("shop.t", as_of)
    decoder = WithFullLoads(None, table_rules({"shop.t": Table(**table)}))
    header = [(HEADER, load.to_header())]
    return decoder.decode(Message(load.topic, 0, 1, None, None, value, header))[0]


def test_declared_types_hold_and_texts_of_csv_become_values():
    change = read(b'{"id":"7","n":"1.10"}', key=["id"], columns={"id": "bigint", "n": "number"})
    assert msgspec.structs.astuple(change.after) == ("7", "1.10")
    with pytest.raises(Refusal, match="column 'id'"):
        read(b'{"id":"x"}', key=["id"], columns={"id": "bigint"})
    with pytest.raises(Refusal):
        read(b'{"id":1,"id":2}', key=["id"])


def test_a_reload_stands_at_its_sequence_and_begins_with_emptying():
    change = read(b'{"id":1}', as_of=(3, 154), key=["id"])
    start = read(None, as_of=(3, 154))
    assert (start.operation, change.operation) == ("truncate", "read")
    assert start.order_key < change.order_key
    assert change.sequence == (3, 154)


def test_what_is_loaded_once_is_not_loaded_again(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"id":1}\n')
    full = {"shop.t": Dump(path=str(path))}
    tasks, known = plan_dumps(full, {})
    assert [task.load.topic for task in tasks] == ["full:shop.t"]
    assert plan_dumps(full, known) == ([], known)
    path.write_bytes(b'{"id":2} \n')
    with pytest.raises(SourceError, match=r"has changed since it was loaded.*as_of"):
        plan_dumps(full, known)
    tasks, after = plan_dumps({"shop.t": Dump(path=str(path), as_of=[3, 1])}, known)
    assert [task.load.topic for task in tasks] == ["full:shop.t@3:1"]
    with pytest.raises(SourceError, match="there is no dump at"):
        plan_dumps({"shop.t": Dump(path=str(tmp_path / "none"))}, known)
    with pytest.raises(ConfigurationError, match=r"loaded in full before.*as_of"):
        plan_dumps(full, {"full:shop.t@3:1": after["full:shop.t@3:1"]})
    # A table whose name begins with this one's is another table.
    other = {"full:shop.t_items": known["full:shop.t"], "full:shop.t_items@3": []}
    assert [task.path for task in plan_dumps(full, other)[0]] == [task.path for task in tasks]
