"""What is said where Spark would find no Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.command_line import PROJECT, waybill_process
from waybill.errors import ConfigurationError
from waybill.lake.java import check_java


def java(folder: Path, script: str) -> Path:
    file = folder / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'openjdk version \"1.8.0_402\"' >&2", "is version 8, too old: set JAVA_HOME to"),
        ("echo 'openjdk version \"11.0.1\" 2018' >&2", "is version 11, too old"),
        ("echo cannot allocate >&2; exit 1", "does not run (cannot allocate): set JAVA_HOME"),
        ("exit 3", "does not run (status 3)"),
    ],
)
def test_a_java_that_does_not_do(tmp_path, monkeypatch, script, said):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "jdk", script)))
    with pytest.raises(ConfigurationError) as caught:
        check_java()
    assert said in str(caught.value)


@pytest.mark.parametrize("version", ['17" 2021-09-14', "21.0.4", "25-ea"])
def test_a_java_that_does(tmp_path, monkeypatch, version):
    quoted = version if '"' in version else f'{version}"'
    script = f"echo 'openjdk version \"{quoted}' >&2"
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "jdk", script)))
    check_java()


def test_there_is_none_on_the_path(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"no Java on the PATH.*: install Java 17"):
        check_java()


def test_a_run_says_it_in_one_sentence(tmp_path):
    shop = PROJECT / "migrations" / "shop.yaml"
    done = waybill_process("run", shop, WAYBILL_DEMO=str(tmp_path), JAVA_HOME="/nowhere")
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "waybill: WB-1301: there is no Java in JAVA_HOME=/nowhere, which Spark needs: set "
        "JAVA_HOME to a Java 17 or newer, or unset it where one is on the PATH\n"
    )
