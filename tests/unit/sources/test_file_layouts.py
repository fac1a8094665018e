"""What comes out of each layout of files but lines."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.sources.test_files import places, read, source
from waybill.errors import SourceError


def kcat_line(**fields) -> bytes:
    base = {"topic": "t", "partition": 3, "offset": 7, "key": None, "payload": "{}"}
    return json.dumps({**base, **fields}, ensure_ascii=False).encode()


def test_kcat_lines(tmp_path: Path) -> None:
    text = 'a "quoted" \\ \n\t\x01 \u2028 😀'
    (tmp_path / "a.jsonl").write_bytes(
        b"\n".join(
            [
                kcat_line(tstype="create", ts=1700000000123, broker=-1, payload=text, key=""),
                kcat_line(payload=None, key="k", headers=["h", "v", "h", None], offset=8),
                b"",
                kcat_line(headers={"x": ["1", "2"]}, ts=-1, offset=9),
                # kcat writes bytes that are no UTF-8 as they are.
                kcat_line(offset=10, payload="PAY", key="KEY")
                .replace(b"PAY", b"\xff\x00".replace(b"\x00", b"\\u0000") + b"\xed\xa0\x80")
                .replace(b"KEY", "ü".encode() + b"\xc3"),
            ]
        )
    )
    rows, _, _, empties, _ = read(source(tmp_path, "kcat", topic="unused"))
    assert [(r["topic"], r["partition"], r["offset"]) for r in rows] == [
        ("t", 3, n) for n in (7, 8, 9, 10)
    ]
    assert rows[0]["value"] == text.encode()
    assert rows[0]["key"] == b""
    assert rows[0]["timestamp"].timestamp() == 1700000000.123
    assert [r["timestamp_type"] for r in rows] == ["create", None, None, None]
    assert rows[0]["headers"] is None
    assert (rows[1]["value"], rows[1]["key"], rows[1]["timestamp"]) == (None, b"k", None)
    assert rows[1]["headers"] == [{"key": "h", "value": b"v"}, {"key": "h", "value": None}]
    assert rows[2]["headers"] == [{"key": "x", "value": b"1"}, {"key": "x", "value": b"2"}]
    assert rows[2]["timestamp"] is None
    assert rows[3]["value"] == b"\xff\x00\xed\xa0\x80"
    assert rows[3]["key"] == "ü".encode() + b"\xc3"
    assert empties == {"a.jsonl": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"{}",
        kcat_line(payload={"avro": 1}),
        kcat_line(partition="x"),
        kcat_line(partition=2**40),
        kcat_line(headers=["odd"]),
        kcat_line(headers=[None, "v"]),
        kcat_line()[:-5],
        kcat_line(offset=2**63),
        kcat_line(ts=10**17),
        kcat_line().replace(b'"t"', b'"\\ud83d"'),
        kcat_line(payload="PAY").replace(b"PAY", b"\\udc80"),
        b"[" * 100_000,
    ],
)
def test_a_line_that_kcat_does_not_write_names_file_and_line(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a.kcat").write_bytes(kcat_line() + b"\n" + line + b"\n")
    with pytest.raises(SourceError, match=r"line 2 of .*a\.kcat is not a line of `kcat -J`"):
        read(source(tmp_path, "kcat"))


def test_parquet_with_all_of_kafkas_columns(tmp_path: Path) -> None:
    headers = pa.array(
        [[{"key": "h", "value": b"\xff"}], None, []],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    table = pa.table(
        {
            "extra": ["x", "y", "z"],
            "value": pa.array([b"\xff\x00", None, b""], pa.binary()),
            "key": pa.array(["k", None, ""], pa.large_string()),
            "topic": pa.array(["a", "b", "a"]).dictionary_encode(),
            "partition": pa.array([1, 2, 1], pa.int64()),
            "offset": pa.array([5, 6, 7], pa.int64()),
            "timestamp": pa.array([1700000000123, None, 0], pa.int64()),
            "headers": headers,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows, *_ = read(source(tmp_path, "parquet"))
    assert places(rows) == [("a", 1, 5, b"\xff\x00"), ("b", 2, 6, None), ("a", 1, 7, b"")]
    assert [row["key"] for row in rows] == [b"k", None, b""]
    assert rows[0]["timestamp"].timestamp() == 1700000000.123
    assert rows[1]["timestamp"] is None
    assert [row["headers"] for row in rows] == [[{"key": "h", "value": b"\xff"}], None, []]


def test_parquet_with_other_types_of_the_same_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "value": ["v"],
            "timestamp": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
            "headers": pa.array([[("h", "ü")]], pa.map_(pa.string(), pa.string())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows, *_ = read(source(tmp_path, "parquet", topic="t"))
    assert places(rows) == [("t", 0, 0, b"v")]
    assert rows[0]["timestamp"].microsecond == 123456
    assert rows[0]["headers"] == [{"key": "h", "value": "ü".encode()}]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_that_the_archive_cannot_hold_is_no_other_time(tmp_path: Path, zone) -> None:
    times = pa.array([0, 2**62], pa.timestamp("ms", tz=zone))
    pq.write_table(pa.table({"value": ["a", "b"], "timestamp": times}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet .*out of bounds timestamp"):
        read(source(tmp_path, "parquet"))


def test_a_message_of_kafka_without_a_time_has_none(tmp_path: Path) -> None:
    """Kafka says -1, and no time of its messages is before 1970."""
    table = pa.table({"value": ["a", "b", "c"], "timestamp": pa.array([-1, 0, None], pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet")
    times = [row["timestamp"] for row in read(source(tmp_path, "parquet"))[0]]
    assert times == [None, datetime(1970, 1, 1, tzinfo=UTC), None]


def test_headers_of_parquet_are_found_by_their_names(tmp_path: Path) -> None:
    headers = pa.array([[{"value": "v", "key": "k"}], None])
    pq.write_table(pa.table({"value": ["1", "2"], "headers": headers}), tmp_path / "a.parquet")
    rows, *_ = read(source(tmp_path, "parquet"))
    assert [row["headers"] for row in rows] == [[{"key": "k", "value": b"v"}], None]
    pq.write_table(
        pa.table({"value": ["1"], "headers": [[{"k": "k", "v": "v"}]]}), tmp_path / "a.parquet"
    )
    with pytest.raises(SourceError, match=r"a\.parquet .*nor a list of structs of key and value"):
        read(source(tmp_path, "parquet"))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"partition": [0, 0]}, "has a column 'partition' and none 'offset'"),
        ({"topic": ["t", None]}, r"column 'topic' of .*a\.parquet is null in row 1"),
        ({"offset": [None, 1]}, r"column 'offset' of .*a\.parquet is null in row 0"),
        ({"offset": [0, 1], "partition": [0, None]}, r"column 'partition' .* is null in row 1"),
    ],
)
def test_messages_of_parquet_need_a_place_of_their_own(
    tmp_path: Path, columns: dict, sentence: str
) -> None:
    pq.write_table(pa.table({"value": ["1", "2"], **columns}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=sentence):
        read(source(tmp_path, "parquet"))


@pytest.mark.parametrize("what", ["no parquet", "no value", "wrong type"])
def test_parquet_that_is_not_kafkas(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.parquet"
    if what == "no parquet":
        path.write_bytes(b"PAR1 nonsense PAR1")
    elif what == "no value":
        pq.write_table(pa.table({"payload": ["x"]}), path)
    else:
        pq.write_table(pa.table({"value": ["x"], "partition": ["one"]}), path)
    with pytest.raises(SourceError, match=r"a\.parquet"):
        read(source(tmp_path, "parquet"))


def test_whole_files_follow_each_other_in_one_partition(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"\x00\n\n\xff")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"stays packed"))
    (tmp_path / "c").write_bytes(b"")
    rows, *_ = read(source(tmp_path, "whole", topic="t"))
    packed = (tmp_path / "a.gz").read_bytes()
    assert places(rows) == [
        ("t", 0, 0, packed),
        ("t", 0, 1, b"\x00\n\n\xff"),
        ("t", 0, 2, b""),
    ]
