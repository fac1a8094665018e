"""A batch that the gate holds, or has not judged, never stops the line: the documented ways on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.line import Killed, Line, insert, kill
from waybill.cli.status import PLACES, stage_status
from waybill.errors import GateError
from waybill.lake.commit import Branch
from waybill.validate import stage as gate
from waybill.validate.results import read_result

pytestmark = pytest.mark.spark


@pytest.fixture
def line(spark, tmp_path: Path) -> Line:
    return Line(spark, tmp_path)


def hold(line: Line, before: bool = True) -> None:
    """Let the gate hold `b1` for refused messages, perhaps after it has let one through."""
    if before:
        line.feed("0", insert(0))
        line.run("b0")
    line.feed("1", insert(1), insert(2, True), insert(3, False))
    with pytest.raises(GateError, match="share of refused messages"):
        line.run("b1")


def came_out(line: Line, *ids: str) -> None:
    """Everything is merged and was sent once, and the next batch passes."""
    assert line.rows() == line.sent == list(ids)
    line.feed("9", insert(9))
    line.run("b9")
    assert line.sent == [*ids, "9"]
    assert line.lake.read(line.lake.log("changes")).where("outcome = 'refused'").isEmpty()


@pytest.mark.parametrize("before", [False, True], ids=["first batch", "later batch"])
def test_mended_replayed_and_dropped(line: Line, before: bool) -> None:
    """The replay finds the held batch in its way first."""
    hold(line, before)
    line.mend()
    with pytest.raises(GateError, match="batch b1 is merged but has not passed the gate"):
        line.run("b2", "replay")
    line.run("b3", drop_held=True)
    came_out(line, *["0"][: int(before)], "1", "2", "3")


def test_status_shows_a_first_batch_that_is_held(line: Line) -> None:
    hold(line, before=False)
    status = {stage: stage_status(line.lake, stage) for stage in ("convert", "merge", "validate")}
    assert status["merge"]["held"] == status["merge"]["batch"] == "b1"
    assert (status["merge"]["batches"], status["merge"]["lag"], status["merge"]["out"]) == (1, 0, 1)
    assert (status["validate"]["batches"], status["validate"]["lag"]) == (0, 1)
    assert status["convert"]["held"] is None
    line.mend()
    line.run("b2", drop_held=True)
    merge = stage_status(line.lake, "merge")
    assert (merge["held"], merge["batch"], merge["batches"]) == (None, "b2", 1)
    # That merge has taken what two batches of convert brought, and nothing waits for any stage.
    assert [stage_status(line.lake, stage)["lag"] for stage in PLACES] == [0, 0, 0, 0, 0]


def test_a_replay_drops_what_is_held(line: Line) -> None:
    hold(line)
    line.mend()
    replay = line.run("b2", "replay", drop_held=True)
    assert replay.stage("convert").extra_in == {"rows of refused messages": 2}
    assert replay.stage("merge").rows_in == 3
    came_out(line, "0", "1", "2", "3")


def test_a_run_that_drops_what_is_held_decodes_its_refused_messages_again(line: Line) -> None:
    hold(line)
    line.feed("2", insert(4))
    with pytest.raises(GateError, match="share of refused messages"):
        line.run("b2", drop_held=True)
    assert line.lake.read(line.lake.log("changes")).where("outcome = 'refused'").count() == 2
    line.mend()
    line.run("b3", drop_held=True)
    came_out(line, "0", "1", "2", "3", "4")


def test_what_the_gate_has_let_pass_holds_no_batch_that_refuses_it_again(line: Line) -> None:
    """A message that nobody can mend stays in quarantine, however often it is tried."""
    line.limit = 0.5
    line.feed("0", insert(0), insert(1, True))
    line.run("b0")
    for batch, mode in (("b1", "replay"), ("b2", "replay"), ("b3", "full"), ("b4", "incremental")):
        line.run(batch, mode)
        profile = read_result(line.spec, batch)["profiles"]["changes"]
        assert [row["refused_share"] for row in profile] == [0] * len(profile)
    refused = line.lake.read(line.lake.log("changes")).where("outcome = 'refused'")
    assert [row.offset for row in refused.select("offset").distinct().collect()] == [1]
    # What is refused for the first time counts, beside it and when it is tried again.
    line.feed("1", insert(2), insert(3, True), insert(4, True), insert(5, True))
    with pytest.raises(GateError, match="share of refused messages"):
        line.run("b5")
    with pytest.raises(GateError, match="share of refused messages"):
        line.run("b6", "replay", drop_held=True)
    profile = read_result(line.spec, "b6")["profiles"]["changes"][0]
    assert (profile["refused"], profile["refused_messages"], profile["messages"]) == (4, 3, 5)
    line.mend()
    line.run("b7", "replay", drop_held=True)
    assert line.rows() == ["0", "1", "2", "3", "4", "5"]


def test_a_full_run_drops_what_is_held(line: Line) -> None:
    hold(line)
    line.mend()
    line.run("b2", "full", drop_held=True)
    assert line.rows() == ["0", "1", "2", "3"]
    # A full run brings every message again; what was refused before is written once.
    assert line.counted == {"0": 2, "1": 2, "2": 1, "3": 1}
    profile = read_result(line.spec, "b2")["profiles"]["changes"][0]
    assert (profile["refused"], profile["refused_share"]) == (0, 0)


def test_only_what_was_refused_since_the_last_yes_is_tried_again(line: Line) -> None:
    line.limit = 1
    line.feed("0", insert(0), insert(1, True))
    line.run("b0")
    line.limit = 0.1
    line.feed("1", insert(2, True))
    with pytest.raises(GateError):
        line.run("b1")
    line.mend()
    second = line.run("b2", drop_held=True)
    assert second.stage("convert").extra_in == {"rows of refused messages": 1}
    assert line.sent == ["0", "2"]
    line.run("b3", "replay")
    assert line.sent == ["0", "1", "2"]


STOPS = {
    "before the verdict": (gate, "judge"),
    "before it is visible": (gate, "_show"),
    "before the verdict is on record": (gate, "record"),
}


@pytest.mark.parametrize(
    ("stop", "drop_held", "judged"),
    [
        ("before the verdict", False, ["b1", "b2"]),
        ("before it is visible", True, ["b2"]),
        ("before the verdict is on record", False, ["b1", "b2"]),
    ],
)
def test_the_next_run_judges_a_merged_batch(
    line: Line, monkeypatch, stop: str, drop_held: bool, judged: list[str]
) -> None:
    line.feed("1", insert(1))
    with monkeypatch.context() as patch:
        patch.setattr(*STOPS[stop], kill)
        with pytest.raises(Killed):
            line.run("b1")
    line.feed("2", insert(2))
    line.run("b2", drop_held=drop_held)
    assert line.rows() == line.sent == ["1", "2"]
    assert line.batches("runs", "validate") == judged
    again = line.run("b1")
    assert line.sent == ["1", "2"]
    assert again.stage("publish").rows_out == 0


def test_a_batch_that_is_visible_in_part_is_finished_by_the_next_run(
    line: Line, monkeypatch
) -> None:
    line.feed("1", insert(1))
    honest = Branch.fast_forward

    def show_tables_only(branch: Branch, alone: bool = False) -> None:
        if branch.table.endswith(".merges"):
            raise Killed
        honest(branch, alone)

    with monkeypatch.context() as patch:
        patch.setattr(Branch, "fast_forward", show_tables_only)
        with pytest.raises(Killed):
            line.run("b1")
    assert line.rows() == ["1"]
    line.feed("2", insert(2))
    line.run("b2", drop_held=True)
    assert line.rows() == line.sent == ["1", "2"]


def test_the_next_run_says_no_to_a_batch_that_was_never_judged(line: Line, monkeypatch) -> None:
    line.feed("1", insert(1), insert(2, True))
    with monkeypatch.context() as patch:
        patch.setattr(gate, "judge", kill)
        with pytest.raises(Killed):
            line.run("b1")
    for batch, sentence in (("b2", "batch b1 does not pass"), ("b3", "batch b1 is merged but has")):
        with pytest.raises(GateError, match=sentence):
            line.run(batch)
    assert read_result(line.spec, "b1")["outcome"] == "failed"
    line.limit = 0.5
    line.run("b1")
    line.run("b4")
    assert line.rows() == line.sent == ["1"]
