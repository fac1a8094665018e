"""What the merge remembers, and which orders it cannot compare."""

from __future__ import annotations

import pytest

from waybill.errors import ConfigurationError
from waybill.merge.columns import MergedColumn
from waybill.merge.state import Default, MergeState, TableState
from waybill.merge.watermark import Reached
from waybill.order import order_key, order_number

PLACED = order_key(None, 1, 0, 7, 0)
TIMED = PLACED.replace("1//", f"1/{order_number(1_700_000_000_000_000)}/", 1)
NUMBERED = order_key((7,), 1, 0, 7, 0)
LEFT = r"changes without a sequence id \(tables: shop\.t\) were merged by their source time"


def state(highest: str = "", by_source_time: bool | None = None, sequence: str = "", **settings):
    """A migration with one table, whose only partition brought sequence ids up to `sequence`."""
    table = TableState(highest=highest, places=(("t", 0),), topics=("t",), **settings)
    found = MergeState({"shop.t": table}, reached={"t": {0: Reached(sequence, 5)}})
    found.by_source_time = by_source_time
    return MergeState.from_json(found.to_json())


def test_source_time_is_not_left():
    with pytest.raises(ConfigurationError, match=LEFT):
        state(TIMED, by_source_time=True).check_order(by_source_time=False)
    state(TIMED, by_source_time=True).check_order(by_source_time=True)


def test_source_time_may_come_to_rows_that_positions_ordered():
    """Orders by time are above theirs: what is there is older, as it should be."""
    assert TIMED > PLACED
    for known in (False, None):
        state(PLACED, known).check_order(by_source_time=True)
        state(PLACED, known).check_order(by_source_time=False)


@pytest.mark.parametrize(
    "ordered", [{"truncated": PLACED}, {"defaults": (Default(PLACED, "tier", "basic"),)}]
)
def test_source_time_may_not_come_where_a_position_orders_a_statement(ordered):
    """What a TRUNCATE took away would be newer than it, and come back from the log."""
    for known in (False, None):
        found = state(PLACED, known, **ordered)
        found.check_order(by_source_time=False)
        with pytest.raises(ConfigurationError, match=r"of shop\.t was merged by its position"):
            found.check_order(by_source_time=True)
    state(TIMED, True, **ordered).check_order(by_source_time=True)


def test_source_time_may_not_come_where_positions_decided_what_was_deleted():
    """Of the changes that are gone some are the newest by time, and no fold would find them."""
    for known in (False, None):
        found = state(PLACED, known)
        found.check_order(by_source_time=False, cut={"shop.t"})
        with pytest.raises(ConfigurationError, match=r"deleted changes of shop\.t that"):
            found.check_order(by_source_time=True, cut={"shop.t", "shop.gone"})
        found.check_order(by_source_time=True, cut={"shop.gone"})
    state(TIMED, True).check_order(by_source_time=True, cut={"shop.t"})
    state(NUMBERED, False, NUMBERED).check_order(by_source_time=False, cut={"shop.t"})
    numbered = state(NUMBERED, False, NUMBERED)
    numbered.tables["shop.t"].places = ()
    numbered.check_order(by_source_time=True, cut={"shop.t"})


def test_states_of_before_show_how_they_were_made():
    with pytest.raises(ConfigurationError, match=LEFT):
        state(TIMED).check_order(by_source_time=False)
    with pytest.raises(ConfigurationError, match=LEFT):
        state(truncated=TIMED).check_order(by_source_time=False)


def test_what_they_do_not_show_is_taken_as_the_migration_has_it():
    """The topic brings sequence ids too, so the highest order may be one."""
    for setting in (True, False):
        state(NUMBERED, sequence=NUMBERED).check_order(setting)
        MergeState().check_order(setting)


def test_where_every_change_has_a_sequence_id_the_setting_does_not_matter():
    found = state(NUMBERED, sequence=NUMBERED)
    found.tables["shop.t"].places = ()
    for setting in (True, False):
        found.check_order(setting)


def test_only_a_reload_stands_before_all_that_has_its_id():
    for sequence in ((10,), (3, 154)):
        order = order_key(sequence, 0, 0, 0, 0)
        assert TableState(truncated=order).reloaded_at == order.split("/")[1]
    for truncated in ("", order_key((10,), 1, 0, 0, 0), "1/1210/", PLACED):
        assert TableState(truncated=truncated).reloaded_at is None


def test_columns_that_are_added_again():
    def table(dropped=(), **types) -> TableState:
        columns = tuple(MergedColumn(name, name, type_) for name, type_ in types.items())
        return TableState(columns=columns, dropped=dict.fromkeys(dropped, PLACED))

    first = table(id="int", note="string")
    assert first.added_again(first) == []
    less = table(dropped=["note", "unknown"], id="int", note="string")
    assert less.added_again(first) == []
    assert first.added_again(less) == ["note added again"]
