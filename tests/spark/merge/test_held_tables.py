"""A table that waits for a decision waits alone, and misses nothing when it goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.merge.merge_lake import change_row, let_pass, merge, put, rows_of, schema
from tests.spark.merge.test_merge_stage import TABLE, ddl, images, row, step
from waybill.cli.status import merged_status
from waybill.errors import SchemaChangeError
from waybill.lake import Lake
from waybill.merge import stage
from waybill.merge.ledger import Ledger
from waybill.merge.leftovers import drop_held
from waybill.merge.position import position_of
from waybill.merge.rules import Change
from waybill.merge.state import held_summary
from waybill.merge.table import TableMerge
from waybill.merge.tombstones import WAITS, forget_tombstones
from waybill.order import order_key
from waybill.records import NO_TABLE

if TYPE_CHECKING:
    from waybill.report import StageReport

pytestmark = pytest.mark.spark

STOP = [{"tables": "shop.t", "add": "stop"}]
OTHER = schema("shop.u", {"id": "int64", "n": "int32"}, ("id",))
NEW = schema("shop.t", {"id": "int64", "n": "int32", "x": "int32"}, ("id",))


def balance(report: StageReport) -> tuple[int, ...]:
    extra = sum(report.extra_in.values())
    refused, skipped = sum(report.refused.values()), sum(report.skipped.values())
    return (
        report.rows_in,
        extra,
        report.rows_out,
        refused + report.superseded,
        skipped,
        report.waiting,
    )


def run(lake: Lake, spec, batch: str, rows: list[dict[str, Any]], schemas=()) -> StageReport:
    return step(lake, spec, batch, rows, list(schemas))


def test_all_others_go_on_and_nothing_of_it_is_lost(lake: Lake, migration) -> None:
    spec = migration(schema_changes=STOP)
    run(lake, spec, "b1", [row(1, 1, n="1"), row(2, 1, n="1", table=OTHER)], [TABLE, OTHER])
    changes = [
        row(3, 1, "update", n="2", x="7", table=NEW),
        row(4, 2, n="3"),
        row(5, 2, n="5", table=OTHER),
    ]
    report = run(lake, spec, "b2", changes, [TABLE, NEW, OTHER])
    assert images(lake) == [{"id": "1", "n": "1"}]
    assert images(lake, "shop.u")[1] == {"id": "2", "n": "5"}
    assert balance(report) == (3, 0, 1, 0, 0, 2)
    (waiting,) = report.details["tables that wait"].items()
    assert waiting[0] == "shop.t"
    assert (waiting[1]["since"], waiting[1]["changes"]) == ("b2", 2)
    assert "set `add: take` for shop.t" in waiting[1]["why"]
    assert any("shop.t waits since batch b2 with 2 changes" in text for text in report.warnings)
    assert report.details["shop.t"]["columns"][0].startswith("waits for a decision: WB-4007")
    # Later batches add to it, out of order, with a TRUNCATE and a key change among them.
    changes = [
        row(6, 9, n="9"),
        row(7, None, "truncate"),
        row(9, 3, "update", old=2, n="4", x="1", table=NEW),
        row(8, 2, n="4", x=None, table=NEW),
        row(10, 3, n="5", table=OTHER),
    ]
    report = run(lake, spec, "b3", changes, [TABLE, NEW, OTHER])
    assert balance(report) == (5, 0, 1, 0, 0, 4)
    assert report.details["tables that wait"]["shop.t"]["changes"] == 6
    assert "shop.t" not in report.details, "it is told once"
    assert images(lake) == [{"id": "1", "n": "1"}]
    assert merged_status(lake)["shop.t"]["rows"] == 1
    assert held_summary(position_of(lake).state)["shop.t"]["since"] == "b2"
    first = position_of(lake, "b1").changes
    assert first in Ledger(lake).needed(), "upkeep keeps what it goes on from"
    # The decision; the rest of the batch is merged beside it.
    changes = [row(11, 4, n="6", table=NEW, x="2"), row(12, 1, "delete", table=OTHER)]
    report = run(lake, migration(), "b4", changes, [NEW, OTHER])
    assert report.extra_in == {"changes of tables that waited": 6, "key change": 1}
    assert report.waiting == 0
    assert "tables that wait" not in report.details
    assert images(lake) == [
        {"id": "3", "n": "4", "x": "1"},
        {"id": "4", "n": "6", "x": "2"},
    ]
    assert [image["id"] for image in images(lake, "shop.u")] == ["2", "3"]
    (event,) = report.details["shop.t"]["column changes"]
    assert (event["change"], event["batch"]) == ("add", "b4")
    run(lake, migration(), "b5", [row(13, 4, "update", n="7", x="3", table=NEW)], [NEW])
    assert images(lake)[1] == {"id": "4", "n": "7", "x": "3"}


def test_the_same_tables_with_and_without_a_wait(lake: Lake, migration) -> None:
    """A table without key counts what waited once, what came before not again."""
    old = schema("shop.t", {"id": "int32"}, ())
    new = schema("shop.t", {"id": "int32", "x": "int32"}, ())

    def line(sequence: int, table, operation="insert", before=None, **image):
        order = order_key((sequence,), 1, 0, sequence, 0)
        place = ("t", 0, sequence, 0)
        return change_row(Change(order, operation, "", image or None, None, place, before), table)

    spec = migration(schema_changes=STOP)
    run(lake, spec, "b1", [line(1, old, id="1"), line(2, old, id="1")], [old])
    waited = [line(3, new, id="1", x="1"), line(2, old, id="1")]
    run(lake, spec, "b2", waited, [old, new])
    run(lake, spec, "b3", [line(4, old, "delete", {"id": "1"})], [old])
    run(lake, migration(), "b4", [line(3, new, id="1", x="1"), line(5, new, id="2", x="2")], [new])
    found = sorted(map(str, images(lake)))
    assert found == ["{'id': '1', 'x': '1'}", "{'id': '1'}", "{'id': '2', 'x': '2'}"]


def test_a_statement_waits_with_its_table(lake: Lake, migration) -> None:
    run(lake, migration(), "b1", [row(1, 1, n="1"), row(1, 1, n="1", table=OTHER)], [TABLE, OTHER])
    text = "ALTER TABLE shop.t RENAME COLUMN n TO m"
    added = ddl(3, "ALTER TABLE shop.t ADD COLUMN tier VARCHAR(9) NOT NULL DEFAULT 'x'")
    added.update(table=None, schema_id=None)
    dropped = ddl(3, "DROP TABLE shop.u", OTHER)
    report = run(lake, migration(), "b2", [ddl(2, text), added, dropped], [TABLE, OTHER])
    assert report.skipped == {"ddl": 3}
    assert held_summary(position_of(lake).state)["shop.t"]["changes"] == 0
    assert images(lake) == [{"id": "1", "n": "1"}], "no default before the decision"
    assert images(lake, "shop.u") == []
    spec = migration(schema_changes=[{"tables": "shop.t", "rename": "beside"}])
    report = run(lake, spec, "b3", [])
    assert images(lake) == [{"id": "1", "n": "1", "tier": "x"}]
    (event,) = report.details["shop.t"]["column changes"]
    assert event["statement"] == text
    assert position_of(lake).state.held == {}


def test_two_that_wait_go_on_one_after_the_other_and_a_dropped_batch_holds_nothing(
    lake: Lake, migration
) -> None:
    stop = [{"tables": "shop.*", "add": "stop"}]
    newer = schema("shop.u", {"id": "int64", "n": "int32", "y": "int32"}, ("id",))
    run(lake, migration(), "b1", [row(1, 1, n="1"), row(1, 1, n="1", table=OTHER)], [TABLE, OTHER])
    put(lake, "b2", [row(2, 1, "update", n="2", x="2", table=NEW)], [NEW])
    merge(lake, migration(schema_changes=stop), "b2")
    drop_held(lake)
    assert position_of(lake).state.held == {}
    run(lake, migration(schema_changes=stop), "b2", [])
    change = row(3, 1, "update", n="3", y="3", table=newer)
    report = run(lake, migration(schema_changes=stop), "b3", [change], [newer])
    assert report.details["tables that wait"].keys() == {"shop.t", "shop.u"}
    one = [{"tables": "shop.u", "add": "stop"}]
    run(lake, migration(schema_changes=one), "b4", [row(4, 2, n="4")], [TABLE])
    assert images(lake) == [{"id": "1", "n": "2", "x": "2"}, {"id": "2", "n": "4"}]
    assert images(lake, "shop.u") == [{"id": "1", "n": "1"}]
    run(lake, migration(), "b5", [])
    assert images(lake, "shop.u") == [{"id": "1", "n": "3", "y": "3"}]


def test_what_cannot_wait_alone_stops_everything(lake: Lake, migration) -> None:
    run(lake, migration(), "b1", [row(1, 1, n="1")], [TABLE])
    begin = change_row(
        Change(order_key((2,), 1, 0, 2, 0), "begin", place=("t", 0, 2, 0), transaction="x"), TABLE
    )
    put(lake, "b2", [row(3, 1, "update", n="2", x="2", table=NEW), begin], [NEW])
    with pytest.raises(SchemaChangeError, match="add: take"):
        merge(lake, migration(schema_changes=STOP), "b2")
    spec = migration(schema_changes=[{**STOP[0], "stops": "migration"}])
    with pytest.raises(SchemaChangeError, match="add: take"):
        merge(lake, spec, "b2")
    merge(lake, migration(), "b2")
    let_pass(lake, "b2")
    newer = schema("shop.t", {"id": "int64", "n": "int32", "x": "int32", "z": "date"}, ("id",))
    put(lake, "b3", [row(4, 2, n="2", x="2", z=None, table=newer)], [newer])
    with pytest.raises(SchemaChangeError, match="add: take"):
        merge(lake, migration(schema_changes=STOP), "b3")


def event(operation: str, transaction: str, sequence: int) -> dict[str, Any]:
    order = order_key((sequence,), 1, 0, sequence, 0)
    change = Change(order, operation, place=("t", 0, sequence, 0))
    return change_row(change, NO_TABLE, transaction=transaction, schema_id=None)


def inside(transaction: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "transaction": transaction}


def test_a_table_waits_alone_among_transactions_that_end_with_their_batch(
    lake: Lake, migration
) -> None:
    spec = migration(schema_changes=STOP)
    run(lake, spec, "b1", [row(1, 1, n="1"), row(1, 1, n="1", table=OTHER)], [TABLE, OTHER])
    changed = inside("x", row(3, 1, "update", n="2", x="2", table=NEW))
    other = inside("x", row(4, 2, n="2", table=OTHER))
    together = [event("begin", "x", 2), changed, other, event("commit", "x", 5)]
    report = run(lake, spec, "b2", together, [NEW, OTHER])
    assert report.details["tables that wait"].keys() == {"shop.t"}
    more = [event("begin", "y", 6), inside("y", row(7, 2, n="3", x="3", table=NEW))]
    run(lake, spec, "b3", [*more, event("commit", "y", 8)], [NEW])
    assert images(lake) == [{"id": "1", "n": "1"}]
    assert [image["id"] for image in images(lake, "shop.u")] == ["1", "2"]
    run(lake, migration(), "b4", [event("begin", "z", 9), event("commit", "z", 10)])
    assert images(lake) == [{"id": "1", "n": "2", "x": "2"}, {"id": "2", "n": "3", "x": "3"}]


def test_a_decision_is_enough_where_transactions_stop_a_batch_behind_a_wait(
    lake: Lake, migration
) -> None:
    spec = migration(schema_changes=STOP).read_from(Path("shop.yaml"), "add: stop")
    run(lake, spec, "b1", [row(1, 1, n="1"), row(1, 1, n="1", table=OTHER)], [TABLE, OTHER])
    waits = [row(2, 1, "update", n="2", x="2", table=NEW), inside("x", row(2, 9, n="9"))]
    run(lake, spec, "b2", waits, [NEW])
    changes = [
        event("begin", "x", 3),
        inside("x", row(4, 1, "update", n="3", x="3", table=NEW)),
        inside("x", row(5, 2, n="2", table=OTHER)),
        event("begin", "y", 6),
        inside("y", row(7, 7, n="7", x="7", table=NEW)),
        event("rollback", "y", 8),
        row(9, 2, n="4", x="4", table=NEW),
    ]
    put(lake, "b3", changes, [NEW, OTHER])
    with pytest.raises(SchemaChangeError, match=r"shop\.t waits since batch b2, .*decide first"):
        merge(lake, spec, "b3")
    report = merge(lake, migration(), "b3")
    let_pass(lake, "b3")
    assert report.extra_in == {"changes of tables that waited": 2}
    assert (report.waiting, report.skipped["rolled back"]) == (2, 1)
    # What came before the begin was read is merged, what came since waits for the end.
    first, second, ninth = images(lake)
    assert (first, second) == ({"id": "1", "n": "2", "x": "2"}, {"id": "2", "n": "4", "x": "4"})
    assert ninth["id"] == "9"
    assert len(images(lake, "shop.u")) == 1
    run(lake, migration(), "b4", [event("commit", "x", 10)])
    assert images(lake)[0] == {"id": "1", "n": "3", "x": "3"}
    assert [image["id"] for image in images(lake)] == ["1", "2", "9"]
    assert [image["id"] for image in images(lake, "shop.u")] == ["1", "2"]


def test_no_batch_replays_what_was_refused_while_a_table_waits(lake: Lake, migration) -> None:
    spec = migration(schema_changes=STOP)
    run(lake, spec, "b1", [row(1, 1, n="1")], [TABLE])
    run(lake, spec, "b2", [row(2, 1, "update", n="2", x="2", table=NEW)], [NEW])
    put(lake, "b3", [], [])
    with pytest.raises(SchemaChangeError, match=r"shop\.t waits since batch b2, .*decide first"):
        merge(lake, spec, "b3", mode="replay")


def test_tombstones_outlast_a_wait(lake: Lake, migration) -> None:
    spec = migration(schema_changes=STOP)
    run(lake, spec, "b1", [row(5, 1, n="1"), row(7, 1, "delete")], [TABLE])
    now = int(time.time() * 1000) + 1000
    put(lake, "b2", [row(6, 1, "update", n="2"), row(9, 2, n="9", x="9", table=NEW)], [TABLE, NEW])
    merge(lake, spec, "b2")
    assert forget_tombstones(lake, "shop.t", now) == (0, WAITS), "the gate may let it pass"
    let_pass(lake, "b2")
    assert forget_tombstones(lake, "shop.t", now) == (0, WAITS)
    run(lake, migration(), "b3", [])
    assert images(lake) == [{"id": "2", "n": "9", "x": "9"}], "a late change brings no row back"
    assert forget_tombstones(lake, "shop.t", now) == (1, None)


@pytest.mark.parametrize("plain", [True, False])
def test_what_waited_is_merged_by_its_own_size(
    lake: Lake, migration, monkeypatch, plain: bool
) -> None:
    """Not by that of the batch that brings the decision, which may be empty."""
    spec = migration(schema_changes=STOP)
    run(lake, spec, "b1", [row(1, 1, n="1")], [TABLE])
    run(lake, spec, "b2", [row(2, key, n="2", x="2", table=NEW) for key in range(2, 9)], [NEW])
    if not plain:
        monkeypatch.setattr("waybill.merge.stage.not_plain", lambda *_: "it is not to be")
    sizes, few, cut = [], [], []
    upsert, merge_table, cut_shuffles = stage.upsert, TableMerge.merge, Lake.cut_shuffles
    monkeypatch.setattr(stage, "upsert", lambda *a: sizes.append(a[4]) or upsert(*a))
    monkeypatch.setattr(TableMerge, "merge", lambda *a: few.append(a[3]) or merge_table(*a))
    monkeypatch.setattr(Lake, "cut_shuffles", lambda *a: cut.append(a[2:]) or cut_shuffles(*a))
    monkeypatch.setattr(stage, "FEW_BYTES", 1)
    first, last = position_of(lake, "b1").changes, position_of(lake, "b2").changes
    put(lake, "b3", [], [])
    report = merge(lake, migration(), "b3")
    let_pass(lake, "b3")
    assert len(images(lake)) == 8
    upto = position_of(lake, "b3").changes
    assert cut == [(last, upto), (first, upto)]
    assert report.details["sizes"]["bytes"] == 0
    if plain:
        assert (min(sizes) > 1, few) == (True, [])
    else:
        assert (sizes, few) == ([], [False])


def test_what_ends_the_wait_of_a_table_whose_key_changed(lake: Lake, migration) -> None:
    """Not a key that is declared: the changes that wait were converted with another."""
    keyed = schema("shop.t", {"id": "int64", "n": "int32"}, ("n",))
    other = schema("shop.u", {"id": "int64", "n": "int32"}, ("n",))
    spec = migration(tables={"shop.t": {"key": ["id"]}})
    run(lake, spec, "b1", [row(1, 1, n="1"), row(1, 1, n="1", table=OTHER)], [TABLE, OTHER])
    changed = [row(2, 2, n="2", table=keyed), row(2, 2, n="2", table=other)]
    report = run(lake, spec, "b2", changed, [keyed, other])
    for name, wait in report.details["tables that wait"].items():
        assert (
            f"declare `key: [id]` for {name} under tables and load it in full again" in wait["why"]
        )
    report = run(lake, spec, "b3", [row(3, 3, n="3")], [TABLE])
    assert report.details["tables that wait"].keys() == {"shop.t", "shop.u"}
    # A dump that is complete up to after the last change with the other key.
    dump = {"topic": "full:shop.t@4", "partition": 0, "offset": 0}
    begin = {**row(None, None, "truncate"), **dump, "order_key": order_key((4,), 0, 0, 0, 0)}
    loaded = {**row(4, 5, n="5"), **dump, "offset": 1}
    # The source made the other table anew.
    again = [ddl(5, "DROP TABLE shop.u", OTHER), row(6, 7, n="7", table=other)]
    report = run(lake, spec, "b4", [begin, loaded, *again], [TABLE, OTHER, other])
    assert "tables that wait" not in report.details
    assert images(lake) == [{"id": "5", "n": "5"}]
    assert images(lake, "shop.u") == [{"id": "7", "n": "7"}]
    assert position_of(lake).state.table("shop.u").key == ("n",)


REWRITE = [{"tables": "shop.*", "retype": "rewrite"}]
DIGITS = {
    "timestamp": ("2026-01-01T00:00:00", "2026-01-01T00:00:00.000"),
    "decimal": ("5.1", "5.10"),
}


@pytest.mark.parametrize("way", ["reload", "truncate"])
@pytest.mark.parametrize(
    ("key", "old", "new", "code"),
    [
        (("at", "n"), "timestamp(0)", "timestamp(3)", "WB-4002"),
        ((), "decimal(10,1)", "decimal(12,2)", "WB-4007"),
    ],
    ids=["key", "no key"],
)
def test_a_table_whose_texts_have_other_digits_waits_until_its_rows_are_gone(
    lake: Lake, migration, key, old, new, code, way
) -> None:
    """One row would be two, and what deletes it would find none."""
    first, second = (schema("shop.t", {"at": kind, "n": "int32"}, key) for kind in (old, new))
    before, after = DIGITS[old.partition("(")[0]]

    def change(sequence: int, operation: str, at: str | None, n: str = "1", topic="t", rank=1):
        place = (topic, 0, sequence + len(at or ""), 0)
        order = order_key((sequence,), rank, *place[1:])
        image = None if at is None else {"at": at, "n": n}
        text = f'{{"at":"{at}","n":"{n}"}}' if key and at else ""
        was = image if operation == "delete" else None
        made = Change(order, operation, text, None if was else image, None, place, was)
        return change_row(made, second if at == after else first)

    def shown() -> list[tuple[str, str]]:
        return sorted((image["at"], image["n"]) for _, image in rows_of(lake, "shop.t").values())

    spec = migration(schema_changes=REWRITE)
    run(lake, spec, "b1", [change(1, "insert", before), change(2, "insert", before, "2")], [first])
    deleted = change(11, "delete", after, "2")
    report = run(lake, spec, "b2", [deleted, row(5, 2, n="5", table=OTHER)], [second, OTHER])
    why = report.details["tables that wait"]["shop.t"]["why"]
    assert why.startswith(f"{code}: ")
    assert "an `as_of` after the last change with the older type" in why
    assert shown() == [(before, "1"), (before, "2")]
    if way == "reload":
        topic = "full:shop.t@20"
        rows = [change(20, "truncate", None, topic=topic, rank=0)]
        rows.append(change(20, "read", after, "7", topic=topic))
        spec = migration(description="with a dump", schema_changes=REWRITE)
    else:
        rows = [change(20, "truncate", None), change(21, "insert", after, "7")]
    report = run(lake, spec, "b3", [*rows, change(30, "insert", after, "8")], [second])
    assert "tables that wait" not in report.details
    assert shown() == [(after, "7"), (after, "8")]
    run(lake, spec, "b4", [change(31, "delete", after, "7"), change(3, "insert", before)], [])
    assert shown() == [(after, "8")]
