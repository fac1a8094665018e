"""Columns that get types to which Iceberg promotes nothing: the table is rewritten, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import change_row, let_pass, merge, put, refused_by_gate, schema
from tests.spark.merge.test_merge_stage import ddl, images, row, step
from waybill.errors import GateError, ReconciliationError, SchemaChangeError
from waybill.lake.future_columns import is_future
from waybill.merge import stage
from waybill.merge.leftovers import drop_held
from waybill.merge.rules import Change
from waybill.order import order_key
from waybill.validate.table_profiles import staged_tables

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

REWRITE = [{"tables": "shop.*", "retype": "rewrite", "rename": "beside"}]


def priced(type_: str, other: str = "int32", **more: str):
    columns = {"id": "int64", "price": type_, "n": other, **more}
    return schema("shop.t", columns, ("id",))


OLD, NEW = priced("decimal(10,2)"), priced("decimal(15,4)")


def shown(lake: Lake, *names: str) -> list[tuple]:
    """What a reader of main sees, who knows nothing of branches."""
    frame = lake.spark.read.table(lake.merged("shop.t")).where("NOT _waybill_deleted")
    return [tuple(r) for r in frame.select(*names).orderBy("id").collect()]


def types(lake: Lake) -> dict[str, str]:
    return dict(lake.spark.read.table(lake.merged("shop.t")).dtypes)


def first(lake: Lake, spec) -> None:
    rows = [
        row(1, 1, price="99999999.99", n="1", table=OLD),
        row(2, 2, price="-0.10", n=None, table=OLD),
        row(3, 3, price=None, n="3", table=OLD),
        row(4, 4, price="1.00", n="4", table=OLD),
        row(5, 4, "delete", table=OLD),
    ]
    step(lake, spec, "b1", rows, [OLD])


def test_another_scale_rewrites_the_table_when_the_gate_has_passed(lake: Lake, migration) -> None:
    spec = migration(schema_changes=REWRITE)
    first(lake, spec)
    before = shown(lake, "id", "price", "n")
    text = "ALTER TABLE t MODIFY price DECIMAL(15,4)"
    put(lake, "b2", [ddl(6, text, NEW), row(7, 2, "update", price="0.1234", table=NEW)], [NEW])
    with pytest.raises(SchemaChangeError, match=r"set `retype: rewrite` for shop\.t .*\(15,4\)"):
        merge(lake, migration(schema_changes=[{"tables": "shop.*", "stops": "migration"}]), "b2")
    report = merge(lake, spec, "b2")
    (event,) = report.details["shop.t"]["column changes"]
    assert event == {
        "change": "retype",
        "column": "price",
        "before": "decimal(10,2)",
        "after": "decimal(15,4)",
        "effect": "the table is rewritten with it as decimal(15,4)",
        "statement": text,
        "batch": "b2",
    }
    # Nothing of it shows before the gate has passed.
    assert shown(lake, "id", "price", "n") == before
    assert types(lake)["price"] == "decimal(10,2)"
    assert refused_by_gate(lake, "b2") == []
    (record,) = lake.waiting(lake.log("merges"), "merge", "b2")
    (staged,) = staged_tables(lake, record.commit.cursor["branches"], "b2")
    assert dict(staged.rows.dtypes)["price"] == "decimal(15,4)"
    assert not any(map(is_future, staged.rows.columns))
    let_pass(lake, "b2")
    assert shown(lake, "id", "price", "n") == [
        (1, Decimal("99999999.9900"), 1),
        (2, Decimal("0.1234"), None),
        (3, None, 3),
    ]
    assert list(types(lake))[-3:] == ["id", "price", "n"], "it has the place of the old one"
    assert types(lake)["price"] == "decimal(15,4)"
    assert images(lake)[0]["price"] == "99999999.99", "texts stay as they came"
    # The snapshot of before has the column of before.
    table = lake.merged("shop.t")
    old = lake.read(table, next(c.snapshot for c in lake.commits(table) if c.batch == "b1"))
    assert dict(old.dtypes)["price"] == "decimal(10,2)"
    assert {r.price for r in old.collect()} >= {Decimal("99999999.99"), Decimal("-0.10")}
    # Batches after it go on as ever, late changes with the old type among them, and so do values.
    late = row(8, 3, "update", price="5.50", n="3", table=OLD)
    report = step(lake, spec, "b3", [late, row(9, 5, price="1.0001", table=NEW, n="5")], [OLD, NEW])
    assert "columns" not in report.details["shop.t"]
    assert shown(lake, "id", "price")[2:] == [(3, Decimal("5.5000")), (5, Decimal("1.0001"))]


def test_a_change_back_and_one_that_no_decimal_holds(lake: Lake, migration) -> None:
    spec = migration(schema_changes=REWRITE)
    first(lake, spec)
    step(lake, spec, "b2", [row(7, 2, "update", price="0.1234", n="2", table=NEW)], [NEW])
    report = step(lake, spec, "b3", [row(8, 2, "update", price="0.1", n="2", table=OLD)], [OLD])
    assert "columns" not in report.details["shop.t"], "the old type came before"
    assert types(lake)["price"] == "decimal(15,4)"
    # 38 digits after the point and 11 before it are a text.
    deep = priced("decimal(38,38)")
    tiny = "0." + "0" * 37 + "1"
    step(lake, spec, "b4", [row(9, 3, "update", price=tiny, n="3", table=deep)], [deep])
    assert shown(lake, "id", "price") == [(1, "99999999.99"), (2, "0.1"), (3, tiny)]


def test_two_rewrites_in_one_batch_with_a_rename_and_a_default(lake: Lake, migration) -> None:
    spec = migration(schema_changes=REWRITE)
    first(lake, spec)
    both = priced("decimal(15,4)", "decimal(12,2)", day="date")
    statements = [
        ddl(6, "ALTER TABLE t CHANGE n m DECIMAL(9,3), ADD COLUMN day DATE DEFAULT '2020-02-29'"),
    ]
    changes = [row(7, 2, "update", price="0.1234", n="1.50", day="2021-01-01", table=both)]
    report = step(lake, spec, "b2", [*statements, *changes], [OLD, both])
    kinds = [(e["change"], e["column"]) for e in report.details["shop.t"]["column changes"]]
    assert kinds == [("retype", "price"), ("retype", "n"), ("add", "day"), ("rename", "n")]
    found = shown(lake, "id", "price", "n", "day")
    assert [(a, b, c, str(d)) for a, b, c, d in found] == [
        (1, Decimal("99999999.9900"), Decimal("1.00"), "2020-02-29"),
        (2, Decimal("0.1234"), Decimal("1.50"), "2021-01-01"),
        (3, None, Decimal("3.00"), "2020-02-29"),
    ]
    stamps = priced("decimal(15,4)", "string", day="timestamp")
    rows = [row(8, 3, "update", price="1", n="x", day="2021-01-01T10:00:00.5", table=stamps)]
    step(lake, spec, "b3", rows, [stamps])
    assert [(n, str(day)) for _, n, day in shown(lake, "id", "n", "day")] == [
        ("1", "2020-02-29 00:00:00"),
        ("1.50", "2021-01-01 00:00:00"),
        ("x", "2021-01-01 10:00:00.500000"),
    ]


def test_a_rewrite_that_is_killed_or_dropped_leaves_main_as_it_was(
    lake: Lake, migration, monkeypatch
) -> None:
    spec = migration(schema_changes=REWRITE)
    first(lake, spec)
    before, was = shown(lake, "*", "id"), types(lake)
    put(lake, "b2", [row(7, 2, "update", price="0.1234", n="2", table=NEW)], [NEW])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stage.TableMerge, "merge", killed)
        with pytest.raises(KeyboardInterrupt):
            merge(lake, spec, "b2")
    assert shown(lake, *was, "id") == before
    # Merged, held by the gate, and dropped; the next batch has another type in mind.
    merge(lake, spec, "b2")
    wider = priced("decimal(20,6)")
    put(lake, "b3", [row(8, 3, "update", price="0.000001", n="3", table=wider)], [wider])
    with pytest.raises(GateError):
        merge(lake, spec, "b3")
    drop_held(lake)
    assert types(lake) == was
    assert shown(lake, "*", "id") == before
    merge(lake, spec, "b3")
    let_pass(lake, "b3")
    assert shown(lake, "id", "price") == [
        (1, Decimal("99999999.990000")),
        (2, Decimal("0.123400")),
        (3, Decimal("0.000001")),
    ]
    assert types(lake) == {**was, "price": "decimal(20,6)"}


def test_a_gate_that_was_killed_while_it_showed_a_rewrite(lake: Lake, migration) -> None:
    spec = migration(schema_changes=REWRITE)
    first(lake, spec)
    put(lake, "b2", [row(7, 2, "update", price="0.1234", n="2", table=NEW)], [NEW])
    merge(lake, spec, "b2")
    (record,) = lake.waiting(lake.log("merges"), "merge", "b2")
    ((table, name),) = record.commit.cursor["branches"].items()
    (waiting,) = staged_tables(lake, {table: name}, "b2")
    judged = waiting.rows.dtypes
    lake.reopen(table, name).fast_forward()
    (there,) = staged_tables(lake, {table: name}, "b2")
    assert there.branch is None
    # It is judged again as it was judged, and as main has it.
    visible = lake.read(table)
    assert there.rows.dtypes == judged == visible.dtypes
    live = there.rows.where("NOT _waybill_deleted")
    assert sorted(live.collect()) == sorted(visible.collect())
    as_of = lake.read(table, lake.metadata(table).refs["main"])
    assert sorted(as_of.collect()) == sorted(visible.collect())
    assert refused_by_gate(lake, "b2") == []
    lake.reopen(lake.log("merges"), record.name).fast_forward()
    assert [price for _, price in shown(lake, "id", "price")][1] == Decimal("0.1234")


def test_a_change_of_another_program_to_a_rewritten_table(lake: Lake, migration) -> None:
    spec = migration(schema_changes=REWRITE)
    first(lake, spec)
    step(lake, spec, "b2", [row(7, 2, "update", price="0.1234", n="2", table=NEW)], [NEW])
    lake.spark.sql(f"DELETE FROM {lake.merged('shop.t')} WHERE id = 3")
    late = row(3, 4, "update", price="9", n="9", table=OLD)
    step(lake, spec, "b3", [late, row(8, 5, price="1.0001", n="5", table=NEW)], [NEW])
    assert shown(lake, "id", "price") == [
        (1, Decimal("99999999.9900")),
        (2, Decimal("0.1234")),
        (5, Decimal("1.0001")),
    ]


def test_a_text_that_is_no_value_of_the_new_type_stops_it(lake: Lake, migration) -> None:
    spec = migration(schema_changes=REWRITE)
    first(lake, spec)
    lake.spark.sql(
        f'UPDATE {lake.merged("shop.t")} SET _waybill_image = \'{{"id":"1","price":"1e3"}}\' '
        "WHERE id = 1"
    )
    put(lake, "b2", [row(7, 2, "update", price="0.1234", n="2", table=NEW)], [NEW])
    with pytest.raises(ReconciliationError, match=r"price as decimal\(15,4\): the row .*\"1\""):
        merge(lake, spec, "b2")
    assert types(lake)["price"] == "decimal(10,2)"


def test_a_table_without_key_and_a_reload_are_rewritten_too(lake: Lake, migration) -> None:
    def line(sequence: int, table, **image):
        order = order_key((sequence,), 1, 0, sequence, 0)
        place = ("t", 0, sequence, 0)
        return change_row(Change(order, "insert", "", image, None, place), table)

    old = schema("shop.t", {"id": "int32", "n": "int32"}, ())
    # Without a fraction the source writes the same digits, by which rows without key are found.
    new = schema("shop.t", {"id": "int32", "n": "decimal(6,0)"}, ())
    spec = migration(schema_changes=REWRITE)
    rows = [line(1, old, id="1", n="7"), line(2, old, id="1", n="7")]
    step(lake, spec, "b1", rows, [old])
    step(lake, spec, "b2", [line(3, new, id="1", n="7"), line(4, new, id="2", n="5")], [new])
    assert shown(lake, "id", "n") == [(1, Decimal(7))] * 3 + [(2, Decimal(5))]
    assert types(lake)["n"].startswith("decimal")
    truncate = row(5, 0, "truncate", table=new)
    wide = schema("shop.t", {"id": "int32", "n": "string"}, ())
    step(lake, spec, "b3", [truncate, line(6, wide, id="3", n="x")], [new, wide])
    assert shown(lake, "id", "n") == [(3, "x")]
