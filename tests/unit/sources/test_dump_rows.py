"""Rows of dumps: every value exact, null and empty apart, errors that name the file."""

from __future__ import annotations

import csv
import gzip
import io
import os
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from unittest import mock

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.convert.full_loads import WithFullLoads
from waybill.errors import ConfigurationError, Refusal, SourceError
from waybill.full_load import HEADER, FullLoad
from waybill.order import AFTER, BEFORE, order_key
from waybill.records import Message
from waybill.sources import dump_csv, streams
from waybill.sources.dump_rows import dump_rows, dump_types
from waybill.sources.dumps import plan_dumps, read_dumps, with_digests
from waybill.sources.streams import opened
from waybill.spec.migration import Dump, Table, table_rules


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


CELLS = st.none() | st.text(st.sampled_from(list('a",\r\n ;\\é')), max_size=6)


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=8)
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.integers(1, 9),
)
def test_what_a_writer_of_csv_writes_is_read(rows, line_end, quoted, block):
    width = len(rows[0]) if rows else 1
    names = [f'c"{n}' for n in range(width)]
    text = io.StringIO(newline="")
    # Python's writer gives quotes to the characters of its own line end only.
    quoted = quoted or line_end != "\r\n"
    style = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(text, lineterminator=line_end, quoting=style)
    for row in [names, *rows]:
        writer.writerow(row)
    # An empty field is null if it has no quotes, and a lone one has them.
    empty = "" if quoted or width == 1 else None
    expected = [[value or empty for value in row] for row in rows]
    with mock.patch.object(streams, "BLOCK", block):
        parts = list(dump_csv.rows_of("t.csv", io.BytesIO(text.getvalue().encode())))
    got = [list(msgspec.json.decode(row).values()) for part in parts for row in part]
    assert got == expected


def test_an_empty_line_is_a_row_where_there_is_one_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\r\nnote\r\n\r\nx\r\n""\r\n\r\n')
    values = [msgspec.json.decode(row)["note"] for row in rows_of(path)]
    assert values == [None, "x", "", None]
    path.write_bytes(b"id,note\n\n1,x\n\n")
    assert rows_of(path) == [b'{"id":"1","note":"x"}']


def test_a_row_of_csv_may_be_long_and_not_endless(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(b'id,n\n1,"' + b"a\n" * (6 << 20) + b'"\n2,b\n')
    first, second = rows_of(path)
    assert (len(first), second) == (
        len(b'{"id":"1","n":""}') + 3 * (6 << 20),
        b'{"id":"2","n":"b"}',
    )
    monkeypatch.setattr(dump_csv, "LARGEST", 4 << 20)
    with pytest.raises(SourceError, match=r"t\.csv has a row of more than 4 MiB from line 2 on"):
        rows_of(path)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'id,note\n1,a\n2,"5 inch\n3,b\n4,c\n', "field 2 in line 3 .* is not closed"),
        (b'id,note\n1,"5" disk"\n2,x\n3,"7" disk"\n', "field 2 in line 2 .* goes on after"),
        (b'id,note\r\n1,"a\r\nb","say \\"hi\\", ok"\r\n', "field 3 in line 3 .* goes on after"),
        (b'"id', "field 1 in line 1 .* is not closed"),
    ],
)
@pytest.mark.parametrize("block", [1, 5, 4 << 20])
def test_a_quote_that_does_not_end_its_field_is_no_csv(tmp_path, monkeypatch, data, place, block):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    monkeypatch.setattr(streams, "BLOCK", block)
    with pytest.raises(SourceError, match=place) as caught:
        rows_of(path)
    assert "t.csv" in str(caught.value)


def test_a_quote_inside_of_a_field_stands_for_itself(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'id,size\n1,5"\n2, "x"\n3,a"b"c\n')
    sizes = [msgspec.json.decode(row)["size"] for row in rows_of(path)]
    assert sizes == ['5"', ' "x"', 'a"b"c']


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz"])
def test_broken_packing_names_the_file(tmp_path, name):
    path = tmp_path / name
    packed = gzip.compress(b"".join(os.urandom(30).hex().encode() + b"\n" for _ in range(9999)))
    middle = len(packed) // 2
    flipped = bytes(byte ^ 255 for byte in packed[middle : middle + 100])
    for spoiled in (packed[:middle], packed[:middle] + flipped + packed[middle + 100 :]):
        path.write_bytes(spoiled)
        with pytest.raises(SourceError, match=rf"{name} cannot be unpacked"):
            rows_of(path)


def test_a_csv_without_rows_and_one_without_names(tmp_path):
    path = tmp_path / "t.csv"
    for data in (b"id,x", b"id,x\n", b'\xef\xbb\xbf"id",x\r\n\r\n'):
        path.write_bytes(data)
        assert rows_of(path) == []
    path.write_bytes(b"\n\n")
    with pytest.raises(SourceError, match=r"t\.csv cannot be read as CSV: its first line"):
        rows_of(path)


def test_lines_stay_as_they_are(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"n": 1.10}\n\n\r\n{"n":null }')
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


def images(path, array):
    """Type and texts of a column as the lake gets them."""
    pq.write_table(pa.table({"c": array}), path)
    load = FullLoad("shop.t", None, dump_types(str(path)))
    decoder = WithFullLoads(None, table_rules({}))
    changes = [
        decoder.decode(Message(load.topic, 0, n, None, None, row, [(HEADER, load.to_header())]))[0]
        for n, row in enumerate(rows_of(path))
    ]
    return [(str(change.schema.columns[0].type), change.after.f0) for change in changes]


TEXTS, BYTES = ["new", None, "new", ""], [b"\0\xff", None, b"", b"abc"]


@pytest.mark.parametrize(
    ("plain", "wrapped"),
    [
        (pa.array(TEXTS), pa.array(TEXTS).dictionary_encode()),
        (pa.array(TEXTS), pa.array(TEXTS, pa.large_string())),
        (pa.array(TEXTS), pa.array(TEXTS, pa.string_view())),
        (pa.array(TEXTS), pa.array(TEXTS, pa.large_string()).dictionary_encode()),
        (pa.array(BYTES), pa.array(BYTES, pa.large_binary())),
        (pa.array(BYTES), pa.array(BYTES, pa.binary_view())),
        (pa.array(BYTES), pa.array(BYTES).dictionary_encode()),
        (pa.array([b"ab", None]), pa.array([b"ab", None], pa.binary(2))),
        (pa.array([7, None]), pa.array([7, None]).dictionary_encode()),
        (pa.array([1.5, None], pa.float32()), pa.array([1.5, None], pa.float16())),
        (
            pa.array(["00000000-0000-0000-0000-000000000001", None]),
            pa.array([uuid.UUID(int=1).bytes, None], pa.uuid()),
        ),
    ],
    ids=lambda array: str(array.type).replace(" ", ""),
)
def test_how_parquet_lays_values_out_changes_nothing(tmp_path, plain, wrapped):
    path = tmp_path / "t.parquet"
    assert images(path, wrapped) == images(path, plain)
    # The same inside of lists.
    lists = [pa.ListArray.from_arrays([0, 1, len(array)], array) for array in (wrapped, plain)]
    assert images(path, lists[0]) == images(path, lists[1])


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([[0.1]], pa.list_(pa.float32())), "[0.1]"),
        (
            pa.array([[1, None]], pa.list_(pa.timestamp("ns"))),
            '["1970-01-01T00:00:00.000000001",null]',
        ),
        (
            pa.array([[("k", [1]), ("l", None)]], pa.map_("string", pa.list_(pa.int8()))),
            '[["k",[1]],["l",null]]',
        ),
        (pa.array([{"a": Decimal("1.10"), "b": {"c": b"\xff"}}]), '{"a":1.10,"b":{"c":"/w=="}}'),
        (pa.array([[[1], None, []]], pa.list_(pa.list_(pa.int8()), 3)), "[[1],null,[]]"),
        (pa.array(['{"a": 1.10}'], pa.json_()), '{"a": 1.10}'),
    ],
    ids=lambda given: str(getattr(given, "type", "")).replace(" ", ""),
)
def test_nested_values_keep_their_digits(tmp_path, array, text):
    assert images(tmp_path / "t.parquet", array) == [("json", text)]


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (pa.array([timedelta(hours=30)]), "is of type duration"),
        (pa.array([[timedelta(hours=30)]]), "is of type duration"),
        (pa.array([1], pa.int8()).cast(pa.bool8()), r"is of type extension<arrow\.bool8>"),
        (pa.array([[1.5, float("nan")]]), "holds NaN or an infinite number"),
        (pa.array([{"a": [float("-inf")]}]), "holds NaN or an infinite number"),
    ],
)
def test_what_would_change_in_json_is_not_loaded(tmp_path, array, why):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": array}), path)
    with pytest.raises(SourceError, match=rf"column 'c' of .*t\.parquet {why}"):
        (dump_types(str(path)), rows_of(path))
    pq.write_table(pa.table([[1], [2]], names=["c", "c"]), path)
    with pytest.raises(SourceError, match=r"t\.parquet has several columns of one name"):
        dump_types(str(path))


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
    # The dump has the changes up to this id: they are older, a TRUNCATE included.
    log = order_key((3, 154), AFTER, 4, 1000, 0)
    assert log < start.order_key < change.order_key < order_key((3, 155), BEFORE, 0, 0, 0)
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
    # Another file is no change of the one that was loaded.
    new = tmp_path / "new.jsonl"
    new.write_bytes(b'{"id":3}\n')
    with pytest.raises(ConfigurationError, match=r"loaded in full before: .*new\.jsonl"):
        plan_dumps({"shop.t": Dump(path=str(new))}, known)
    with pytest.raises(ConfigurationError, match=r"before with the same as_of: .*new\.jsonl"):
        plan_dumps({"shop.t": Dump(path=str(new), as_of=[3, 1])}, after)
    # A table whose name begins with this one's is another table.
    other = {"full:shop.t_items": known["full:shop.t"], "full:shop.t_items@3": []}
    assert [task.path for task in plan_dumps(full, other)[0]] == [task.path for task in tasks]


def loaded(full, known):
    """What is known after a load, and the values that it brought."""
    tasks, known = plan_dumps(full, known)
    digests = {}
    batches = list(
        read_dumps(tasks, "b", lambda task, counts: digests.update({task.name: counts.digest}))
    )
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    return with_digests(known, tasks, digests), values


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.csv.gz", "t.parquet"])
def test_a_dump_that_was_only_touched_is_the_same(tmp_path, name):
    path = tmp_path / name
    if name == "t.parquet":
        pq.write_table(pa.table({"id": [1]}), path)
    else:
        path.write_bytes(gzip.compress(b"id\n1\n") if name.endswith("gz") else b'{"id":1}\n')
    full = {"shop.t": Dump(path=str(path), as_of=7)}
    known, values = loaded(full, {})
    assert values[0] is None
    os.utime(path, (1, 1))
    tasks, after = plan_dumps(full, known)
    assert tasks == []
    assert after != known
    assert plan_dumps(full, after) == ([], after)
    with mock.patch("waybill.sources.dumps.digest_of", side_effect=AssertionError("read again")):
        plan_dumps(full, after)
    # Entries that were written without a digest tell times only.
    old = {topic: [file[:3] for file in files] for topic, files in known.items()}
    with pytest.raises(SourceError, match="or remove it from full:, or list"):
        plan_dumps(full, old)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match="has changed since it was loaded"):
        plan_dumps(full, after)


def test_a_dump_is_loaded_whole_or_not_at_all(tmp_path):
    full = {"shop.t": Dump(path=str(tmp_path))}
    (tmp_path / "t_1.csv").write_bytes(b"id\n1\n")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "t_1.csv")
    tasks, known = plan_dumps(full, {})
    assert [task.path for task in tasks] == [str(tmp_path / "t_1.csv")]
    for name in ("t_2.CSV", "t_3.tsv", "sub/README"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"id\n1\n")
        with pytest.raises(SourceError, match=rf"{name} in the dump .* is not a file or has an"):
            plan_dumps(full, {})
        assert plan_dumps(full, known) == ([], known)
        path.unlink()
    (tmp_path / "t_4.csv").symlink_to(tmp_path / "none")
    with pytest.raises(SourceError, match=r"t_4\.csv in the dump"):
        plan_dumps(full, {})
