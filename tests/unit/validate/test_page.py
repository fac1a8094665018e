"""The gate's page and suites, without Spark."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from waybill.errors import ConfigurationError
from waybill.spec.migration import Migration
from waybill.validate.great_expectations_context import in_memory, loaded
from waybill.validate.page import gate_page
from waybill.validate.result import Checked, GateResult, sentence_of
from waybill.validate.results import keep, read_page, read_result
from waybill.validate.suites import load_suite, load_suites

HOSTILE = "<script src=//evil.test/x.js>alert('1')</script>\"'&{{7*7}}\x1b[31m"


def checked(success: bool = False, severity: str = "critical", **fields) -> Checked:
    given = {
        "suite": "tables",
        "profile": "tables",
        "type": "expect_x",
        "arguments": {"column": HOSTILE},
        "severity": severity,
        "description": f"Expected {severity}.",
        "look": HOSTILE,
        "success": success,
        "observed": [] if success else [{"where": HOSTILE, "value": 3}],
    }
    return Checked(**{**given, **fields})


def result(**fields) -> GateResult:
    stage = {
        "stage": "merge",
        "batch": HOSTILE,
        "rows_in": 12345,
        "extra_in": {HOSTILE: 1},
        "rows_out": 5,
        "refused": {HOSTILE: 1},
        "superseded": 2,
        "skipped": {HOSTILE: 3},
        "waiting": 0,
        "losses": {HOSTILE: {HOSTILE: 4}},
        "seconds": 1.25,
    }
    given = {
        "migration": "shop",
        "batch": HOSTILE,
        "time": "2026-01-01T00:00:00+00:00",
        "checks": [checked(True), checked(severity="warning"), checked()],
        "profiles": {"tables": [{"table": HOSTILE, HOSTILE: 1}], "changes": []},
        "differences": [{"target": HOSTILE, "table": HOSTILE, "change": HOSTILE, "what": HOSTILE}],
        "accounts": [HOSTILE],
        "stages": [stage],
    }
    return GateResult(**{**given, **fields})


class Seen(HTMLParser):
    """What a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def seen(page: str) -> Seen:
    parser = Seen()
    parser.feed(page)
    return parser


def test_the_page_loads_nothing_from_anywhere():
    page = gate_page(result())
    for tag, attributes in seen(page).tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
        assert not {"src", "href", "action", "style"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page


def test_names_of_others_are_text_and_nothing_else():
    page = gate_page(result())
    assert "<script" not in page
    assert "{{7*7}}" in seen(page).text
    assert seen(page).text.count("alert('1')") >= 10


def test_failures_stand_first_and_the_gravest_before_the_rest():
    text = seen(gate_page(result())).text
    first, second, third = (
        text.index("Expected critical."),
        text.index("Expected warning."),
        text.rindex("Expected critical."),
    )
    assert first < second < third


def test_the_page_is_readable_in_light_and_dark():
    page = gate_page(result())
    assert "color-scheme: light dark" in page
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize(
    ("checks", "on_failure", "outcome"),
    [
        ([checked(True)], "stop", "passed"),
        ([checked(severity="warning")], "stop", "passed"),
        ([checked()], "stop", "failed"),
        ([checked()], "report", "reported"),
    ],
)
def test_only_critical_failures_hold_a_batch(checks, on_failure, outcome):
    judged = result(checks=checks)
    judged.judge(on_failure)
    assert judged.outcome == outcome
    assert gate_page(judged)


def test_a_failure_in_one_line():
    many = [{"where": f"t{i}", "value": i} for i in range(7)]
    sentence = sentence_of(checked(observed=many))
    assert sentence.startswith("Expected critical (found t0: 0, t1: 1,")
    assert sentence.endswith("and 2 more)")
    share = sentence_of(checked(observed=[{"where": "shop", "value": 0.1590909090909091}]))
    assert share == "Expected critical (found shop: 0.1591)"
    assert "; not checked: no column" in sentence_of(checked(error="no\n column"))


def test_results_are_kept_and_found_by_any_batch_id(tmp_path):
    spec = Migration.model_validate(
        {
            "name": "shop",
            "source": {"files": {"path": "x"}, "envelope": "canal"},
            "lake": {"warehouse": str(tmp_path)},
        }
    )
    data, page = keep(spec, result(accounts=["half a pair \ud83d"]))
    assert Path(data).is_relative_to(tmp_path / "shop/reports")
    assert Path(page).name == "gate.html"
    assert json.loads(Path(data).read_text())["batch"] == HOSTILE
    assert read_result(spec, HOSTILE)["batch"] == HOSTILE
    assert "shop" in read_page(spec, HOSTILE)
    assert read_page(spec, "../../../etc") is None


# Suites


@pytest.mark.parametrize("name", ["changes", "tables", "trends"])
def test_the_suites_that_come_with_the_product(name):
    suite = load_suite(name)
    assert suite.name == suite.over.name == name
    for expectation in suite.expectations:
        assert expectation["description"].endswith(".")
        assert expectation["severity"] in {"critical", "warning", "info"}
        assert expectation["meta"]["look"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is not JSON"),
        ("[]", "it has no name"),
        ('{"name": "x"}', "it has no list of expectations"),
        ('{"name": "x", "expectations": [{"type": "e"}]}', r"meta\.profile must be one of"),
        (
            '{"name": "x", "meta": {"profile": "tables"}, "expectations": [{}]}',
            "expectation 0 has no type",
        ),
        (
            '{"name": "x", "meta": {"profile": "tables"},'
            ' "expectations": [{"type": "e", "severity": "bad"}]}',
            "the severity of expectation 0",
        ),
    ],
)
def test_a_file_that_is_no_suite(tmp_path, content, sentence):
    file = tmp_path / "suite.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=sentence):
        load_suite(str(file))


def test_a_suite_that_is_not_there(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no suite 'cahnges'"):
        load_suite("cahnges")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_suite(str(tmp_path / "no.json"))


@pytest.mark.parametrize(
    ("meta", "wrong"),
    [
        ({}, "must name instead what it runs over by one of rows, changes, published"),
        ({"rows": "a.b", "profile": "tables"}, "must name instead"),
        ({"rows": ""}, r"meta\.rows must be a name"),
        ({"rows": ["a.b"]}, r"meta\.rows must be a name"),
        ({"rows": "a.b", "of": "all"}, r"meta\.of belongs with meta\.rows and is one of"),
        ({"changes": "a.b", "of": "table"}, r"meta\.of belongs with meta\.rows"),
        ({"rows": "a.b", "show_values": "id"}, r"meta\.show_values must be a list"),
        ({"profile": "tables", "show_values": True}, "it runs over a profile"),
        ({"rows": "a.b", "query": "SELECT 1 FROM a.b"}, "does not read {batch}"),
    ],
)
def test_what_a_suite_may_run_over(tmp_path, meta, wrong):
    query = meta.pop("query", "SELECT * FROM {batch}")
    rule = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}}
    file = tmp_path / "suite.json"
    file.write_text(json.dumps({"name": "x", "meta": meta, "expectations": [rule]}))
    with pytest.raises(ConfigurationError, match=wrong):
        load_suite(str(file))


def test_two_suites_of_one_name_are_refused(tmp_path):
    file = tmp_path / "mine.json"
    rule = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}}
    file.write_text(json.dumps({"name": "tables", "meta": {"rows": "a.b"}, "expectations": [rule]}))
    with pytest.raises(ConfigurationError, match="named 'tables', as suite tables is: give each"):
        load_suites(["changes", "tables", str(file)])


def test_rows_that_are_shown_by_their_key_alone():
    rows = checked(observed=[{"where": "k1"}, {"where": "k2", "value": "x 3"}], unexpected=7)
    assert sentence_of(rows) == "Expected critical (7 rows: k1, k2: x 3 and 5 more)"
    assert sentence_of(checked(observed=[], unexpected=1)) == "Expected critical (1 row)"
    text = seen(gate_page(result(checks=[rows]))).text
    assert "k2: x 3" in text
    assert "and 5 more" in text


def test_the_suites_in_the_docs_can_be_loaded(tmp_path):
    text = (Path(__file__).parents[3] / "expectations/README.md").read_text()
    shown = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert len(shown) == 2
    for number, content in enumerate(shown):
        file = tmp_path / f"{number}.json"
        file.write_text(content)
        suite = load_suite(str(file))
        with in_memory():
            assert len(loaded(suite).expectations) == len(suite.expectations)
