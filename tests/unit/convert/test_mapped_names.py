"""Names of mapped tables that are kept from batch to batch."""

from __future__ import annotations

import pytest

from waybill.convert.mapped_names import NAMES, Met, keep_names
from waybill.convert.plan import EncodePlan
from waybill.errors import ConfigurationError
from waybill.mapping.rules import MappingRule, Rules
from waybill.records import TableSchema
from waybill.report import SOURCES, StageReport

RULES = Rules(of_tables=(MappingRule(("*",), {"table": "{table}_x"}),))
TO_B = Rules(of_tables=(MappingRule(("s.a",), {"table": "b"}),))
C_TO_B = Rules(of_tables=(MappingRule(("s.c",), {"table": "b"}),))
SWAP = Rules(
    of_tables=(MappingRule(("s.a",), {"table": "b"}), MappingRule(("s.b",), {"table": "a"}))
)
MASKS = Rules(of_tables=(MappingRule(("*",), drop=("x",)),))
A_IS_B, B_IS_A, B_IS_B = {"s.b\ns.a": "s.a"}, {"s.a\ns.b": "s.b"}, {"s.b\ns.b": "s.b"}
BOTH = r"s\.\w and s\.\w one name, s\.b"


class Earlier:
    """What the lake has; it may be asked only where something is renamed."""

    def __init__(self, *there: str, names: dict | None = None, asked: bool = True) -> None:
        self._there, self._names, self._asked = frozenset(there), names or {}, asked

    def names(self) -> dict:
        assert self._asked
        return dict(self._names)

    @property
    def there(self) -> frozenset[str]:
        assert self._asked
        return self._there


def kept(
    before: dict,
    renamed: dict,
    sources: dict | None = None,
    rules: Rules = RULES,
    earlier: Earlier | None = None,
    **met,
) -> dict:
    report = StageReport("convert", "b1")
    given = Met(renamed, sources or {}, **met)
    keep_names(before, rules, given, earlier or Earlier(), report)
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
    assert kept({}, {}, {}, Rules(of_tables=(MappingRule(("*",), drop=("x",)),))) == {}
    assert kept({SOURCES: {"s.a": "s.a_x"}}, {}, {}, Rules(shadows=True)) == {}


def test_a_table_of_before_the_map_has_its_own_name():
    """Nothing was renamed when it came, so it is in no record, and the lake is asked."""
    lake = Earlier("s.a", "s.b")
    with pytest.raises(ConfigurationError, match=r"s\.b and s\.a one name, s\.b"):
        kept({}, A_IS_B, rules=TO_B, earlier=lake)
    with pytest.raises(ConfigurationError, match=r"s\.b and s\.a one name, s\.b"):
        kept({NAMES: {"s.z": "s.z"}}, A_IS_B, rules=TO_B, earlier=lake)
    joined = {"s.b\nshards of s.b": "shards of s.b"}
    with pytest.raises(ConfigurationError, match="one name"):
        kept({}, joined, rules=TO_B, earlier=lake)
    own = {"s.b\ns.b": "s.b"}
    assert kept({}, own, rules=RULES, earlier=lake)[NAMES] == {"s.b": "s.b"}


def test_a_record_goes_on_where_nothing_is_renamed():
    first = kept({}, A_IS_B, rules=TO_B)
    for rules in (Rules(), MASKS):
        second = kept(first, {}, rules=rules, came=["s.z"], earlier=Earlier(asked=False))
        assert second[NAMES] == {"s.b": "s.a", "s.z": "s.z"}
        with pytest.raises(ConfigurationError, match=BOTH):
            kept(second, {"s.b\ns.c": "s.c"}, rules=C_TO_B, earlier=Earlier("s.b", "s.z"))
        with pytest.raises(ConfigurationError, match=BOTH):
            kept(first, {}, rules=rules, came=["s.b"])


def test_a_record_that_an_earlier_version_did_not_keep_is_looked_up():
    lake = Earlier("s.b", names={"s.b": "s.a"})
    assert kept({}, A_IS_B, rules=TO_B, earlier=lake)[NAMES] == {"s.b": "s.a"}
    with pytest.raises(ConfigurationError, match=BOTH):
        kept({}, {"s.b\ns.c": "s.c"}, rules=C_TO_B, earlier=lake)


def test_nobody_asks_the_lake_of_a_migration_that_never_renamed_anything():
    assert kept({}, {}, rules=MASKS, came=["s.a"], earlier=Earlier(asked=False)) == {}


def test_tables_may_swap_names_from_the_beginning_whichever_comes_first():
    first = kept({}, A_IS_B, rules=SWAP)
    second = kept(first, B_IS_A, rules=SWAP, earlier=Earlier("s.b"))
    assert second[NAMES] == {"s.b": "s.a", "s.a": "s.b"}
    assert kept(second, A_IS_B, rules=SWAP, earlier=Earlier("s.a", "s.b")) == second
    with pytest.raises(ConfigurationError, match="one name"):
        kept({}, A_IS_B, rules=SWAP, earlier=Earlier("s.a", "s.b"))


def test_a_table_that_a_reload_makes_anew_is_what_it_is_made_of():
    lake = Earlier("s.a", "s.b")
    anew = {"rebuilt": ["s.b"], "earlier": lake}
    assert kept({}, A_IS_B, rules=TO_B, **anew)[NAMES] == {"s.b": "s.a"}
    before = {NAMES: {"s.b": "s.a"}}
    assert kept(before, {}, rules=MASKS, came=["s.b"], **anew)[NAMES] == {"s.b": "s.b"}
    with pytest.raises(ConfigurationError, match=BOTH):
        kept({}, {**A_IS_B, **B_IS_B}, rules=TO_B, **anew)


def test_what_a_target_got_before_its_map_has_its_own_name():
    def schemas(*names: str) -> list[TableSchema]:
        return [TableSchema("s", None, name) for name in names]

    def target(rules: Rules) -> EncodePlan:
        return EncodePlan("t", None, None, rules)  # type: ignore[arg-type]

    had = target(TO_B).names_at_first(["s.a", "s.b"])
    with pytest.raises(ConfigurationError, match=BOTH):
        target(TO_B).check_names(schemas("a"), had)
    chosen = Rules(exclude=("s.b",), of_tables=TO_B.of_tables)
    assert target(chosen).check_names(schemas("a"), {}) == {"s.b": "s.a"}
    left_out = target(chosen).names_at_first(["s.a", "s.b"])
    assert target(chosen).check_names(schemas("a", "b"), left_out) == {"s.a": "s.a", "s.b": "s.a"}
    record = target(SWAP).check_names(schemas("a"), {})
    assert target(SWAP).check_names(schemas("b"), record) == {"s.b": "s.a", "s.a": "s.b"}
    # The map is gone, and what it called a table stays taken.
    with pytest.raises(ConfigurationError, match=BOTH):
        target(Rules()).check_names(schemas("b"), {"s.b": "s.a"})
    assert target(Rules()).check_names(schemas("b"), None) is None
