"""Shadow tables of online schema changes are known by their names, and others are not."""

from __future__ import annotations

import pytest

from waybill.mapping.rules import NOT_SELECTED, Rules
from waybill.mapping.shadows import SHADOW, shadow_of, swapped
from waybill.merge.alterations import read_statement
from waybill.merge.ddl import renamed_tables
from waybill.merge.statements import Statement
from waybill.records import intern_schema


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("_orders_gho", "orders"),
        ("_orders_ghc", "orders"),
        ("_orders_del", "orders"),
        ("_orders_20261127165400_del", "orders"),
        ("_orders_new", "orders"),
        ("__orders_new", "orders"),
        ("_orders_old", "orders"),
        ("_new_orders_gho", "new_orders"),
        ("orders_gho", None),
        ("orders_new", None),
        ("_orders", None),
        ("_gho", None),
        ("_orders_gho2", None),
        ("_orders_GHO", None),
    ],
)
def test_names_of_shadow_tables(name, table):
    assert shadow_of(name) == table


def schema(table: str, dialect: str = "mysql"):
    return intern_schema("shop", None, table, (), (), dialect)


def test_they_are_left_out_unless_they_are_named():
    shadows = Rules(shadows=True)
    assert shadows.left_out(schema("_t_gho")) == SHADOW
    assert shadows.left_out(schema("_t_gho", "")) == SHADOW
    assert shadows.left_out(schema("_t_new", "postgresql")) is None
    assert shadows.left_out(schema("t")) is None
    assert Rules().left_out(schema("_t_gho")) is None
    assert Rules(include=("shop._t_new",), shadows=True).left_out(schema("_t_new")) is None
    assert Rules(include=("shop.*",), shadows=True).left_out(schema("_t_new")) == SHADOW
    assert Rules(include=("shop.u",), shadows=True).left_out(schema("_t_new")) == NOT_SELECTED
    assert shadows
    assert not shadows.of_all


GH_OST = "rename /* gh-ost */ table `shop`.`t` to `shop`.`_t_del`, `shop`.`_t_gho` to `shop`.`t`"
PT = "RENAME TABLE `shop`.`t` TO `shop`.`_t_old`, `shop`.`_t_new` TO `shop`.`t`"


@pytest.mark.parametrize("text", [GH_OST, PT])
def test_their_last_rename_is_no_rename_of_the_table(text):
    assert swapped(renamed_tables(text, "mysql")) == {("shop", "t")}
    meaning = read_statement(Statement("shop.t", True, "1/2/", text, "mysql", "t", 0, 0, False))
    assert meaning.names == {"shop.t"}
    assert meaning.warnings[0].startswith("an online schema change of shop.t has ended")


def test_other_renames_are():
    for text in ("RENAME TABLE t TO _t_del", "RENAME TABLE a TO b, b TO a", f"{PT}, u TO v"):
        meaning = read_statement(Statement("shop.t", True, "1/2/", text, "mysql", "t", 0, 0, False))
        assert "full reload of these tables" in meaning.warnings[0]
    assert renamed_tables("RENAME USER a TO b", "mysql") == ()
