"""How far a table is complete."""

from __future__ import annotations

import pytest

from waybill.merge.state import MergeState
from waybill.merge.transactions import Open
from waybill.merge.watermark import Reached, complete, fell_back, further, joined, plain
from waybill.order import order_key


def order(*sequence: int) -> str:
    return order_key(sequence or None, 1, 0, 9, 0)


def reached(sequence: int, time: int | None) -> Reached:
    return Reached(order(sequence), time)


def state(*partitions: Reached) -> MergeState:
    found = MergeState()
    found.table("shop.t").topics = ("t",)
    found.reach({("t", n): reached for n, reached in enumerate(partitions)})
    return found


def test_the_slowest_partition_decides():
    found = state(Reached(order(1000), 7), Reached(order(999), 8)).watermark("shop.t")
    assert plain(found) == {"sequence": "999", "time": "1970-01-01T00:00:00.000007Z"}


def test_later_batches_bring_it_on_and_never_back():
    found = state(Reached(order(3, 154), 7_000_000))
    found.reach({("t", 0): Reached(order(3, 99), 9_000_000)})
    assert plain(found.watermark("shop.t")) == {"sequence": "3:154", "time": "1970-01-01T00:00:09Z"}


def test_an_open_transaction_holds_it():
    found = state(Reached(order(50), 50))
    found.open = (Open("x", None, 0, order(20), 20),)
    assert found.watermark("shop.t") == Reached(order(20), 20)


def test_half_of_an_update_that_waits_holds_its_table():
    found = state(Reached(order(50), 50))
    found.table("shop.u").topics = ("t",)
    found.halves = {"shop.t": Reached(order(20), 20)}
    assert found.watermark("shop.t") == Reached(order(20), 20)
    assert found.watermark("shop.u") == Reached(order(50), 50)


def test_nothing_is_claimed_that_is_not_known():
    assert plain(state(Reached(order(5), 5), Reached()).watermark("shop.t")) == {
        "sequence": None,
        "time": None,
    }
    assert MergeState().watermark("shop.t") == Reached()


def test_full_rows_and_positions_say_nothing():
    full = order_key(None, 1, 0, 1, 0, full_row=True)
    assert further(Reached("", 3), full, 99) == Reached("", 3)
    assert further(None, order(), 4) == Reached("", 4)


def test_it_is_kept_with_the_batch():
    found = state(Reached(order(7), 7))
    assert MergeState.from_json(found.to_json()).watermark("shop.t") == Reached(order(7), 7)


def test_time_that_goes_on_while_sequences_fall_is_reported():
    """As after a failover, when the binlog's numbers begin anew."""
    before = {"t": {0: reached(12, 900), 1: reached(5, 100)}}
    assert fell_back(before, {("t", 0): reached(3, 901), ("t", 1): reached(6, 101)}) == [
        "t/0: changes up to 1970-01-01T00:00:00.000901Z have sequence ids up to 3, lower than 12 "
        "which came by 1970-01-01T00:00:00.000900Z, and lose against it: if another server took "
        "over or its log was reset, read the source under a new migration name"
    ]


@pytest.mark.parametrize(
    "now",
    [
        reached(12, 901),
        reached(3, 900),
        reached(3, None),
        Reached("", 901),
        reached(13, 1),
    ],
)
def test_messages_delivered_again_do_not_fall_back(now):
    assert fell_back({"t": {0: reached(12, 900)}}, {("t", 0): now}) == []
    assert fell_back({}, {("t", 0): now}) == []


BEYOND = [1_700_000_000_000_000_000, 253_402_300_800_000_000, -62_135_596_800_000_001, 2**63 - 1]


@pytest.mark.parametrize("time", BEYOND)
class TestTimesOnNoCalendar:
    """A message may state one, such as microseconds where milliseconds belong."""

    def test_they_are_shown_as_unknown(self, time):
        assert plain(reached(5, time)) == {"sequence": "5", "time": None}

    def test_a_partition_goes_by_its_other_times(self, time):
        assert further(reached(5, 7), order(6), time) == reached(6, 7)
        assert further(further(None, order(6), time), order(7), 9) == reached(7, 9)

    def test_a_state_of_before_that_has_one_is_mended(self, time):
        kept = MergeState.from_json(state(Reached(order(5), time)).to_json())
        kept.reached = {"t": {0: reached(5, time)}}
        kept.reach({("t", 0): reached(6, 8)})
        assert plain(kept.watermark("shop.t")) == {
            "sequence": "6",
            "time": "1970-01-01T00:00:00.000008Z",
        }
        assert joined(reached(5, time), Reached()) == reached(5, None)

    def test_nothing_is_claimed_of_a_partition_without_another(self, time):
        ends = [reached(5, time), reached(6, 7)]
        assert complete(ends, ()) == reached(5, None)
        began = Open("x", None, 0, order(4), time)
        assert complete([reached(6, 7)], [began]) == reached(4, None)

    def test_they_are_no_sign_that_numbers_began_anew(self, time):
        assert fell_back({"t": {0: reached(12, 900)}}, {("t", 0): reached(3, time)}) == []
        assert fell_back({"t": {0: reached(12, time)}}, {("t", 0): reached(3, 901)}) == []


def test_the_first_and_the_last_time_of_the_calendar_are_told():
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    assert plain(Reached(time=first))["time"] == "0001-01-01T00:00:00Z"
    assert plain(Reached(time=last))["time"] == "9999-12-31T23:59:59.999999Z"
    assert joined(Reached(time=first), Reached(time=last)) == Reached(time=last)
