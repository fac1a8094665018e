"""What a person may let through, and how the gate knows it again; without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.unit.validate.test_page import HOSTILE, checked, result, seen
from waybill.cli.app import app
from waybill.cli.gate import login_name
from waybill.errors import ConfigurationError
from waybill.lake.commit import Commit
from waybill.lake.decisions import APPROVED, DROPPED, HELD, STAMPS, GateDecision, decision_on
from waybill.report import StageReport
from waybill.validate.batch import judged_before
from waybill.validate.expectations import nothing_to_check
from waybill.validate.page import gate_page
from waybill.validate.result import GateResult, finding_mark, verdict_mark
from waybill.validate.suites import is_waivable, load_suite


def kept(found: GateResult) -> GateResult:
    """A result as it comes back from where it was kept."""
    return GateResult.from_dict(json.loads(json.dumps(found.to_dict(), default=str)))


def outcome(found: GateResult, *approved) -> str:
    found.judge("stop", [finding_mark(check) for check in approved])
    return found.outcome


def test_what_was_approved_is_let_through_and_nothing_else():
    one, other = checked(description="one"), checked(type="expect_y")
    assert outcome(result(checks=[one]), one) == "approved"
    assert outcome(result(checks=[one, other]), one) == "failed"
    assert outcome(result(checks=[one]), one, other) == "approved", "less than that is no worse"
    assert outcome(result(checks=[one])) == "failed"
    assert outcome(result(checks=[checked(True)]), one) == "passed"


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "other"},
        {"profile": "changes"},
        {"table": "shop.orders"},
        {"type": "expect_y"},
        {"arguments": {"column": "x", "max_value": 1}},
        {"observed": [{"where": "a", "value": 4}]},
        {"observed": [{"where": "b", "value": 3}]},
        {"observed": []},
        {"unexpected": 3},
    ],
)
def test_another_rule_or_another_figure_is_another_finding(change):
    check = checked(observed=[{"where": "a", "value": 3}])
    assert finding_mark(replace(check, **change)) != finding_mark(check)


def test_a_sample_of_rows_is_known_again_by_its_number():
    check = checked(observed=[{"where": "k1"}], unexpected=7, description="x", look="y")
    again = replace(check, observed=[{"where": "k2"}], description="z", look="")
    assert finding_mark(again) == finding_mark(check)
    both = [{"where": "a", "value": 1}, {"where": "b", "value": 2}]
    one, other = checked(observed=both), checked(observed=both[::-1])
    assert finding_mark(one) == finding_mark(other)


def test_a_finding_is_known_again_after_it_was_kept():
    odd = [{"where": "\udce9", "value": float("nan")}, {"where": Path("p"), "value": {"b": 1.5}}]
    found = result(checks=[checked(observed=odd, arguments={"columns": ("a", "b")})])
    assert verdict_mark(kept(found).failures("critical")) == verdict_mark(found.checks)


def test_results_of_older_versions_are_read():
    data = result().to_dict()
    del data["decision"], data["costs"]
    for check in data["checks"]:
        del check["waivable"], check["note"]
    assert GateResult.from_dict(data).checks[0].waivable is True


def test_no_one_waives_what_the_suite_says_or_what_was_not_checked():
    never, error = checked(waivable=False), checked(error="there is no column 'x'")
    assert not never.may_be_waived
    assert outcome(result(checks=[never]), never) == "failed"
    assert outcome(result(checks=[error]), error) == "failed"


def test_what_the_product_lets_no_one_waive():
    waivable = {
        item["kwargs"]["column"]
        for name in ("changes", "tables")
        for item in load_suite(name).expectations
        if item["severity"] == "critical" and is_waivable(item)
    }
    assert waivable == {"refused_share"}
    suite = load_suite("changes")
    assert [nothing_to_check(suite, item).waivable for item in suite.expectations] == [
        is_waivable(item) for item in suite.expectations
    ]


def test_a_suite_that_is_unclear_about_it_is_not_loaded(tmp_path):
    file = tmp_path / "own.json"
    rule = {"type": "expect_column_to_exist", "meta": {"waivable": "no"}}
    content = {"name": "own", "meta": {"profile": "changes"}, "expectations": [rule]}
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigurationError, match=r"meta\.waivable of expectation 0 is neither"):
        load_suite(str(file))


def test_the_page_says_who_decided_and_why():
    decision = GateDecision(APPROVED, "b1", HOSTILE, "2026-01-01", HOSTILE, "", [{"rule": HOSTILE}])
    found = result(decision=decision._asdict(), checks=[checked(waivable=False)])
    found.outcome = "approved"
    page = gate_page(found)
    assert "<script" not in page
    text = seen(page).text
    assert "Approved: a person decided to publish it" in text
    assert text.count("alert('1')") >= 3
    assert "never waived" in text
    assert asdict(kept(found)) == asdict(found)


def test_who_decides_is_whom_the_system_knows(monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody-else")
    monkeypatch.setenv("USER", "somebody-else")
    assert login_name() not in {"", "somebody-else"}
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    assert login_name() == "user 4000000000"


@pytest.mark.parametrize("command", ["approve", "drop"])
def test_a_decision_without_a_reason_is_refused_before_spark_starts(command, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text("name: small\nsource: {files: {path: in}, envelope: canal}\n")
    run = CliRunner().invoke(app, ["gate", command, str(file)])
    assert run.exit_code == 2
    assert "--reason" in run.output
    run = CliRunner().invoke(app, ["gate", command, str(file), "--reason", " \t"])
    assert "a decision needs a reason" in str(run.exception)


@pytest.mark.parametrize("command", ["approve", "drop"])
def test_the_help_says_what_follows(command):
    output = CliRunner().invoke(app, ["gate", command, "--help"]).output
    assert "next run" in " ".join(output.split())
    assert "--reason" in output


def test_a_decision_of_before_names_no_rows():
    rule = {"rule": "No e-mail is missing (7 rows: ann@example.com)", "finding": "1f"}
    decision = GateDecision("approved", "b1", "ann", "now", "known", "before", [rule])._asdict()
    shown = [{**rule, "rule": "No e-mail is missing (7 rows)"}]
    assert result(decision=decision).without_values().decision == {**decision, "rules": shown}
    report = StageReport("validate", "b1", details={"decision": decision, "outcome": APPROVED})
    report.warnings = [f"critical: {rule['rule']}", "warning: The share is low (found t: 0.4)"]
    commit = Commit(7, "b1", "validate", {"merges": 3}, report.to_dict(), 0, None)
    again = judged_before(commit)
    assert again.repeated
    assert again.details["decision"]["rules"] == shown
    assert again.warnings == [f"critical: {shown[0]['rule']}", report.warnings[1]]
    # What is carried out now is kept as it is shown.
    merge = Commit(3, "b1", "merge", {}, {}, 0, None)
    approved = commit._replace(stage=STAMPS[APPROVED])
    lake = SimpleNamespace(log=str, commits=lambda _: [approved])
    assert decision_on(lake, merge).rules == shown


@pytest.mark.parametrize(
    ("newest_first", "waits", "shown"),
    [
        ([], None, None),
        ([APPROVED], APPROVED, APPROVED),
        ([DROPPED, APPROVED], DROPPED, APPROVED),
        (["no", APPROVED], None, None),
        # The gate was judging when somebody dropped the batch.
        (["no", DROPPED, "no"], DROPPED, None),
        (["no", DROPPED, APPROVED], DROPPED, None),
        ([APPROVED, "no", APPROVED], APPROVED, APPROVED),
    ],
)
def test_which_decision_counts(newest_first, waits, shown):
    """An approval is about the last no of the gate; a drop is final until a table shows it."""
    merge = Commit(3, "b1", "merge", {}, {}, 0, None)
    commits = []
    for what in newest_first:
        decision = GateDecision(what, "b1", "ann", "now", "known", "before", [])._asdict()
        report = StageReport("decide", "b1", details={"decision": decision}).to_dict()
        stage = STAMPS.get(what, HELD)
        commits.append(Commit(7, "b1", stage, {"merges": 3}, report, 0, None))
        commits.append(Commit(7, "b0", HELD, {"merges": 2}, report, 0, None))
    lake = SimpleNamespace(log=str, commits=lambda _: commits)
    found = [decision_on(lake, merge), decision_on(lake, merge, shown=True)]
    assert [None if one is None else one.what for one in found] == [waits, shown]
