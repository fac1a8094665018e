"""`waybill convert` as processes that are ended, or have no room: nothing is left behind."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.unit.cli.command_line import CONVERT, PROJECT
from tests.unit.inprocess.test_converter import history, read_lines


def environment(aside: Path, **more: str) -> dict[str, str]:
    """That of a command whose workers leave what they make in a folder."""
    library = str(PROJECT / "spark_jobs")
    return {**os.environ, "PYTHONPATH": library, "TMPDIR": str(aside), **more}


@pytest.mark.parametrize("processes", [1, 2])
def test_interrupted_work_leaves_no_output(tmp_path, tmp_path_factory, processes):
    big = tmp_path / "in.jsonl"
    big.write_bytes(b"".join(message + b"\n" for message in history(2_000)) * 100)
    aside = tmp_path_factory.mktemp("aside")
    process = subprocess.Popen(
        [*CONVERT, str(big), str(tmp_path / "out.jsonl"), "--processes", str(processes)],
        stderr=subprocess.PIPE,
        env=environment(aside),
        # Whoever runs the tests in the background has them ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".out*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == b"waybill: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    assert not list(aside.iterdir())


def test_workers_end_with_what_is_killed(tmp_path):
    """Whoever ends them otherwise cannot; what they made goes with them."""
    big, aside = tmp_path / "in.jsonl", tmp_path / "aside"
    big.write_bytes(b"".join(message + b"\n" for message in history(2_000)) * 200)
    aside.mkdir()
    process = subprocess.Popen(
        [*CONVERT, str(big), str(tmp_path / "out.jsonl"), "--processes", "2"],
        stderr=subprocess.DEVNULL,
        env=environment(aside, WAYBILL_BULK="off"),
    )
    deadline = time.monotonic() + 30
    while not list(aside.glob("waybill-convert-*/*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) >= 2
    process.kill()
    assert process.wait(30) == -signal.SIGKILL
    _, alive = psutil.wait_procs(started, 30)
    assert not alive
    assert not list(aside.glob("waybill-convert-*"))


def test_a_long_name_of_the_folder_for_what_is_made(tmp_path):
    """Sockets have short names only: no part of the work may need one."""
    aside = tmp_path / ("a" * 200)
    aside.mkdir()
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"".join(message + b"\n" for message in history(20)))
    done = subprocess.run(
        [*CONVERT, str(source), str(out), "--processes", "2"],
        capture_output=True,
        check=False,
        env=environment(aside),
    )
    assert done.returncode == 0, done.stderr
    assert len(read_lines(out)) > 0


def test_no_room_for_what_blocks_become_is_said(tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"".join(message + b"\n" for message in history(2_000)))
    aside = tmp_path / "aside"
    aside.mkdir()
    done = subprocess.run(
        [*CONVERT, str(source), str(out), "--processes", "2"],
        capture_output=True,
        check=False,
        env=environment(aside),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert done.returncode == 2
    output = done.stderr.decode()
    assert f"{aside}/waybill-convert-" in output
    assert output.endswith("cannot be written (File too large); set TMPDIR to a roomier folder\n")
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "aside"}
    assert not list(aside.iterdir())


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet"])
def test_no_room_for_the_output_is_said(tmp_path, name):
    source, out = tmp_path / "in.jsonl", tmp_path / name
    source.write_bytes(b"".join(message + b"\n" for message in history(2_000)))
    done = subprocess.run(
        [*CONVERT, str(source), str(out)],
        capture_output=True,
        check=False,
        env=environment(tmp_path),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000)),
    )
    assert done.returncode == 2
    said = f"waybill: {out} cannot be written (File too large); make room, or name another output\n"
    assert done.stderr.decode() == said
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
