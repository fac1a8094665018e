"""Columns that go on under another name: `rename: map`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import change_row, let_pass, merge, put, refused_by_gate, schema
from tests.spark.merge.test_merge_stage import ddl, images, row, step
from waybill.errors import SchemaChangeError
from waybill.lake.future_columns import is_future
from waybill.lake.upkeep import keep_up
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.merge.ledger import Ledger
from waybill.merge.leftovers import drop_held
from waybill.merge.rules import Change
from waybill.order import order_key
from waybill.overview.row_states import row_history
from waybill.validate.table_profiles import staged_tables

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

MAP = [{"tables": "shop.*", "rename": "map", "retype": "rewrite"}]


def table(key: str = "id", **columns: str):
    return schema("shop.t", {key: "int64", **columns}, (key,))


OLD, NEW = table(a="int32", n="string"), table(b="int32", n="string")
RENAME = "ALTER TABLE t RENAME COLUMN a TO b"


def shown(lake: Lake, *names: str) -> list[tuple]:
    """What a reader of main sees, who knows nothing of branches."""
    frame = lake.spark.read.table(lake.merged("shop.t")).where("NOT _waybill_deleted")
    return [tuple(r) for r in frame.select(*names).orderBy(names[0]).collect()]


def columns(lake: Lake) -> list[str]:
    names = lake.spark.read.table(lake.merged("shop.t")).columns
    return [name for name in names if not name.startswith("_waybill_")]


def ids(lake: Lake) -> dict[str, int]:
    fields = lake.metadata(lake.merged("shop.t")).shape.schema["fields"]
    return {field["name"]: field["id"] for field in fields}


def first(lake: Lake, spec, own=OLD, **more) -> None:
    rows = [
        row(1, 1, a="1", n='x,"a":', table=own, **more),
        row(2, 2, a=None, n='{"a":"9"}', table=own, **more),
        row(3, 3, a="3", n="a", table=own, **more),
        row(4, 4, a="4", table=own, **more),
        row(5, 4, "delete", table=own),
    ]
    step(lake, spec, "b1", rows, [own])


def test_rows_of_before_keep_their_values_under_the_new_name(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    before, field = shown(lake, "id", "a", "n"), ids(lake)["a"]
    put(lake, "b2", [ddl(6, RENAME, NEW), row(7, 2, "update", b="20", table=NEW)], [NEW])
    with pytest.raises(
        SchemaChangeError, match=r"a of shop\.t was renamed to b: set `rename: map`"
    ):
        merge(lake, migration(schema_changes=[{"tables": "*", "stops": "migration"}]), "b2")
    report = merge(lake, spec, "b2")
    (event,) = report.details["shop.t"]["column changes"]
    assert event == {
        "change": "rename",
        "column": "a",
        "before": "int",
        "after": "b",
        "effect": "it keeps its values under the new name",
        "statement": RENAME,
        "batch": "b2",
    }
    assert report.details["shop.t"]["merged by Spark"] == "columns were renamed"
    # Nothing of it shows before the gate has passed.
    assert shown(lake, "id", "a", "n") == before
    (record,) = lake.waiting(lake.log("merges"), "merge", "b2")
    (staged,) = staged_tables(lake, record.commit.cursor["branches"], "b2")
    assert "b" in staged.rows.columns
    assert "a" not in staged.rows.columns
    assert refused_by_gate(lake, "b2") == []
    let_pass(lake, "b2")
    assert columns(lake) == ["id", "b", "n"]
    assert ids(lake)["b"] == field, "Iceberg's own rename"
    assert shown(lake, "id", "b", "n") == [
        (1, 1, 'x,"a":'),
        (2, 20, '{"a":"9"}'),
        (3, 3, "a"),
    ]
    assert images(lake)[0] == {"id": "1", "b": "1", "n": 'x,"a":'}
    # The snapshot of before has the column of before.
    full = lake.merged("shop.t")
    old = lake.read(full, next(c.snapshot for c in lake.commits(full) if c.batch == "b1"))
    assert "a" in old.columns
    # Late changes with the old name, a replay of old ones, and new ones.
    changes = [
        row(4, 5, a="50", n="late", table=OLD),
        row(3, 3, a="3", n="a", table=OLD),
        row(2, 3, "update", a="0", table=OLD),
        row(8, 6, b="60", n="new", table=NEW),
        row(9, 1, "update", n="z", table=NEW),
    ]
    report = step(lake, spec, "b3", [*changes, ddl(6, RENAME, NEW)], [OLD, NEW])
    assert "columns" not in report.details["shop.t"]
    assert shown(lake, "id", "b", "n") == [
        (1, 1, "z"),
        (2, 20, '{"a":"9"}'),
        (3, 3, "a"),
        (5, 50, "late"),
        (6, 60, "new"),
    ]
    # And batches after it are merged in tasks again.
    report = step(lake, spec, "b4", [row(10, 1, b="11", n="y", table=NEW)], [NEW])
    assert report.details["shop.t"].get("merged by Spark") != "columns were renamed"
    assert shown(lake, "id", "b", "n")[0] == (1, 11, "y")


def full_row(own, **image):
    """A row that was read, in another partition than the statements."""
    order = order_key(None, 1, 1, 9, 0, full_row=True)
    change = Change(order, "read", '{"id":"9"}', {"id": "9", **image}, place=("t", 1, 9, 0))
    return change_row(change, own)


def test_back_again_and_in_turn_in_one_batch_or_in_several(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    third = table(c="int32", n="string")
    step(lake, spec, "b2", [ddl(6, RENAME, NEW), row(7, 2, "update", b="20", table=NEW)], [NEW])
    rows = [
        ddl(8, "ALTER TABLE t CHANGE b c INT", third),
        row(9, 3, "update", c="30", table=third),
        ddl(10, "ALTER TABLE t CHANGE c a INT", OLD),
        row(11, 1, "update", a="10", table=OLD),
        row(5, 7, b="8", n="never", table=NEW),
        row(7, 7, b="70", n="late", table=NEW),
    ]
    step(lake, spec, "b3", rows, [OLD, NEW, third])
    assert columns(lake) == ["id", "a", "n"]
    assert [r[:2] for r in shown(lake, "id", "a")] == [(1, 10), (2, 20), (3, 30), (7, 70)]


def test_names_that_are_swapped(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    both = table(a="int32", b="int32", n="string")
    rows = [row(n, n, a=f"{n}1", b=f"{n}2", n="x", table=both) for n in (1, 2, 3)]
    step(lake, spec, "b1", rows, [both])
    was = ids(lake)
    swap = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    late = row(4, 2, "update", a="21", b="99", table=both)
    rows = [ddl(6, swap, both), row(7, 3, "update", a="0", table=both), late]
    step(lake, spec, "b2", rows, [both])
    assert shown(lake, "id", "a", "b") == [(1, 12, 11), (2, 99, 21), (3, 0, 31)]
    assert {name: was[name] for name in ("a", "b")} == {"a": ids(lake)["b"], "b": ids(lake)["a"]}
    step(lake, spec, "b3", [row(8, 1, a="5", b="6", n="y", table=both)], [both])
    step(lake, spec, "b4", [row(5, 4, a="41", b="42", n="late", table=both)], [both])
    assert shown(lake, "id", "a", "b") == [(1, 5, 6), (2, 99, 21), (3, 0, 31), (4, 42, 41)]
    # A full row does not say whether it was read before that.
    report = step(lake, spec, "b5", [full_row(both, a="1", b="2", n="x")], [both])
    assert "full rows of shop.t have the column a, b" in str(report.details["shop.t"]["columns"])


def test_a_new_column_that_takes_the_old_name(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    new = table(b="int32", n="string", a="string")
    statements = [ddl(6, RENAME, NEW), ddl(8, "ALTER TABLE t ADD a VARCHAR(9) DEFAULT 'd'", new)]
    rows = [
        row(7, 2, "update", b="20", table=NEW),
        row(9, 3, "update", a="text", table=new),
        row(10, 5, a="five", b="5", n="", table=new),
    ]
    put(lake, "b2", [*statements, *rows], [OLD, NEW, new])
    merge(lake, spec, "b2")
    assert refused_by_gate(lake, "b2") == []
    let_pass(lake, "b2")
    assert columns(lake) == ["id", "b", "n", "a"]
    assert not any(map(is_future, lake.spark.read.table(lake.merged("shop.t")).columns))
    assert shown(lake, "id", "b", "a") == [
        (1, 1, "d"),
        (2, 20, "d"),
        (3, 3, "text"),
        (5, 5, "five"),
    ]
    step(lake, spec, "b3", [row(5, 6, a="66", n="", table=OLD)], [OLD])
    assert shown(lake, "id", "b", "a")[-1] == (6, 66, "d")


def test_full_rows_that_came_before_a_swap_may_have_been_read_after_it(lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    both = table(a="int32", b="int32", n="string")
    step(lake, spec, "b1", [full_row(both, a="1", b="2", n="x")], [both])
    swap = ddl(6, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", both)
    report = step(lake, spec, "b2", [swap], [both])
    assert "full rows of shop.t have the column a, b" in str(report.details["shop.t"]["columns"])
    assert shown(lake, "id", "a", "b") == [(9, 1, 2)]


def test_upkeep_may_expire_the_snapshot_of_a_statement(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    new = table(b="int32", n="string", a="string")
    add = ddl(8, "ALTER TABLE t ADD a VARCHAR(9)", new)
    step(lake, spec, "b2", [ddl(6, RENAME, NEW), add, row(9, 3, "update", a="t", table=new)], [new])
    step(lake, spec, "b3", [row(10, 3, "update", a="u", table=new)], [new])
    time.sleep(0.01)
    now, needed = int(time.time() * 1000), Ledger(lake).needed()
    assert keep_up(lake, lake.log("changes"), now, needed).snapshots > 0
    position = Ledger(lake).position()
    (one,) = position.state.table("shop.t").renamed
    line = lake.metadata(lake.log("changes")).ancestors(position.changes)
    assert one.after not in [snapshot.id for snapshot in line]
    # One without either name is clear, one with the old name is not.
    few = table(n="string")
    report = step(lake, spec, "b4", [full_row(few, n="x")], [few])
    assert "columns" not in report.details["shop.t"]
    rows = [(1, 1, None), (2, None, None), (3, 3, "u"), (9, None, None)]
    assert shown(lake, "id", "b", "a") == rows
    report = step(lake, spec, "b5", [full_row(OLD, a="7", n="x")], [OLD])
    assert "full rows of shop.t have the column a" in str(report.details["shop.t"]["columns"])
    assert shown(lake, "id", "b", "a") == rows


def test_an_old_name_above_the_statement_waits(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    rows = [ddl(6, RENAME, NEW), row(8, 2, "update", a="20", table=OLD)]
    report = step(lake, spec, "b2", rows, [OLD])
    assert "no statement in the stream has added it" in str(report.details["shop.t"]["columns"])
    assert shown(lake, "id", "a")[1] == (2, None)
    # The statement that adds the name came late.
    again = migration(schema_changes=[{**MAP[0], "drop": "stop"}])
    step(lake, again, "b3", [ddl(7, "ALTER TABLE t ADD a INT", OLD)], [])
    assert shown(lake, "id", "b", "a") == [(1, 1, None), (2, None, 20), (3, 3, None)]


def test_a_key_column_that_gets_another_name(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    old, new = table(n="string"), table("no", n="string")

    def keyed(
        sequence: int, number: int, operation: str = "update", name: str = "no", was=None, **v
    ):
        def key(k):
            return f'{{"{name}":"{k}"}}'

        image = None if operation == "delete" else {name: str(number), **v}
        order = order_key((sequence,), 1, 0, sequence, 0)
        before = None if was is None else key(was)
        change = Change(order, operation, key(number), image, before, ("t", 0, sequence, 0))
        return change_row(change, new if name == "no" else old)

    rows = [keyed(n, n, "insert", "id", n=f"{n}") for n in range(1, 6)]
    rows += [keyed(6, 5, "delete", "id")]
    step(lake, spec, "b1", rows, [old])
    rows = [
        ddl(10, "ALTER TABLE t RENAME COLUMN id TO no", new),
        keyed(11, 2, n="two"),
        keyed(12, 3, "delete"),
        keyed(13, 9, "update", was=4),
        keyed(7, 6, "insert", "id", n="6"),
        keyed(5, 5, "update", "id", n="void"),
    ]
    step(lake, spec, "b2", rows, [old, new])
    assert columns(lake) == ["no", "n"]
    assert shown(lake, "no", "n") == [(1, "1"), (2, "two"), (6, "6"), (9, "4")]
    # A chain that reaches below, and a late change of the row that moved.
    rows = [keyed(8, 4, "update", "id", n="four"), keyed(14, 6, n="six")]
    step(lake, spec, "b3", rows, [old, new])
    assert shown(lake, "no", "n") == [(1, "1"), (2, "two"), (6, "six"), (9, "four")]
    looked = LakeWithoutSpark.open(spec)
    for batch, image in (
        ("b1", {"id": "2", "n": "2"}),
        ("b2", {"no": "2", "n": "two"}),
        ("", {"no": "2", "n": "two"}),
    ):
        history = row_history(looked, spec, "shop.t", '{"no":"2"}', 9, batch)
        assert [change["order_key"] for change in history.changes] == [at(2), at(11)]
        assert [one.image for one in history.rows] == [image]


def at(sequence: int) -> str:
    return order_key((sequence,), 1, 0, sequence, 0)


def test_another_name_and_type_in_one_statement(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    wide, text = table(b="int64", n="string"), table(c="string", n="string")
    rows = [ddl(6, "ALTER TABLE t CHANGE a b BIGINT", wide)]
    big = str(2**40)
    step(lake, spec, "b2", [*rows, row(7, 2, "update", b=big, table=wide)], [wide])
    assert shown(lake, "id", "b") == [(1, 1), (2, 2**40), (3, 3)]
    rows = [ddl(8, "ALTER TABLE t CHANGE b c VARCHAR(20)", text)]
    report = step(lake, spec, "b3", [*rows, row(9, 3, "update", c="drei", table=text)], [text])
    told = [(e["change"], e["column"]) for e in report.details["shop.t"]["column changes"]]
    assert told == [("rename", "b"), ("retype", "c")]
    assert columns(lake) == ["id", "n", "c"]
    assert shown(lake, "id", "c") == [(1, "1"), (2, big), (3, "drei")]


def test_a_batch_that_is_dropped_leaves_the_old_name(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    put(lake, "b2", [ddl(6, RENAME, NEW), row(7, 2, "update", b="20", table=NEW)], [NEW])
    merge(lake, spec, "b2")
    drop_held(lake)
    assert columns(lake) == ["id", "a", "n"]
    assert [r[1] for r in shown(lake, "id", "a")] == [1, None, 3]
    put(lake, "b3", [], [])
    merge(lake, spec, "b3")
    let_pass(lake, "b3")
    assert shown(lake, "id", "b")[1] == (2, 20)
    # Another program has deleted rows of main: tombstones are brought back under the new name.
    lake.spark.sql(f"DELETE FROM {lake.merged('shop.t')} WHERE id = 3")
    late = row(3, 4, "update", a="9", n="9", table=OLD)
    step(lake, spec, "b4", [late, row(8, 5, b="5", n="5", table=NEW)], [OLD, NEW])
    assert shown(lake, "id", "b") == [(1, 1), (2, 20), (5, 5)]


def test_a_statement_behind_rows_that_have_the_new_name_waits(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    first(lake, spec)
    step(lake, spec, "b2", [row(7, 2, "update", b="20", table=NEW)], [NEW])
    report = step(lake, spec, "b3", [ddl(6, RENAME, NEW)], [NEW])
    assert "the lake has b already" in str(report.details["shop.t"]["columns"])
    assert shown(lake, "id", "a", "b")[0] == (1, 1, None)
    beside = migration(schema_changes=[{"tables": "*", "rename": "beside"}])
    step(lake, beside, "b4", [], [])
    assert shown(lake, "id", "a", "b") == [(1, 1, None), (2, None, 20), (3, 3, None)]


def test_the_name_of_a_dropped_column_waits(lake: Lake, migration) -> None:
    spec = migration(schema_changes=MAP)
    both = table(a="int32", b="int32", n="string")
    step(lake, spec, "b1", [row(1, 1, a="1", b="2", n="x", table=both)], [both])
    text = "ALTER TABLE t DROP COLUMN b, RENAME COLUMN a TO b"
    report = step(lake, spec, "b2", [ddl(6, text, NEW), row(7, 1, b="9", table=NEW)], [NEW])
    assert "a column that was dropped" in str(report.details["shop.t"]["columns"])
    assert shown(lake, "id", "a", "b") == [(1, 1, 2)]


def test_a_table_without_key(lake: Lake, migration) -> None:
    def line(sequence: int, own, operation: str = "insert", before=None, **image):
        place = ("t", 0, sequence, 0)
        order = order_key((sequence,), 1, 0, sequence, 0)
        return change_row(Change(order, operation, "", image or None, None, place, before), own)

    old = schema("shop.t", {"id": "int32", "a": "int32"}, ())
    new = schema("shop.t", {"id": "int32", "b": "int32"}, ())
    spec = migration(schema_changes=MAP)
    rows = [line(n, old, id="1", a="7") for n in (1, 2, 3)]
    step(lake, spec, "b1", rows, [old])
    rows = [
        ddl(5, RENAME, new),
        line(6, new, "delete", {"id": "1", "b": "7"}),
        line(4, old, id="2", a="8"),
        line(2, old, id="1", a="7"),
    ]
    step(lake, spec, "b2", rows, [old, new])
    assert shown(lake, "id", "b") == [(1, 7), (1, 7), (2, 8)]
    step(lake, spec, "b3", [line(7, new, "delete", {"id": "2", "b": "8"})], [new])
    assert shown(lake, "id", "b") == [(1, 7), (1, 7)]


def test_rows_that_wait_for_the_statement(lake: Lake, migration) -> None:
    """With `add: stop` the new name waits, and comes with its statement."""
    waits = migration(schema_changes=[{**MAP[0], "add": "stop"}])
    first(lake, waits)
    report = step(lake, waits, "b2", [row(7, 2, "update", b="20", table=NEW)], [NEW])
    assert "new column b" in str(report.details["shop.t"]["columns"])
    # A table that waits is tried again when the file of its migration has changed.
    step(lake, migration(schema_changes=MAP), "b3", [ddl(6, RENAME, NEW)], [])
    assert columns(lake) == ["id", "b", "n"]
    assert shown(lake, "id", "b") == [(1, 1), (2, 20), (3, 3)]
