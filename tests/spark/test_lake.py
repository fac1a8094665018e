"""The commit rule: branches, stamps, compare-and-swap, increments."""

from __future__ import annotations

import logging.config
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest
from py4j.java_gateway import JVMView
from pyspark.errors import AnalysisException, NumberFormatException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from waybill.errors import ConflictError
from waybill.lake import Lake, session
from waybill.lake.catalog_properties import catalog_properties
from waybill.lake.upkeep import keep_up
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.lake_columns import RUNS

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("outcome", pa.string())])


def rows(lake: Lake, first: int, last: int, outcome: str = "ok"):
    return lake.spark.range(first, last).select("id", F.lit(outcome).alias("outcome"))


def ids(frame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.fixture
def table(lake: Lake) -> str:
    return lake.ensure(lake.log("things"), SCHEMA, ("outcome",))


def land(lake: Lake, table: str, batch: str, first: int, last: int, stage: str = "snapshot") -> int:
    branch = lake.branch(table, stage, batch)
    assert branch.append(rows(lake, first, last)) == last - first
    branch.commit({"upto": last}, {"rows_in": last - first}, batch, stage)
    branch.fast_forward()
    return branch.head


def test_nothing_is_visible_before_the_fast_forward(lake: Lake, table: str) -> None:
    branch = lake.branch(table, "snapshot", "b1")
    branch.append(rows(lake, 0, 5))
    assert ids(branch.read()) == [0, 1, 2, 3, 4]
    assert lake.head(table) is None
    branch.commit({"upto": 5}, {"rows_in": 5}, "b1", "snapshot")
    assert lake.last(table, "snapshot") is None
    branch.fast_forward()
    assert ids(lake.read(table)) == [0, 1, 2, 3, 4]
    found = lake.find(table, "snapshot", "b1")
    assert found is not None
    assert (found.cursor, found.report) == ({"upto": 5}, {"rows_in": 5})
    assert lake.waiting(table, "snapshot") == []


def test_cursor_and_report_survive_any_text(lake: Lake, table: str) -> None:
    cursor = {'file\'s "name" `x` \\ \u2028 \U0001f600': [1, None, 2**70]}
    branch = lake.branch(table, "snapshot", "b'`\"1")
    branch.commit(cursor, {"ü": 1}, "b'`\"1", "snapshot")
    branch.fast_forward()
    found = lake.find(table, "snapshot", "b'`\"1")
    assert found is not None
    assert found.cursor == cursor


@pytest.mark.parametrize("first_batch", [False, True])
def test_the_second_of_two_runs_loses(lake: Lake, table: str, first_batch: bool) -> None:
    if not first_batch:
        land(lake, table, "b0", 0, 1)
    one = lake.branch(table, "snapshot", "b1")
    two = lake.branch(table, "snapshot", "b2")
    for branch, batch in ((one, "b1"), (two, "b2")):
        branch.append(rows(lake, 10, 12))
        branch.commit({}, {}, batch, "snapshot")
    two.fast_forward()
    with pytest.raises(ConflictError, match="moved"):
        one.fast_forward()
    assert next(commit.batch for commit in lake.commits(table)) == "b2"
    assert ids(lake.read(table))[-2:] == [10, 11]
    assert lake.read(table).where("id >= 10").count() == 2
    # What lost is dropped when the stage starts again.
    lake.branch(table, "snapshot", "b3").drop()
    assert lake.waiting(table, "snapshot") == []


def test_a_rerun_drops_the_branch_of_the_run_that_was_killed(lake: Lake, table: str) -> None:
    land(lake, table, "b0", 0, 1)
    killed = lake.branch(table, "snapshot", "b1")
    killed.append(rows(lake, 1, 3))
    again = lake.branch(table, "snapshot", "b1")
    assert ids(again.read()) == [0]
    again.append(rows(lake, 1, 3))
    # The run thought dead goes on: it must not write into the new one, nor revive the old one.
    with pytest.raises(ConflictError, match="took over"):
        killed.append(rows(lake, 1, 3))
    with pytest.raises(ConflictError, match="took over"):
        killed.commit({}, {}, "b1", "snapshot")
    again.commit({}, {}, "b1", "snapshot")
    again.fast_forward()
    assert ids(lake.read(table)) == [0, 1, 2]
    assert lake.waiting(table, "snapshot") == []


def test_a_late_stamp_of_a_lost_branch_cannot_move_main(lake: Lake, table: str) -> None:
    land(lake, table, "b0", 0, 1)
    killed = lake.branch(table, "snapshot", "b1")
    killed.append(rows(lake, 1, 3))
    lake.branch(table, "snapshot", "b1").drop()
    main = lake.head(table)
    with pytest.raises(ConflictError):
        killed.commit({}, {}, "b1", "snapshot")
    assert lake.head(table) == main
    assert lake.waiting(table, "snapshot") == []


def test_branches_of_a_merge_stay_for_the_gate(lake: Lake, table: str) -> None:
    land(lake, table, "b0", 0, 1)
    held = lake.branch(table, "merge", "b1")
    held.append(rows(lake, 5, 6))
    held.commit({"c": 1}, {"r": 1}, "b1", "merge")
    land(lake, table, "b2", 1, 2)
    lake.branch(table, "merge", "b2").drop()
    (info,) = lake.waiting(table, "merge", "b1")
    assert info.commit is not None
    assert info.commit.cursor == {"c": 1}
    reopened = lake.reopen(table, info.name)
    with pytest.raises(ConflictError, match="moved"):
        reopened.fast_forward()


def test_a_branch_reopened_by_another_stage_can_become_main(lake: Lake, table: str) -> None:
    land(lake, table, "b0", 0, 1)
    held = lake.branch(table, "merge", "b1")
    held.append(rows(lake, 5, 6))
    held.commit({}, {}, "b1", "merge")
    lake.reopen(table, held.name).fast_forward()
    assert ids(lake.read(table)) == [0, 5]


def test_increments_follow_appends_only(lake: Lake, table: str) -> None:
    first = land(lake, table, "b0", 0, 2)
    branch = lake.branch(table, "convert", "b1")
    branch.append(rows(lake, 2, 4))
    branch.append(rows(lake, 100, 103, "waiting"))
    branch.overwrite(rows(lake, 200, 201, "waiting"), F.col("outcome") == "waiting")
    branch.append(rows(lake, 4, 5))
    branch.commit({}, {}, "b1", "convert")
    branch.fast_forward()
    second = branch.head
    assert ids(lake.increment(table, first, second).where("outcome = 'ok'")) == [2, 3, 4]
    assert ids(lake.increment(table, None, second)) == [0, 1, 2, 3, 4, 200]
    assert lake.increment(table, second, second).count() == 0
    assert lake.added_rows(table, None, second) == 6
    third = land(lake, table, "b2", 7, 9)
    assert lake.added_rows(table, second, third) == 2
    deleted = lake.branch(table, "convert", "b3")
    assert deleted.delete_partition("outcome", "waiting") == 1
    assert ids(deleted.read()) == [0, 1, 2, 3, 4, 7, 8]


def test_unread_snapshots_outlive_an_expiry_from_outside(lake: Lake, table: str) -> None:
    first = land(lake, table, "b0", 0, 2)
    lake.mark_read(table, "convert", first)
    for n in range(1, 4):
        land(lake, table, f"b{n}", n * 10, n * 10 + 2)
    assert lake.metadata(table).refs["read_by_convert"] == first
    lake.spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{table}', "
        "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    ).collect()
    assert ids(lake.increment(table, first, lake.head(table))) == [10, 11, 20, 21, 30, 31]


def test_a_statement_runs_on_the_branch(lake: Lake, table: str) -> None:
    land(lake, table, "b0", 0, 3)
    branch = lake.branch(table, "merge", "b1")
    rows(lake, 2, 5).createOrReplaceTempView("fresh")
    summary = branch.sql(
        "MERGE INTO {branch} t USING fresh s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET outcome = {new} WHEN NOT MATCHED THEN INSERT *",
        {"new": "it's \\ {branch}"},
    )
    assert summary["spark.merge-into.num-target-rows-inserted"] == "2"
    assert lake.read(table).count() == 3
    branch.commit({}, {}, "b1", "merge")
    branch.fast_forward()
    got = {row.id: row.outcome for row in lake.read(table).collect()}
    assert got == {0: "ok", 1: "ok", 2: "it's \\ {branch}", 3: "ok", 4: "ok"}


def test_columns_are_added_to_a_table_that_is_there(lake: Lake, table: str) -> None:
    land(lake, table, "b0", 0, 1)
    wider = SCHEMA.append(pa.field("note", pa.string()))
    lake.ensure(table, wider, ("outcome",))
    assert lake.read(table).columns == ["id", "outcome", "note"]
    assert ids(lake.read(table)) == [0]


def test_source_tables_with_one_name_get_two_tables(lake: Lake) -> None:
    names = ["a.b_c", "a_b.c", "A.b_c", "ü.`x`", "ß.`x`", "", "."]
    schema = SCHEMA.append(pa.field("gone", pa.bool_()))
    tables = [lake.ensure_merged(name, schema, "gone")[0] for name in names]
    assert tables[0] == "lake.demo.a_b_c"
    assert len(set(tables)) == len(names)
    assert [lake.merged(name) for name in names] == tables
    assert lake.merged_tables() == dict(sorted(zip(names, tables, strict=True)))
    branch = lake.branch(tables[3], "merge", "b")
    branch.append(rows(lake, 0, 1).withColumn("gone", F.lit(False)))


def test_many_migrations_share_one_session(spark, migration, tmp_path) -> None:
    lakes = []
    for n in range(5):
        spec = migration(f"m{n}", lake={"warehouse": str(tmp_path / f"lake{n % 3}")})
        lake = Lake.open(spark, spec)
        table = lake.ensure(lake.log("things"), SCHEMA)
        land(lake, table, "b", n, n + 1)
        lakes.append((lake, table, n))
    for lake, table, n in lakes:
        assert ids(lake.read(table)) == [n]
    # Those with one warehouse share a session, so one query can join their tables.
    assert lakes[0][0].spark is lakes[3][0].spark
    assert "spark.sql.catalog.lake" not in spark.sparkContext.getConf().toDebugString()


def test_another_reader_finds_the_tables_without_a_jvm(lake: Lake, table: str, tmp_path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    land(lake, table, "b0", 0, 3)
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/lake/catalog.db", warehouse=str(tmp_path / "lake")
    )
    found = catalog.load_table("demo_log.things")
    assert found.current_snapshot().summary["waybill.batch"] == "b0"
    assert sorted(found.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_shuffles_follow_the_bytes_that_a_batch_brings(spark, lake, table, migration) -> None:
    assert lake.cut_shuffles(table, None, None) == {"bytes": 0, "shuffle_partitions": 1}
    land(lake, table, "b1", 0, 3)
    found = lake.cut_shuffles(table, None, lake.head(table))
    assert found["bytes"] > 0
    assert lake.spark.conf.get("spark.sql.shuffle.partitions") == "1"
    configured = Lake.open(spark, migration(spark={"spark.sql.shuffle.partitions": "7"}))
    assert configured.cut_shuffles(table, None, lake.head(table))["shuffle_partitions"] == 7


def test_what_decides_the_meaning_of_values_cannot_be_set(spark, migration) -> None:
    other = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}
    own = Lake.open(spark, migration(spark=other)).spark
    tiny, time = (
        "CAST(CAST(0 AS DECIMAL(18,8)) AS STRING)",
        "CAST(TIMESTAMP'2026-01-01 00:00:00Z' AS STRING)",
    )
    assert [*own.sql(f"SELECT {tiny}, {time}").first()] == ["0.00000000", "2026-01-01 00:00:00"]
    assert own is not spark


def test_a_look_without_spark_finds_the_same_rows(lake: Lake, table: str, migration) -> None:
    """Also where rows are deleted by files of their own, and on a branch that waits."""
    land(lake, table, "b0", 0, 40)
    land(lake, table, "b1", 40, 50)
    branch = lake.branch(table, "snapshot", "b2")
    made = branch.sql("DELETE FROM {branch} WHERE id % 10 = 3")
    assert made["added-position-deletes"] == "5"
    branch.commit({}, {}, "b2", "snapshot")

    def looked(snapshot: int | None, where: dict) -> list[int]:
        found = LakeWithoutSpark.open(migration())
        assert found is not None
        assert list(found.commits(table)) == list(lake.commits(table))
        rows = found.scan(table, ["id"], where, snapshot)
        few = found.first(table, ["id"], where, ["id"], 3, snapshot)
        every = sorted(row["id"] for row in rows)
        assert [row["id"] for row in few] == every[:3]
        assert every == sorted(row["id"] for row in lake.scan(table, ["id"], where, snapshot))
        return every

    assert looked(None, {}) == list(range(50))
    assert looked(None, {"id": [3, 44, 77], "outcome": ["ok"]}) == [3, 44]
    assert looked(None, {"outcome": ["refused"]}) == []
    assert looked(branch.head, {"id": [3, 44]}) == [44]
    branch.fast_forward()
    assert len(looked(None, {})) == 45
    keep_up(lake, table, 0)
    assert len(looked(None, {})) == 45


@pytest.mark.parametrize("round_", range(6))
def test_runs_that_open_a_new_catalog_at_the_same_moment(
    spark, migration, monkeypatch, round_
) -> None:
    properties = catalog_properties(migration())
    together, load = Barrier(6), session._load_catalog

    def load_together(opened) -> None:
        together.wait(60)
        load(opened)

    monkeypatch.setattr(session, "_load_catalog", load_together)
    with ThreadPoolExecutor(6) as pool:
        opened = [pool.submit(session._new_session, spark, properties, {}) for _ in range(6)]
    assert all(one.result().catalog.currentCatalog() for one in opened)


class AtOnce:
    """A catalog of which four threads learn at the same moment that a namespace is not there."""

    def __init__(self, honest) -> None:
        self.honest, self.together = honest, Barrier(4)

    def __getattr__(self, name):
        return getattr(self.honest, name)

    def namespaceExists(self, space) -> bool:
        found = bool(self.honest.namespaceExists(space))
        if not found:
            self.together.wait(60)
        return found


def test_tables_that_make_their_namespace_at_the_same_moment(lake: Lake, monkeypatch) -> None:
    catalog = lake._catalog
    monkeypatch.setattr(catalog, "iceberg", AtOnce(catalog.iceberg))
    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(catalog.create, "new", f"t{i}", RUNS, (), {}) for i in range(4)]
    assert [one.result() for one in made] == [None] * 4
    assert catalog.tables("new") == ["t0", "t1", "t2", "t3"]


def test_a_failed_query_prints_no_value_whatever_else_configures_logging(spark, capfd) -> None:
    """A server in the same process, uvicorn for one, enables every logger that was disabled."""
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.sql("SELECT nope FROM VALUES (1) AS t(n)")
    with pytest.raises(NumberFormatException, match="CAST_INVALID_INPUT"):
        spark.sql("SELECT CAST(t AS int) FROM VALUES ('AKIA') AS v(t)").collect()
    column = F.col("t").cast("int")
    with pytest.raises(NumberFormatException, match="CAST_INVALID_INPUT"):
        spark.sql("SELECT t FROM VALUES ('AKIA') AS v(t)").select(column).collect()
    assert "AKIA" not in "".join(capfd.readouterr())


def test_pyspark_asks_java_for_a_class_only_once(spark: SparkSession, monkeypatch) -> None:
    """To look for a short name in every jar takes longer than what most calls do."""
    asked: list[str] = []
    ask = JVMView.__getattr__

    def noted(view: JVMView, name: str) -> object:
        asked.append(name)
        return ask(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", noted)
    assert [row.id for row in spark.range(2).select("id", "id").select("id").collect()] == [0, 1]
    assert asked == []
