"""Transactions of mapped tables: they are complete when the source's rows of them have come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.spark.test_mapping import batches
from waybill.lake import Lake

pytestmark = pytest.mark.spark

COLUMNS = {"id": "bigint", "v": "string"}
TABLES = {"shop.public.*": {"key": ["id"], "columns": COLUMNS}}
MAP = [
    {"tables": "shop.public.orders_*", "rename": {"table": "orders"}, "join": {"column": "shard"}},
    # Under the name of a table that is left out.
    {
        "tables": "shop.public.people",
        "rename": {"table": "hidden"},
        "columns": {"mask": {"v": "sha256"}},
        "where": "v <> 'no'",
    },
]
SELECT = {"exclude": ["shop.public.hidden"]}
ORDERS, PEOPLE = "shop.public.orders", "shop.public.hidden"


@pytest.fixture
def run(spark, migration, tmp_path):
    made = batches(spark, migration, tmp_path, TABLES, MAP)
    fields = {
        "envelope": "debezium-json",
        "settings": {"replica_identity": "full"},
        "select": SELECT,
    }
    return lambda *messages: made(list(messages), **fields)


def event(lsn: int, op: str, table: str, before: Any = None, after: Any = None) -> bytes:
    """A row event of PostgreSQL, in transaction 7."""
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table}
    source |= {"lsn": lsn, "txId": 7, "snapshot": "false"}
    images = [
        None if one is None else dict(zip(("id", "v"), one, strict=True)) for one in (before, after)
    ]
    fields = {"before": images[0], "after": images[1], "source": source, "op": op, "ts_ms": lsn}
    fields["transaction"] = {"id": f"7:{lsn}", "total_order": 1, "data_collection_order": 1}
    return json.dumps(fields).encode()


def border(status: str, lsn: int, **counts: int) -> bytes:
    """The begin or end of transaction 7."""
    counted = [{"data_collection": f"public.{t}", "event_count": n} for t, n in counts.items()]
    fields = {"status": status, "id": f"7:{lsn}", "ts_ms": lsn}
    if status == "END":
        fields |= {"event_count": sum(counts.values()), "data_collections": counted}
    return json.dumps({"event_count": None, "data_collections": None, **fields}).encode()


def rows(spark: Any, spec: Any, table: str) -> list[int]:
    lake = Lake.open(spark, spec)
    merged = lake.merged_tables()
    return [] if table not in merged else sorted(r.id for r in lake.read(merged[table]).collect())


def test_a_transaction_ends_with_the_last_of_the_rows_that_the_source_counts(spark, run):
    unmet = event(12, "u", "people", (2, "no"), (2, "no"))
    # Tables that have brought no row by its end are not waited for.
    run(*(event(n, "c", f"orders_{n}", None, (n + 7, "a")) for n in (1, 2)))
    spec, waybill = run(
        border("BEGIN", 10),
        event(11, "c", "people", None, (1, "a")),
        unmet,
        event(13, "c", "hidden", None, (9, "b")),
        border("END", 90, people=3, orders_1=1, orders_2=1, hidden=4),
    )
    assert waybill.stage("convert").skipped == {"where is not met": 1, "not selected": 1}
    assert (rows(spark, spec, PEOPLE), waybill.stage("merge").waiting) == ([], 1)
    # What is left out counts once, however often it comes.
    spec, waybill = run(unmet, unmet, event(14, "c", "orders_1", None, (1, "a")))
    assert (rows(spark, spec, PEOPLE), rows(spark, spec, ORDERS)) == ([], [8, 9])
    run(event(15, "u", "people", (3, "no"), (3, "no")))
    assert rows(spark, spec, PEOPLE) == []
    spec, waybill = run(event(16, "c", "orders_2", None, (2, "b")))
    assert (rows(spark, spec, PEOPLE), rows(spark, spec, ORDERS)) == ([1], [1, 2, 8, 9])
    assert waybill.stage("merge").waiting == 0


def test_truncates_of_joined_tables_count_one_by_one(spark, run):
    first = [event(n, "c", f"orders_{n}", None, (n, "a")) for n in (1, 2, 3)]
    spec, _ = run(*first)
    # PostgreSQL empties both at one place of its log.
    one, two = (event(20, "t", table) for table in ("orders_1", "orders_2"))
    ends = border("END", 90, orders_1=1, orders_2=1)
    spec, waybill = run(border("BEGIN", 19), one, one, ends)
    account = waybill.stage("convert")
    assert account.skipped == {"its rows of the joined table are deleted": 2}
    assert account.extra_in == {"deletes of rows of emptied tables": 1}
    # The deletes that they became wait with them, and are none of the rows that were counted.
    assert (rows(spark, spec, ORDERS), waybill.stage("merge").waiting) == ([1, 2, 3], 1)
    spec, waybill = run(two, event(21, "c", "orders_1", None, (4, "b")))
    assert waybill.stage("convert").extra_in == {"deletes of rows of emptied tables": 1}
    assert rows(spark, spec, ORDERS) == [3, 4]
    for stage in ("convert", "merge"):
        waybill.stage(stage).reconcile()


def test_truncates_of_joined_tables_in_one_batch_take_the_rows_of_their_tables(spark, run):
    first = [event(n, "c", f"orders_{n}", None, (n, "a")) for n in (1, 2, 3)]
    emptied = [event(20, "t", table) for table in ("orders_1", "orders_2")]
    ends = border("END", 90, orders_1=2, orders_2=2, orders_3=1)
    spec, waybill = run(border("BEGIN", 0), *first, *emptied, ends)
    account = waybill.stage("convert")
    assert account.skipped == {"its rows of the joined table are deleted": 2}
    assert account.extra_in == {"deletes of rows of emptied tables": 2}
    assert (account.rows_in, account.rows_out) == (7, 7)
    assert (rows(spark, spec, ORDERS), waybill.stage("merge").waiting) == ([3], 0)
    for stage in ("convert", "merge"):
        waybill.stage(stage).reconcile()
