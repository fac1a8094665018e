"""Names of mapped tables that are kept from batch to batch."""

from __future__ import annotations

import pytest

from waybill.convert.mapped_names import NAMES, keep_names
from waybill.errors import ConfigurationError
from waybill.mapping.rules import Rule, Rules
from waybill.report import SOURCES, StageReport

RULES = Rules(of_tables=(Rule(("*",), {"table": "{table}_x"}),))


def kept(before: dict, renamed: dict, sources: dict, rules: Rules = RULES) -> dict:
    report = StageReport("convert", "b1")
    keep_names(before, rules, renamed, sources, report)
    return report.details


def test_names_of_earlier_batches_stay():
    first = kept({}, {"s.a_x\ns.a": "s.a"}, {"s.a": "s.a_x"})
    assert first == {NAMES: {"s.a_x": "s.a"}, SOURCES: {"s.a": "s.a_x"}}
    second = kept(first, {"s.b_x\ns.b": "s.b"}, {"s.b": "s.b_x"})
    assert second[SOURCES] == {"s.a": "s.a_x", "s.b": "s.b_x"}
    assert kept(second, {}, {}) == second
    with pytest.raises(ConfigurationError, match=r"s\.a and s\.c one name, s\.a_x"):
        kept(second, {"s.a_x\ns.c": "s.c"}, {})


def test_a_lake_of_before_has_kept_the_names_of_tables_that_stay_apart():
    old = {NAMES: {"s.a_x": "s.a", "s.b": "s.b", "s.j": "shards of s.j"}}
    assert kept(old, {}, {"s.j_1": "s.j"})[SOURCES] == {"s.a": "s.a_x", "s.j_1": "s.j"}


def test_a_mapping_that_leaves_names_as_they_are_keeps_none():
    assert kept({}, {}, {}, Rules(of_tables=(Rule(("*",), drop=("x",)),))) == {}
    assert kept({SOURCES: {"s.a": "s.a_x"}}, {}, {}, Rules(shadows=True)) == {}
