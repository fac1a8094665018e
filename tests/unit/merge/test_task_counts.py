"""Few rows are counted without a query as a query would count them."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from waybill.convert.encode import COUNTED, Wrote, _counted_here
from waybill.lake_columns import CHANGES
from waybill.made_ids import ACROSS_PARTITIONS, WITHIN_PARTITION
from waybill.merge.task_counts import SURVEYED, named, surveyed


def test_messages_by_what_became_of_them():
    within = ["lost", WITHIN_PARTITION]
    rows = [
        ("a", "ok", None, None, "t", 0, 1),
        ("a", "ok", None, None, "u", 1, 3),
        ("a", "ok", None, [], "t", 0, 2),
        ("a", "ok", None, within, "t", 0, 5),
        ("a", "ok", None, within, "t", 2, 4),
        ("a", "ok", None, within, "u", 0, 4),
        ("a", "ok", None, [ACROSS_PARTITIONS], "t", 0, 0),
        ("a", "refused", "range", None, "t", 0, 7),
        ("b", "skipped", None, None, "t", 0, 8),
    ]
    columns = dict(zip(COUNTED.names, zip(*rows, strict=True), strict=True))
    found = list(_counted_here(pa.table(columns, COUNTED)))
    assert sorted(found, key=str) == sorted(
        [
            Wrote("a", "ok", None, None, None, 2, 1, 1, 3),
            Wrote("a", "ok", None, [], None, 1, 0, 2, 2),
            Wrote("a", "ok", None, within, "t", 2, 1, 4, 5),
            Wrote("a", "ok", None, within, "u", 1, 0, 4, 4),
            Wrote("a", "ok", None, [ACROSS_PARTITIONS], None, 1, 0, 0, 0),
            Wrote("a", "refused", "range", None, None, 1, 0, 7, 7),
            Wrote("b", "skipped", None, None, None, 1, 0, 8, 8),
        ],
        key=str,
    )


def test_no_message_at_all():
    assert list(_counted_here(COUNTED.empty_table())) == []


@pytest.mark.parametrize(
    ("database", "schema", "table", "name"),
    [
        ("shop", None, "orders", "shop.orders"),
        ("shop", "public", "orders", "shop.public.orders"),
        ("shop", None, "", "shop"),
        ("", None, "", "topic"),
        (None, None, None, "topic"),
        ("", "x", None, ".x"),
        ("", None, "t", ".t"),
    ],
)
def test_changes_have_the_name_that_sql_gives_them(database, schema, table, name):
    change = dict.fromkeys(CHANGES.names)
    change |= {"database": database, "schema": schema, "table": table, "topic": "topic"}
    change |= {"operation": "insert", "partition": 1, "order_key": "1/x"}
    change["source_time"] = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    batch = pa.RecordBatch.from_pylist([change], SURVEYED)
    (row,) = named(surveyed([batch]))
    assert (row.qualified, row.n, row.micros, row.order) == (name, 1, -1, "1/x")


def test_the_newest_time_is_one_that_a_calendar_has():
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    change = dict.fromkeys(CHANGES.names)
    change |= {"topic": "topic", "operation": "insert", "partition": 1, "order_key": "1/x"}
    batch = pa.RecordBatch.from_pylist([change] * 4, SURVEYED)

    def newest(*micros: int | None) -> int | None:
        times = pa.array([*micros], pa.int64()).cast(CHANGES.field("source_time").type)
        place = SURVEYED.get_field_index("source_time")
        few = batch.slice(0, len(micros)).set_column(place, SURVEYED.field(place), times)
        (row,) = named(surveyed([few]))
        assert row.n == len(micros)
        micros_found: int | None = row.micros
        return micros_found

    assert newest(5, last + 1, 2**63 - 1, None) == 5
    assert newest(first - 1, first, -(2**63), None) == first
    assert newest(last, last + 1) == last
    assert newest(first - 1, last + 1, None) is None
