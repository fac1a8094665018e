"""Which keys a reload takes of what verifications kept, and where it takes none."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.verify.test_history import SPEC
from waybill.errors import Code, ConfigurationError
from waybill.merge.renamings import Renaming
from waybill.merge.state import HeldTable, MergeState, TableState
from waybill.merge.transactions import Open, RolledBack
from waybill.verify import keys_to_reload as module
from waybill.verify.deciding import DIFFERS, MISSING_IN_DATABASE, MISSING_IN_LAKE
from waybill.verify.keys_to_reload import keys_to_reload
from waybill.verify.newest import MASKED, NAME, SKIPPED

ORDERS = "shop.orders"


class Lake:
    """A lake of which verifications are known.

    Attributes:
        found: rows of the table that keeps them.
        state: what the merge knows.
        since: the tables of which `retention` has deleted changes, and since when they are whole.
    """

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.since: dict[str, str] = {}
        self.state = MergeState({ORDERS: TableState(key=("id",)), "shop.s.b": TableState()})

    def verify(
        self,
        number: int,
        keys: list[Any],
        label: str = ORDERS,
        table: str = ORDERS,
        what: str = DIFFERS,
        **more: Any,
    ) -> None:
        figures = {"table": table, "method": "full", "differing": len(keys), **more}
        name = {"verification": f"v{number}", "table": label, "time": number}
        self.found.append({**name, "kind": "table", "body": json.dumps(figures)})
        for key in keys:
            shown = {"key": key if isinstance(key, dict) else {"id": str(key)}, "what": what}
            self.found.append({**name, "kind": "difference", "body": json.dumps(shown)})

    def merged_tables(self) -> dict[str, str]:
        return dict.fromkeys((ORDERS, "shop.s.b"), "")

    def changes_since(self, qualified: str) -> str | None:
        return self.since.get(qualified)

    def log(self, name: str) -> str:
        return name

    def exists(self, name: str) -> bool:
        return name == NAME and bool(self.found)

    def scan(self, _: str, columns: list[str], where: dict[str, list[Any]]) -> Any:
        for row in self.found:
            if all(row[name] in wanted for name, wanted in where.items()):
                yield {name: row[name] for name in columns}


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = Lake()
    monkeypatch.setattr(module, "position_of", lambda _: SimpleNamespace(state=made.state))
    return made


def asked(lake: Any, *tables: str) -> Any:
    return keys_to_reload(lake, SPEC, tables or (ORDERS,))


def refused(lake: Any, *tables: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        asked(lake, *tables)
    assert error.value.code == Code.OPTION
    return error.value.sentence


def test_those_of_the_newest_verification_that_compared_rows(lake):
    lake.verify(2, [3, 'é"', 3])
    lake.verify(1, [1, 2])
    lake.verify(3, [9], method="counts")
    lake.verify(4, [9], outcome=SKIPPED)
    assert asked(lake, "shop.*").keys == {ORDERS: {'{"id":"3"}', '{"id":"é\\""}'}}


def test_each_of_several_tables_that_become_one_has_its_own(lake):
    lake.state.tables[ORDERS] = TableState(key=("id", "shard"))
    lake.verify(1, [{"shard": "a", "id": "1"}], "orders of a")
    lake.verify(2, [{"shard": "b", "id": None}], "orders of b")
    wanted = {'{"id":"1","shard":"a"}', '{"id":null,"shard":"b"}'}
    assert asked(lake).keys == {ORDERS: wanted}


def test_of_a_sample_the_keys_are_taken_that_are_known(lake):
    lake.verify(1, [1, 2], differing=5)
    keys, (warning,), _ = asked(lake)
    assert len(keys[ORDERS]) == 2
    assert "found 5 keys of shop.orders that differ and kept 2, so the reload takes" in warning
    assert "(`waybill run FILE --reload shop.orders`)" in warning


@pytest.mark.parametrize(
    ("what", "known", "warns"),
    [
        (MISSING_IN_LAKE, {"one_text": False}, True),
        (MISSING_IN_LAKE, {}, True),
        (MISSING_IN_LAKE, {"one_text": True}, False),
        (DIFFERS, {"one_text": False}, False),
        (MISSING_IN_DATABASE, {"one_text": False}, False),
    ],
)
def test_a_row_that_the_lake_lacks_may_have_its_key_in_another_way(lake, what, known, warns):
    lake.verify(1, [1, 2], what=what, **known)
    keys, warnings, _ = asked(lake)
    assert len(keys[ORDERS]) == 2
    assert len(warnings) == warns
    for warning in warnings:
        assert warning.startswith("the lake lacks 2 rows of shop.orders, and messages may write")
        assert "(`waybill run FILE --reload shop.orders`)" in warning


def test_changes_of_transactions_that_are_open_or_were_rolled_back_are_named(lake):
    lake.verify(1, [1])
    assert asked(lake).unsettled == ""
    lake.state.open = (Open("7:10", None, 0),)
    lake.state.rolled_back = (RolledBack("x", again=True),)
    found = asked(lake).unsettled
    assert "('x', NULL, NULL, NULL)" in found
    assert "('7', 10, NULL, NULL)" in found


def test_where_no_key_is_known_there_is_nothing_to_do(lake):
    assert "no table 'shop.order'; did you mean" in refused(lake, "shop.order")
    assert "no verification has compared rows of shop.orders" in refused(lake)
    lake.verify(1, [], method="counts")
    assert "no verification has compared rows of shop.orders, shop.s.b" in refused(lake, "shop.*")
    lake.verify(2, [])
    assert "found no row of shop.orders that differs" in refused(lake)


def test_a_name_of_which_nothing_is_known_is_not_passed_over(lake):
    lake.verify(1, [1])
    assert asked(lake).warnings == ()
    (warning,) = asked(lake, "shop.*").warnings
    assert warning.startswith("no verification has compared rows of shop.s.b, so none of them")
    assert "`waybill verify FILE --method full` finds" in warning
    # Of one that was compared and is right nothing needs to be said.
    lake.verify(2, [], "shop.s.b", "shop.s.b")
    assert asked(lake, "shop.*").warnings == ()
    assert "no table 'shop.c*'" in refused(lake, ORDERS, "shop.c*")


def test_rows_that_cannot_be_told_apart_name_the_way_out(lake):
    way_out = "rebuild the whole table, `waybill run FILE --reload "
    lake.verify(1, [MASKED])
    assert "map masks or renames it: " + way_out in refused(lake)
    lake.verify(2, [{"number": "1"}])
    assert "map masks or renames it: " + way_out in refused(lake)
    lake.verify(3, [1], "shop.s.b", "shop.s.b")
    assert refused(lake, "shop.b").startswith("shop.s.b has no key, so its rows cannot be disting")
    lake.verify(4, [1])
    lake.state.held[ORDERS] = HeldTable(None, "b1", 0, "why")
    assert "waits for a decision (`waybill status FILE`)" in refused(lake)
    known = lake.state.tables[ORDERS]
    known.renamed = (Renaming(order="1", names={"a": "b"}, after=None),)
    assert "columns of shop.orders were renamed" in refused(lake)
    known.renamed = ()
    del lake.state.held[ORDERS]
    lake.since[ORDERS] = "2026-01-01 00:00 UTC"
    assert "retention has deleted changes of shop.orders from batches that ended" in refused(lake)
    assert refused(lake).endswith("load a dump of the table with `as_of` under `full:`")


def test_a_table_that_cannot_be_repaired_by_keys_keeps_none_from_it_that_can(lake):
    lake.verify(1, [1], "shop.s.b", "shop.s.b")
    lake.verify(2, [1])
    keys, (warning,), _ = asked(lake, "shop.*")
    assert keys.keys() == {ORDERS}
    assert warning == (
        "shop.s.b has no key, so its rows cannot be distinguished, and none of them is rebuilt: "
        "rebuild the whole table, `waybill run FILE --reload shop.s.b`"
    )
    lake.since[ORDERS] = "2026-01-01 00:00 UTC"
    both = refused(lake, "shop.*")
    assert both.startswith("retention has deleted changes of shop.orders")
    assert "; shop.s.b has no key" in both
