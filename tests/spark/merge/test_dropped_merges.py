"""A merge that was dropped leaves its columns behind, but not their types for the next one."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import let_pass, merge, put, rows_of, schema
from tests.spark.merge.test_merge_stage import row, step
from waybill.errors import ReconciliationError
from waybill.merge.leftovers import drop_held

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.records import TableSchema

pytestmark = pytest.mark.spark


def schema_of(type_: str, **more: str) -> TableSchema:
    """The table with a column of a logical type."""
    return schema("shop.t", {"id": "int64", "amount": type_, **more}, ("id",))


def typed(lake: Lake) -> tuple[str, list[object]]:
    """Type and values of the column in the lake, by key."""
    frame = lake.read(lake.merged("shop.t"))
    rows = frame.orderBy("_waybill_key").collect()
    return dict(frame.dtypes)["amount"], [found["amount"] for found in rows]


def dropped(lake: Lake, spec, table: TableSchema, text: str) -> None:
    """A merge whose branches go before the gate has let it pass."""
    put(lake, "b1", [row(1, 1, amount=text, table=table)], [table])
    merge(lake, spec, "b1")
    drop_held(lake)


@pytest.mark.parametrize("seen", [False, True], ids=["new table", "table with rows"])
@pytest.mark.parametrize(
    ("first", "old", "second", "new", "found"),
    [
        (
            "decimal(10,2)", "1.50", "decimal(10,4)", "1.2345",
            ("decimal(12,4)", [Decimal("1.5000"), Decimal("1.2345")]),
        ),
        ("int32", "1", "decimal(10,2)", "1.50", ("decimal(12,2)", [Decimal(1), Decimal("1.50")])),
    ],
)  # fmt: skip
def test_the_next_merge_finds_another_type(
    lake: Lake, migration, seen, first, old, second, new, found
) -> None:
    spec, rest = migration(), []
    if seen:
        plain = schema("shop.t", {"id": "int64"}, ("id",))
        step(lake, spec, "b0", [row(1, 0, table=plain)], [plain])
        rest = [None]
    dropped(lake, spec, schema_of(first), old)
    assert typed(lake) == (first.replace("int32", "int"), rest)
    # A column comes up beside it.
    table = schema_of(second, note="string")
    step(lake, spec, "b2", [row(2, 2, amount=new, note="x", table=table)], [table])
    type_, values = found
    assert typed(lake) == (type_, rest + values)


def test_the_next_merge_has_another_type(lake: Lake, migration) -> None:
    dropped(lake, migration(), schema_of("int32"), "1")
    spec = migration(tables={"shop.t": {"columns": {"amount": "string"}}})
    step(
        lake, spec, "b2", [row(2, 2, amount="one", table=schema_of("int32"))], [schema_of("int32")]
    )
    assert typed(lake) == ("string", ["1", "one"])


def test_a_column_that_was_widened_stays(lake: Lake, migration) -> None:
    spec, table = migration(), schema_of("decimal(10,2)")
    step(lake, spec, "b0", [row(1, 0, amount="0.25", table=table)], [table])
    dropped(lake, spec, schema_of("decimal(14,2)"), "123456789012.50")
    narrow = migration(tables={"shop.t": {"columns": {"amount": "decimal(10,2)"}}})
    more = schema_of("decimal(10,2)", note="string")
    step(lake, narrow, "b2", [row(2, 2, amount="2.50", note="x", table=more)], [more])
    assert typed(lake) == ("decimal(14,2)", [Decimal("0.25"), Decimal("2.50")])


def test_values_that_rows_show_are_never_taken_away(lake: Lake, migration) -> None:
    """The table is visible, its record is not: nobody remembers the column's type."""
    table = schema_of("int32")
    put(lake, "b1", [row(1, 1, amount="1", table=table)], [table])
    merge(lake, migration(), "b1")
    (info,) = lake.waiting(lake.merged("shop.t"), "merge", "b1")
    lake.reopen(lake.merged("shop.t"), info.name).fast_forward()
    (record,) = lake.waiting(lake.log("merges"), "merge", "b1")
    lake.reopen(lake.log("merges"), record.name).drop()
    spec = migration(tables={"shop.t": {"columns": {"amount": "string"}}})
    with pytest.raises(ReconciliationError, match=r"column amount of shop\.t is int in the lake"):
        merge(lake, spec, "b1")
    assert typed(lake) == ("int", [1])
    merge(lake, migration(), "b1")
    let_pass(lake, "b1")
    assert [image["amount"] for _, image in rows_of(lake, "shop.t").values()] == ["1"]
