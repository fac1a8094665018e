"""The stage: branches, the gate, reruns, types, names, statements, and what it refuses to guess."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.merge.merge_lake import change_row, let_pass, merge, put, rows_of, schema
from waybill.cli.status import merged_status
from waybill.errors import ConfigurationError, GateError, SchemaChangeError
from waybill.lake_columns import MERGE_STATE, MERGES
from waybill.merge import writing
from waybill.merge.leftovers import drop_held
from waybill.merge.rules import Change
from waybill.merge.state import MergeState
from waybill.order import order_key
from waybill.records import intern_schema
from waybill.report import StageReport

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

STOPS = [{"tables": "shop.*", "stops": "migration"}]

TABLE = schema("shop.t", {"id": "int64", "n": "int32"}, ("id",))


def row(sequence, key, operation="insert", old=None, place=(0, 0), table=TABLE, **values):
    """A row change; without sequence its place orders it."""
    partition, offset = place
    order = order_key(None if sequence is None else (sequence,), 1, partition, offset, 0)
    image = None if operation in ("delete", "truncate") else {"id": str(key), **values}

    def text(number):
        return f'{{"id":"{number}"}}'

    return change_row(
        Change(
            order,
            operation,
            "" if operation == "truncate" else text(key),
            image,
            None if old is None else text(old),
            ("t", partition, offset, 0),
        ),
        table,
    )


def ddl(sequence, text, table=TABLE):
    change = Change(order_key((sequence,), 1, 0, 0, 0), "ddl", place=("t", 0, 0, 0))
    return change_row(change, table, ddl_text=text)


def images(lake: Lake, qualified: str = "shop.t") -> list[dict[str, Any]]:
    found = rows_of(lake, qualified).values()
    return sorted((image for _, image in found), key=lambda image: image["id"])


def step(lake: Lake, spec, batch: str, rows, schemas=(TABLE,)):
    put(lake, batch, rows, list(schemas))
    report = merge(lake, spec, batch)
    let_pass(lake, batch)
    return report


def test_nothing_shows_before_the_gate_and_a_rerun_does_nothing(lake: Lake, migration) -> None:
    spec = migration()
    put(lake, "b1", [row(1, 1, n="1"), row(2, 1, "update", n="2")], [TABLE])
    first = merge(lake, spec, "b1")
    assert rows_of(lake, "shop.t") == {}
    assert (first.rows_in, first.rows_out, first.superseded) == (2, 1, 1)
    again = merge(lake, spec, "b1")
    assert again.repeated
    assert again.to_dict() | {"repeated": False, "seconds": 0} == first.to_dict() | {"seconds": 0}
    let_pass(lake, "b1")
    assert images(lake) == [{"id": "1", "n": "2"}]
    assert merge(lake, spec, "b1").repeated
    # Nothing new: a batch of its own, with no branch but its record.
    empty = merge(lake, spec, "b2")
    assert empty.rows_in == 0
    assert empty.cursor["branches"] == {}
    let_pass(lake, "b2")
    assert images(lake) == [{"id": "1", "n": "2"}]


@pytest.mark.parametrize("in_tasks", [True, False])
def test_few_changes_to_a_table_of_many_rows(
    lake: Lake, migration, monkeypatch, in_tasks: bool
) -> None:
    """Keys that are there and new ones, newer and late ones, deletes of both kinds, again."""
    monkeypatch.setattr(writing, "MANY", 3)
    if not in_tasks:
        monkeypatch.setattr("waybill.merge.stage.not_plain", lambda *_: "it is not to be")
    plain, few = [], []
    merge_rows, merge_few = writing.merge_rows, writing.merge_few
    monkeypatch.setattr(writing, "merge_rows", lambda *a: plain.append(a) or merge_rows(*a))
    monkeypatch.setattr(writing, "merge_few", lambda *a: few.append(a) or merge_few(*a))
    spec = migration()
    step(lake, spec, "b1", [row(10 + n, n, n="1") for n in range(5)])
    late = row(1, 0, "update", n="late")
    changes = [
        late,
        row(21, 1, "update", n="2"),
        row(22, 2, "delete"),
        row(23, 5, n="3"),
        row(24, 6, n="4"),
        row(25, 6, "delete"),
        row(26, 7, "delete"),
    ]
    report = step(lake, spec, "b2", changes)
    assert (report.rows_in, report.rows_out, report.superseded) == (7, 5, 2)
    left = [("0", "1"), ("1", "2"), ("3", "1"), ("4", "1"), ("5", "3")]
    assert images(lake) == [{"id": key, "n": n} for key, n in left]
    assert len(rows_of(lake, "shop.t", dead=True)) == 8
    again = step(lake, spec, "b3", [*changes, row(3, 6, n="late"), row(2, 2, n="late")])
    assert (again.rows_in, again.rows_out, again.superseded) == (9, 0, 9)
    assert images(lake) == [{"id": key, "n": n} for key, n in left]
    only_new = step(lake, spec, "b4", [row(40, 8, n="5")])
    assert (only_new.rows_out, len(images(lake))) == (1, 6)
    assert (len(few), plain) == (2 if in_tasks else 3, [])


def test_a_held_merge_stops_the_next_until_it_is_dropped(lake: Lake, migration) -> None:
    spec = migration()
    put(lake, "b1", [row(1, 1, n="1")], [TABLE])
    merge(lake, spec, "b1")
    put(lake, "b2", [row(2, 2, n="2")], [TABLE])
    with pytest.raises(GateError, match="batch b1 is merged but has not passed the gate"):
        merge(lake, spec, "b2")
    # What was held is in the next batch again: the cursor has not moved.
    report = merge(lake, spec, "b2", drop_held=True)
    assert report.rows_in == 2
    let_pass(lake, "b2")
    assert images(lake) == [{"id": "1", "n": "1"}, {"id": "2", "n": "2"}]
    drop_held(lake)
    assert images(lake) == [{"id": "1", "n": "1"}, {"id": "2", "n": "2"}]


def test_a_merge_that_another_one_has_left_behind_is_done_again(lake: Lake, migration) -> None:
    spec = migration()
    put(lake, "b1", [row(1, 1, n="1")], [TABLE])
    merge(lake, spec, "b1")
    # Another run began at the same time and was faster; its stamp says that nothing was merged.
    merges = lake.log("merges")
    row_of = {**dict.fromkeys(MERGES.names), "batch": "b0", "kind": MERGE_STATE}
    other = lake.branch(merges, "merge", "b0", False)
    other.append_rows([[*{**row_of, "body": MergeState().to_json()}.values()]], MERGES)
    nothing = {"after": None, "changes": None, "branches": {}}
    other.commit(nothing, StageReport("merge", "b0").to_dict(), "b0", "merge")
    let_pass(lake, "b0")
    assert not merge(lake, spec, "b1").repeated
    let_pass(lake, "b1")
    assert images(lake) == [{"id": "1", "n": "1"}]


def test_a_merge_killed_before_its_record_is_done_again(lake: Lake, migration, monkeypatch) -> None:
    spec = migration()
    step(lake, spec, "b0", [row(1, 1, n="1")])
    put(lake, "b1", [row(2, 1, "update", n="2"), row(3, 3, n="3")], [TABLE])

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("waybill.merge.ledger.Ledger.record", killed)
        with pytest.raises(KeyboardInterrupt):
            merge(lake, spec, "b1")
    assert lake.waiting(lake.merged("shop.t"), "merge")
    # Another batch may come first: it clears away what is left.
    report = merge(lake, spec, "b2")
    assert report.rows_in == 2
    let_pass(lake, "b2")
    assert images(lake) == [{"id": "1", "n": "2"}, {"id": "3", "n": "3"}]
    assert lake.waiting(lake.merged("shop.t"), "merge") == []
    found = lake.last(lake.merged("shop.t"), "merge")
    assert found is not None
    assert found.cursor == {key: report.cursor[key] for key in ("after", "changes")}


def test_columns_come_widen_and_stop(lake: Lake, migration) -> None:
    spec = migration()
    wide = schema("shop.t", {"id": "int64", "n": "int64", "new": "decimal(10,2)"}, ("id",))
    step(lake, spec, "b1", [row(1, 1, n="1")])
    big = row(2, 2, table=wide, n="9007199254740993", new="1.10")
    text = "ALTER TABLE shop.t ADD COLUMN new DECIMAL(10,2)"
    rows = [big, row(3, 1, "update", n="5"), ddl(2, text, wide)]
    report = step(lake, spec, "b2", rows, [TABLE, wide])
    changes = report.details["shop.t"]["column changes"]
    assert [(one["change"], one["before"], one["after"]) for one in changes] == [
        ("widen", "int", "bigint"),
        ("add", "", "decimal(10,2)"),
    ]
    assert (changes[1]["statement"], changes[1]["batch"]) == (text, "b2")
    words = ["n from int to bigint", f"new added (decimal(10,2)), by {text}"]
    assert report.details["shop.t"]["columns"] == words
    assert merged_status(lake)["shop.t"]["column changes"] == changes
    frame = lake.read(lake.merged("shop.t"))
    assert dict(frame.dtypes)["n"] == "bigint"
    found = {r.id: (r.n, r.new and str(r.new)) for r in frame.collect()}
    assert found == {1: (5, None), 2: (9007199254740993, "1.10")}
    narrow = schema("shop.t", {"id": "int64", "n": "date"}, ("id",))
    put(lake, "b3", [row(4, 1, "update", table=narrow, n="2024-01-01")], [narrow])
    with pytest.raises(SchemaChangeError, match=r"column n of shop\.t is bigint in the lake"):
        merge(lake, migration(schema_changes=STOPS), "b3")
    assert lake.waiting(lake.log("merges"), "merge") == []


def test_a_default_reaches_the_rows_of_before_and_those_that_come_late(
    lake: Lake, migration
) -> None:
    spec = migration()
    new = schema("shop.t", {"id": "int64", "n": "int32", "tier": "string"}, ("id",))
    added = ddl(5, "ALTER TABLE shop.t ADD COLUMN tier VARCHAR(10) NOT NULL DEFAULT 'ba''sic'", new)
    step(lake, spec, "b1", [row(1, 1, n="1")])
    # The statement, before any row shows the column.
    report = step(lake, spec, "b2", [added], [new])
    assert report.skipped == {"ddl": 1}
    assert images(lake)[0]["tier"] == "ba'sic"
    step(lake, spec, "b3", [row(6, 2, table=new, n="2", tier=None), row(2, 3, n="3")], [TABLE, new])
    assert images(lake) == [
        {"id": "1", "n": "1", "tier": "ba'sic"},
        {"id": "2", "n": "2", "tier": None},
        {"id": "3", "n": "3", "tier": "ba'sic"},
    ]
    frame = lake.read(lake.merged("shop.t")).select("id", "tier").orderBy("id")
    assert [tuple(r) for r in frame.collect()] == [(1, "ba'sic"), (2, None), (3, "ba'sic")]


def test_a_statement_of_another_topic_and_an_undeclared_rename(lake: Lake, migration) -> None:
    step(lake, migration(), "b1", [row(1, 1, n="1")])
    spoken = ddl(5, "ALTER TABLE shop.t ADD COLUMN a INT DEFAULT 7")
    spoken.update(table=None, schema_id=None)
    step(lake, migration(), "b2", [spoken])
    assert images(lake)[0]["a"] == "7"
    renamed = ddl(6, "ALTER TABLE shop.t RENAME COLUMN n TO m")
    put(lake, "b3", [renamed], [TABLE])
    with pytest.raises(SchemaChangeError, match=r"column n of shop\.t was renamed to m: set"):
        merge(lake, migration(schema_changes=STOPS), "b3")
    spec = migration(tables={"shop.t": {"columns": {"m": "int32"}}})
    assert merge(lake, spec, "b3").skipped == {"ddl": 1}


def test_what_is_decided_before_it_happens(lake: Lake, migration) -> None:
    step(lake, migration(), "b1", [row(1, 1, n="1")])
    wide = schema("shop.t", {"id": "int64", "n": "int32", "m": "int32"}, ("id",))
    rows = [row(2, 2, n="1", m="2", table=wide), ddl(3, "ALTER TABLE shop.t RENAME COLUMN n TO m")]
    put(lake, "b2", [*rows, ddl(4, "ALTER TABLE shop.t DROP COLUMN n")], [TABLE, wide])
    with pytest.raises(SchemaChangeError, match=r"new column m.*set `add: take` for shop\.t"):
        merge(lake, migration(schema_changes=[{**STOPS[0], "add": "stop"}]), "b2")
    spec = migration(schema_changes=[{**STOPS[0], "rename": "beside", "drop": "stop"}])
    with pytest.raises(SchemaChangeError, match=r"column n of shop\.t was dropped.*`drop: keep`"):
        merge(lake, spec, "b2")
    assert lake.waiting(lake.log("merges"), "merge") == []
    spec = migration(schema_changes=[{"tables": ["shop.t"], "rename": "beside"}])
    report = merge(lake, spec, "b2")
    changes = [(one["change"], one["column"]) for one in report.details["shop.t"]["column changes"]]
    assert changes == [("add", "m"), ("rename", "n"), ("drop", "n")]
    let_pass(lake, "b2")
    assert images(lake)[1] == {"id": "2", "n": "1", "m": "2"}


def test_a_table_without_key_has_to_be_decided(lake: Lake, migration) -> None:
    bare = schema("shop.log", {"line": "string"}, None)
    entry = change_row(
        Change(order_key((1,), 1, 0, 0, 0), "insert", "", {"line": "x"}, None, ("t", 0, 0, 0)), bare
    )
    put(lake, "b1", [entry, row(2, 1, n="1")], [bare, TABLE])
    with pytest.raises(ConfigurationError, match=r"1 change of shop\.log has no key"):
        merge(lake, migration(), "b1")
    report = merge(lake, migration(tables={"shop.log": {"key": []}}), "b1")
    assert report.rows_out == 2
    let_pass(lake, "b1")
    assert images(lake) == [{"id": "1", "n": "1"}]
    (line,) = lake.read(lake.merged("shop.log")).collect()
    assert (line.line, line._waybill_image) == ("x", '{"line":"x"}')


def test_a_changed_key_has_to_be_decided(lake: Lake, migration) -> None:
    step(lake, migration(), "b1", [row(1, 1, n="1")])
    other = schema("shop.t", {"id": "int64", "n": "int32"}, ("n",))
    put(lake, "b2", [row(2, 1, table=other, n="1")], [other])
    with pytest.raises(SchemaChangeError, match=r"the key of shop\.t was \(id\) and is now \(n\)"):
        merge(lake, migration(schema_changes=STOPS), "b2")


def test_two_tables_with_one_name_are_not_mixed(lake: Lake, migration) -> None:
    """Table `a.b` of `shop` and table `b` of `shop.a` would overwrite each other's rows."""
    dotted = schema("shop.a.b", {"id": "int64", "n": "int32"}, ("id",))
    other = intern_schema("shop.a", None, "b", dotted.columns, ("id",), "mysql")
    step(lake, migration(), "b1", [row(1, 1, n="1", table=dotted)], [dotted])
    put(lake, "b2", [row(2, 1, n="2", table=other)], [other])
    with pytest.raises(SchemaChangeError, match=r"called shop.a.b: 'a.b' of 'shop', and 'b' of"):
        merge(lake, migration(), "b2")
    assert images(lake, "shop.a.b") == [{"id": "1", "n": "1"}]


def ambiguous(newer: int, **fields):
    """A key in two partitions, without sequence; the row of partition 0 is newer by the clock."""
    rows = [row(None, 1, place=(0, 9), n="0"), row(None, 1, "update", place=(1, 1), n="1")]
    for entry, seconds in zip(rows, (newer, 5), strict=True):
        entry["source_time"] = datetime.fromtimestamp(seconds, UTC)
    return rows


def test_ambiguous_order_is_refused_or_settled_as_declared(lake: Lake, migration) -> None:
    put(lake, "b1", ambiguous(9), [TABLE])
    put_in = r'put 1 key into more than one partition \(for one \{"id":"1"\}\), so'
    with pytest.raises(ConfigurationError, match=put_in) as caught:
        merge(lake, migration(), "b1")
    assert "put 1 key into more than one partition, so" in caught.value.sentence
    by_time = migration(order={"ambiguous": "source_time"})
    merge(lake, by_time, "b1")
    let_pass(lake, "b1")
    assert images(lake) == [{"id": "1", "n": "0"}]


def test_partitions_may_be_declared_to_be_the_order(lake: Lake, migration) -> None:
    spec = migration(order={"ambiguous": "partition"})
    step(lake, spec, "b1", ambiguous(9))
    assert images(lake) == [{"id": "1", "n": "1"}]


def test_ambiguous_order_is_found_across_batches(lake: Lake, migration) -> None:
    first, second = ambiguous(9)
    step(lake, migration(), "b1", [first, row(None, 2, place=(1, 0), n="2")])
    put(lake, "b2", [second], [TABLE])
    with pytest.raises(ConfigurationError, match=r'for one \{"id":"1"\}'):
        merge(lake, migration(), "b2")


def test_a_truncate_that_has_no_order_is_refused(lake: Lake, migration) -> None:
    rows = [row(None, 1, place=(1, 0), n="1"), row(None, None, "truncate", place=(0, 5))]
    put(lake, "b1", rows, [TABLE])
    with pytest.raises(ConfigurationError, match="a TRUNCATE or DROP that has no order"):
        merge(lake, migration(), "b1")


def test_truncate_is_remembered(lake: Lake, migration) -> None:
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, n="1"), row(9, 2, n="2")])
    report = step(lake, spec, "b2", [row(5, None, "truncate")])
    assert (report.rows_in, report.rows_out) == (1, 1)
    assert images(lake) == [{"id": "2", "n": "2"}]
    report = step(lake, spec, "b3", [row(4, 3, n="3"), row(6, 4, n="4"), row(5, None, "truncate")])
    assert (report.rows_out, report.superseded) == (1, 2)
    assert images(lake) == [{"id": "2", "n": "2"}, {"id": "4", "n": "4"}]


def test_a_toasted_value_is_found_although_the_batch_was_cut_before_the_move(
    lake: Lake, migration
) -> None:
    """The delete of the old key in one batch, the moved row without the value in a later one."""
    spec = migration()
    table = schema("shop.t", {"id": "int64", "n": "int32", "body": "string"}, ("id",))
    step(lake, spec, "b1", [row(1, 1, table=table, n="1", body="large")], [table])
    step(lake, spec, "b2", [row(2, 1, "delete", table=table)], [table])
    again = row(3, 1, table=table, n="3", body="other", place=(0, 9))
    step(lake, spec, "b3", [again], [table])
    moved = row(2, 2, old=1, table=table, n="2", place=(0, 1))
    report = step(lake, spec, "b4", [moved], [table])
    assert images(lake) == [
        {"id": "1", "n": "3", "body": "other"},
        {"id": "2", "n": "2", "body": "large"},
    ]
    assert (report.rows_in, report.extra_in, report.rows_out) == (1, {"key change": 1}, 1)
    # A change of the old key from before the move, later still.
    late = row(1, 1, "update", table=table, body="larger", place=(0, 5))
    step(lake, spec, "b5", [late], [table])
    assert images(lake)[1] == {"id": "2", "n": "2", "body": "larger"}


def test_the_report_is_plain_data(lake: Lake, migration) -> None:
    report = step(lake, migration(), "b1", [row(1, 1, n="1")])
    report.reconcile()
    assert asdict(report)["details"]["shop.t"]["out"] == 1
    assert list(report.snapshots) == ["lake.demo.shop_t"]


def test_a_table_that_was_dropped_and_made_again(lake: Lake, migration) -> None:
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, n="1"), row(2, 2, n="2")])
    again = schema("shop.t", {"id": "int64", "n": "int32", "code": "string"}, ("code",))
    other = change_row(
        Change(
            order_key((7,), 1, 0, 0, 0),
            "insert",
            '{"code":"a"}',
            {"id": "1", "n": "7", "code": "a"},
            None,
            ("t", 0, 7, 0),
        ),
        again,
    )
    batch = [row(3, 3, n="3"), ddl(5, "DROP TABLE shop.t"), other, row(4, 4, n="4")]
    report = step(lake, spec, "b2", batch, (TABLE, again))
    assert images(lake) == [{"id": "1", "n": "7", "code": "a"}]
    assert (report.rows_out, report.superseded, report.skipped) == (1, 2, {"ddl": 1})
    step(lake, spec, "b3", [row(4, 9, n="late")], ())
    assert len(images(lake)) == 1


def test_a_snapshot_that_begins_with_a_drop_at_its_own_position(lake: Lake, migration) -> None:
    spoken = {**ddl(5, "DROP TABLE IF EXISTS shop.t"), "topic": "statements", "offset": 90}
    spoken["order_key"] = order_key((5,), 1, 0, 90, 0)
    rows = [row(5, 1, "read", place=(0, 1), n="1"), row(4, 2, place=(0, 2), n="2")]
    step(lake, migration(), "b1", [spoken, *rows])
    assert images(lake) == [{"id": "1", "n": "1"}]


def test_a_dropped_table_alone(lake: Lake, migration) -> None:
    step(lake, migration(), "b1", [row(1, 1, n="1")])
    spoken = ddl(5, "DROP TABLE t, u")
    step(lake, migration(), "b2", [spoken])
    assert images(lake) == []


@pytest.mark.parametrize("batches", [[(2, 3)], [(2,), (3,)], [(3,), (2,)]])
def test_two_rows_that_swap_their_keys_in_one_transaction(lake: Lake, migration, batches) -> None:
    swapped = {}
    for sequence, new, old, n in ((2, 2, 1, "1"), (3, 1, 2, "2")):
        moved = row(sequence, new, "update", old=old, place=(0, sequence), n=n)
        before = f'{{"id":"{old}","n":"{n}"}}'
        swapped[sequence] = {**moved, "before": before, "transaction": "x"}
    first = [row(0, 1, place=(0, 0), n="1"), row(1, 2, place=(0, 1), n="2")]
    step(lake, migration(), "b0", first)
    for number, sequences in enumerate(batches, 1):
        report = step(lake, migration(), f"b{number}", [swapped[s] for s in sequences])
        report.reconcile()
    assert images(lake) == [{"id": "1", "n": "2"}, {"id": "2", "n": "1"}]


def test_a_source_that_begins_anew_is_reported(lake: Lake, migration) -> None:
    """As a binlog does when another server takes over."""

    def at(second: int, *values, **more):
        return {**row(*values, **more), "source_time": datetime.fromtimestamp(second, UTC)}

    spec = migration()
    assert step(lake, spec, "b1", [at(100, 50, 1, n="1"), at(101, 60, 2, n="2")]).warnings == []
    assert step(lake, spec, "b2", [at(100, 50, 1, n="1")]).warnings == [], "delivered again"
    (warning,) = step(lake, spec, "b3", [at(102, 3, 1, "update", n="9")]).warnings
    assert "have sequence ids up to 3, lower than 60" in warning
    assert images(lake)[0]["n"] == "1"
