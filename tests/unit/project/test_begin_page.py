"""The example of docs/begin.md does what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.unit.cli.command_line import PROJECT, waybill_process
from waybill.spec.file import load_migration

PAGE = (PROJECT / "docs" / "begin.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_example_writes_the_file_that_is_shown(tmp_path, monkeypatch):
    (tmp_path / "migrations").mkdir()
    (tmp_path / "samples").symlink_to(PROJECT / "samples")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(blocks("")[0])
    assert words.pop(0) == "waybill"
    done = waybill_process(*words, given=b"")
    assert done.returncode == 0, done.stderr.decode()
    file = Path("migrations/my_shop.yaml")
    text = file.read_text(encoding="utf-8")
    (shown,) = blocks("yaml")
    assert [line for line in shown.splitlines() if line not in text.splitlines()] == []
    spec = load_migration(file)
    assert [target.envelope for target in spec.publish] == ["debezium-json"]
    assert done.stdout.decode().rstrip().endswith(f"next: waybill run {file.resolve()}")
