"""Of two merges at once one wins; the other stops and nothing of it counts."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import waybill.lake.upkeep
from tests.spark.line import Killed, Line, insert, kill
from tests.spark.merge.merge_lake import let_pass, merge, put, rows_of, schema
from tests.spark.merge.test_merge_bags import BIG
from tests.spark.merge.test_merge_bags import insert as bag_row
from tests.spark.merge.test_merge_stage import row
from waybill.errors import Code, ConflictError, GateError
from waybill.lake.catalog import Catalog
from waybill.lake.commit import Branch
from waybill.merge import leftovers
from waybill.merge.ledger import Ledger
from waybill.merge.leftovers import clear_abandoned, clear_table, drop_held
from waybill.merge.rewriting import add_future
from waybill.merge.stage import _Merge
from waybill.validate import stage as gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from waybill.lake import Lake

pytestmark = pytest.mark.spark

KEYED = schema("shop.t", {"id": "int64", "n": "int32"}, ("id",))
OTHER = schema("shop.u", {"id": "int64", "n": "int32"}, ("id",))
HEAP = schema("shop.heap", {"a": "int64"}, ())
WIDE = schema("shop.wide", {"a": "int64"}, ())


def feed(lake: Lake, batch: str, number: int, *tables: str) -> None:
    """Changes of tables with keys and of one without; each batch brings rows of its own."""
    made = {
        "t": [row(number, number, n="1", table=KEYED)],
        "u": [row(number, number, n="1", place=(0, 1), table=OTHER)],
        "heap": [bag_row(number, HEAP, str(number), number)],
    }
    chosen = tables or tuple(made)
    rows = [change for name in chosen for change in made[name]]
    put(lake, batch, rows, [KEYED, OTHER, HEAP])


def ids(lake: Lake, name: str = "t") -> list[str]:
    """Ids in a merged table; of one without key its values, as often as they are there."""
    if name == "heap":
        rows = lake.read(lake.merged_tables()["shop.heap"]).collect()
        return sorted(str(found.a) for found in rows)
    return sorted(image["id"] for _, image in rows_of(lake, f"shop.{name}").values())


def everything(lake: Lake) -> list[list[str]]:
    return [ids(lake, name) for name in ("t", "u", "heap")]


def left(lake: Lake) -> dict[str, list[str]]:
    """Branches of merges by table."""
    tables = [lake.log("merges"), *lake.merged_tables().values()]
    found = {table: [info.name for info in lake.waiting(table, "merge")] for table in tables}
    return {table: names for table, names in found.items() if names}


def later() -> int:
    """A time after all that was written so far, in milliseconds since 1970."""
    return int(time.time() * 1000) + 1


def meanwhile(monkeypatch, target: type, method: str, work: Callable[[], object]) -> None:
    """Let another run do its work once, just before a run gets to a method."""
    real, done = getattr(target, method), []

    def first(self, *given, **named):
        if not done:
            done.append(True)
            work()
        return real(self, *given, **named)

    monkeypatch.setattr(target, method, first)


MOMENTS = {
    "before its first branch": (_Merge, "_survey"),
    "before its record": (Ledger, "record"),
}


@pytest.mark.parametrize("tables", [("t", "u"), ("t", "heap")], ids=["keys", "without"])
def test_another_run_takes_a_table_over_and_is_killed(
    lake: Lake, migration, monkeypatch, tables
) -> None:
    """Only the merge of a table without key has opened its record by then."""
    spec = migration()
    feed(lake, "b1", 1, *tables)

    def other() -> None:
        Ledger(lake).make_way(spec, False)
        clear_table(lake, lake.merged("shop.t"), later())

    meanwhile(monkeypatch, Ledger, "record", other)
    with pytest.raises(ConflictError, match="nothing of this") as stopped:
        merge(lake, spec, "b1")
    assert stopped.value.code is Code.CONCURRENT_RUN
    assert left(lake) == {}
    assert merge(lake, spec, "b1").rows_in == 2
    let_pass(lake, "b1")
    assert [ids(lake, name) for name in tables] == [["1"], ["1"]]


def test_what_a_killed_merge_left_goes_when_its_table_is_opened(
    lake: Lake, migration, monkeypatch
) -> None:
    """A merge asks for no table that it does not write, also not to clear it."""
    spec = migration()
    feed(lake, "b0", 1, "t", "u")
    merge(lake, spec, "b0")
    let_pass(lake, "b0")
    t, u = (lake.merged(f"shop.{name}") for name in "tu")
    feed(lake, "b1", 2, "t")
    with monkeypatch.context() as killing:
        killing.setattr(Ledger, "record", kill)
        with pytest.raises(Killed):
            merge(lake, spec, "b1")
    assert left(lake).keys() == {t}
    looked, real = Counter(), Catalog.find

    def find(self, *name):
        looked[".".join(name)] += 1
        return real(self, *name)

    with monkeypatch.context() as counting:
        counting.setattr(Catalog, "find", find)
        assert merge(lake, spec, "b2").rows_in == 1
    assert looked[t.removeprefix("lake.")] > 0
    assert looked[u.removeprefix("lake.")] == 0
    assert len(left(lake)[t]) == 1
    let_pass(lake, "b2")
    assert left(lake) == {}
    assert [ids(lake), ids(lake, "u")] == [["1", "2"], ["1"]]


def test_upkeep_clears_what_no_merge_goes_on_with(lake: Lake, migration, monkeypatch) -> None:
    spec = migration()
    feed(lake, "b1", 1, "t", "u")
    merge(lake, spec, "b1")
    let_pass(lake, "b1")
    table = lake.merged("shop.u")
    lake.branch(table, "merge", "killed").commit({}, {}, "killed", "merge")
    monkeypatch.setattr(leftovers, "CLOCKS_DIFFER_MS", 0)
    clear_abandoned(lake, table)
    assert left(lake).keys() == {table}, "it may be running"
    feed(lake, "b2", 2, "heap")
    merge(lake, spec, "b2")
    let_pass(lake, "b2")
    clear_abandoned(lake, table)
    assert left(lake) == {}, "it began before the last visible merge was recorded"


def test_columns_that_wait_for_a_branch_are_left_to_the_next_merge(lake: Lake, migration) -> None:
    """A merge that is running makes them before its branch is there."""
    spec = migration()
    feed(lake, "b1", 1, "t")
    merge(lake, spec, "b1")
    let_pass(lake, "b1")
    table = lake.merged("shop.t")
    name = add_future(lake, table, "n", "string", {})
    clear_abandoned(lake, table)
    assert name in lake.metadata(table).shape.types
    feed(lake, "b2", 2, "t")
    merge(lake, spec, "b2")
    assert name not in lake.metadata(table).shape.types


@pytest.mark.parametrize(
    ("moment", "shown", "tables"),
    [
        ("before its first branch", True, ("t", "heap")),
        ("before its first branch", False, ("t", "heap")),
        ("before its record", True, ("t", "heap")),
        ("before its record", True, ("t", "u")),
        ("before its record", False, ("t", "u")),
    ],
)
def test_another_run_merges_first(
    lake: Lake, migration, monkeypatch, moment, shown, tables
) -> None:
    """Rows of tables without key would come twice if both counted."""
    spec = migration()
    feed(lake, "b0", 1, *tables)
    merge(lake, spec, "b0")
    let_pass(lake, "b0")
    feed(lake, "b1", 2, *tables)

    def other() -> None:
        feed(lake, "b2", 3, *tables)
        merge(lake, spec, "b2")
        if shown:
            let_pass(lake, "b2")

    meanwhile(monkeypatch, *MOMENTS[moment], other)
    with pytest.raises(ConflictError, match="nothing of this") as stopped:
        merge(lake, spec, "b1")
    assert stopped.value.code is Code.CONCURRENT_RUN
    if not shown:
        # Of the loser nothing is left; the gate judges the winner.
        assert {len(names) for names in left(lake).values()} == {1}
        with pytest.raises(GateError, match="batch b2 is merged but has not passed the gate"):
            merge(lake, spec, "b1")
        let_pass(lake, "b2")
    assert [ids(lake, name) for name in tables] == 2 * [["1", "2", "3"]]
    assert merge(lake, spec, "b1").rows_in == 0
    let_pass(lake, "b1")
    assert left(lake) == {}
    assert [ids(lake, name) for name in tables] == 2 * [["1", "2", "3"]]


def test_another_run_merges_other_tables_first(lake: Lake, migration, monkeypatch) -> None:
    """No table of theirs is the same, only the record is."""
    spec = migration()
    feed(lake, "b1", 1, "t")

    def other() -> None:
        merge(lake, spec, "b1-other")
        let_pass(lake, "b1-other")
        feed(lake, "b2", 2, "heap")
        merge(lake, spec, "b2")
        let_pass(lake, "b2")

    meanwhile(monkeypatch, _Merge, "_survey", other)
    with pytest.raises(ConflictError, match="has made a merge visible"):
        merge(lake, spec, "b1")
    merge(lake, spec, "b1")
    let_pass(lake, "b1")
    assert [ids(lake), ids(lake, "heap")] == [["1"], ["2"]]


def test_a_merge_goes_on_record_while_another_takes_a_table_over(
    lake: Lake, migration, monkeypatch
) -> None:
    """After the other has looked for records, and before it drops the branch."""
    spec = migration()
    feed(lake, "b0", 1)
    merge(lake, spec, "b0")
    let_pass(lake, "b0")
    feed(lake, "b1", 2)
    assert merge(lake, spec, "b1").rows_in == 3
    with monkeypatch.context() as looking:
        looking.setattr(leftovers, "waiting_merges", lambda lake: [])
        clear_table(lake, lake.merged("shop.t"), later())
    assert lake.waiting(lake.log("merges"), "merge") == [], "a record without its branches"
    assert merge(lake, spec, "b2").rows_in == 3
    let_pass(lake, "b2")
    assert left(lake) == {}
    assert everything(lake) == 3 * [["1", "2"]]


def test_a_branch_on_record_is_not_taken_over(lake: Lake, migration) -> None:
    feed(lake, "b1", 1)
    merge(lake, migration(), "b1")
    before = left(lake)
    for table in lake.merged_tables().values():
        clear_table(lake, table, later())
    assert left(lake) == before
    let_pass(lake, "b1")
    assert everything(lake) == 3 * [["1"]]


@pytest.mark.parametrize("moment", [(_Merge, "_survey"), (_Merge, "_merge_tables")])
def test_a_replay_that_another_run_overtakes(lake: Lake, migration, monkeypatch, moment) -> None:
    """Its record is opened before its tables are, with what was refused."""
    spec, narrow = migration(), schema("shop.wide", {"a": "int32"}, ())
    put(lake, "b1", [bag_row(1, narrow, BIG, 1)], [narrow])
    assert merge(lake, spec, "b1").refused == {"column": 1}
    let_pass(lake, "b1")
    put(lake, "b2", [bag_row(2, WIDE, "2", 2)], [WIDE])

    def other() -> None:
        merge(lake, spec, "b2")
        let_pass(lake, "b2")

    meanwhile(monkeypatch, *moment, other)
    with pytest.raises(ConflictError, match="nothing of this"):
        merge(lake, spec, "b3", mode="replay")
    merge(lake, spec, "b3", mode="replay").reconcile()
    let_pass(lake, "b3")
    rows = lake.read(lake.merged_tables()["shop.wide"]).collect()
    assert Counter(str(found.a) for found in rows) == Counter(["2", BIG])
    assert lake.read(lake.log("merges")).where("kind = 'refused'").isEmpty()
    assert left(lake) == {}


def test_two_runs_of_one_batch(lake: Lake, migration, monkeypatch) -> None:
    spec = migration()
    feed(lake, "b1", 1, "t", "u")
    meanwhile(monkeypatch, Ledger, "record", lambda: merge(lake, spec, "b1"))
    with pytest.raises(ConflictError, match="nothing of this merge was kept"):
        merge(lake, spec, "b1")
    merge(lake, spec, "b1")
    let_pass(lake, "b1")
    assert [ids(lake), ids(lake, "u")] == [["1"], ["1"]]


def test_upkeep_of_the_record_overtakes_no_merge(lake: Lake, migration, monkeypatch) -> None:
    spec = migration()
    for number in range(1, 7):
        feed(lake, f"b{number}", number, "t")
        merge(lake, spec, f"b{number}")
        let_pass(lake, f"b{number}")
    merges = lake.log("merges")
    feed(lake, "b7", 7)
    before = lake.head(merges)
    compact = waybill.lake.upkeep._compact
    meanwhile(monkeypatch, _Merge, "_survey", lambda: compact(lake, merges))
    merge(lake, spec, "b7")
    assert lake.head(merges) != before
    let_pass(lake, "b7")
    assert ids(lake) == list("1234567")


@pytest.fixture
def line(spark, tmp_path: Path) -> Line:
    """Two tables, and a batch that is visible."""
    made = Line(spark, tmp_path, broken="items")
    made.feed("0", insert(0))
    made.run("b0")
    return made


def merged(line: Line) -> tuple[Lake, dict[str, str]]:
    """A batch of two tables that waits for its gate, and its branches."""
    line.feed("1", insert(1), insert(2, table="items"))
    line.run("b1", until="merge")
    lake = line.lake
    (record,) = lake.waiting(lake.log("merges"), "merge", "b1")
    assert record.commit is not None
    return lake, record.commit.cursor["branches"]


def test_a_lost_branch_is_not_taken_for_a_table_that_is_visible(line: Line) -> None:
    lake, branches = merged(line)
    table = lake.merged_tables()["shop.items"]
    lake.reopen(table, branches[table]).drop()
    with pytest.raises(ConflictError, match=r"shop_items is gone, on which batch b1 was") as held:
        line.run("b2")
    assert held.value.code is Code.TABLE_CHANGED
    assert (line.rows(), left(lake)) == (["0"], {})
    line.run("b1")
    assert (line.rows(), line.rows("shop.items")) == (["0", "1"], ["2"])
    assert line.sent == ["0", "1", "2"]


def test_a_lost_branch_of_a_batch_that_is_visible_in_part(line: Line) -> None:
    lake, branches = merged(line)
    orders, items = (lake.merged_tables()[f"shop.{name}"] for name in ("orders", "items"))
    lake.reopen(orders, branches[orders]).fast_forward()
    lake.reopen(items, branches[items]).drop()
    for batch in ("b1", "b2"):
        with pytest.raises(ConflictError, match="while batch b1 is visible in part") as held:
            line.run(batch, drop_held=batch == "b2")
    found = re.search(r"\(`(ALTER TABLE .*)`\), then", held.value.sentence)
    assert found is not None
    lake.spark.sql(found[1])
    line.run("b2")
    assert (line.rows(), line.rows("shop.items")) == (["0", "1"], ["2"])
    assert line.sent == ["0", "1", "2"]


def test_a_merge_is_dropped_while_the_gate_judges_it(line: Line, monkeypatch) -> None:
    lake, _ = merged(line)
    real = gate.judge

    def judge(*given):
        found = real(*given)
        drop_held(lake)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(gate, "judge", judge)
        with pytest.raises(ConflictError, match="another run has dropped the batch"):
            line.run("b1")
    assert (line.rows(), left(lake)) == (["0"], {})
    line.run("b1")
    assert (line.rows(), line.rows("shop.items")) == (["0", "1"], ["2"])
    assert line.sent == ["0", "1", "2"]


def test_a_merge_is_dropped_and_merged_again_while_it_is_held(line: Line, monkeypatch) -> None:
    """A run that drops what is held wins over one that merges the held batch's id again."""
    line.broken = "orders"
    line.feed("1", insert(1), insert(2, True), insert(3, False))
    with pytest.raises(GateError, match="share of refused messages"):
        line.run("b1")
    line.mend()
    lake = line.lake

    def overtaken() -> None:
        Ledger(lake).make_way(line.spec, True)
        clear_table(lake, lake.merged("shop.orders"), later())

    meanwhile(monkeypatch, Ledger, "record", overtaken)
    with pytest.raises(ConflictError, match="nothing of this merge was kept"):
        line.run("b2", drop_held=True)
    assert left(lake) == {}
    line.run("b3")
    assert line.rows() == line.sent == ["0", "1", "2", "3"]


def test_the_gate_shows_a_merge_before_its_own_run_has_looked(line: Line, monkeypatch) -> None:
    """Another run judges what it finds recorded; the merge then counts."""
    line.feed("1", insert(1))
    real = Ledger._trouble

    def late(self, *given):
        monkeypatch.setattr(Ledger, "_trouble", real)
        line.run("b2")
        return real(self, *given)

    monkeypatch.setattr(Ledger, "_trouble", late)
    line.run("b1")
    assert line.rows() == line.sent == ["0", "1"]


def test_a_merge_killed_once_it_is_recorded(line: Line, monkeypatch) -> None:
    line.feed("1", insert(1))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_trouble", kill)
        with pytest.raises(Killed):
            line.run("b1")
    line.feed("2", insert(2))
    line.run("b2")
    assert line.rows() == line.sent == ["0", "1", "2"]


def test_a_gate_that_was_killed_while_it_showed(line: Line, monkeypatch) -> None:
    """Where a table shows the batch already its branch is not missed."""
    lake, _ = merged(line)
    honest = Branch.fast_forward

    def show_one(branch: Branch, alone: bool = False) -> None:
        if not branch.table.endswith("shop_items"):
            raise Killed
        honest(branch, alone)

    with monkeypatch.context() as patch:
        patch.setattr(Branch, "fast_forward", show_one)
        with pytest.raises(Killed):
            line.run("b1")
    assert (line.rows(), line.rows("shop.items")) == (["0"], ["2"])
    with pytest.raises(GateError, match="visible in part"):
        Ledger(lake).make_way(line.spec, True)
    line.run("b2", drop_held=True)
    assert (line.rows(), line.rows("shop.items")) == (["0", "1"], ["2"])
