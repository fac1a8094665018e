"""A worker is left without archives that the next task would read anew, and works as before."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from waybill.spark_tasks.worker_startup import light


def test_archives_are_forgotten_and_found_again(tmp_path: Path, monkeypatch) -> None:
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("first_of_it/__init__.py", "")
        out.writestr("second_of_it.py", "answer = 42")
    monkeypatch.syspath_prepend(str(archive))

    def make(batches):
        importlib.import_module("first_of_it")
        yield from batches

    def known() -> list[str]:
        finders = sys.path_importer_cache.items()
        return [path for path, finder in finders if isinstance(finder, zipimporter)]

    work = light(make)([1, 2])
    assert next(work) == 1
    assert known()
    assert list(work) == [2]
    assert known() == []
    assert importlib.import_module("second_of_it").answer == 42


def test_a_task_that_fails_forgets_them_too(tmp_path: Path, monkeypatch) -> None:
    def make(batches):
        monkeypatch.setitem(sys.path_importer_cache, "a", zipimporter(str(archive)))
        raise ValueError("bad")
        yield

    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("a.py", "")
    with pytest.raises(ValueError, match="bad"):
        list(light(make)([]))
    assert "a" not in sys.path_importer_cache
