"""What a reload has to bring so that it may replace what came before."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.convert import keys_brought_again as of_keys
from waybill.convert.brought_again import MessageSpan, not_brought
from waybill.convert.keys_brought_again import GROUPS_DDL, grouped, named
from waybill.lake.local_rows import local_rows
from waybill.lake_columns import CHANGES
from waybill.mapping.rules import NOT_MET
from waybill.mapping.shards import EMPTIED
from waybill.merge.open_transactions import in_transactions
from waybill.merge.transactions import Members

pytestmark = pytest.mark.spark

BOTH = {"operation": "update", "before": "{}"}
"""An update that was made of two halves."""


def change(offset: int, table: str = "t", outcome: str = "ok", **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(CHANGES.names)
    names = {"database": "shop", "table": table, "outcome": outcome, "operation": "insert"}
    return {**row, **names, "topic": "in", "partition": 0, "offset": offset, **more}


def half(offset: int, side: str, sequence: str, table: str = "t") -> dict[str, Any]:
    order = f"1/{sequence}/1"
    return change(offset, table, "waiting", half=side, order_key=order, operation="update")


def update(offset: int, sequence: str) -> dict[str, Any]:
    return change(offset, order_key=f"1/{sequence}/1", **BOTH)


def missing(spark, old: list, new: list, pairs: bool = True) -> dict[str, MessageSpan]:
    frames = [
        local_rows(spark, [[row[n] for n in CHANGES.names] for row in rows], ddl)
        for rows, ddl in ((old, from_arrow_schema(CHANGES)), (new, from_arrow_schema(CHANGES)))
    ]
    return not_brought(*frames, pairs)


def test_a_message_has_to_come_as_one_of_the_same_table(spark):
    old = [change(n) for n in (1, 1, 2, 3, 4)] + [change(5, "u"), change(6, "u")]
    new = [change(1), change(2, outcome="refused"), change(3, "u"), change(5, "u"), change(6, "u")]
    wanted = {"shop.t": MessageSpan(2, ("in", 0, 3))}
    assert missing(spark, old, new, pairs=False) == wanted
    assert missing(spark, old, new) == wanted


def test_halves_may_meet_and_may_not_be_alone(spark):
    """The row before of an update leaves no row where both halves met."""
    old = [half(1, "before", "10"), half(4, "after", "20"), update(6, "30"), update(8, "40")]
    meets = [update(2, "10"), update(4, "20"), half(5, "before", "30"), half(6, "after", "30")]
    assert missing(spark, old[:3], meets) == {}
    alone = [half(2, "after", "10"), update(4, "20"), half(6, "after", "30"), update(8, "40")]
    assert missing(spark, old, alone) == {"shop.t": MessageSpan(2, ("in", 0, 1))}
    # Of another table, with the same id.
    others = [half(2, "after", "10", "u"), half(1, "before", "10", "u")]
    assert missing(spark, old[:1], others) == {"shop.t": MessageSpan(1, ("in", 0, 1))}


KEYS = [("shop.t", "a", 0), ("shop.t", "b", 0), ("shop.t", "c", 1), ("shop.u", "a", 2)]
"""Keys and the groups that they are in."""


def of(key: str, offset: int, index: int = 0, **more: Any) -> dict[str, Any]:
    return change(offset, key=key, index=index, order_key=f"1/{offset}/1", **more)


def frames(spark, *lists: list[dict[str, Any]]) -> Any:
    ddl = from_arrow_schema(CHANGES)
    for rows in lists:
        yield named(local_rows(spark, [[row[n] for n in CHANGES.names] for row in rows], ddl))
    yield local_rows(spark, KEYS, GROUPS_DDL)


def test_a_group_of_keys_needs_a_change_of_its_own_or_what_became_of_it(spark):
    """What is left out has the place of the change, what was refused that of the message."""
    whole = {"outcome": "skipped", "reason_kind": EMPTIED}
    part = {"outcome": "skipped", "reason_kind": NOT_MET}
    old = [of("a", n) for n in (1, 2, 3, 4, 5)]
    old += [of("c", 6, 1), of("c", 7, 3), of("a", 8, table="u")]
    new = [of("b", 1), of("a", 2, 4), of("c", 3), of("a", 8)]
    beside = [change(4, outcome="refused"), change(5, **whole), change(5, "u", "refused")]
    beside += [change(6, index=0, **part), change(7, index=3, **part)]
    before, came, others, keys = frames(spark, old, new, beside)
    missing = of_keys.not_brought(grouped(before, keys), grouped(came, keys), others)
    assert missing == {
        0: MessageSpan(1, ("in", 0, 3)),
        1: MessageSpan(1, ("in", 0, 6)),
        2: MessageSpan(1, ("in", 0, 8)),
    }


def test_a_change_counts_for_one_row_only(spark):
    """Rows of one message have places of their own in it."""
    old = [of("a", 1, 0), of("z", 1, 1), of("z", 2), of("c", 3), of("a", 4, table="u")]
    new = [of("a", 1, 0), of("c", 2), of("b", 3), of("a", 4), of("b", 5)]
    log, came, keys = frames(spark, old, new)
    found = of_keys.counted_elsewhere(grouped(came, keys), log, keys)
    assert found == {0: MessageSpan(1, ("in", 0, 3)), 1: MessageSpan(1, ("in", 0, 2))}


def test_a_change_of_an_open_transaction_keeps_its_group(spark):
    """Before and now; begins and ends are no changes of rows."""
    condition = in_transactions([Members("x"), Members("7", 10, 90)])
    old = [of("a", 1, transaction="x"), of("c", 2, transaction="7:9"), of("z", 3, transaction="x")]
    new = [of("a", 1), of("c", 2), of("a", 4, table="u", transaction="7:90")]
    before, came, keys = frames(spark, old, new)
    given = grouped(before, keys), grouped(came, keys)
    found = of_keys.unsettled(*given, condition)
    assert found == {0: MessageSpan(1, ("in", 0, 1)), 2: MessageSpan(1, ("in", 0, 4))}
    assert of_keys.unsettled(*given, "") == {}


def test_no_half_of_an_update_is_left_alone(spark):
    def side(key: str, offset: int, half: str, sequence: int, **more: Any) -> dict[str, Any]:
        order = f"1/{sequence}/1"
        given = {"outcome": "waiting", "half": half, "operation": "update", "order_key": order}
        return change(offset, key=key, **{**given, **more})

    met = [side("a", 1, "before", 10), side("b", 2, "after", 10)]
    apart = [side("a", 3, "before", 20), side("c", 4, "after", 20)]
    alone = [side("a", 9, "after", 30, table="u")]
    for new, takes, wanted in (
        (met, False, set()),
        (apart, False, {0, 1}),
        (alone, False, {2}),
        (alone, True, set()),
        ([side("a", 9, "before", 30, table="u")], True, {2}),
    ):
        none, came, keys = frames(spark, [], new)
        found = of_keys.halves_alone(grouped(none, keys), grouped(came, keys), takes)
        assert found.keys() == wanted
    # One that has waited until now.
    waits, none, keys = frames(spark, alone, [])
    found = of_keys.halves_alone(grouped(waits, keys), grouped(none, keys), True)
    assert found == {2: MessageSpan(1, ("in", 0, 9))}
