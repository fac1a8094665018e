"""The order key compares byte by byte exactly as the numbers it was made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.errors import Refusal
from waybill.order import (
    MAX_INDEX,
    MAX_OFFSET,
    order_key,
    order_number,
    position_number,
    read_order_key,
    sequence_of,
)

numbers = st.one_of(st.integers(), st.integers(10**17, 10**21), st.integers(-(10**40), 10**40))
sequences = st.lists(numbers, min_size=1, max_size=3).map(tuple)


@given(numbers, numbers)
def test_numbers_compare_as_integers(a: int, b: int) -> None:
    assert (order_number(a).encode() < order_number(b).encode()) == (a < b)
    assert (order_number(a) == order_number(b)) == (a == b)


@given(
    st.integers(1, 3).flatmap(
        lambda n: st.tuples(
            *[
                st.tuples(
                    st.lists(numbers, min_size=n, max_size=n).map(tuple),
                    *[st.integers(0, 10**6)] * 4,
                )
            ]
            * 2
        )
    )
)
def test_keys_compare_part_by_part(pair: tuple) -> None:
    (a, *rest_a), (b, *rest_b) = pair
    key_a, key_b = order_key(a, *rest_a), order_key(b, *rest_b)
    assert (key_a.encode() < key_b.encode()) == ((a, *rest_a) < (b, *rest_b))


@given(sequences, st.integers(0, 5))
def test_a_key_reads_back(sequence: tuple[int, ...], rank: int) -> None:
    assert read_order_key(order_key(sequence, rank, 3, 10**12, 7)) == (sequence, rank, False)
    assert read_order_key(order_key(None, rank, 0, 0, 0, full_row=True)) == (None, 1, True)


@given(*[st.tuples(*[st.integers(0, 10**6)] * 3)] * 2, *[st.integers(0, 5)] * 2)
def test_without_a_sequence_the_position_decides(
    one: tuple[int, int, int], other: tuple[int, int, int], rank: int, other_rank: int
) -> None:
    keys = order_key(None, rank, *one), order_key(None, other_rank, *other)
    assert (keys[0].encode() < keys[1].encode()) == (one < other)


def test_known_traps() -> None:
    def key(sequence: int) -> str:
        return order_key((sequence,), 1, 0, 0, 0)

    assert key(999) < key(1000), "as text 999 would be newer"
    assert key(2**53) < key(2**53 + 1), "as a double they would be equal"
    assert key(10**4200) < key(10**4200 + 1), "no number is too long"
    assert order_key((5,), 0, 9, 9, 9) < order_key((5,), 1, 0, 0, 0), "before image first"
    assert order_key((1,), 1, 9, 9, 9) < order_key((1, 0), 1, 0, 0, 0), "fewer parts first"
    full = order_key(None, 1, 5, 10**9, 0, full_row=True)
    assert full < order_key((-5,), 0, 0, 0, 0), "full rows below every change"
    assert sequence_of(key(7)) == "117"


positions = st.tuples(
    st.integers(0, 9222), st.integers(0, MAX_OFFSET - 1), st.integers(0, MAX_INDEX - 1)
)


@given(positions, positions)
def test_a_number_made_from_the_position_is_in_its_order(one: tuple, other: tuple) -> None:
    numbers_made = position_number(*one), position_number(*other)
    assert (numbers_made[0] < numbers_made[1]) == (one < other)
    assert max(numbers_made) < 2**63


def test_a_number_is_made_for_so_many_changes_of_a_message() -> None:
    with pytest.raises(Refusal, match="not for more"):
        position_number(0, 0, MAX_INDEX)
