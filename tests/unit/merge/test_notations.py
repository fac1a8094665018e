"""Tables whose rows are found by texts wait when these are written with other digits."""

from __future__ import annotations

import pytest

from tests.unit.merge.test_plan import Row, at, ddl, plan, run
from waybill.errors import Code, SchemaChangeError
from waybill.merge.state import MergeState
from waybill.records import Column, intern_schema
from waybill.spec.decisions import ColumnDecision, Decisions
from waybill.tables import TableRule, TableRules
from waybill.types import STRING, UNKNOWN, parse_type

REWRITE = Decisions(((("*",), ColumnDecision(retype="rewrite")),))
EMPTIED = "TRUNCATE TABLE t"


def change(sequence: int, source: str | None, key: tuple[str, ...] = ("at",), **more: str) -> Row:
    """A change of a table with a column of a type as the messages name it, and another column."""
    type_ = UNKNOWN if source is None else parse_type(source, "mysql")
    types = {"n": "int", **more}
    others = [Column(name, parse_type(text, "mysql"), text) for name, text in types.items()]
    columns = (Column("at", type_, source), *others)
    return Row(at(sequence), intern_schema("shop", None, "t", columns, key, "mysql"))


OTHER_TEXTS = [
    ("datetime", "datetime(3)"),
    ("datetime(3)", "datetime(6)"),
    ("datetime(6)", "datetime"),
    ("time", "time(2)"),
    ("timestamp", "timestamp(6)"),
    ("decimal(10,2)", "decimal(12,4)"),
    ("decimal(12,4)", "decimal(10,2)"),
    ("int", "decimal(12,2)"),
]


@pytest.mark.parametrize(("old", "new"), OTHER_TEXTS)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])
def test_a_key_that_is_written_with_other_digits_waits(old, new, together):
    """Also where the migration lets the table be rewritten: its rows have the old keys."""
    first, second = [change(1, old)], [change(2, new)]
    before = MergeState() if together else run(first).state
    with pytest.raises(SchemaChangeError, match=r"key column at of shop\.t .* `as_of`") as stop:
        plan([*first, *second] if together else second, before, decisions=REWRITE)
    assert (stop.value.code, stop.value.table) == (Code.KEY_CHANGED, "shop.t")


@pytest.mark.parametrize(("old", "new"), OTHER_TEXTS)
def test_so_does_any_column_of_a_table_without_key(old, new):
    before = run([change(1, old, ())]).state
    with pytest.raises(SchemaChangeError, match=r"^WB-4007: column at of|^column at of") as stop:
        plan([change(2, new, ())], before, decisions=REWRITE)
    assert stop.value.code == Code.COLUMN_DECISION
    # In a table with a key it is a column like others.
    keyed = run([change(1, old, ("n",))], [change(2, new, ("n",))], decisions=REWRITE)
    assert keyed.state.table("shop.t").written == {"n": "int32"}


SAME_TEXTS = [
    ("datetime(3)", "datetime(3)"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("int", "bigint"),
    ("int", "decimal(20,0)"),
    ("varchar(10)", "varchar(20)"),
    ("decimal(10,2)", "varchar(20)"),
    (None, "datetime(3)"),
    ("datetime(3)", None),
    (None, None),
]


@pytest.mark.parametrize("key", [("at",), ()], ids=["key", "no key"])
@pytest.mark.parametrize(("old", "new"), SAME_TEXTS)
def test_what_leaves_the_texts_as_they_are_goes_on(old, new, key):
    """A wider type, and types that say nothing about digits or are not stated."""
    assert run([change(1, old, key)], [change(2, new, key)], decisions=REWRITE).tables


def test_a_stated_type_is_kept_through_messages_that_state_none():
    before = run([change(1, "datetime")], [change(2, None)]).state
    with pytest.raises(SchemaChangeError, match=r"was timestamp\(0\) and is now timestamp\(3\)"):
        plan([change(3, "datetime(3)")], before)


def test_a_declared_type_is_none_that_messages_state():
    """Another declaration changes no text; what the source states beside it counts."""

    def declared(text):
        return TableRules({"shop.t": TableRule(columns={"at": parse_type(text)})})

    def unstated(sequence, text):
        columns = (Column("at", parse_type(text)), Column("n", STRING))
        return Row(at(sequence), intern_schema("shop", None, "t", columns, ("at",)))

    before = plan([unstated(1, "decimal(8,2)")], MergeState(), declared("decimal(8,2)")).state
    assert before.table("shop.t").written == {}
    rules = declared("decimal(12,4)")
    assert plan([unstated(2, "decimal(12,4)")], before, rules, decisions=REWRITE).tables
    before = plan([change(1, "decimal(10,2)")], MergeState(), rules).state
    with pytest.raises(SchemaChangeError, match="key column at"):
        plan([change(2, "decimal(12,4)")], before, rules)


@pytest.mark.parametrize("key", [("at",), ()], ids=["key", "no key"])
def test_it_goes_on_when_its_rows_are_gone(key):
    """What is written with the old digits and comes late is gone with them."""
    empty, old, new = ddl(10, EMPTIED), change(5, "datetime", key), change(20, "datetime(3)", key)
    before = run([change(1, "datetime", key)]).state
    found = plan([old, empty, new], before)
    assert found.state.table("shop.t").written["at"] == "timestamp(3)"
    assert run([change(1, "datetime", key)], [empty], [new]).tables
    later = plan([change(6, "datetime", key), change(21, "datetime(3)", key)], found.state)
    assert later.state.table("shop.t").written["at"] == "timestamp(3)"
    assert plan([change(7, "datetime", key)], later.state).state.table("shop.t").written == (
        found.state.table("shop.t").written
    )


def test_rows_that_stay_keep_it_waiting():
    """A TRUNCATE that lies below rows with the old digits takes none of them away."""
    before = run([change(30, "datetime")]).state
    with pytest.raises(SchemaChangeError, match="key column at"):
        plan([ddl(10, EMPTIED), change(40, "datetime(3)")], before)
