"""Batches joined: the same rows, enough of them at a time, never much more."""

from __future__ import annotations

import pyarrow as pa
import pytest

from waybill.spark_tasks import rechunking as larger_batches
from waybill.spark_tasks.rechunking import larger


def batch(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"])


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(larger_batches, "ROWS_PER_BATCH", 3)
    monkeypatch.setattr(larger_batches, "BYTES_PER_BATCH", 1000)


def test_rows_stay_in_order_and_the_rest_comes_too():
    given = [batch(b"a"), batch(b"b", b"c"), batch(), batch(b"d", b"e", b"f", b"g"), batch(b"h")]
    joined = list(larger(given))
    assert [rows.num_rows for rows in joined] == [3, 4, 1]
    assert b"".join(rows["value"][i].as_py() for rows in joined for i in range(len(rows))) == (
        b"abcdefgh"
    )


def test_long_rows_end_a_batch_before_it_fills_memory():
    joined = larger([batch(b"x" * 1000), batch(b"y")])
    assert [rows.num_rows for rows in joined] == [1, 1]


def test_it_waits_for_no_more_than_it_needs():
    taken = []

    def come():
        for number in range(10):
            taken.append(number)
            yield batch(b"v")

    next(larger(come()))
    assert taken == [0, 1, 2]


def test_nothing_stays_nothing():
    assert list(larger([])) == []
