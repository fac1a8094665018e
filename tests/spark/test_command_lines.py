"""What every user of the machine can read of a run: the command lines of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.test_jobs import canal

pytestmark = pytest.mark.spark

SECRET = "kept-off-every-command-line"


def test_a_run_shows_no_setting_of_its_migration(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(canal("INSERT", {"id": "1", "title": "one"}))
    file = tmp_path / "demo.yaml"
    file.write_text(
        "name: demo\n"
        "source: {files: {path: in, layout: lines, topic: shop}, envelope: canal}\n"
        "lake: {warehouse: lake}\n"
        "publish: [{envelope: canal, files: {path: out}}]\n"
        'spark: {spark.hadoop.fs.s3a.secret.key: "${HIDDEN}", spark.driver.memory: 1g}\n'
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "waybill.cli", "run", str(file), "--until", "snapshot"]
    process = subprocess.Popen(
        command,
        env={**os.environ, "HIDDEN": SECRET, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    seen: set[bytes] = set()
    modes: set[int] = set()
    try:
        while process.poll() is None:
            seen |= lines_of_descendants(process.pid)
            modes |= modes_of(scratch.glob("*/spark.properties"))
            time.sleep(0.02)
    finally:
        process.kill()
        said = process.communicate()[0].decode()
    assert process.returncode == 0, said
    java = [line for line in seen if b"org.apache.spark.deploy.SparkSubmit" in line]
    assert java, "Java ran and was looked at"
    assert any(b"-Xmx1g" in line for line in java), "the settings reached Java"
    assert not [line for line in seen if SECRET.encode() in line]
    assert modes == {0o600}
    assert not list(scratch.glob("*/spark.properties"))
    assert SECRET not in said


def lines_of_descendants(root: int) -> set[bytes]:
    """The command lines of a process and all that it started."""
    parents: dict[int, int] = {}
    lines: dict[int, bytes] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            number = int(folder.name)
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            lines[number] = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    ours = {root}
    while more := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {lines[number] for number in ours if number in lines}


def modes_of(paths: object) -> set[int]:
    """The modes of files that may go at any time."""
    modes = set()
    for path in paths:  # type: ignore[attr-defined]
        try:
            modes.add(path.stat().st_mode & 0o777)
        except FileNotFoundError:
            continue
    return modes
