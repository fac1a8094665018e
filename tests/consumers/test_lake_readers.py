"""Who reads a merged table without a filter gets the rows that the database has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.consumers.lake_readers import (
    by_duckdb,
    by_pyiceberg,
    by_spark,
    comments_by_pyiceberg,
)
from tests.spark.merge.test_full_loads import TABLES, image, oms
from waybill import jobs
from waybill.lake import Lake
from waybill.spec.migration import Migration
from waybill.upkeep.run import run_upkeep

pytestmark = pytest.mark.consumers

BATCHES = {
    "inserts": [oms(n, "INSERT", None, image(n, n + 0.25)) for n in range(1, 9)],
    "deletes, an update, another key": [
        oms(11, "DELETE", image(1, 1.25), None),
        oms(12, "DELETE", image(2, 2.25), None),
        oms(13, "UPDATE", image(3, 3.25), image(3, 33.5)),
        oms(14, "UPDATE", image(4, 4.25), image(40, 4.25)),
    ],
    "what comes back, and what comes late": [
        oms(21, "INSERT", None, image(1, 1.75)),
        # Older than the delete, and than the update.
        oms(9, "UPDATE", image(2, 2.25), image(2, 2.5)),
        oms(10, "UPDATE", image(3, 3.25), image(3, 3.5)),
    ],
    "deleted again": [oms(31, "DELETE", image(1, 1.75), None)],
}
UNTOUCHED = {n: f"{n}.25" for n in (5, 6, 7, 8)}
TRUTH = {
    "inserts": {n: f"{n}.25" for n in range(1, 9)},
    "deletes, an update, another key": {3: "33.50", 40: "4.25", **UNTOUCHED},
    "what comes back, and what comes late": {1: "1.75", 3: "33.50", 40: "4.25", **UNTOUCHED},
    "deleted again": {3: "33.50", 40: "4.25", **UNTOUCHED},
    "a reload": {5: "5.00", 50: "50.00"},
}
"""What the database has after each batch."""


@pytest.fixture(scope="module")
def states(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every reader saw after each batch, after upkeep, and after one more."""
    place = tmp_path_factory.mktemp("readers")
    fields = {
        "name": "readers",
        "source": {
            "files": {"path": str(place / "in"), "topic": "shop"},
            "envelope": "oms-default",
        },
        "lake": {"warehouse": str(place / "lake")},
        "tables": TABLES,
    }
    (place / "in").mkdir()
    spec = Migration.model_validate(fields)
    found = {}
    for name, messages in BATCHES.items():
        (place / "in" / f"{len(found)}.jsonl").write_bytes(b"\n".join(messages))
        jobs.run_migration(spec, batch=f"b{len(found)}", spark=spark)
        found[name] = read(spark, spec)
    dump = place / "dump"
    dump.mkdir()
    amounts = pa.array([5, 50], pa.decimal128(20, 2))
    pq.write_table(pa.table({"id": [5, 50], "amount": amounts}), dump / "part-0.parquet")
    full = {"shop.orders": {"path": str(dump), "as_of": 40}}
    reload = Migration.model_validate({**fields, "full": full})
    jobs.run_migration(reload, batch="reload", spark=spark)
    found["a reload"] = read(spark, reload)
    assert {kept.left for kept in run_upkeep(reload, Lake.open(spark, reload))} == {None}
    found["upkeep"] = read(spark, reload)
    return found


def read(spark, spec: Migration) -> dict[str, Any]:
    lake = Lake.open(spark, spec)
    table, columns = lake.merged("shop.orders"), ["id", "amount"]
    seen = {
        reader.__name__: reader(lake, table, columns)
        for reader in (by_spark, by_pyiceberg, by_duckdb)
    }
    gone = lake.read(table, lake.head(table)).where("_waybill_deleted").count()
    comments = comments_by_pyiceberg(lake, table)
    return {**seen, "tombstones": gone, "comments": {name: comments[name] for name in columns}}


@pytest.mark.parametrize("reader", ["by_spark", "by_pyiceberg", "by_duckdb"])
def test_a_reader_sees_the_rows_of_the_database(states, reader: str) -> None:
    truth = {**TRUTH, "upkeep": TRUTH["a reload"]}
    seen = {name: state[reader] for name, state in states.items()}
    assert seen == {
        name: sorted(((str(key), value) for key, value in rows.items()), key=str)
        for name, rows in truth.items()
    }


def test_deletes_are_remembered_all_the_same(states) -> None:
    remembered = [state["tombstones"] for state in states.values()]
    assert remembered == [0, 3, 2, 3, 5, 5]


def test_columns_say_what_they_are_at_the_source(states) -> None:
    """Also after a dump and upkeep, which know nothing of it."""
    comments = {"id": "id int64 of shop.orders", "amount": "amount decimal(20,2) of shop.orders"}
    assert [state["comments"] for state in states.values()] == [comments] * len(states)
