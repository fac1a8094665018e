"""Every kind of damage to what is to be published is held by the gate, in both ways."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from tests.outbox_damage import DAMAGES, Rows
from tests.unit.inprocess.test_converter import canal
from waybill.errors import GateError
from waybill.jobs import run_migration, run_stage
from waybill.lake import Lake
from waybill.made_ids import IDS_WRITTEN
from waybill.validate.results import read_result
from waybill.validate.table_profiles import staged_tables, table_figures, table_profiles

pytestmark = pytest.mark.spark

TARGETS = ("canal", "debezium-json")
NUMBERED = ("oms-default", "oms-dataworks")
"""Targets with ids."""
COUNT = 200


@pytest.fixture(params=["on", "off"])
def merged(request, spark, migration, tmp_path, monkeypatch):
    """A migration up to merge; its messages are read again at once, or one by one."""
    monkeypatch.setitem(spark.sparkContext.environment, "WAYBILL_BULK", request.param)
    publish = [{"envelope": name, "files": {"path": str(tmp_path / name)}} for name in TARGETS]
    spec = migration(publish=publish)
    rows = [canal(i, id=100 + i) for i in range(COUNT)]
    rows += [canal(i, "UPDATE", id=1000 + i) for i in range(COUNT)]
    (tmp_path / "in/0.jsonl").write_bytes(b"".join(row + b"\n" for row in rows))
    run_migration(spec, until="merge", batch="b1", spark=spark)
    return spec


def outbox_of(lake: Lake) -> Rows:
    rows = lake.read(lake.log("outbox")).orderBy("target", "offset", "message").collect()
    found = [row.asDict(recursive=True) for row in rows]
    assert [row["offset"] for row in found] == 2 * list(range(2 * COUNT))
    return found


def put(lake: Lake, rows: Rows) -> None:
    """Write the outbox anew."""
    outbox = lake.log("outbox")
    *_, done = lake.commits(outbox)
    schema = lake.read(outbox).schema
    branch = lake.branch(outbox, "tamper", "b1")
    branch.sql("DELETE FROM {branch} WHERE true")
    tuples = [tuple(row[name] for name in schema.names) for row in rows]
    branch.append(lake.spark.createDataFrame(tuples, schema).coalesce(1))
    # What the stage counted of its messages stands in the first commit, and counts once.
    details = {IDS_WRITTEN: done.report["details"].get(IDS_WRITTEN, {})}
    branch.commit(done.cursor, {**done.report, "details": details}, "b1", "convert")
    branch.fast_forward()


def failed(spark, spec, batch: str = "b1") -> set[str]:
    """Columns of the profiles that the gate holds the batch for."""
    with pytest.raises(GateError):
        run_stage("validate", spec, batch, spark)
    result = read_result(spec, batch)
    return {c["arguments"]["column"] for c in result["checks"] if not c["success"]}


def test_damage_to_the_outbox_is_held_and_named(spark, merged):
    lake = Lake.open(spark, merged)
    whole = outbox_of(lake)
    rows = [row.copy() for row in whole]
    wrong: dict[tuple[str, str], str] = {}
    for first in range(0, len(rows), 2 * COUNT):
        own = rows[first : first + 2 * COUNT]
        for turn, (name, damage) in enumerate(DAMAGES.items()):
            # Neither the first of its form nor among those that are read one by one besides.
            for offset in damage(own, 105 + 7 * turn):
                wrong[own[0]["target"], f"shop/0/{offset}/0"] = name
        rows[first : first + 2 * COUNT] = own
    put(lake, rows)
    assert failed(spark, merged) == {"outbox_different", "outbox_undecodable"}
    found = {(d["target"], d["change"]) for d in read_result(merged, "b1")["differences"]}
    assert {place: name for place, name in wrong.items() if place not in found} == {}
    assert len(found) == len(wrong)

    put(lake, [*whole[:150], *whole[151:]])
    assert failed(spark, merged) == {"stage_differences"}
    put(lake, [*whole, whole[150]])
    assert "stage_differences" in failed(spark, merged)
    put(lake, whole)
    assert run_stage("validate", merged, "b1", spark).details["outcome"] == "passed"


def test_a_wrong_id_is_held_and_named(spark, migration, tmp_path):
    """Where the outbox was written anew, digests of both sides meet through Spark."""
    publish = [{"envelope": name, "files": {"path": str(tmp_path / name)}} for name in NUMBERED]
    spec = migration(publish=publish)
    rows = b"".join(canal(i, id=100 + i) + b"\n" for i in range(20))
    (tmp_path / "in/0.jsonl").write_bytes(rows)
    run_migration(spec, until="merge", batch="b1", spark=spark)
    lake = Lake.open(spark, spec)
    found = lake.read(lake.log("outbox")).orderBy("target", "offset", "message").collect()
    whole = [row.asDict(recursive=True) for row in found]
    damaged = [row.copy() for row in whole]
    for row in damaged[7::20]:
        value = bytes(row["value"])
        # Ids are made from the position, the offset before five digits of the index.
        row["value"] = value.replace(b"000700000", b"000800000")
        assert row["value"] != value
    put(lake, damaged)
    assert failed(spark, spec) == {"outbox_different"}
    differences = read_result(spec, "b1")["differences"]
    assert {(d["target"], d["change"]) for d in differences} == {
        (t, "shop/0/7/0") for t in NUMBERED
    }
    assert all("the sequence id" in d["what"] for d in differences)
    put(lake, whole)
    assert run_stage("validate", spec, "b1", spark).details["outcome"] == "passed"


@pytest.fixture
def grown(spark, migration, tmp_path, monkeypatch):
    """A migration whose second batch waits for the gate: a few changes to a table of more rows."""
    monkeypatch.setattr("waybill.validate.table_profiles.LITTLE", 0)
    spec = migration(publish=[], order={"ambiguous": "partition"})
    (tmp_path / "in/0.jsonl").write_bytes(b"".join(canal(i) + b"\n" for i in range(40)))
    run_migration(spec, batch="b1", spark=spark)
    few = [*(canal(i, "UPDATE") for i in (3, 5)), canal(100), canal(7, "DELETE")]
    (tmp_path / "in/1.jsonl").write_bytes(b"".join(row + b"\n" for row in few))
    run_migration(spec, until="merge", batch="b2", spark=spark)
    return spec


def waiting(spark, spec):
    """The branch that waits."""
    lake = Lake.open(spark, spec)
    table = lake.merged_tables()["shop.orders"]
    (info,) = lake.waiting(table, "merge", "b2")
    return lake.reopen(table, info.name)


def test_a_large_table_is_searched_and_not_counted(spark, grown):
    branch = waiting(spark, grown)
    (table,) = staged_tables(Lake.open(spark, grown), {branch.table: branch.name}, "b2")
    assert (table.searched, table.written) == (True, 4)
    (profile,) = table_profiles(spark, [table], "b2")
    assert profile == table_figures("shop.orders", 40, 1, 4)
    assert table_profiles(spark, [table._replace(written=None)], "b2") == [profile]


def test_tasks_do_not_open_more_files_than_they_should(spark, grown, monkeypatch):
    """As a table has them that nobody compacts; its figures are the same the other way."""
    branch, lake = waiting(spark, grown), Lake.open(spark, grown)

    def staged(most: int):
        monkeypatch.setattr("waybill.validate.table_profiles.MOST_FILES", most)
        (table,) = staged_tables(lake, {branch.table: branch.name}, "b2")
        return table

    files = staged(2_000).files
    there = len(files) + len({path for file in files for path in file.deletes})
    assert there > len(files) > 1
    assert staged(there).files == files
    assert staged(there - 1).files is None
    found = [table_profiles(spark, [staged(most)], "b2") for most in (there, there - 1)]
    assert found == [[table_figures("shop.orders", 40, 1, 4)]] * 2


KEYS = {
    "a row of the batch, once more": ('_waybill_key = \'{"id":"100"}\'', {}),
    "a row of before, once more": ('_waybill_key = \'{"id":"9"}\'', {}),
    "a row of before, as one of the batch": (
        '_waybill_key = \'{"id":"9"}\'',
        {"_waybill_batch": "b2"},
    ),
}


@pytest.mark.parametrize("row", KEYS)
def test_a_key_that_stands_twice_in_a_large_table_is_held(spark, grown, row):
    condition, values = KEYS[row]
    branch = waiting(spark, grown)
    again = branch.read().where(condition)
    for name, value in values.items():
        again = again.withColumn(name, F.lit(value))
    assert branch.append(again) == 1
    assert failed(spark, grown, "b2") == {"duplicate_keys"}
    (profile,) = read_result(grown, "b2")["profiles"]["tables"]
    assert profile["duplicate_keys"] == 1
