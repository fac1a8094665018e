"""Great Expectations' own site, of what the gate has said."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.validate.test_page import HOSTILE, checked, result
from waybill.cli.site import site_command
from waybill.errors import ConfigurationError
from waybill.spec.migration import Migration
from waybill.validate import data_docs
from waybill.validate.data_docs import STATE, build_site
from waybill.validate.result import Cost, GateResult
from waybill.validate.results import keep, read_validations, validation_files
from waybill.validate.validations import validations_of

BETWEEN = {
    "type": "expect_column_values_to_be_between",
    "arguments": {"column": "refused_share", "min_value": 0, "max_value": 0.05},
}
NOT_NULL = {
    "suite": "own",
    "profile": "written rows of shop.orders",
    "type": "expect_column_values_to_not_be_null",
    "arguments": {"column": "email"},
    "table": "shop.orders",
}


def verdict(batch: str, number: int, *checks) -> GateResult:
    given = checks or (
        checked(True, suite="changes", profile="changes", **BETWEEN),
        checked(observed=[{"where": '{"id": "7"}'}], unexpected=30, **NOT_NULL),
    )
    return result(
        batch=batch,
        time=f"2026-01-01T00:00:{number:02d}+00:00",
        checks=list(given),
        profiles={"changes": [{"topic": "shop"}, {"topic": "other"}]},
        costs=[Cost("own", "written rows of shop.orders", 120, 0.1, 1)],
    )


@pytest.fixture
def spec(tmp_path: Path) -> Migration:
    source = {"files": {"path": "in"}, "envelope": "canal"}
    lake = {"warehouse": str(tmp_path / "lake")}
    return Migration.model_validate({"name": "demo", "source": source, "lake": lake})


def pages(folder: Path) -> dict[str, int]:
    """When each page of a result was written."""
    found = (folder / "validations").rglob("*.html")
    return {str(page.relative_to(folder)): page.stat().st_mtime_ns for page in found}


def test_a_batch_adds_its_pages_and_no_other_is_made_again(spec, tmp_path, monkeypatch):
    site = tmp_path / "site"
    keep(spec, verdict("b1", 1))
    built = build_site(spec, str(site))
    assert (built.page, built.added, built.verdicts) == (str(site / "index.html"), 1, 1)
    first = pages(site)
    assert len(first) == 2
    for page in first:
        os.utime(site / page, ns=(1, 1))

    read = []

    def reading(spec, name):
        read.append(name)
        return read_validations(spec, name)

    monkeypatch.setattr(data_docs, "read_validations", reading)
    keep(spec, verdict("b2", 2))
    built = build_site(spec, str(site))
    assert (built.added, built.verdicts) == (1, 2)
    assert read == ["20260101T000002Z_b2.json"]
    both = pages(site)
    assert len(both) == 4
    assert {page for page, written in both.items() if written == 1} == first.keys()
    index = (site / "index.html").read_text()
    linked = set(re.findall(r"validations/[\w./=-]+\.html", index))
    assert linked == both.keys()
    assert build_site(spec, str(site)).added == 0


def test_a_page_says_what_was_found_and_not_more(spec, tmp_path):
    keep(spec, verdict("b1", 1))
    build_site(spec, str(tmp_path / "site"))
    (page,) = (tmp_path / "site" / "validations" / "own").rglob("*.html")
    text = page.read_text()
    assert "30" in text
    assert "120" in text
    assert "email" in text
    assert "7" in text


def test_a_batch_that_is_judged_again_has_a_page_of_each_verdict(spec, tmp_path):
    keep(spec, verdict("b1", 1))
    keep(spec, verdict("b1", 2))
    keep(spec, verdict("b1", 2))
    assert len(validation_files(spec)) == 2
    build_site(spec, str(tmp_path / "site"))
    assert len(pages(tmp_path / "site")) == 4


def test_names_of_others_are_text_and_nothing_else(spec, tmp_path):
    hostile = checked(
        suite=HOSTILE,
        profile=HOSTILE,
        type="expect_column_values_to_be_between",
        description=HOSTILE + "$column ${x}",
        arguments={"column": HOSTILE, "max_value": 1},
        observed=[{"where": HOSTILE, "value": "\udce9"}],
    )
    broken = checked(error=HOSTILE, **NOT_NULL)
    figure = checked(type="expect_table_row_count_to_be_between", arguments={"min_value": 1})
    figure = replace(figure, observed=[{"where": "", "value": 1e300}])
    keep(spec, verdict(HOSTILE, 1, hostile, broken, figure, checked(True, **NOT_NULL)))
    assert build_site(spec, str(tmp_path / "site")).failed == []
    for page in (tmp_path / "site").rglob("*.html"):
        assert "<script src=//evil" not in page.read_text(), page
        assert "alert('1')</script>" not in page.read_text(), page
    assert len(pages(tmp_path / "site")) == 3


def test_what_no_page_is_made_of_is_said(spec, tmp_path):
    keep(spec, verdict("b1", 1, checked(type="expect_nothing_that_there_is")))
    assert build_site(spec, str(tmp_path / "site")).failed == ["tables of batch b1"]


def test_they_are_results_that_great_expectations_reads(spec):
    from great_expectations.core.expectation_validation_result import (
        expectationSuiteValidationResultSchema,
    )

    for data in json.loads(json.dumps(validations_of(verdict("b1", 1)))):
        loaded = expectationSuiteValidationResultSchema.load(data)
        assert loaded["success"] is (data["suite_name"] == "changes")
        assert loaded["statistics"]["evaluated_expectations"] == 1


def test_a_build_that_was_ended_is_done_again(spec, tmp_path, monkeypatch):
    site = tmp_path / "site"
    keep(spec, verdict("b1", 1))
    monkeypatch.setattr(data_docs, "_keep", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_site(spec, str(site))
    monkeypatch.undo()
    assert build_site(spec, str(site)).added == 1
    assert len(pages(site)) == 2


def test_where_no_site_is_built(spec, tmp_path):
    site = tmp_path / "site"
    with pytest.raises(ConfigurationError, match="the gate has judged no batch of demo yet"):
        build_site(spec, str(site))
    keep(spec, verdict("b1", 1))
    site.write_text("mine")
    with pytest.raises(ConfigurationError, match="is a file: name a folder"):
        build_site(spec, str(site))
    site.unlink()
    site.mkdir()
    (site / "letters.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"letters\.txt and is not a site of Waybill"):
        build_site(spec, str(site))
    (site / "letters.txt").unlink()
    build_site(spec, str(site))
    state = json.loads((site / STATE).read_text())
    (site / STATE).write_text(json.dumps({**state, "migration": "other"}))
    with pytest.raises(ConfigurationError, match="is the site of other, not of demo"):
        build_site(spec, str(site))
    (site / STATE).write_text("{")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        build_site(spec, str(site))


def test_the_command(spec, tmp_path, capsys):
    file = tmp_path / "demo.yaml"
    file.write_text(
        f"name: demo\nsource: {{files: {{path: in}}, envelope: canal}}\n"
        f"lake: {{warehouse: '{tmp_path}/lake'}}\n"
    )
    keep(spec, verdict("b1", 1))
    site_command(file, str(tmp_path / "site"), as_json=True)
    document = json.loads(capsys.readouterr().out)
    page = str(tmp_path / "site" / "index.html")
    assert document == {"page": page, "added": 1, "verdicts": 1, "failed": []}
    site_command(file, str(tmp_path / "site"), as_json=False)
    assert "1 verdict of the gate, 0 of them new" in capsys.readouterr().out
