"""Numbers of rows that differ, and what it takes to decide about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.verify.test_history import SPEC
from waybill.verify import counting
from waybill.verify.counting import count_table
from waybill.verify.database import DatabaseView, SourceTable
from waybill.verify.deciding import LakeState, Pending
from waybill.verify.plan import Compared
from waybill.verify.results import COUNT, TableResult

if TYPE_CHECKING:
    import pytest

TABLE = Compared("shop.t", "lake.shop.t", SourceTable(("shop", "t"), ()), (), True, (), ())


class Database:
    """Has ten rows."""

    def count(self, _: object) -> int:
        return 10


def counted(
    monkeypatch: pytest.MonkeyPatch, batch: str, reached: int, before: dict[str, Pending]
) -> TableResult:
    """What becomes of a table with seven rows in the lake, without waiting."""
    state = LakeState(1, batch, batch, "", reached, None, 1, False)
    monkeypatch.setattr(counting, "live_rows", lambda *_: 7)
    monkeypatch.setattr(counting, "lake_state", lambda *_: state)
    monkeypatch.setattr(counting, "left_open", lambda *_, **__: before)
    facts: Any = (None, SPEC, TABLE, Database(), state, DatabaseView(50, None), 0.0)
    return count_table(*facts, lambda *_: None, False)


def test_without_waiting_only_a_table_at_rest_is_decided(monkeypatch: pytest.MonkeyPatch):
    first = counted(monkeypatch, "b1", 40, {})
    assert (first.differing, first.undecided) == (0, 3)
    assert "`--wait` for longer than a batch takes" in first.sentence
    assert "if the table is not written until then" in first.sentence
    before = {COUNT: first.pending[COUNT]._replace(clock=30)}
    written = counted(monkeypatch, "b2", 40, before)
    assert (written.differing, written.undecided) == (0, 3)
    at_rest = counted(monkeypatch, "b1", 40, before)
    assert (at_rest.differing, at_rest.undecided) == (3, 0)
    assert at_rest.sentence == "the database has 3 more"
