"""Conversion of files without Spark, over real envelopes and real files."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.errors import ConfigurationError
from waybill.inprocess import lines as lines_module
from waybill.inprocess import parallel
from waybill.inprocess.converter import TOMBSTONE
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.line_blocks import BLANK
from waybill.inprocess.line_ranges import line_ranges_of
from waybill.inprocess.lines import OutputFile, line_blocks, open_output
from waybill.inprocess.run import convert_file, layout_of

TYPES = {"id": "bigint(20)", "total": "decimal(60,20)", "note": "varchar(9)"}
EXACT = "1234567890123456789012345678901234567890.10000000000000000001"


def canal(i: int, kind: str = "INSERT", **fields: object) -> bytes:
    row = {"id": str(i), "total": EXACT, "note": "\u2028 é"}
    flat = {
        "data": [row],
        "old": [{"note": "x"}] if kind == "UPDATE" else None,
        "database": "shop",
        "table": "orders",
        "type": kind,
        "pkNames": ["id"],
        "isDdl": False,
        "mysqlType": TYPES,
        "sqlType": {"id": -5, "total": 3, "note": 12},
        "es": 1700000000000 + i,
        "ts": 1700000000001 + i,
        "id": i,
        "sql": "",
        "gtid": "",
        **fields,
    }
    return json.dumps(flat, ensure_ascii=False).encode()


def history(count: int) -> list[bytes]:
    return [canal(i, ("INSERT", "UPDATE", "DELETE")[i % 3]) for i in range(count)]


@pytest.fixture
def write(tmp_path):
    def writer(messages: list[bytes], name: str = "in.jsonl") -> str:
        path = tmp_path / name
        path.write_bytes(b"".join(message + b"\n" for message in messages))
        return str(path)

    return writer


def job(tmp_path, source: str, target: str, given: str, name: str = "out.jsonl", **more):
    return ConvertJob(source, target, given, str(tmp_path / name), **more)


def read_lines(path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1]


# Lines


@given(st.binary(max_size=200), st.integers(1, 30))
def test_blocks_hold_every_line_whole(data, size):
    blocks = list(line_blocks(io.BytesIO(data), size))
    lines = [line for block in blocks for line in block.split(b"\n")]
    assert lines == (data.removesuffix(b"\n").split(b"\n") if data else [])


@given(st.binary(max_size=200), st.integers(1, 30), st.integers(1, 30), st.integers(0, 3))
def test_stretches_are_whole_lines_and_nothing_is_left_out(data, block, step, start):
    stream = io.BytesIO(data)
    stream.seek(start)
    stretches = list(line_ranges_of(stream, block, step))
    lines = [data[at : at + size].split(b"\n") for at, size, _ in stretches]
    assert [line_range.lines for line_range in stretches] == list(map(len, lines))
    rest = data[start:]
    whole = rest.removesuffix(b"\n").split(b"\n") if rest else []
    assert [line for some in lines for line in some] == whole


def test_only_a_line_feed_ends_a_line(tmp_path, write):
    """Splitting as text would cut a message at U+2028 or a carriage return."""
    account, _ = convert_file(job(tmp_path, "canal", "canal", write(history(3))))
    assert account.written == account.messages == 3
    assert "\u2028 é" in read_lines(tmp_path / "out.jsonl")[0].decode()


def test_blank_lines_are_counted_and_no_messages(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(canal(1) + b"\r\n\n\r\n" + canal(2))
    account, seconds = convert_file(job(tmp_path, "canal", "canal", str(path)))
    assert account.skipped == {BLANK: 2}
    assert account.report("canal", seconds).rows_out == 2


def test_an_empty_file_becomes_an_empty_file(tmp_path, write):
    account, _ = convert_file(job(tmp_path, "canal", "oms-default", write([])))
    assert (account.messages, account.written) == (0, 0)
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_packed_lines(tmp_path):
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(history(5))))
    convert_file(job(tmp_path, "canal", "canal", str(path), "out.jsonl.gz"))
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).count(b"\n") == 5


def test_what_is_packed_is_known_by_its_bytes_and_a_byte_order_mark_is_no_message(tmp_path):
    path = tmp_path / "in.jsonl"
    lines = b"\n".join(history(5))
    wanted = None
    for content in (lines, b"\xef\xbb\xbf" + lines, gzip.compress(b"\xef\xbb\xbf" + lines)):
        path.write_bytes(content)
        account, _ = convert_file(job(tmp_path, "canal", "canal", str(path)))
        assert account.refused == {}
        wanted = wanted or read_lines(tmp_path / "out.jsonl")
        assert read_lines(tmp_path / "out.jsonl") == wanted


@pytest.mark.parametrize("processes", [1, 2])
def test_a_packed_file_that_is_cut_off_says_so(tmp_path, processes):
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(history(50)))[:-40])
    with pytest.raises(ConfigurationError, match=r"in\.jsonl\.gz cannot be read to its end"):
        convert_file(job(tmp_path, "canal", "canal", str(path)), processes=processes)
    assert not (tmp_path / "out.jsonl").exists()


# Whole conversions


@pytest.mark.parametrize("target", ["canal", "oms-default", "datahub-blob", "debezium-json"])
def test_every_digit_survives_there_and_back(tmp_path, write, target):
    first, _ = convert_file(job(tmp_path, "canal", target, write([canal(7)]), "there.jsonl"))
    assert first.written == 1
    assert EXACT.encode() in (tmp_path / "there.jsonl").read_bytes()


def test_refused_messages_are_counted_and_kept_with_their_bytes(tmp_path, write):
    given = write([canal(1), b"{", b"\xff\xfe", canal(2, "NOVERB")])
    account, seconds = convert_file(
        job(tmp_path, "canal", "oms-default", given), str(tmp_path / "q.jsonl")
    )
    assert account.written == 1
    assert sum(account.refused.values()) == 3
    account.report("oms-default", seconds)  # the counts add up
    rows = [json.loads(line) for line in read_lines(tmp_path / "q.jsonl")]
    assert [row["offset"] for row in rows] == [1, 2, 3]
    assert rows[0]["value"] == "{"
    assert rows[1]["value_base64"] == "//4="
    assert rows[2]["kind"] == "operation"
    assert all(row["topic"] == "in" and row["reason"] for row in rows)


def test_what_is_refused_has_lost_nothing(tmp_path, write):
    """It stands in quarantine, whole; what the target gives up is counted of what is written."""
    fine = {"id": "1", "total": "1.5", "note": "x"}
    messages = [canal(1, data=[fine]), canal(2, data=[{**fine, "total": "no number"}])]
    account, _ = convert_file(job(tmp_path, "canal", "oms-default", write(messages)))
    assert account.refused == {"value": 1}
    assert account.losses == {"types": 1, "source_time": 1}


def test_a_row_without_its_key_is_refused_as_it_is_in_spark(tmp_path, write):
    given = write([canal(1, pkNames=["nokey"])])
    account, _ = convert_file(job(tmp_path, "canal", "canal", given))
    assert account.refused == {"key": 1}


def test_a_tombstone_cannot_be_a_line_and_is_counted(tmp_path, write):
    settings = {"tombstones": True}
    account, seconds = convert_file(
        job(tmp_path, "canal", "debezium-json", write(history(3)), encode_settings=settings)
    )
    assert account.skipped == {TOMBSTONE: 1}
    assert account.report("debezium-json", seconds).rows_out == 3


def test_parquet_takes_keys_and_tombstones_and_is_read_again(tmp_path, write):
    account, _ = convert_file(
        job(tmp_path, "canal", "debezium-json", write(history(3)), "mid.parquet")
    )
    table = pq.read_table(tmp_path / "mid.parquet")
    assert account.written == table.num_rows == 4
    assert table.column("offset").to_pylist() == [0, 1, 2, 3]
    assert table.column("topic").unique().to_pylist() == ["mid"]
    assert table.column("value").null_count == 1
    assert table.column("key").null_count == 0
    tables = {"decimals": "string"}
    back, _ = convert_file(
        ConvertJob(
            "debezium-json",
            "canal",
            str(tmp_path / "mid.parquet"),
            str(tmp_path / "back.jsonl"),
            decode_settings=tables,
        )
    )
    assert [json.loads(line)["type"] for line in read_lines(tmp_path / "back.jsonl")] == [
        "INSERT",
        "UPDATE",
        "DELETE",
    ]
    assert sum(back.skipped.values()) == 1


def test_parquet_needs_only_a_value(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"value": pa.array(history(3), pa.binary())}), path)
    account, _ = convert_file(job(tmp_path, "canal", "canal", str(path)))
    assert account.written == 3
    pq.write_table(pa.table({"valeu": [b"x"]}), path)
    with pytest.raises(ConfigurationError, match="has no column 'value'"):
        convert_file(job(tmp_path, "canal", "canal", str(path)))


# Halves of updates


def halves(tmp_path, write, count: int) -> list[bytes]:
    """Updates as DataHub writes them: two messages each."""
    updates = write([canal(i, "UPDATE", id=i) for i in range(count)], "updates.jsonl")
    convert_file(job(tmp_path, "canal", "datahub-blob", updates, "halves.jsonl"))
    found = read_lines(tmp_path / "halves.jsonl")
    assert len(found) == 2 * count
    return found


def test_halves_are_joined_with_other_rows_between(tmp_path, write):
    first, second, third, fourth = halves(tmp_path, write, 2)
    given = write([first, third, second, fourth])
    account, seconds = convert_file(job(tmp_path, "datahub-blob", "canal", given))
    assert account.written == 2
    assert account.report("canal", seconds).rows_in == 4
    assert all(json.loads(line)["old"] for line in read_lines(tmp_path / "out.jsonl"))


def test_a_half_before_that_stays_alone_is_refused_and_one_after_is_an_update(tmp_path, write):
    before, after, *_ = halves(tmp_path, write, 1)
    alone, _ = convert_file(job(tmp_path, "datahub-blob", "canal", write([before])))
    assert (alone.written, alone.refused) == (0, {"pair": 1})
    kept, _ = convert_file(job(tmp_path, "datahub-blob", "canal", write([after])))
    assert (kept.written, kept.refused) == (1, {})


# Several processes


@pytest.mark.parametrize(("processes", "opening"), [(2, b""), (2, lines_module.BOM), (3, None)])
def test_several_processes_write_what_one_writes(tmp_path, write, monkeypatch, processes, opening):
    """Blocks are so small that most halves are in another block than their partner.

    Workers read them from the file; from one that is packed they are given them.
    """
    found = halves(tmp_path, write, 40)
    random.Random(5).shuffle(found)
    given = write([*found[:30], b"{", *found[30:], b""])
    whole = Path(given).read_bytes()
    Path(given).write_bytes(gzip.compress(whole) if opening is None else opening + whole)
    one, _ = convert_file(job(tmp_path, "datahub-blob", "canal", given, "one.jsonl"))
    sizes = []

    def small(stream):
        for block in lines_module.line_blocks(stream, 3000):
            sizes.append(len(block))
            yield block

    def short(stream):
        for line_range in line_ranges_of(stream, 3000, 1000):
            sizes.append(line_range.size)
            yield line_range

    monkeypatch.setattr("waybill.inprocess.parallel.line_blocks", small)
    monkeypatch.setattr("waybill.inprocess.parallel.line_ranges_of", short)
    several, _ = convert_file(
        job(tmp_path, "datahub-blob", "canal", given, "several.jsonl"),
        str(tmp_path / "q.jsonl"),
        processes,
    )
    assert (tmp_path / "several.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert several == one
    assert len(read_lines(tmp_path / "q.jsonl")) == sum(one.refused.values())
    assert len(sizes) > 10


def test_workers_are_where_this_process_is_now(tmp_path, write, monkeypatch):
    """What they begin from may have begun long ago and somewhere else."""
    given = write(history(3))
    convert_file(job(tmp_path, "canal", "oms-default", given), processes=2)
    there = tmp_path / "there"
    there.mkdir()
    Path(given).rename(there / "moved.jsonl")
    monkeypatch.chdir(there)
    monkeypatch.setenv("WAYBILL_TOLD_LATER", "yes")
    moved = ConvertJob("canal", "oms-default", "moved.jsonl", "out.jsonl")
    convert_file(moved, processes=2)
    assert (there / "out.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
    around = (parallel.Surroundings.now(), moved, str(there), None)
    with ProcessPoolExecutor(1, parallel.beginning(moved, None), parallel.start, around) as pool:
        assert pool.submit(os.getenv, "WAYBILL_TOLD_LATER").result() == "yes"


# Files


def test_a_failed_conversion_leaves_no_output(tmp_path, write):
    def half() -> None:
        with OutputFile(str(tmp_path / "out.jsonl")) as sink:
            sink.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert list(tmp_path.iterdir()) == []


def test_the_input_is_never_overwritten(tmp_path, write):
    given = write(history(1))
    with pytest.raises(ConfigurationError, match="would be overwritten"):
        convert_file(ConvertJob("canal", "canal", given, given))
    with pytest.raises(ConfigurationError, match="would be overwritten"):
        convert_file(job(tmp_path, "canal", "canal", given), given)
    before = Path(given).read_bytes()
    link = tmp_path / "link.jsonl"
    link.symlink_to(given)
    for other in (str(link), os.path.relpath(given), str(Path(given).parent / "." / "x" / "..")):
        name = other if other.endswith("jsonl") else f"{other}/{Path(given).name}"
        with pytest.raises(ConfigurationError, match=r"which is .* too, would be overwritten"):
            convert_file(ConvertJob("canal", "canal", given, name))
    assert Path(given).read_bytes() == before


def test_output_and_quarantine_are_two_files(tmp_path, write):
    given, out = write([b"no json"]), tmp_path / "out.jsonl"
    with pytest.raises(ConfigurationError, match="would be overwritten"):
        convert_file(ConvertJob("canal", "canal", given, str(out)), str(out))
    assert not out.exists()


def test_a_link_leads_to_the_output_and_a_device_stays_one(tmp_path, write):
    real, link = tmp_path / "real.jsonl", tmp_path / "out.jsonl"
    link.symlink_to(real)
    account, _ = convert_file(
        ConvertJob("canal", "canal", write(history(1)), str(link)), os.devnull
    )
    assert (account.written, link.is_symlink()) == (1, True)
    assert real.read_bytes().count(b"\n") == 1
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("path", ["s3://bucket/in.jsonl", "oss://bucket/out.parquet"])
def test_a_url_is_not_taken_for_a_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigurationError, match="is not a file on this machine: copy it here, or pipe"
    ):
        layout_of(path)
    with pytest.raises(ConfigurationError, match="is not a file on this machine"):
        open_output(path)
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_is_said(tmp_path, write):
    with pytest.raises(ConfigurationError, match="the suffix says what a file holds"):
        layout_of("in.csv")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        convert_file(job(tmp_path, "canal", "canal", str(tmp_path / "no.jsonl")))
    with pytest.raises(ConfigurationError, match="did you mean 'canal'"):
        convert_file(job(tmp_path, "cannal", "canal", write([])))
    settings = {"timezon": "UTC"}
    with pytest.raises(ConfigurationError, match=r"from\.timezon is not a setting of canal"):
        convert_file(job(tmp_path, "canal", "canal", write([]), decode_settings=settings))
    with pytest.raises(ConfigurationError, match="lines to lines only"):
        convert_file(job(tmp_path, "canal", "canal", write([]), "o.parquet"), processes=2)


@pytest.mark.parametrize("bulk", ["on", "off"])
@pytest.mark.parametrize(
    ("target", "lost"), [("databus-json", 12), ("debezium-json", 0), ("oms-default", 0)]
)
def test_headers_that_lines_cannot_hold_are_counted(tmp_path, monkeypatch, bulk, target, lost):
    """A reader of such lines lacks what they say, e.g. the schema without which it reads none."""
    monkeypatch.setenv("WAYBILL_BULK", bulk)
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join(history(6)))
    for suffix, count in ((".jsonl", lost), (".parquet", 0)):
        job = ConvertJob("canal", target, str(source), str(tmp_path / f"out{suffix}"))
        account, _ = convert_file(job)
        assert account.losses["headers"] == count
