"""A person decides about a batch that the gate holds: publish it as it is, or drop it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.spark.line import Killed, Line, insert, kill
from tests.spark.test_gate_and_publish import tamper
from tests.spark.test_held_batches import hold
from waybill.cli.status import stage_status
from waybill.errors import Code, ConfigurationError, GateError
from waybill.jobs import run_stage
from waybill.lake.decisions import APPROVED, DROPPED, GateDecision, RequestedDecision
from waybill.stage_context import Options
from waybill.validate import deciding
from waybill.validate import stage as gate
from waybill.validate.deciding import decide
from waybill.validate.results import read_page, read_result

pytestmark = pytest.mark.spark

APPROVE = RequestedDecision(APPROVED, "ann", "the bank has\nconfirmed them")
DROP = RequestedDecision(DROPPED, "bob", "the type is declared")


@pytest.fixture
def line(spark, tmp_path: Path) -> Line:
    return Line(spark, tmp_path)


def decided(line: Line, asked: RequestedDecision, batch: str | None = None) -> GateDecision:
    return decide(line.spec, line.lake, asked, batch)


def stamps(line: Line) -> list[str]:
    """What was written into `runs`, oldest first."""
    return [commit.stage for commit in line.lake.commits(line.lake.log("runs"))][::-1]


def fails(line: Line, code: Code, batch: str, **options) -> str:
    with pytest.raises(GateError) as caught:
        line.run(batch, **options)
    assert caught.value.code is code
    return str(caught.value)


def test_an_approved_batch_is_published_by_the_next_run(line: Line) -> None:
    hold(line)
    assert "waybill gate approve FILE" in fails(line, Code.BATCH_HELD, "b2")
    decision = decided(line, APPROVE)
    assert line.rows() == ["0"], "nothing is visible before the next run"
    assert (decision.batch, decision.reason) == ("b1", "the bank has confirmed them")
    assert "The share of refused messages" in decision.rules[0]["rule"]
    assert stage_status(line.lake, "merge")["decision"]["by"] == "ann"
    result = read_result(line.spec, "b1")
    assert (result["outcome"], result["decision"]["by"]) == ("failed", "ann")

    line.feed("2", insert(5))
    line.run("b3")
    assert line.rows() == line.sent == ["0", "1", "5"]
    result = read_result(line.spec, "b1")
    assert result["outcome"] == "approved"
    assert result["decision"] == decision._asdict()
    page = read_page(line.spec, "b1")
    assert "Approved" in page
    assert "the bank has confirmed them" in page
    rows = line.lake.read(line.lake.log("runs")).orderBy("time").collect()
    of_b1 = [(row.stage, row.outcome) for row in rows if row.batch == "b1"]
    assert of_b1 == [("validate", "failed"), ("decide", "approved"), ("validate", "approved")]
    kept = next(json.loads(row.result) for row in rows if row.stage == "decide")
    assert (kept["by"], kept["what"], kept["rules"]) == ("ann", APPROVED, decision.rules)
    assert stage_status(line.lake, "merge")["held"] is None
    with pytest.raises(ConfigurationError, match="no batch of demo is held"):
        decided(line, APPROVE)


def test_an_approved_batch_is_published_by_its_own_run(line: Line) -> None:
    hold(line, before=False)
    decided(line, APPROVE, "b1")
    report = line.run("b1").stage("validate")
    assert report.details["outcome"] == "approved"
    assert report.details["decision"]["by"] == "ann"
    assert line.rows() == line.sent == ["1"]
    line.feed("2", insert(5))
    line.run("b2")
    assert line.sent == ["1", "5"]


def test_a_decision_is_taken_once(line: Line, monkeypatch) -> None:
    hold(line)
    monkeypatch.setattr(deciding, "keep", kill)
    with pytest.raises(Killed):
        decided(line, APPROVE)
    monkeypatch.undo()
    assert read_result(line.spec, "b1").get("decision") is None
    first = decided(line, APPROVE._replace(by="eve", reason="me too"))
    assert (first.by, first.reason) == ("ann", "the bank has confirmed them")
    assert read_result(line.spec, "b1")["decision"]["by"] == "ann"
    assert stamps(line) == ["validate", "validate-failed", "gate-approved"]


def test_of_two_at_once_one_is_taken_down(line: Line) -> None:
    hold(line)
    names = ["ann", "eve"]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda name: decided(line, APPROVE._replace(by=name)), names))
    assert found[0] == found[1]
    assert stamps(line).count("gate-approved") == 1


def test_a_dropped_batch_is_merged_again_by_the_next(line: Line) -> None:
    hold(line)
    line.mend()
    line.feed("2", insert(4))
    decision = decided(line, DROP)
    assert read_result(line.spec, "b1")["decision"]["what"] == DROPPED
    assert "bob" in read_page(line.spec, "b1")
    with pytest.raises(ConfigurationError, match="b1 was dropped by bob at"):
        decided(line, APPROVE)
    assert decided(line, DROP._replace(by="eve")) == decision
    said = fails(line, Code.BATCH_DROPPED, "b1")
    assert "dropped by bob" in said
    assert line.rows() == ["0"]

    waybill = line.run("b2")
    assert waybill.stage("convert").extra_in == {"rows of refused messages": 2}
    assert line.rows() == line.sent == ["0", "1", "2", "3", "4"]
    line.feed("3", insert(5))
    line.run("b3")
    assert line.sent == ["0", "1", "2", "3", "4", "5"]


def test_an_approval_can_be_taken_back(line: Line) -> None:
    hold(line)
    decided(line, APPROVE)
    decided(line, DROP)
    assert "dropped by bob" in fails(line, Code.BATCH_DROPPED, "b1")
    line.mend()
    line.run("b2")
    assert line.sent == ["0", "1", "2", "3"]


def test_a_drop_is_about_one_batch_and_not_about_the_next(line: Line) -> None:
    hold(line)
    decided(line, DROP)
    assert "share of refused" in fails(line, Code.GATE_REFUSED, "b2")
    fails(line, Code.BATCH_HELD, "b3")
    assert stage_status(line.lake, "merge")["held"] == "b2"


def test_a_drop_that_was_killed_before_the_merge_still_counts(line: Line, monkeypatch) -> None:
    hold(line)
    decided(line, DROP)
    line.mend()
    run_stage("snapshot", line.spec, "b2", line.spark)
    run_stage("convert", line.spec, "b2", line.spark)
    line.run("b3")
    assert line.rows() == line.sent == ["0", "1", "2", "3"]


def test_what_no_one_may_waive_is_not_approved(spark, line: Line) -> None:
    line.feed("1", insert(1), insert(2))
    line.mend()
    line.run("b1", until="merge")
    import pyspark.sql.functions as F

    tamper(spark, line.spec, F.expr("substring(value, 1, 30)"))
    said = fails(line, Code.GATE_REFUSED, "b1")
    assert "gate approve" not in said
    with pytest.raises(ConfigurationError, match="no one may waive: ") as caught:
        decided(line, APPROVE)
    assert caught.value.code is Code.DECISION
    assert stamps(line) == ["validate-failed"]
    decided(line, DROP)


def suite(folder: Path, column: str, limit: float) -> str:
    file = folder / f"{column}.json"
    rule = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": column, "max_value": limit},
    }
    content = {"name": column, "meta": {"profile": "changes"}, "expectations": [rule]}
    file.write_text(json.dumps(content), encoding="utf-8")
    return str(file)


def test_an_approval_holds_for_what_was_found_and_nothing_else(
    line: Line, tmp_path: Path, monkeypatch
) -> None:
    hold(line)
    decided(line, APPROVE)
    spec = line.spec
    spec.quality.suites.append(suite(tmp_path, "messages", 2))
    monkeypatch.setattr(Line, "spec", spec)
    said = fails(line, Code.GATE_REFUSED, "b2")
    assert "ann has approved it, but for other findings" in said
    assert line.rows() == ["0"]
    # The approval is used up: what the gate says now is what the next decision is about.
    fails(line, Code.BATCH_HELD, "b3")
    assert len(decided(line, APPROVE._replace(by="eve")).rules) == 2
    line.run("b3")
    assert line.sent == ["0", "1"]


def test_an_approved_batch_whose_gate_is_killed_half_way_is_shown_by_the_next_run(
    line: Line, monkeypatch
) -> None:
    hold(line)
    decided(line, APPROVE)
    monkeypatch.setattr(gate, "record", kill)
    with pytest.raises(Killed):
        line.run("b1")
    monkeypatch.undo()
    assert line.rows() == ["0", "1"]
    line.feed("2", insert(5))
    line.run("b2")
    assert line.sent == ["0", "1", "5"]
    assert read_result(line.spec, "b1")["outcome"] == "approved"


def test_a_decision_that_comes_with_the_stage(line: Line) -> None:
    """As Airflow has it taken: with the mark of the verdict that was shown."""
    hold(line)
    shown = next(line.lake.commits(line.lake.log("runs"))).report["details"]
    assert shown["held_for"][0]["waivable"] is True

    def answer(asked: RequestedDecision):
        options = Options(decision=asked)
        return run_stage("validate", line.spec, "b1", line.spark, options)

    with pytest.raises(ConfigurationError, match="judged batch b1 again since this was asked"):
        answer(APPROVE._replace(verdict="0" * 16))
    with pytest.raises(ConfigurationError, match="a decision needs a reason"):
        answer(APPROVE._replace(reason=" \n\t"))
    with pytest.raises(ConfigurationError, match="1001 characters"):
        answer(APPROVE._replace(reason="x" * 1001))
    assert stamps(line) == ["validate", "validate-failed"]
    report = answer(APPROVE._replace(verdict=shown["verdict"], reason="caf\udce9 \x1b[31m"))
    assert report.details["outcome"] == "approved"
    assert report.details["decision"]["reason"] == "caf\\udce9 [31m"
    assert answer(APPROVE).repeated
    with pytest.raises(ConfigurationError, match="has passed the gate and is visible"):
        answer(DROP)


def test_another_batch_than_the_held_one_is_not_decided_about(line: Line) -> None:
    hold(line)
    with pytest.raises(ConfigurationError, match="the batch that is held is b1, not b0"):
        decided(line, APPROVE, "b0")
    line.run("b2", drop_held=True, until="convert")
    line.mend()
    line.run("b2", drop_held=True, until="merge")
    with pytest.raises(ConfigurationError, match="b2 is merged and the gate has not judged it"):
        decided(line, APPROVE)


def test_a_drop_while_the_gate_judges_holds_the_batch(line: Line, monkeypatch) -> None:
    """To judge may take long, and until a table shows the batch it can be dropped."""
    hold(line)
    decided(line, APPROVE)
    judge = gate.judge

    def judged(*given):
        found = judge(*given)
        decided(line, DROP)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(gate, "judge", judged)
        assert "dropped by bob" in fails(line, Code.BATCH_DROPPED, "b1")
    assert line.rows() == line.sent == ["0"]
    result = read_result(line.spec, "b1")
    assert (result["outcome"], result["decision"]["what"]) == ("failed", DROPPED)
    line.mend()
    line.run("b2")
    assert line.rows() == line.sent == ["0", "1", "2", "3"]


def test_a_drop_that_the_tables_overtook_is_refused_and_ends_nothing(
    line: Line, monkeypatch
) -> None:
    """It was recorded in the moment in which the gate began to show the batch."""
    hold(line)
    decided(line, APPROVE)
    take_down, show = deciding._record, gate._show

    def shown_first(lake, merge, decision):
        take_down(lake, merge, decision)
        show(*showing)

    def late(*given):
        showing.extend(given)
        with pytest.raises(ConfigurationError, match="b1 is visible in part") as caught:
            decided(line, DROP)
        assert caught.value.code is Code.BATCH_VISIBLE_IN_PART

    showing: list = []
    with monkeypatch.context() as patch:
        patch.setattr(deciding, "_record", shown_first)
        patch.setattr(gate, "_show", late)
        patch.setattr(gate, "record", kill)
        with pytest.raises(Killed):
            line.run("b1")
    assert line.rows() == ["0", "1"]
    line.feed("2", insert(5))
    line.run("b2")
    assert line.rows() == line.sent == ["0", "1", "5"]
