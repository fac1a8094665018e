"""What stages write for people to see, beside what they commit."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.spark.line import Killed, Line, insert, kill
from waybill import jobs
from waybill.errors import GateError
from waybill.merge.origins import ColumnOrigin, TableOrigin, read_origins
from waybill.overview import writing
from waybill.overview.files import read_account, read_index

pytestmark = pytest.mark.spark


@pytest.fixture
def line(spark, tmp_path):
    return Line(spark, tmp_path, broken=None)


def states(line: Line, batch: str) -> list[str]:
    account = read_account(line.spec, batch)
    for stage in account.stages:
        came = stage.rows_in + sum(stage.extra_in.values())
        went = stage.rows_out + sum(stage.refused.values()) + stage.superseded
        assert came == went + sum(stage.skipped.values()) + stage.waiting
    return [stage.state for stage in account.stages]


def test_a_merge_tells_where_columns_come_from(line):
    """Of the tables that it changed, as they are then; a batch that is held does so, too."""
    line.feed("a", insert(1))
    line.run("b-1")
    number = ColumnOrigin("id", "id", "bigint")
    orders = TableOrigin("demo.shop_orders", ("shop",), (number,))
    assert read_origins(line.spec, "b-1").tables == {"shop.orders": orders}
    line.run("b-2")
    assert read_origins(line.spec, "b-2").tables == {}, "it changed nothing"
    line.broken = "orders"
    line.feed("b", insert(21), insert(22, True), insert(23, True))
    with pytest.raises(GateError):
        line.run("b-3")
    assert read_origins(line.spec, "b-3").tables.keys() == {"shop.orders"}


def test_a_merge_that_cannot_tell_it_merges_all_the_same(line, monkeypatch):
    def full(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("waybill.merge.column_origins.keep_origins", full)
    line.feed("a", insert(1))
    merged = line.run("b-1").stage("merge")
    assert line.rows() == line.sent == ["1"]
    assert merged.warnings == [
        "the lineage of the batch names no columns, as they could not be written: the disk is full"
    ]


def test_batches_that_pass_are_held_are_killed_and_are_taken_along(line, monkeypatch):
    line.feed("a", *[insert(number) for number in range(1, 20)], b"{broken")
    line.run("b-1")
    index = read_index(line.spec)
    assert [(b.batch, b.state, b.refused) for b in index.batches] == [("b-1", "published", 1)]
    assert (index.lag, index.refused_waiting) == (0, 1)
    assert [(t.table, t.rows, t.operations) for t in index.tables] == [
        ("shop.orders", 19, {"insert": 19})
    ]
    assert states(line, "b-1") == ["done"] * 5
    assert Path(read_account(line.spec, "b-1").targets[0].places[0]).is_file()

    line.broken = "orders"
    line.feed("b", insert(21), insert(22, True), insert(23, True))
    with pytest.raises(GateError):
        line.run("b-2")
    index = read_index(line.spec)
    assert (index.held, index.refused_waiting, index.lag) == ("b-2", 3, 3)
    assert index.held_rules
    assert states(line, "b-2") == ["done", "done", "held", "held", "waiting"]

    line.feed("c", insert(24))
    with monkeypatch.context() as patch:
        patch.setattr("waybill.convert.stage._encode", kill)
        with pytest.raises(Killed):
            line.run("b-3")
    # Nobody could write down how far the killed run had come. The next stage does.
    assert states(line, "b-3") == ["done", *["waiting"] * 4]

    line.mend()
    line.feed("d", insert(25))
    line.run("b-4", drop_held=True)
    index = read_index(line.spec)
    assert [(b.batch, b.state) for b in index.batches] == [
        ("b-4", "published"),
        ("b-3", "taken"),
        ("b-2", "dropped"),
        ("b-1", "published"),
    ]
    assert (index.held, index.lag) == (None, 0)
    assert index.refused_waiting == 1, "those of the dropped batch were decoded again"
    assert states(line, "b-2") == ["done", "done", "dropped", "dropped", "taken"]
    assert states(line, "b-3") == ["done", "part", "taken", "taken", "taken"]
    assert states(line, "b-4") == ["done"] * 5

    line.run("b-5", mode="replay")
    assert read_index(line.spec).refused_waiting == 1, "it is broken still"


def stop(*_: object) -> None:
    raise RuntimeError("no way on")


def test_a_stage_that_has_committed_does_not_fail_for_it(line, monkeypatch, caplog):
    def fails(*_: object) -> None:
        raise PermissionError("no place left")

    line.feed("a", insert(1))
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "waybill"):
        patch.setattr(writing, "write_overview", fails)
        jobs.run_stage("snapshot", line.spec, "b-1", line.spark)
    (said,) = [record.getMessage() for record in caplog.records if "pages" in record.getMessage()]
    assert "PermissionError: no place left" in said
    assert "\n" not in said
    assert read_index(line.spec) is None
    with monkeypatch.context() as patch:
        patch.setattr("waybill.convert.stage._encode", stop)
        with pytest.raises(RuntimeError):
            jobs.run_stage("convert", line.spec, "b-1", line.spark)
    assert read_index(line.spec).failures == {"b-1": "convert"}
    jobs.run_stage("convert", line.spec, "b-1", line.spark)
    assert read_index(line.spec).failures == {}
    assert states(line, "b-1") == ["done", "done", "waiting", "waiting", "waiting"]
