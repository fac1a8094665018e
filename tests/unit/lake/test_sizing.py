from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from waybill.lake.sizing import LARGEST_PIECE, MOST_PIECES, SHUFFLED, shuffle_partitions

cores = st.integers(1, 2000)


def test_ten_rows_are_one_piece_however_large_the_cluster():
    assert shuffle_partitions(0, 500) == 1
    assert shuffle_partitions(2_000, 500) == 1


def test_every_core_gets_something_as_soon_as_it_is_worth_it():
    assert shuffle_partitions(100 << 20, 16) == 32


def test_half_a_terabyte_needs_no_tuning():
    pieces = shuffle_partitions((500 << 30) // SHUFFLED, 64)
    assert (500 << 30) / pieces <= LARGEST_PIECE


@given(st.integers(0, 1 << 44), cores)
def test_more_bytes_are_never_fewer_pieces(size, count):
    pieces = shuffle_partitions(size, count)
    assert 1 <= pieces <= shuffle_partitions(size + (1 << 20), count) <= MOST_PIECES
