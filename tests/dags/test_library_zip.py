"""The library's zip."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from waybill_airflow.library import library_zip


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "src" / "waybill"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__init__.py").write_text("ANSWER = 42\n")
    (folder / "settings.properties").write_text("a = b\n")
    (folder / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"\0")
    return folder


def test_equal_content_is_one_zip(tmp_path, package):
    first = library_zip(tmp_path / "cache", package)
    content = first.read_bytes()
    (package / "__init__.py").touch()
    (package / "__pycache__" / "y.pyc").write_bytes(b"\1")
    assert library_zip(tmp_path / "cache", package) == first
    assert library_zip(tmp_path / "other", package).read_bytes() == content
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [first.name]


def test_other_content_leaves_the_old_one(tmp_path, package):
    first = library_zip(tmp_path / "cache", package)
    (package / "__init__.py").write_text("ANSWER = 43\n")
    second = library_zip(tmp_path / "cache", package)
    assert first != second
    assert first.exists()


def test_it_holds_the_package_and_no_bytecode(tmp_path, package):
    names = zipfile.ZipFile(library_zip(tmp_path, package)).namelist()
    assert names == ["waybill/__init__.py", "waybill/settings.properties"]


def test_python_can_import_the_real_one_from_it(tmp_path):
    made = library_zip(tmp_path)
    code = "import waybill.report as r; print(r.__file__, len(r.STAGES))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(made)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [f"{made}/waybill/report.py", "5"]


def test_it_finds_the_suites_of_the_gate(tmp_path):
    made = library_zip(tmp_path)
    code = "from waybill.validate.suites import load_suite; print(load_suite('changes').name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(made)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["changes"]


def test_a_wheel_holds_the_suites(tmp_path):
    root = Path(__file__).parents[2]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    suites = ("changes", "tables", "trends")
    assert {f"waybill/validate/suites/{name}.json" for name in suites} <= set(names)
