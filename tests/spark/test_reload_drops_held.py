"""A reload that drops what the gate holds: what was refused is decoded once, whoever wants it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.test_convert import Line, insert
from tests.spark.test_mapping import message, row, rows_of
from tests.spark.test_reload import COLUMNS, DECLARED, bring, sent, sorted_rows, spec
from tests.spark.test_reload_keys import PEOPLE, found, id_
from waybill.convert.stage import run_convert
from waybill.errors import GateError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.stage_context import Options, StageContext

__all__ = ["spec"]
pytestmark = pytest.mark.spark

WRONG = {**COLUMNS, "email": "decimal(60,0)"}
BROKEN = {
    **DECLARED,
    PEOPLE: {"key": ["id"], "columns": WRONG},
    "shop.audit": {"key": [], "columns": WRONG},
}
"""Refuses every row with an e-mail address."""


def hold(spark: Any, spec: Any, folder: Any, *messages: bytes) -> None:
    """Let one batch pass, and the gate hold the next one."""
    broken = spec(tables=BROKEN)
    first = [message(1, "INSERT", None, row(1, None)), message(2, "INSERT", None, row(7), "orders")]
    bring(folder, "0", first)
    run_migration(broken, batch="b0", spark=spark)
    bring(folder, "1", list(messages))
    with pytest.raises(GateError, match="share of refused messages"):
        run_migration(broken, batch="b1", spark=spark)


REFUSED = [
    message(3, "INSERT", None, row(2)),
    message(4, "INSERT", None, row(3, None)),
    message(5, "INSERT", None, row(8), "audit"),
]


@pytest.mark.parametrize("tables", [[PEOPLE], ["shop.*"]], ids=["one", "all"])
def test_what_was_refused_comes_once(spark, spec, tmp_path, tables):
    hold(spark, spec, tmp_path, *REFUSED)
    whole = spec(tables=DECLARED)
    waybill = run_migration(
        whole, batch="b2", spark=spark, mode="reload", tables=tables, drop_held=True
    )
    convert = waybill.stage("convert")
    every = tables != [PEOPLE]
    reloaded = {"rows of reloaded tables": 5 if every else 3}
    assert convert.extra_in == (reloaded if every else reloaded | {"rows of refused messages": 1})
    assert (convert.rows_out, convert.refused) == (5 if every else 4, {})
    assert rows_of(spark, whole, PEOPLE) == [row(1, None), row(2), row(3, None)]
    assert [r["id"] for r in sorted_rows(spark, whole, "shop.audit")] == [8]
    wanted = [("audit", "8"), *(("people", n) for n in "123")]
    assert sorted(sent(tmp_path, "b2")) == sorted(wanted + [("orders", "7")] * every)
    lake = Lake.open(spark, whole)
    assert lake.read(lake.log("changes")).where("outcome = 'refused'").isEmpty()


def test_what_is_refused_again_stands_in_quarantine_once(spark, spec, tmp_path):
    hold(spark, spec, tmp_path, *REFUSED)
    broken = spec(tables=BROKEN, quality={"max_refused_share": 1})
    given = {"mode": "reload", "tables": ["shop.*"], "drop_held": True}
    waybill = run_migration(broken, batch="b2", spark=spark, **given)
    assert waybill.stage("convert").refused == {"value": 2}
    lake = Lake.open(spark, broken)
    refused = lake.read(lake.log("changes")).where("outcome = 'refused'")
    assert sorted((r.offset, r.batch) for r in refused.collect()) == [(0, "b2"), (2, "b2")]


def test_rows_of_keys_that_differ_come_once(spark, spec, tmp_path):
    """One of their changes was refused by the batch that is dropped; that of another key comes as
    what it is, a refused message that is decoded again."""
    updated = message(3, "UPDATE", row(1, None), row(1))
    hold(spark, spec, tmp_path, updated, message(4, "INSERT", None, row(2)))
    whole = spec(tables=DECLARED)
    found(Lake.open(spark, whole), id_(1))
    given = {"mode": "reload", "tables": [PEOPLE], "keys": "differing", "drop_held": True}
    waybill = run_migration(whole, batch="b2", spark=spark, **given)
    assert waybill.stage("convert").rows_out == 3
    assert waybill.stage("convert").extra_in["rows of refused messages"] == 1
    assert rows_of(spark, whole, PEOPLE) == [row(1), row(2)]
    assert sorted(sent(tmp_path, "b2")) == [("people", "1"), ("people", "1"), ("people", "2")]


def test_the_other_rows_of_a_message_come_once(spark, migration, tiny, tmp_path):
    """They were taken when one beside them was refused, and the reload has replaced them since."""
    work = Line(spark, migration(envelope=tiny), tmp_path / "in")
    work.batch("b0", [insert("1", 1)])
    rows = {"op": "insert", "seq": 2, "rows": [{"id": "2"}, None, {"id": "3"}]}
    work.batch("b1", [rows])
    options = Options("reload", drop_held=True, tables=("shop.t",))
    context = StageContext(spark, work.lake, work.spec, "b2", options)
    report = run_convert(work.spec, context)
    assert (report.rows_out, report.refused) == (3, {"shape": 1})
    assert report.extra_in == {
        "rows of reloaded tables": 3,
        "rows of refused messages": 1,
    }
    brought = [(r.offset, r["index"], r.key) for r in work.changes("batch = 'b2' AND key <> ''")]
    assert len(brought) == len({*brought}) == 3
    assert len(work.changes("outcome = 'refused'")) == 1
