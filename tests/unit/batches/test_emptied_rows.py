"""Updates whose halves met after their table was emptied."""

from __future__ import annotations

import pyarrow as pa

from waybill.batches.emptied_rows import skip_void
from waybill.lake_columns import CHANGES
from waybill.mapping.shards import VOID, Floor
from waybill.order import order_key


def row(number: int, shard: str | None, outcome: str = "ok", image: str = "after") -> dict:
    text = None if shard is None else f'{{"id":"1","of":"{shard}"}}'
    return {
        "topic": "t",
        "partition": 0,
        "offset": number,
        "index": 0,
        "outcome": outcome,
        "order_key": order_key((number,), 1, 0, number, 0),
        image: text,
        "operation": "update",
    }


def test_those_below_the_floor_of_their_table_are_skipped():
    rows = [
        row(4, "a.b"),
        row(6, "a.b"),
        row(4, "a.c"),
        row(4, "a.b", "waiting"),
        row(3, "a.b", image="before"),
        row(2, None),
    ]
    batch = pa.RecordBatch.from_pylist(rows, CHANGES)
    floors = {"a.b": Floor(order_key((5,), 1, 0, 9, 0))}
    (made,) = skip_void(iter([batch]), floors, ("of", "other"), False)
    assert made.schema == CHANGES
    outcomes = [(r["outcome"], r["reason_kind"]) for r in made.to_pylist()]
    void, same = ("skipped", VOID), ("ok", None)
    assert outcomes == [void, same, same, ("waiting", None), void, same]


def test_a_batch_without_any_stays_as_it_is():
    batch = pa.RecordBatch.from_pylist([row(6, "a.b")], CHANGES)
    floors = {"a.b": Floor(order_key((5,), 1, 0, 9, 0))}
    (made,) = skip_void(iter([batch]), floors, ("of",), False)
    assert made is batch
