"""When the gate of a new target may still read every change, so that none may go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waybill.lake_columns import BATCHES
from waybill.upkeep.old_changes import is_read


def lake(waiting: str = "", cursors: tuple[dict[str, Any], ...] = ()) -> Any:
    """A lake in which a target begins, or has begun since the gate has judged."""
    judged = SimpleNamespace(cursor={"outbox": 7})

    def between(table: str, after: int | None, upto: int | None) -> list[Any]:
        assert (table, after, upto) == ("outbox", 7, None)
        return [SimpleNamespace(cursor=cursor) for cursor in cursors]

    return SimpleNamespace(
        log=lambda name: name,
        waiting=lambda table, _stage: table == waiting,
        last=lambda _table, _stage: judged,
        between=between,
    )


@pytest.mark.parametrize("table", ["changes", "outbox"])
def test_changes_stay_while_a_target_begins(table):
    assert is_read(lake(waiting=table))


def test_changes_stay_until_the_gate_has_compared_what_a_target_began_with():
    assert is_read(lake(cursors=({"changes": 3}, {"changes": 4, BATCHES: ["b1", "b2"]})))


def test_no_change_stays_for_batches_that_go_to_the_same_targets():
    assert not is_read(lake(cursors=({"changes": 3}, {"changes": 4})))
