"""Names against names and patterns of a migration's file: `*` is the only sign."""

from __future__ import annotations

import random
import re

import pytest

from waybill.cli.check_decisions import check_decisions
from waybill.inprocess.display import DisplayFilter
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.mapping.table import MappedTable
from waybill.name_patterns import matches
from waybill.records import Change, Column, Message, intern_schema
from waybill.spec.decisions import ColumnDecision, Decisions
from waybill.spec.mapping import TableMapping, joined_names
from waybill.spec.schema_changes import SchemaChanges
from waybill.tables import NO_RULE, TableRule, TableRules
from waybill.types import STRING, parse_type
from waybill.validate.readers import rules_of as read_again

NASTY = (
    "[",
    "]",
    "[]",
    "[!a]",
    "?",
    "*",
    "**",
    "a*b",
    "a?b",
    "a[b]",
    "\\",
    "\n",
    "",
    ".",
    "(",
    "$",
)
"""Names that are signs of other notations of patterns."""


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_itself(name):
    assert matches(name, name)
    assert matches(name, "*")
    assert matches(f"x{name}", f"*{name}")
    assert matches(f"{name}x", f"{name}*")
    assert matches(name, f"*{name}*")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("a", "[ab]"),
        ("a", "?"),
        ("ab", "a?"),
        ("b", "[!a]"),
        ("a", "A"),
        ("ab", "a*b*b"),
        ("aba", "ab*ba"),
        ("a\n", "a"),
        ("", "a*"),
        ("*", "a*"),
        ("ac", "a*b"),
    ],
)
def test_no_other_sign_means_anything(name, pattern):
    assert not matches(name, pattern)


def test_a_star_is_any_characters_wherever_it_stands():
    chance = random.Random(5)
    for _ in range(20_000):
        name = "".join(chance.choices("ab[?\n", k=chance.randrange(7)))
        pattern = "".join(chance.choices("ab[?\n**", k=chance.randrange(7)))
        expression = ".*".join(map(re.escape, pattern.split("*")))
        expected = re.fullmatch(expression, name, re.DOTALL) is not None
        assert matches(name, pattern) is expected, (name, pattern)


COLUMNS = (
    Column("id", parse_type("bigint")),
    Column("card[no]", STRING),
    Column("cardn", STRING),
    Column("a*b", STRING),
    Column("axb", STRING),
)


def table(name: str):
    return intern_schema("shop", None, name, COLUMNS, ("id",), "mysql")


def row(schema):
    return schema.Image("1", "4111", "n", "s", "x")


@pytest.mark.parametrize("mask", [{"card[no]": "x"}, {"CARD[NO]": "x"}, {"card[*": "x"}])
def test_a_mask_of_a_column_with_signs_in_its_name(mask):
    rule = MappingRule(("*",), masks={name: Mask("text", text) for name, text in mask.items()})
    mapped = MappedTable(table("t"), [rule])
    assert mapped.image(row(mapped.source), None) == mapped.schema.Image("1", "x", "n", "s", "x")
    assert mapped.hides("card[no]")
    assert not mapped.hides("cardn")


def test_columns_with_signs_in_their_names_are_dropped_and_kept():
    dropped = MappedTable(table("t"), [MappingRule(("*",), drop=("card[no]",))])
    assert dropped.schema.names == ("id", "cardn", "a*b", "axb")
    kept = MappedTable(table("t"), [MappingRule(("*",), keep=("id", "card[no]"))])
    assert kept.schema.names == ("id", "card[no]")


@pytest.mark.parametrize("patterns", [("a*b", "*"), ("*", "a*b"), ("*", "A*B")])
def test_the_very_name_of_a_column_goes_before_patterns(patterns):
    """Also before one that stands in front of it, and where the name holds a star itself."""
    masks = {pattern: Mask("text", pattern.casefold()) for pattern in patterns}
    masks["id"] = Mask("sha256")
    mapped = MappedTable(table("t"), [MappingRule(("*",), masks=masks)])
    made = mapped.image(row(mapped.source), None)
    assert made.f3 == "a*b"
    assert made.f1 == made.f2 == "*"


@pytest.mark.parametrize("name", ["t[1]", "t?", "[", "a*b"])
def test_tables_with_signs_in_their_names(name):
    schema, other = table(name), table("t1")
    full = f"shop.{name}"
    rules = Rules(of_tables=(MappingRule((full,), masks={"axb": Mask("text", "-")}),))
    change = Change("insert", schema, Message("t", 0, 1, None, None, b""), after=row(schema))
    made = ChangeMapper(rules).map(change).change
    assert made is not None
    assert made.after == made.schema.Image("1", "4111", "n", "s", "-")
    assert rules.rules_of(other) == []
    assert not Rules(exclude=(full,)).selects(schema)
    assert Rules(exclude=(full,)).selects(other)
    assert Rules(include=(full,)).selects(schema)
    assert Rules(include=(full,)).chooses(full)
    assert not Rules(include=(full,)).selects(other)
    assert Rules(include=(full,), shadows=True).selects(schema)
    message = Message("t", 0, 1, None, None, b"")
    found = ChangeMapper(Rules(exclude=(full,))).map(
        Change("insert", schema, message, after=row(schema))
    )
    assert found.change is None


@pytest.mark.parametrize("name", ["t[1]", "t?", "[", "a*b"])
def test_what_is_decided_and_declared_for_tables_with_signs_in_their_names(name):
    full = f"shop.{name}"
    decisions = Decisions((((full,), ColumnDecision(drop="stop")),), joined=(full,))
    assert decisions.find(full).drop == "stop"
    assert decisions.find("shop.t1").drop == "keep"
    assert decisions.joins(full)
    declared = TableRules({"shop.*": TableRule(("any",)), full: TableRule(("id",))})
    assert declared.find("shop", None, name).key == ("id",)
    assert declared.find("shop", None, "t1").key == ("any",)
    assert TableRules({full: TableRule(("id",))}).find("shop", None, "t1") is NO_RULE


def test_a_declared_name_with_a_star_goes_before_a_pattern_in_front_of_it():
    declared = TableRules({"shop.a*": TableRule(("any",)), "shop.a*b": TableRule(("own",))})
    assert declared.find("shop", None, "a*b").key == ("own",)
    assert declared.find("shop", None, "acb").key == ("any",)


def test_what_was_taken_once_is_read_again_by_the_same_key():
    schemas = [
        intern_schema("shop", None, name, COLUMNS, key, "mysql")
        for name, key in (("a*b", ("id",)), ("a?b", ("axb",)), ("acb", ()))
    ]
    again = read_again(schemas)
    assert [again.find("shop", None, s.table).key for s in schemas] == [("id",), ("axb",), ()]


def test_one_table_is_shown():
    schema, message = table("t[1]"), Message("t", 0, 1, None, None, b"")

    class Entry:
        change = Change("insert", schema, message)

    assert DisplayFilter(table="shop.t[1]").entry(Entry())
    assert DisplayFilter(table="*[1]").entry(Entry())
    assert not DisplayFilter(table="shop.t?1?").entry(Entry())


def test_a_check_finds_the_table_of_a_decision():
    entry = SchemaChanges.model_validate({"tables": "shop.t[1]", "drop": "stop"})
    assert list(check_decisions([entry], ["shop.t[1]"])) == []
    (finding,) = check_decisions([entry], ["shop.t1"])
    assert finding.text.startswith("no table of the sample is called shop.t[1]")
    mapped = SchemaChanges.model_validate({"tables": "shop.*", "rename": "map"})
    (finding,) = check_decisions([mapped], ["shop.x"], ["shop.t[1]"])
    assert finding.text.startswith("several tables become shop.t[1]")


def test_a_rule_of_one_table_may_give_it_any_name():
    """A name with brackets is no pattern of several tables, which could not get one name."""
    given = {"tables": "shop.t[1]", "rename": {"table": "one"}}
    assert TableMapping.model_validate(given).rule().names == {"table": "one"}
    joined = TableMapping.model_validate({**given, "join": {"column": "s"}})
    assert joined_names([joined]) == ("shop.one", "shop.*.one")
