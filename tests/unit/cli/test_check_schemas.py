"""`waybill check` tries schemas out and leaves none behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.schema_registry import schema_registry
from tests.unit.inprocess.test_converter import canal, history
from waybill.cli.check import check
from waybill.cli.findings import OK, WRONG
from waybill.spec.migration import Migration


@pytest.fixture
def spec(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(b"\n".join([*history(6), canal(9), b""]))

    def make(**settings: Any) -> Migration:
        target = {"envelope": "debezium-avro", "name": "out", "settings": settings}
        files = {"path": str(tmp_path / "out"), "layout": "parquet"}
        return Migration.model_validate(
            {
                "name": "demo",
                "source": {"files": {"path": str(tmp_path / "in")}, "envelope": "canal"},
                "publish": [{**target, "files": files}],
                "lake": {"warehouse": str(tmp_path / "lake")},
            }
        )

    return make


def said(spec: Migration) -> list[tuple[str, str]]:
    """What is found of the target's messages."""
    return [(f.verdict, f.text) for f in check(spec) if f.about == "target out"]


def test_no_schema_is_registered(spec):
    with schema_registry() as server:
        assert any("the sample becomes" in text for _, text in said(spec(registry=server.url)))
        assert server.subjects == {}
        assert any("/compatibility/subjects/" in asked for asked in server.asked)


def test_a_schema_that_would_not_be_taken_is_reported(spec):
    with schema_registry() as server:
        server.incompatible = True
        (found,) = [text for verdict, text in said(spec(registry=server.url)) if verdict == WRONG]
        assert "finds the schema incompatible with earlier ones when asked about" in found
        assert server.subjects == {}


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_a_registry_that_is_not_there_is_one_finding_of_several(spec, path):
    with schema_registry() as server:
        url = server.url + path
    findings = list(check(spec(registry=url)))
    wrong = [f.text for f in findings if f.verdict == WRONG]
    assert [text.partition(" at ")[0] for text in wrong] == ["WB-8101: the schema registry"]
    assert "lake" in {f.about for f in findings if f.verdict == OK}


def test_no_schema_file_is_written(spec, tmp_path):
    folder = tmp_path / "schemas"
    assert any("the sample becomes" in text for _, text in said(spec(schemas=str(folder))))
    assert not folder.exists() or not list(folder.iterdir())
