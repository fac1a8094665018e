"""Compiled functions: kept code is loaded without the compiler, and only if it is the right one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from waybill.bulk.compiling import Compiled, compiled
from waybill.bulk.native import kept

_TOTAL = """
import sys
import numpy as np
from waybill.bulk.compiling import compiled

@compiled
def _twice(value):
    return value * {factor}

@compiled
def total(values, more):
    found = 0
    for i in range(values.shape[0]):
        found += _twice(values[i])
    return found + more

assert total(np.arange(4), 1) == {factor} * 6 + 1
print("numba" in sys.modules)
"""


def _compiles(folder: Path, factor: int = 2, cache: Path | None = None) -> bool:
    """Whether a process of its own that calls a function had to compile it."""
    module = folder / "total.py"
    module.write_text(_TOTAL.format(factor=factor))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache or folder / "kept")}
    words = [sys.executable, str(module)]
    done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip() == "True"


def test_kept_code_needs_no_compiler_and_is_never_the_wrong_one(tmp_path: Path) -> None:
    assert _compiles(tmp_path)
    assert not _compiles(tmp_path)
    # What a function does that is called by the one that is kept.
    assert _compiles(tmp_path, factor=3)
    assert not _compiles(tmp_path, factor=2)
    for stored in (tmp_path / "kept").iterdir():
        stored.write_bytes(stored.read_bytes()[:-9] + b"something")
    assert _compiles(tmp_path)
    assert not _compiles(tmp_path)


def test_code_of_a_library_in_an_archive_is_kept_in_the_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    archive = tmp_path / "library.zip"
    archive.touch()
    names: dict[str, Any] = {}
    exec(compile("def f(value):\n    return value + 1", str(archive / "f.py"), "exec"), names)
    assert Compiled(names["f"])(1) == 2
    (stored,) = (tmp_path / "caches" / "waybill").iterdir()
    assert stored.name.startswith("f.")


def test_without_a_home_there_is_no_cache(monkeypatch) -> None:
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert [folder.name for folder in kept._folders(_sum)] == ["__pycache__"]


def test_without_a_place_each_process_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for _ in range(2):
        assert _compiles(tmp_path, cache=tmp_path / "file" / "folder")


@pytest.mark.parametrize("damage", [lambda _: b"", lambda b: b[:-9], lambda b: b[:40] + b"x" * 99])
def test_damaged_code_is_not_read(tmp_path: Path, damage) -> None:
    code = kept.MachineCode("f", "none", ["malloc"], bytes(200))
    assert kept._kept(code, tmp_path, "f.code")
    stored = tmp_path / "f.code"
    assert kept._read(stored) == code
    stored.write_bytes(damage(stored.read_bytes()))
    assert kept._read(stored) is None


@compiled
def _sum(values):
    found = 0.0
    for i in range(values.shape[0]):
        found += values[i]
    return found


@pytest.mark.parametrize(
    "values",
    [
        np.arange(5, dtype=np.int32),
        np.arange(5, dtype=np.int64),
        np.arange(5, dtype=np.longlong),
        np.arange(10)[::2],
        np.arange(5, dtype=np.uint8),
        np.arange(5, dtype=np.float32),
        np.array([True, False]),
        np.zeros(0, np.int32),
        np.frombuffer(b"x" + np.arange(5).tobytes(), np.uint8)[1:].view(np.int64),
        np.frombuffer(bytes(range(9)), np.uint8),
    ],
)
def test_arrays_of_any_type_and_layout(values) -> None:
    for _ in range(2):
        assert _sum(values) == values.sum()


@pytest.mark.parametrize(
    "values", [[1, 2], None, "text", np.arange(3).astype(">i8"), np.zeros((2, 2)), 7]
)
def test_what_a_function_does_not_take_is_an_error(values) -> None:
    assert _sum(np.arange(3)) == 3
    with pytest.raises(Exception, match=r"take numbers|[tT]yp"):
        _sum(values)
    assert _sum(np.arange(3)) == 3


@compiled
def _fill(values):
    for i in range(values.shape[0]):
        values[i] = 7


def test_what_may_not_be_written_to_is_not() -> None:
    stored = b"abc"
    values = np.zeros(3, np.uint8)
    _fill(values)
    assert values.tolist() == [7, 7, 7]
    with pytest.raises(Exception, match="readonly"):
        _fill(np.frombuffer(stored, np.uint8))
    assert stored == b"abc"


@compiled
def _pair(value):
    return value, value


def test_more_than_a_number_is_not_returned() -> None:
    with pytest.raises(TypeError, match=r"_pair returns .+; compiled functions return"):
        _pair(1)


def _digest(factor: int) -> bytes:
    names: dict[str, Any] = {"factor": factor, "np": np}
    exec("def scaled(value):\n    return value * factor", names)
    return Compiled(names["scaled"]).digest


def test_the_digest_is_of_constants_too() -> None:
    assert _digest(2) == _digest(2)
    assert _digest(2) != _digest(3)


def test_code_that_needs_what_the_process_lacks_is_not_loaded(tmp_path: Path) -> None:
    code = kept.MachineCode("f", "none", ["no_such_function_of_c"], b"")
    assert kept._kept(code, tmp_path, "f.code")
    assert kept._read(tmp_path / "f.code") is None
