"""A lake that an earlier version wrote is read, judged and continued by this one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.spark.stored_lake import PLACE, feed, message, migration, order, unpacked
from tests.unit.cli.command_line import waybill_process
from waybill import jobs
from waybill.lake import Lake
from waybill.spec.migration import Migration
from waybill.upkeep.run import run_upkeep

pytestmark = pytest.mark.spark

THIRD = [
    # Sent again, and late: what was merged by the earlier version is newer.
    message(6, "UPDATE", order(1), order(1, 2.5, "changed")),
    message(2, "INSERT", None, order(2, 20.25, "two")),
    message(10, "UPDATE", order(20, 20.25, "two"), order(20, 21.75, "later")),
    message(11, "INSERT", None, order(3, 7.0, "again") | {"way": "by sea"}),
    message(12, "DELETE", {"id": 1, "name": "Änne"}, None, "people"),
]


@pytest.fixture(scope="module", params=["by a merge", "by upkeep"])
def spec(spark, request) -> Iterator[Migration]:
    """The lake after one more batch; what moves its tables to the layout of today is named."""
    with unpacked():
        # Each in a session of its own: that of before has the catalog open that was unpacked then.
        own = {"spark.sql.shuffle.partitions": "2" if request.param == "by upkeep" else "1"}
        spec = Migration.model_validate({**migration(), "spark": own})
        lake = Lake.open(spark, spec)
        # The earlier version left tombstones among the rows, and these are told apart all the same.
        assert deleted(lake) == {"shop.orders": 2, "shop.people": 0}
        orders = jobs.read_table(spec, "shop.orders", spark=spark)
        assert [row["id"] for row in orders] == ["1", "20"]
        if request.param == "by upkeep":
            assert {kept.left for kept in run_upkeep(spec, lake)} == {None}
            assert not any(deleted(lake).values())
        feed("b3", THIRD)
        done = jobs.run_migration(spec, batch="b3", mode="incremental", spark=spark)
        assert done.stage("snapshot").rows_in == len(THIRD)
        yield spec


def deleted(lake: Lake) -> dict[str, int]:
    """How many tombstones whoever reads a table sees."""
    return {
        name: lake.read(table).where("_waybill_deleted").count()
        for name, table in lake.merged_tables().items()
    }


def test_nobody_sees_its_tombstones_any_more_and_none_is_lost(spec, spark) -> None:
    lake = Lake.open(spark, spec)
    assert not any(deleted(lake).values())
    keys = {}
    for name, table in lake.merged_tables().items():
        gone = lake.read(table, lake.head(table)).where("_waybill_deleted")
        keys[name] = sorted(row[0] for row in gone.select("_waybill_key").collect())
    assert keys == {"shop.orders": ['{"id":"2"}'], "shop.people": ['{"id":"1"}']}


def test_its_tables_go_on(spec, spark) -> None:
    orders = jobs.read_table(spec, "shop.orders", spark=spark)
    found = {row["id"]: (row["total"], row["note"], row["made"]) for row in orders}
    made = "2024-02-29T23:59:59.123456Z"
    assert found == {
        "1": ("2.5", "changed", made),
        "20": ("21.75", "later", made),
        "3": ("7.0", "again", made),
    }
    assert list(jobs.read_table(spec, "shop.people", spark=spark)) == []


def test_its_record_of_verdicts_goes_on_with_changes_of_columns(spec, spark) -> None:
    lake = Lake.open(spark, spec)
    rows = lake.read(lake.log("runs")).collect()
    found = Counter((row["batch"], row["stage"], row["outcome"]) for row in rows)
    verdicts = {(batch, "validate", "passed"): 1 for batch in ("b1", "b2", "b3")}
    assert found == {**verdicts, ("b3", "schema", "add"): 1}
    (event,) = (json.loads(row["result"]) for row in rows if row["stage"] == "schema")
    assert (event["table"], event["column"]) == ("shop.orders", "way")


def test_an_earlier_batch_is_shown_as_it_was(spec, spark) -> None:
    orders = jobs.read_table(spec, "shop.orders", as_of="b1", spark=spark)
    assert sorted(row["id"] for row in orders) == ["1", "2", "3"]


def test_targets_get_what_is_new_and_nothing_twice(spec) -> None:
    sent = Counter(
        (line["type"], line["table"], row["id"])
        for file in sorted((PLACE / "out" / "canal").rglob("*.jsonl"))
        for line in map(json.loads, file.open())
        for row in line["data"]
    )
    assert sent[("UPDATE", "orders", "1")] == 2  # It came twice.
    assert sent[("UPDATE", "orders", "20")] == 2
    assert sent[("DELETE", "people", "1")] == 1
    assert sent.total() == 13


def test_what_it_refused_is_still_listed(spec, tmp_path) -> None:
    file = tmp_path / "stored.yaml"
    file.write_text(json.dumps(migration()))
    status = waybill_process("status", str(file), "--json").stdout.splitlines()
    assert {json.loads(line).get("batch") for line in status} == {"b3", None}
    listed = waybill_process("quarantine", "list", str(file), "--json").stdout.splitlines()
    assert [(row["batch"], row["offset"]) for row in map(json.loads, listed)] == [("b1", 4)]
