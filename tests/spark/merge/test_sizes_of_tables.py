"""Tables of one batch whose rows differ in width, and rows too large for one task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.merge.merge_lake import let_pass, merge, put, refused_by_gate, schema
from tests.spark.merge.test_merge_stage import images, row, step
from waybill.lake.snapshot_ranges import LONGEST
from waybill.merge.upsert import merging, table_bytes
from waybill.merge.upsert.merging import Plain

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

SMALL = schema("shop.small", {"id": "int64", "n": "int32"}, ("id",))
DOCUMENTS = schema("shop.documents", {"id": "int64", "d": "string"}, ("id",))


def batch(first: int) -> list[dict[str, Any]]:
    """Many narrow rows and six wide ones."""
    narrow = [row(first + n, n, table=SMALL, n="1") for n in range(300)]
    wide = [row(first + 300 + n, n, table=DOCUMENTS, d=f"{first}" * 5000) for n in range(6)]
    return [*narrow, *wide]


@pytest.mark.parametrize("here", [True, False])
def test_keys_are_dealt_by_the_bytes_of_their_own_table(
    lake: Lake, migration, monkeypatch, here: bool
) -> None:
    monkeypatch.setattr(table_bytes, "NOT_MEASURED", 0)
    monkeypatch.setattr(merging, "BUCKET_BYTES", 40_000)
    dealt: dict[str, int] = {}
    buckets = Plain.buckets

    def noted(table: Plain, each: float, cores: int) -> int:
        dealt[table.name] = buckets(table, each, cores)
        return dealt[table.name]

    monkeypatch.setattr(Plain, "buckets", noted)
    # Rows of which the longest is known are so few that they need no task.
    details = {LONGEST: {"changes": 22_000}} if here else None
    put(lake, "b1", batch(1000), [SMALL, DOCUMENTS], details)
    merge(lake, migration(), "b1").reconcile()
    let_pass(lake, "b1")
    # 120,000 bytes of documents, and 300 rows of about 70.
    assert dealt == {"shop.small": 1, "shop.documents": 4}
    assert len(images(lake, "shop.small")) == 300
    assert [image["d"] for image in images(lake, "shop.documents")] == ["1000" * 5000] * 6


@pytest.mark.parametrize(
    ("bound", "rows", "why"),
    [
        ("MOST_HELD", batch(2000), "its rows are larger than a task can hold"),
        (
            "DOUBTFUL_BYTES",
            # Partial updates, which leave out a column.
            [*batch(2000)[:300], *(row(2300 + n, n, "update", table=DOCUMENTS) for n in range(6))],
            "many values are in doubt",
        ),
    ],
    ids=["large", "doubtful"],
)
def test_what_tasks_or_the_driver_cannot_hold_goes_through_spark(
    lake: Lake, migration, monkeypatch, bound: str, rows, why: str
) -> None:
    spec = migration()
    step(lake, spec, "b1", batch(1000), [SMALL, DOCUMENTS])
    monkeypatch.setattr(merging, bound, 60_000 if bound == "MOST_HELD" else 100)
    put(lake, "b2", rows, [SMALL, DOCUMENTS])
    report = merge(lake, spec, "b2")
    report.reconcile()
    assert "merged by Spark" not in report.details["shop.small"]
    assert report.details["shop.documents"]["merged by Spark"] == why
    assert refused_by_gate(lake, "b2") == []
    let_pass(lake, "b2")
    assert report.rows_out == 306
    text = "2000" if bound == "MOST_HELD" else "1000"
    assert [image["d"] for image in images(lake, "shop.documents")] == [text * 5000] * 6
