"""Changes of columns: the class of each pair of types, what is decided, and the events."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from waybill.errors import SchemaChangeError
from waybill.merge.column_changes import TakenChanges, change_class, extend, of_batch
from waybill.merge.column_types import (
    holds,
    joined_by_rewrite,
    joined_numbers,
    keeps,
    promoted,
)
from waybill.merge.columns import MergedColumn
from waybill.merge.exact_casts import fits
from waybill.records import Column as SourceColumn
from waybill.records import intern_schema
from waybill.spec.decisions import CLASSES, ColumnDecision, Decisions
from waybill.types import parse_type

VALUES = {
    "int": ("-2147483648", "0", "2147483647"),
    "bigint": ("-9223372036854775808", "7", "9223372036854775807"),
    "decimal(10,2)": ("-99999999.99", "1.10"),
    "decimal(12,2)": ("9999999999.99", "-1.10"),
    "decimal(15,4)": ("99999999999.9999", "0.0001"),
    "decimal(10,0)": ("9999999999", "-1"),
    "decimal(19,0)": ("9999999999999999999",),
    "decimal(20,0)": ("99999999999999999999", "-0"),
    "decimal(38,0)": ("9" * 38,),
    "decimal(38,10)": ("9" * 28 + "." + "9" * 10,),
    "float": ("1.5", "NaN"),
    "double": ("1.7976931348623157e308", "0.1"),
    "boolean": ("true", "false"),
    "binary": ("aGk=",),
    "date": ("2020-02-29", "0001-01-01"),
    "timestamp_ntz": ("2020-02-29T23:59:59.999999", "2020-02-29 00:00:00"),
    "timestamp": ("2020-02-29T23:59:59.999999Z",),
    "string": ("any text", ""),
}
"""Types of the lake with the texts that reach furthest."""

PROMOTIONS = {
    ("int", "bigint"),
    ("float", "double"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("decimal(10,0)", "int"),
    ("decimal(10,0)", "bigint"),
    ("decimal(10,0)", "decimal(19,0)"),
    ("decimal(10,0)", "decimal(20,0)"),
    ("decimal(10,0)", "decimal(38,0)"),
    ("decimal(19,0)", "decimal(20,0)"),
    ("decimal(19,0)", "decimal(38,0)"),
    ("decimal(20,0)", "decimal(38,0)"),
    ("decimal(10,2)", "int"),
    ("decimal(10,2)", "bigint"),
    ("decimal(12,2)", "bigint"),
    ("decimal(10,2)", "decimal(10,0)"),
    ("decimal(10,2)", "decimal(19,0)"),
    ("decimal(10,2)", "decimal(20,0)"),
    ("decimal(12,2)", "decimal(19,0)"),
    ("decimal(12,2)", "decimal(20,0)"),
    ("decimal(15,4)", "bigint"),
    ("decimal(15,4)", "decimal(12,2)"),
    ("decimal(15,4)", "decimal(19,0)"),
    ("decimal(15,4)", "decimal(20,0)"),
}
"""What a column of the lake can be promoted for; a decimal by more digits before its point."""


def column(type_: str, name: str = "c") -> MergedColumn:
    return MergedColumn(name, name, type_)


@pytest.mark.parametrize(("before", "after"), [*product(VALUES, VALUES)])
def test_the_class_of_every_pair_of_types(before, after):
    found = change_class(column(before), column(after))
    takes_all = all(fits(text, before) for text in VALUES[after])
    if before == after:
        assert found is None
    elif keeps(before, after):
        assert found == "narrow"
        assert takes_all, "every value of the new type is one of the column"
    elif promoted(before, after) is not None:
        assert found == "widen"
        assert (before, after) in PROMOTIONS
        becomes = promoted(before, after) or ""
        assert all(fits(text, becomes) for text in (*VALUES[before], *VALUES[after]))
        assert holds(becomes, before)
    else:
        assert found == "retype"
        assert (before, after) not in PROMOTIONS


def test_columns_that_come_go_and_change_their_names():
    assert change_class(None, column("int")) == "add"
    assert change_class(column("int"), None) == "drop"
    assert change_class(column("int", "a"), column("int", "b")) == "rename"
    assert change_class(column("int", "a"), column("date", "b")) == "rename"
    assert change_class(None, None) is None
    assert ColumnDecision._fields[:-1] == CLASSES


def schema(**columns):
    declared = tuple(SourceColumn(name, parse_type(text)) for name, text in columns.items())
    return intern_schema("shop", None, "t", declared, ("id",), "mysql")


BASE = extend((), [schema(id="int32", price="decimal(10,2)")], {}, "shop.t", 0)


def grow(taken: TakenChanges, *schemas, columns=BASE):
    return extend(columns, schemas, {}, "shop.t", len(columns), taken)


def test_what_is_taken_is_an_event():
    taken = TakenChanges("shop.t")
    grown = grow(taken, schema(id="int64", price="decimal(8,1)", note="string"))
    assert [one.type for one in grown] == ["bigint", "decimal(10,2)", "string"]
    statements = [
        "ALTER TABLE t ADD COLUMN note VARCHAR(9)",
        "ALTER TABLE t MODIFY id\n  BIGINT, MODIFY `price` DECIMAL(8,1)" + " " * 300 + ", x",
    ]
    events = of_batch(taken.changes, statements, "b7")
    assert [(e.change, e.column, e.before, e.after) for e in events] == [
        ("widen", "id", "int", "bigint"),
        ("narrow", "price", "decimal(10,2)", "decimal(8,1)"),
        ("add", "note", "", "string"),
    ]
    assert {e.batch for e in events} == {"b7"}
    assert events[0].statement.startswith("ALTER TABLE t MODIFY id BIGINT")
    assert events[2].sentence == f"note added (string), by {statements[0]}"
    assert str(events[0]) == "id from int to bigint"
    assert str(events[1]) == "price from decimal(10,2) to decimal(8,1): it stays decimal(10,2)"


def test_a_type_that_came_before_is_no_change():
    """After a column was widened the old type may come with every late change."""
    old, new = schema(id="int32", price="decimal(10,2)"), schema(id="int64", price="decimal(9,2)")
    for order in permutations((old, new, schema(id="int8", price="decimal(10,2)"))):
        taken = TakenChanges("shop.t")
        grown = grow(taken, *order)
        assert sorted(e.change for e in taken.changes) == ["narrow", "widen"]
        again = TakenChanges("shop.t", ColumnDecision("stop", "stop", "stop"), taken.stated)
        assert grow(again, *order, columns=grown) == grown
        assert again.changes == []


@pytest.mark.parametrize(
    ("decision", "change", "then"),
    [
        (
            ColumnDecision(add="stop"),
            schema(id="int32", price="decimal(10,2)", x="date"),
            "add: take",
        ),
        (ColumnDecision(widen="stop"), schema(id="int64", price="decimal(10,2)"), "widen: take"),
        (ColumnDecision(narrow="stop"), schema(id="int32", price="decimal(3,1)"), "narrow: keep"),
    ],
)
def test_a_person_decides(decision, change, then):
    with pytest.raises(SchemaChangeError, match=f"set `{then}` for shop.t under schema_changes"):
        grow(TakenChanges("shop.t", decision), change)
    grow(TakenChanges("shop.t"), change)


@pytest.mark.parametrize(("one", "other"), [*product(VALUES, VALUES)])
def test_what_a_rewrite_makes_holds_both_in_whichever_order_they_come(one, other):
    becomes = joined_by_rewrite(one, other)
    assert becomes == joined_by_rewrite(other, one)
    if becomes is None:
        assert "binary" in (one, other)
        return
    assert all(fits(text, becomes) for text in (*VALUES[one], *VALUES[other]))
    for third in VALUES:
        ways = [(becomes, third), (joined_by_rewrite(one, third), other)]
        ends = {None if a is None else joined_by_rewrite(a, b) for a, b in ways}
        assert len(ends) == 1, (one, other, third, ends)


def test_what_a_rewrite_makes():
    for before, after, becomes in (
        ("decimal(10,2)", "decimal(15,4)", "decimal(15,4)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("int", "decimal(6,1)", "decimal(11,1)"),
        ("decimal(38,2)", "decimal(38,10)", "string"),
        ("bigint", "string", "string"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("date", "timestamp", "string"),
        ("boolean", "int", "string"),
        ("binary", "string", None),
    ):
        assert joined_by_rewrite(before, after) == becomes, (before, after)


def test_a_rewrite_has_to_be_decided_and_a_declared_type_has_to_hold_both():
    change = schema(id="int32", price="decimal(15,4)")
    with pytest.raises(SchemaChangeError, match=r"set `retype: rewrite` for shop\.t .* with it as"):
        grow(TakenChanges("shop.t"), change)
    taken = TakenChanges("shop.t", ColumnDecision(retype="rewrite"))
    assert grow(taken, change)[1].type == "decimal(15,4)"
    assert [one.change for one in taken.changes] == ["retype"]
    declared = {"price": parse_type("decimal(9,3)")}
    taken = TakenChanges("shop.t", ColumnDecision(retype="rewrite"))
    with pytest.raises(SchemaChangeError, match="or declare a type that holds both"):
        extend(BASE, [change], declared, "shop.t", 2, taken)
    with pytest.raises(SchemaChangeError, match="which does not fit: take the change back"):
        grow(taken, schema(id="bytes", price="decimal(10,2)"))


def test_what_one_batch_brings_is_not_told_as_if_the_lake_had_it():
    schemas = [schema(id="int32", price=kind) for kind in ("int32", "timestamp")]
    for both, types in ((schemas, "int and as timestamp"), (schemas[::-1], "timestamp_ntz and as")):
        with pytest.raises(SchemaChangeError, match=f"price of shop.t comes as {types}"):
            extend((), both, {}, "shop.t", 0, TakenChanges("shop.t"))
    with pytest.raises(SchemaChangeError, match=r"price of shop.t is decimal.* in the lake"):
        grow(TakenChanges("shop.t"), schemas[1])


def test_the_first_entry_that_names_a_table_decides():
    one, other = ColumnDecision(add="stop"), ColumnDecision(drop="stop")
    found = Decisions(((("shop.orders", "crm.*"), one), (("shop.*",), other)))
    assert found.find("shop.orders") == found.find("crm.public.x") == one
    assert found.find("shop.items") == other
    assert found.find("other.items") == ColumnDecision()


def test_numbers_of_more_than_38_digits_have_no_decimal():
    assert joined_numbers("decimal(38,0)", "decimal(10,2)") is None
    assert joined_numbers("int", "decimal(38,28)") == "decimal(38,28)"
