"""`waybill init` in this process, over messages as they stand in golden cases."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.unit.inprocess.test_detect import case_of, messages_of
from waybill.cli.init import InitOptions, init_command
from waybill.inprocess.kafka_files import MessageFile
from waybill.protocol import Encoded

if TYPE_CHECKING:
    import pytest

    from waybill.records import Message

SWITCHED_OFF = re.compile(r"^(\s*)#(?=(?:  )*[^\s#])", re.MULTILINE)
"""A `#` before a field: behind it stand no blanks, or those of two for each field around."""


def put(folder: Path, messages: list[Message]) -> Path:
    """A folder with a file of messages, keys and headers too."""
    source = folder / "in"
    source.mkdir()
    with (source / "0.parquet").open("wb") as sink, MessageFile(sink, messages[0].topic) as out:
        out.write([Encoded(m.key, m.value, m.headers) for m in messages], messages)
    return source


def golden_options(folder: Path, path: Path) -> dict[str, Any]:
    """A golden case as a source, and the options with the settings of its envelope there."""
    case = case_of(path)
    options: dict[str, Any] = {"source": str(put(folder, messages_of(path))), "settings": []}
    for name, value in case.settings.items():
        if name == "schemas":
            options["schemas"] = folder / "schemas.json"
            options["schemas"].write_text(json.dumps(value))
        else:
            text = json.dumps(value) if isinstance(value, list | dict) else str(value)
            options["settings"].append(f"{name}={text}")
    if case.tables:
        options["tables"] = folder / "tables.json"
        options["tables"].write_text(json.dumps(case.tables))
    return options


def drafted(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    """What `--json` says; the exit code stands in it as `code`."""
    code = 0
    capsys.readouterr()
    try:
        init_command(InitOptions(**options, json=True))
    except SystemExit as end:
        code = int(str(end.code))
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {**data, "code": code}


def decided(file: Path) -> Path:
    """The file with every proposal taken: each `#` before a field is gone."""
    text = SWITCHED_OFF.sub(r"\1", file.read_text(encoding="utf-8"))
    taken = file.with_name("decided.yaml")
    taken.write_text(text, encoding="utf-8")
    return taken


def wrong(data: dict[str, Any]) -> list[str]:
    """What the check found to fix."""
    return [f"{f['about']}: {f['text']}" for f in data["findings"] if f["verdict"] == "wrong"]
