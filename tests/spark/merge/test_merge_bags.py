"""Tables without key: the Spark merge equals the rule, for any split, order and duplication."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.property.bag_histories import Heap, dealt, plain
from tests.spark.merge.merge_lake import (
    change_row,
    digest,
    let_pass,
    merge,
    put,
    refused_by_gate,
    schema,
)
from tests.spark.seeds import SEEDS
from tests.spark.test_jobs import canal
from waybill.errors import GateError
from waybill.jobs import read_table, run_migration
from waybill.lake import Lake
from waybill.merge.leftovers import drop_held
from waybill.merge.rules import Change, bag
from waybill.order import AFTER, BEFORE, LOAD, LOADED, order_key

pytestmark = pytest.mark.spark

TYPES = {"a": "int32", "b": "string"}
BATCHES = 3
MANY = 3


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_equals_the_rule(lake, migration, spark, seed):
    choose = random.Random(seed).randrange
    histories = {}
    for number in range(MANY):
        source = Heap(choose, sequenced=number != 0)
        source.run(16)
        histories[f"shop.heap{number}"] = source
    parts = {name: dealt(choose, source, BATCHES) for name, source in histories.items()}
    spec, seen = migration(), {name: [] for name in histories}
    for number in range(BATCHES):
        rows, schemas = [], []
        for name, source in histories.items():
            old, new = schema(name, TYPES, ()), schema(name, {**TYPES, "tier": "string"}, ())
            schemas += [old, new] if source.altered else [old]
            for change in parts[name][number]:
                rows.append(change_row(change, new if shows(change, "tier") else old))
            seen[name] += parts[name][number]
        put(lake, f"b{number}", rows, schemas)
        report = merge(lake, spec, f"b{number}")
        assert refused_by_gate(lake, f"b{number}") == [], f"batch {number} of seed {seed}"
        let_pass(lake, f"b{number}")
        report.reconcile()
        for name, changes in seen.items():
            wanted = bag(changes)
            assert stored(lake, name, wanted) == wanted, (
                f"{name} after batch {number} of seed {seed}"
            )
            assert has_column(lake, name, "tier") == any(shows(c, "tier") for c in changes)
            if any(n > 0 for n in wanted.values()):
                got = Counter(plain(row) for row in read_table(spec, name, spark=spark))
                assert got == +wanted


def test_equal_rows_of_a_snapshot_are_several(lake, migration) -> None:
    """All its rows share one sequence id; one that was merged before is not counted again."""
    source = Heap(lambda n: 0)
    for _ in range(3):
        source._log("read", {"a": "1", "b": "y"}, number=20)
    table, rows = schema("shop.heap", TYPES, ()), source.changes
    for number, sent in enumerate([rows[:2], rows], 1):
        put(lake, f"b{number}", [change_row(change, table) for change in sent], [table])
        report = merge(lake, migration(), f"b{number}")
        let_pass(lake, f"b{number}")
        report.reconcile()
    assert stored(lake, "shop.heap") == Counter({plain(rows[0].image): 3})
    assert (report.rows_out, report.superseded) == (1, 2)
    assert report.details["shop.heap"]["merged by Spark"] == "it has no key"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("ranks", [(LOAD, LOADED), (BEFORE, AFTER)], ids=["now", "old"])
def test_the_change_up_to_which_a_dump_is_complete_is_in_it(lake, migration, late, ranks) -> None:
    """So it does not count beside the dump's rows, whether it came before the reload or after.

    Lakes may have loads with the ranks of before, too.
    """
    heap = schema("shop.heap", {"a": "int32"}, ())
    dump, (begin, rank) = "full:shop.heap@10", ranks
    reload = [
        Change(order_key((10,), begin, 0, 0, 0), "truncate", place=(dump, 0, 0, 0)),
        *(
            Change(order_key((10,), rank, 0, n, 0), "read", "", {"a": "1"}, None, (dump, 0, n, 0))
            for n in (1, 2)
        ),
    ]
    changes = [insert(9, heap, "1", 5), insert(10, heap, "1", 6), insert(11, heap, "1", 7)]
    rows = [change_row(change, heap) for change in reload]
    for number, sent in enumerate([rows, changes] if late else [changes, rows]):
        put(lake, f"b{number}", sent, [heap])
        merge(lake, migration(), f"b{number}").reconcile()
        let_pass(lake, f"b{number}")
    assert stored(lake, "shop.heap") == Counter({plain({"a": "1"}): 3})


def shows(change: Change, column: str) -> bool:
    """Whether the message of a change states a column."""
    return column in (change.columns or ())


def has_column(lake, name, column: str) -> bool:
    """Whether the table in the lake has a column."""
    table = lake.merged_tables().get(name)
    return table is not None and column in lake.read(table).columns


def stored(lake, name, known=()) -> Counter:
    """How often each row is there; what is owed is below zero.

    Args:
        lake: the lake.
        name: the table.
        known: rows that may be owed; the lake names them by their digests alone.
    """
    table = lake.merged_tables().get(name)
    if table is None:
        return Counter()
    owed: Counter = Counter()
    columns = [c for c in lake.read(table).columns if not c.startswith("_waybill")]
    rows = {digest(row): row for row in known}
    assert lake.read(table).where("_waybill_deleted").isEmpty()
    for row in lake.read(table, lake.head(table)).collect():
        if row["_waybill_deleted"]:
            assert all(row[column] is None for column in ["_waybill_image", *columns])
            owed[rows[json.loads(row["_waybill_key"])["row"]]] -= 1
            continue
        owned = plain(json.loads(row["_waybill_image"]))
        values = {c: None if row[c] is None else str(row[c]) for c in columns}
        # A column that a statement adds comes into the table with the first row that has it.
        assert plain(values) == frozenset(pair for pair in owned if pair[0] in columns)
        owed[owned] += 1
    return owed


def test_a_batch_that_is_visible_in_part_is_not_dropped(lake, migration) -> None:
    """Its changes would count again on top of the tables that show it."""
    heap, other = (
        schema("shop.heap", {"a": "int32"}, ()),
        schema("shop.t", {"id": "int64"}, ("id",)),
    )
    rows = [
        change_row(
            Change(order_key((n,), 1, 0, 0, 0), "insert", key, {name: "1"}, None, ("t", 0, n, 0)),
            table,
        )
        for n, key, name, table in ((1, "", "a", heap), (2, '{"id":"1"}', "id", other))
    ]
    spec = migration()
    put(lake, "b1", rows, [heap, other])
    merge(lake, spec, "b1")
    table = lake.merged("shop.heap")
    (info,) = lake.waiting(table, "merge", "b1")
    lake.reopen(table, info.name).fast_forward()
    put(lake, "b2", [], [])
    with pytest.raises(GateError, match=r"b1 is visible in part .* run validate for it again"):
        merge(lake, spec, "b2", drop_held=True)
    # What the gate does then.
    for name in (lake.merged("shop.t"), lake.log("merges")):
        (info,) = lake.waiting(name, "merge", "b1")
        lake.reopen(name, info.name).fast_forward()
    merge(lake, spec, "b2", drop_held=True)
    let_pass(lake, "b2")
    assert lake.read(table).count() == lake.read(lake.merged("shop.t")).count() == 1


def test_a_record_never_outlives_its_branches(lake, migration, monkeypatch) -> None:
    """A record whose branches are gone says that its tables are visible."""
    heap = schema("shop.heap", {"a": "int32"}, ())
    change = Change(order_key((1,), 1, 0, 0, 0), "insert", "", {"a": "1"}, None, ("t", 0, 0, 0))
    put(lake, "b1", [change_row(change, heap)], [heap])
    merge(lake, migration(), "b1")
    real, dropped = Lake.drop_branches, []

    def killed(lake: Lake, table: str, names: Sequence[str]) -> None:
        real(lake, table, names)
        dropped.append(table)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "drop_branches", killed)
        with pytest.raises(KeyboardInterrupt):
            drop_held(lake)
    assert dropped == [lake.log("merges")]
    assert not merge(lake, migration(), "b1").repeated


def insert(number: int, table, a: str, offset: int, **more: str):
    """A change that puts a row in; its number is the source's, its offset the topic's."""
    order = order_key((number,), 1, 0, offset, 0)
    place = ("t", 0, offset, 0)
    return change_row(Change(order, "insert", "", {"a": a, **more}, None, place), table)


BIG = str(2**40)
"""An integer that a column of 32 bits refuses."""


def refused(lake) -> list[int]:
    """Offsets of what stands as refused."""
    rows = lake.read(lake.log("merges")).where("kind = 'refused'")
    return sorted(row.offset for row in rows.collect())


@pytest.mark.parametrize("offsets", [(5,), (5, 9)], ids=["once", "twice"])
@pytest.mark.parametrize("anew", [True, False], ids=["anew", "plain"])
def test_a_refused_change_counts_once_by_its_replay(lake, migration, offsets, anew) -> None:
    """Also where the whole log is counted meanwhile by columns that would hold it."""
    narrow, wide = schema("shop.heap", {"a": "int32"}, ()), schema("shop.heap", {"a": "int64"}, ())
    rows = [insert(1, narrow, BIG, offset) for offset in offsets] + [insert(2, narrow, "2", 10)]
    put(lake, "b1", rows, [narrow])
    report = merge(lake, migration(), "b1")
    let_pass(lake, "b1")
    assert (report.rows_out, report.refused) == (1, {"column": len(offsets)})
    rows = [insert(60, wide, "3", 60)]
    if anew:
        order = order_key((50,), 1, 0, 50, 0)
        column = Change(order, "column", "", {"tier": "basic"}, None, ("t", 0, 50, 0))
        wide = schema("shop.heap", {"a": "int64", "tier": "string"}, ())
        rows = [change_row(column, wide), insert(60, wide, "3", 60, tier="gold")]
    put(lake, "b2", rows, [wide])
    merge(lake, migration(), "b2")
    let_pass(lake, "b2")
    old, new = ({"tier": "basic"}, {"tier": "gold"}) if anew else ({}, {})
    there = [{"a": "2", **old}, {"a": "3", **new}]
    assert stored(lake, "shop.heap") == Counter(map(plain, there))
    assert refused(lake) == list(offsets)
    put(lake, "b3", [], [])
    report = merge(lake, migration(), "b3", mode="replay")
    let_pass(lake, "b3")
    report.reconcile()
    assert stored(lake, "shop.heap") == Counter(map(plain, [*there, {"a": BIG, **old}]))
    assert refused(lake) == []


def test_what_comes_where_a_change_stands_as_refused(lake, migration) -> None:
    """The same change waits for its replay, another delivery of it counts, so does another one."""
    narrow, wide = schema("shop.heap", {"a": "int32"}, ()), schema("shop.heap", {"a": "int64"}, ())
    larger = str(2**41)
    put(lake, "b1", [insert(1, narrow, BIG, 5), insert(2, narrow, larger, 6)], [narrow])
    merge(lake, migration(), "b1")
    let_pass(lake, "b1")
    # The source is read once more, a change comes again, and a topic that was made again has
    # another change at an offset that is known.
    again = [insert(1, wide, BIG, 5), insert(2, wide, larger, 7), insert(3, wide, "3", 6)]
    put(lake, "b2", again, [wide])
    merge(lake, migration(), "b2")
    let_pass(lake, "b2")
    assert stored(lake, "shop.heap") == Counter(map(plain, [{"a": larger}, {"a": "3"}]))
    assert refused(lake) == [5, 6]
    put(lake, "b3", [], [])
    merge(lake, migration(), "b3", mode="replay").reconcile()
    let_pass(lake, "b3")
    every = [{"a": BIG}, {"a": larger}, {"a": "3"}]
    assert stored(lake, "shop.heap") == Counter(map(plain, every))
    assert refused(lake) == []


def test_an_update_keeps_what_it_leaves_out(lake, migration) -> None:
    """PostgreSQL does not send large values again that stay as they are, with a whole row before.

    The row can be taken away by what it is, and an update that came before keeps its own values.
    """
    heap, text = schema("shop.heap", TYPES, ()), "x" * 30
    log = Heap(lambda n: 0)
    log._log("insert", {"a": "1", "b": text})
    log._log("update", {"a": "2"}, {"a": "1", "b": text})
    log._log("update", {"b": None}, {"a": "2", "b": text})
    log._log("delete", None, {"a": "2", "b": None})
    wanted = [{"a": "1", "b": text}, {"a": "2", "b": text}, {"a": "2", "b": None}]
    for number, (change, row) in enumerate(zip(log.changes, [*wanted, None], strict=True)):
        put(lake, f"b{number}", [change_row(change, heap)], [heap])
        merge(lake, migration(), f"b{number}").reconcile()
        let_pass(lake, f"b{number}")
        assert stored(lake, "shop.heap") == Counter([] if row is None else [plain(row)])


@pytest.mark.parametrize("late", [False, True])
def test_rows_are_found_without_a_dropped_column(lake, migration, late) -> None:
    """Whether the statement comes first or last; the column may be added again with a default."""
    old, new = schema("shop.heap", TYPES, ()), schema("shop.heap", {"a": "int32"}, ())
    log = Heap(lambda n: 0)
    for a in "12":
        log._log("insert", {"a": a, "b": f"b{a}"})
    log._log("drop", {"b": None})
    log._log("delete", None, {"a": "1"})
    log._log("update", {"a": "3"}, {"a": "2"})
    made = log.changes
    parts = [made[:2], made[3:], made[2:3]] if late else [made[:1], made[2:], made[1:2]]
    log._log("column", {"b": "new"})
    log._log("update", {"a": "4", "b": "new"}, {"a": "3", "b": "new"})
    log._log("insert", {"a": "5", "b": "x"})
    for number, part in enumerate([*parts, log.changes[5:]]):
        rows = [change_row(c, new if 2 < made.index(c) < 5 else old) for c in part]
        put(lake, f"b{number}", rows, [old, new])
        merge(lake, migration(), f"b{number}").reconcile()
        let_pass(lake, f"b{number}")
        if number == 2:
            assert stored(lake, "shop.heap") == Counter([plain({"a": "3"})])
    there = [{"a": "4", "b": "new"}, {"a": "5", "b": "x"}]
    assert stored(lake, "shop.heap") == Counter(map(plain, there))


@pytest.mark.parametrize("before", [{"a": "1"}, None], ids=["in part", "not at all"])
@pytest.mark.parametrize("after", [{"a": "3", "b": "y"}, None], ids=["update", "delete"])
def test_a_row_before_that_does_not_tell_the_row_is_refused(lake, migration, before, after) -> None:
    """Its row would stay beside one that is owed, and nobody would see it."""
    heap, log = schema("shop.heap", TYPES, ()), Heap(lambda n: 0)
    log._log("insert", {"a": "1", "b": "x"})
    log._log("delete" if after is None else "update", after, before)
    put(lake, "b1", [change_row(change, heap) for change in log.changes], [heap])
    report = merge(lake, migration(), "b1")
    report.reconcile()
    let_pass(lake, "b1")
    assert (report.rows_out, report.refused) == (1, {"column": 1})
    assert refused(lake) == [1]
    assert stored(lake, "shop.heap") == Counter([plain({"a": "1", "b": "x"})])


def test_a_delete_before_its_insert_passes_the_gate(spark, migration, tmp_path) -> None:
    """What is owed is a tombstone like others, through all stages."""
    spec = migration(tables={"shop.orders": {"key": []}})
    first, second = canal("DELETE", {"id": "1"}), canal("INSERT", {"id": "2"})
    for number, lines in enumerate([[first, second], [canal("INSERT", {"id": "1"})]]):
        (tmp_path / "in" / f"{number}.jsonl").write_bytes(b"\n".join(lines))
        run_migration(spec, batch=f"b{number}", spark=spark)
        assert list(read_table(spec, spark=spark)) == [{"id": "2"}]
