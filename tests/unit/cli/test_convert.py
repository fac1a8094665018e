"""`waybill convert`: files, pipes, and what it ends with."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.unit.cli.command_line import CONVERT, PROJECT, messages_in, waybill, waybill_process
from tests.unit.inprocess.test_converter import canal, history, read_lines


@pytest.fixture
def messages(tmp_path):
    return messages_in(tmp_path)


def test_convert_writes_the_file_the_report_and_the_quarantine(messages, tmp_path):
    out, report, aside = (tmp_path / name for name in ("out.jsonl", "r.json", "q.jsonl"))
    done = waybill_process(
        *("convert", "--from", "canal", "--to", "debezium-json", messages, out),
        *("--report", report, "--quarantine", aside, "--set", "to.tombstones=false"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    document = json.loads(report.read_text())
    assert (document["messages_in"], document["messages_out"], document["refused"]) == (
        7,
        6,
        {"json": 1},
    )
    assert document["declared_losses"]
    assert len(read_lines(out)) == 6
    assert json.loads(aside.read_bytes())["value"] == "{"
    assert b"refused 1 (json 1)" in done.stderr


def test_strict_ends_with_4_when_anything_was_refused(messages, tmp_path):
    words = ("convert", "--from", "canal", "--to", "canal", messages)
    assert waybill(*words, tmp_path / "one.jsonl").returncode == 0
    assert waybill(*words, tmp_path / "two.jsonl", "--strict").returncode == 4


@pytest.mark.parametrize("text", [b"{\n", b"{\n{}\n"])
def test_a_conversion_that_refused_everything_ends_with_4(tmp_path, text):
    source = tmp_path / "in.jsonl"
    source.write_bytes(text)
    done = waybill(*CONVERT[3:], source, tmp_path / "out.jsonl")
    assert done.returncode == 4
    assert b"0 out" in done.stderr


def test_a_conversion_of_nothing_is_done(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"")
    assert waybill(*CONVERT[3:], source, tmp_path / "out.jsonl").returncode == 0


@pytest.mark.parametrize("which", ["output", "--quarantine", "--report"])
def test_a_file_that_is_there_is_written_over_only_by_force(messages, tmp_path, which):
    files = {"output": tmp_path / "o.jsonl", "--quarantine": tmp_path / "q.jsonl"}
    files["--report"] = tmp_path / "r.json"
    files[which].write_bytes(b"mine\n")
    output = files.pop("output")
    words = [*CONVERT[3:], messages, output, *(word for pair in files.items() for word in pair)]
    done = waybill(*words)
    there = tmp_path / {"output": "o.jsonl", "--quarantine": "q.jsonl"}.get(which, "r.json")
    assert done.returncode == 2
    assert done.stderr.decode() == (
        f"waybill: {there} is there already: name another output, or add --force to replace it\n"
    )
    assert there.read_bytes() == b"mine\n"
    assert waybill(*words, "--force").returncode == 0
    assert there.read_bytes() != b"mine\n"


def test_a_message_of_too_many_columns_is_refused_with_the_setting(tmp_path):
    row = {"id": "1", **{f"c{i}": "x" for i in range(10_000)}}
    wide = json.dumps({**json.loads(canal(1)), "data": [row], "pkNames": None, "mysqlType": None})
    aside = tmp_path / "q.jsonl"
    words = (*("convert", "--from", "canal", "--to", "canal", "-", "-"), "--quarantine", aside)
    assert waybill(*words, given=wide.encode()).stdout == b""
    refused = json.loads(aside.read_bytes())
    assert "describes 10001 columns" in refused["reason"]
    assert "max_columns is 10000" in refused["reason"]
    assert refused["offset"] == 0
    done = waybill(*words, "--max-columns", "10001", "--force", given=wide.encode())
    assert len(json.loads(done.stdout)["data"][0]) == 10_001


def test_where_all_messages_have_too_many_columns_the_setting_is_named_and_no_envelope(tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_bytes(canal(1) + b"\n" + canal(2) + b"\n")
    words = ("convert", "--from", "canal", "--to", "canal", file, tmp_path / "out.jsonl")
    done = waybill(*words, "--max-columns", "1")
    assert done.returncode == 4
    output = " ".join(done.stderr.decode().split())
    assert "--max-columns N takes messages of so many columns" in output
    assert "waybill detect" not in output


def test_convert_through_pipes_says_nothing_that_is_no_message():
    words = ("convert", "--from", "canal", "--to", "canal", "-", "-")
    done = waybill_process(*words, given=canal(1) + b"\n")
    assert done.returncode == 0
    assert done.stderr == b""
    assert json.loads(done.stdout)["data"] == json.loads(canal(1))["data"]


def test_a_pipe_is_served_as_it_comes():
    """A message comes out before the next one goes in."""
    process = subprocess.Popen(
        [*CONVERT, "-", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs")},
    )
    try:
        for i in range(3):
            process.stdin.write(canal(i) + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["data"][0]["id"] == str(i)
        process.stdin.close()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_who_reads_the_output_may_stop(tmp_path):
    big = tmp_path / "in.jsonl"
    big.write_bytes(b"".join(message + b"\n" for message in history(20_000)))
    command = f"{' '.join(CONVERT)} {big} - | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs")},
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_a_conversion_says_why_it_refused_the_first_message(tmp_path, processes):
    source = tmp_path / "in.jsonl"
    wrong = history(1)[0].replace(b'"id"', b'"no"')
    source.write_bytes(b"\n".join([*history(3), b"{", wrong]) + b"\n")
    target = tmp_path / "out.jsonl"
    done = waybill_process(*CONVERT[3:], source, target, "--processes", processes)
    assert b"the first: in/0/3, the message is not JSON" in done.stderr
    assert b"waybill detect" not in done.stderr


def test_a_value_that_is_refused_is_no_sign_of_another_envelope(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(canal(1, data=[{"id": "1", "v": "x"}], old=None) + b"\n")
    tables = tmp_path / "tables.json"
    tables.write_text('{"shop.orders": {"columns": {"v": "bigint"}}}')
    done = waybill(*CONVERT[3:], source, tmp_path / "out.jsonl", "--tables", tables)
    assert done.returncode == 4
    assert b"the first: in/0/0, column 'v': 'x' is not an integer" in done.stderr
    assert b"waybill detect" not in done.stderr
