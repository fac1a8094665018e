"""The environment of Spark's executors: what it must hold, and that it depends on nothing else."""

from __future__ import annotations

import importlib.metadata
import re
import tarfile
from pathlib import Path

import pytest

from scripts import packed
from tests import structure

PROJECT = Path(__file__).resolve().parents[3]
DRIVERS_OWN = {
    *(
        "airflow",
        "fastapi",
        "great_expectations",
        "jinja2",
        "pandas",
        "psycopg",
        "pyiceberg",
        "rich",
        "typer",
        "uvicorn",
    ),
    "croniter",  # schedules are looked at where a migration's file is read
    "psycopg",  # a catalog in PostgreSQL is asked where a lake is looked at
    *("py4j", "pyspark"),  # a worker has these by Spark
}
"""What the library imports where stages are led, not where tasks run."""


def locked() -> set[str]:
    return set(re.findall(r"^([\w.-]+)==", packed.LOCK.read_text(encoding="utf-8"), re.MULTILINE))


def test_it_holds_what_the_library_imports():
    brought_by = importlib.metadata.packages_distributions()
    used = {
        found.name.partition(".")[0]
        for module in structure.modules(PROJECT)
        if module.inside("waybill")
        for found in module.imports
        if found.when != "typing"
    }
    packages = {name: brought_by[name][0] for name in used & brought_by.keys() - {"waybill"}}
    missing = {name for name, package in packages.items() if package.lower() not in locked()}
    assert missing - DRIVERS_OWN == set()
    assert missing, "the rule would find one"


def test_it_holds_neither_airflow_nor_spark():
    assert not {"apache-airflow", "pyspark", "pyspark-client", "great-expectations"} & locked()


def environment(folder: Path, prints: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(f"#!/bin/sh\n{prints}\n", encoding="utf-8")
    python.chmod(0o755)
    return folder


def test_what_is_taken_from_elsewhere_is_found(tmp_path):
    packed.check(environment(tmp_path / "a", f"echo {tmp_path}/a/lib/x.so; echo /lib/libc.so.6"))
    with pytest.raises(packed.PackError, match=r"takes /usr/lib/libssl\.so\.3 even where"):
        packed.check(environment(tmp_path / "b", "echo /usr/lib/libssl.so.3"))


def test_a_package_that_cannot_be_imported_is_said(tmp_path):
    says = "ended with 1: ImportError: no numpy"
    with pytest.raises(packed.PackError, match=says):
        packed.check(environment(tmp_path / "a", "echo ImportError: no numpy >&2; exit 1"))


@pytest.mark.parametrize("name", ["e.tar", "e.tar.gz"])
def test_an_archive_is_of_nobody_and_there_as_a_whole(tmp_path, name):
    folder = environment(tmp_path / "environment", "")
    (folder / "bin" / "python3").symlink_to("python")
    archive = tmp_path / "dist" / name
    packed.pack(folder, archive)
    assert list(archive.parent.iterdir()) == [archive]
    with tarfile.open(archive) as tar:
        entries = {entry.name: entry for entry in tar}
    assert sorted(entries) == ["bin", "bin/python", "bin/python3"]
    assert entries["bin/python"].mode == 0o755
    assert {(entry.uid, entry.gid, entry.uname) for entry in entries.values()} == {(0, 0, "")}


def test_another_suffix_is_no_archive(tmp_path, capsys):
    assert packed.main([str(tmp_path / "executors.zip")]) == 2
    assert "ARCHIVE ends in" in capsys.readouterr().err
