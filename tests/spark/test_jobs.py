"""Stages and whole migrations as notebooks, the command line and the entry scripts run them."""

from __future__ import annotations

import json
import logging
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from waybill import jobs
from waybill.errors import ConfigurationError, ConflictError, SourceError
from waybill.lake import Lake
from waybill.spark_tasks.counters import Tally
from waybill.stage_context import Options

pytestmark = pytest.mark.spark


def canal(kind: str, *rows: dict, table: str = "orders", old: list | None = None) -> bytes:
    return json.dumps(
        {
            "database": "shop",
            "table": table,
            "type": kind,
            "isDdl": False,
            "es": 1700000000000,
            "ts": 1700000000123,
            "id": 1,
            "sql": "",
            "pkNames": ["id"],
            "mysqlType": {name: "bigint" if name == "id" else "varchar(20)" for name in rows[0]},
            "sqlType": {name: -5 if name == "id" else 12 for name in rows[0]},
            "data": list(rows),
            "old": old,
        }
    ).encode()


@pytest.fixture
def shop(migration, tmp_path: Path):
    spec = migration(publish=[{"envelope": "canal", "files": {"path": str(tmp_path / "out")}}])
    (tmp_path / "in" / "a.jsonl").write_bytes(
        b"\n".join(
            [
                canal("INSERT", *[{"id": str(n), "title": f"t{n}"} for n in (10, 9, 100)]),
                canal("UPDATE", {"id": "9", "title": None}, old=[{"title": "t9"}]),
                canal("DELETE", {"id": "100", "title": "t100"}),
            ]
        )
    )
    return spec


def test_a_migration_in_a_session_that_is_there(spark, shop, tmp_path: Path) -> None:
    reports = []
    waybill = jobs.run_migration(shop, spark=spark, on_stage=reports.append)
    assert [report.stage for report in waybill.stages] == list(jobs.STAGES)
    assert reports == waybill.stages
    assert json.loads(waybill.to_json())["batch"] == waybill.batch
    assert jobs.BATCH.fullmatch(waybill.batch)
    assert list(jobs.read_table(shop, spark=spark)) == [
        {"id": "9", "title": None},
        {"id": "10", "title": "t10"},
    ]
    assert list((tmp_path / "out").rglob("*.jsonl"))
    assert spark.range(3).count() == 3
    with pytest.raises(ConfigurationError, match=r"did you mean 'shop\.orders'"):
        next(jobs.read_table(shop, "shop.order", spark=spark))
    again = jobs.run_migration(shop, spark=spark, batch=waybill.batch)
    assert all(report.repeated for report in again.stages)
    assert [r.rows_out for r in again.stages] == [r.rows_out for r in waybill.stages]


def test_a_run_may_stop_early_and_the_next_batch_goes_on(spark, shop) -> None:
    first = jobs.run_migration(shop, until="convert", spark=spark)
    assert [report.stage for report in first.stages] == ["snapshot", "convert"]
    with pytest.raises(ConfigurationError, match="has no merged table yet: run it"):
        next(jobs.read_table(shop, spark=spark))
    second = jobs.run_migration(shop, until="merge", spark=spark)
    assert second.stage("merge").rows_in == 5
    assert second.stage("publish") is None


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda spec, s: jobs.run_migration(spec, until="merg", spark=s), "did you mean 'merge'"),
        (lambda spec, s: jobs.run_stage("load", spec, "b", s), "there is no stage 'load'"),
        (lambda spec, s: jobs.run_stage("merge", spec, "../b", s), "is not a batch id"),
        (lambda spec, s: jobs.run_stage("merge", spec, "", s), "is not a batch id"),
        (lambda spec, s: jobs.run_stage("merge", spec, "b" * 65, s), "is not a batch id"),
    ],
)
def test_wrong_use_is_said(spark, shop, call, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        call(shop, spark)


@pytest.fixture
def file(shop, tmp_path: Path) -> str:
    path = tmp_path / "shop.yaml"
    path.write_text(shop.model_dump_json(exclude_defaults=True))
    return str(path)


def run_script(stage: str, file: str, tmp_path: Path, *more: str):
    result = tmp_path / "result.json"
    result.unlink(missing_ok=True)
    arguments = ["--migration", file, "--batch", "b1", "--result", str(result), *more]
    return jobs.main(stage, arguments), json.loads(result.read_text())


def test_an_entry_script_leaves_its_report(spark, file, tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.INFO, "waybill")
    status, result = run_script("snapshot", file, tmp_path)
    assert status == 0
    assert result["report"]["rows_out"] == 3
    assert "snapshot: 1 new file with" in caplog.text
    status, result = run_script("snapshot", file, tmp_path)
    assert (status, result["report"]["repeated"]) == (0, True)


def test_the_upkeep_s_script_tells_what_it_did(spark, file, tmp_path: Path) -> None:
    run_script("snapshot", file, tmp_path)
    status, result = run_script("upkeep", file, tmp_path)
    assert status == 0
    assert [table["table"] for table in result["report"]["tables"]] == ["lake.demo_log.archive"]


def test_an_entry_script_leaves_its_error(spark, file, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "in" / "a.jsonl").unlink()
    (tmp_path / "in").rmdir()
    status, result = run_script("snapshot", file, tmp_path)
    assert status == 1
    assert result["error"]["kind"] == "SourceError"
    assert not result["error"]["transient"]
    assert "there is no file or folder" in result["error"]["message"]
    status, result = run_script("snapshot", str(tmp_path / "none.yaml"), tmp_path)
    assert (status, result["error"]["exit_code"], result["error"]["transient"]) == (2, 2, False)


@pytest.mark.parametrize(
    ("error", "transient", "status"),
    [
        (ConflictError("moved"), True, 1),
        (SourceError("changed"), False, 1),
        (ConfigurationError("wrong"), False, 2),
        (OSError("disk"), True, 1),
        (TypeError("a fault"), False, 1),
    ],
)
def test_errors_as_plain_data(error, transient: bool, status: int) -> None:
    failure = jobs.described(error)
    assert (failure["transient"], failure["exit_code"]) == (transient, status)
    assert failure["kind"] == type(error).__name__


def test_full_mode_reads_again_and_changes_nothing(spark, shop) -> None:
    jobs.run_migration(shop, spark=spark)
    before = list(jobs.read_table(shop, spark=spark))
    report = jobs.run_stage("snapshot", shop, "again", spark, Options(mode="full"))
    assert report.rows_out == 3
    jobs.run_migration(shop, spark=spark, batch="again")
    assert list(jobs.read_table(shop, spark=spark)) == before


def test_many_small_migrations_in_one_session(spark, migration, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(canal("INSERT", {"id": "1", "title": "x"}))
    for n in range(3):
        spec = migration(f"small{n}", lake={"warehouse": str(tmp_path / f"lake{n % 2}")})
        jobs.run_migration(spec, spark=spark)
        assert len(list(jobs.read_table(spec, spark=spark))) == 1
        assert Lake.open(spark, spec).merged_tables() == {
            "shop.orders": f"lake.small{n}.shop_orders"
        }


def test_rows_have_every_column_of_their_table(spark, migration, tmp_path: Path) -> None:
    """A row that is older than a column, and one that does not tell it."""
    old, new = {"id": "1", "title": "x"}, {"id": "2", "title": "y", "coupon": "z"}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(canal("INSERT", old) + b"\n" + canal("INSERT", new))
    spec = migration()
    jobs.run_migration(spec, spark=spark)
    assert list(jobs.read_table(spec, spark=spark)) == [{**old, "coupon": None}, new]


def test_a_table_as_it_was(spark, shop, tmp_path: Path) -> None:
    jobs.run_migration(shop, spark=spark, batch="b1")
    between = datetime.now(UTC)
    before = list(jobs.read_table(shop, spark=spark))
    more = canal("INSERT", {"id": "11", "title": "new", "note": "n"})
    (tmp_path / "in" / "b.jsonl").write_bytes(more)
    jobs.run_migration(shop, spark=spark, batch="b2")
    (tmp_path / "in" / "c.jsonl").write_bytes(canal("INSERT", {"id": "1"}, table="others"))
    jobs.run_migration(shop, spark=spark, batch="b3")

    def at(when: str, table: str = "shop.orders"):
        return list(jobs.read_table(shop, table, as_of=when, spark=spark))

    assert at("b1") == at(between.isoformat()) == before
    assert [row["id"] for row in at("b2")] == [row["id"] for row in at("b3")] == ["9", "10", "11"]
    assert at("b2", "shop.others") == []
    assert len(at("b3", "shop.others")) == 1
    with pytest.raises(ConfigurationError, match=r"no batch had passed the gate by 2020-01-01"):
        at("2020-01-01")
    with pytest.raises(ConfigurationError, match=r"there is no batch 'b9'"):
        at("b9")


def test_a_task_that_runs_twice_is_counted_once(spark) -> None:
    tally = Tally(spark.sparkContext)

    def count(batches):
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
        tally.add_of_task(rows=rows)

    frame = spark.range(0, 100, 1, 4).mapInArrow(count, "id bigint")
    for _ in range(2):
        assert len(frame.collect()) == 100
    assert tally.totals == {"rows": 100}


def test_ctrl_c_is_not_taken_over_by_spark(spark) -> None:
    """PySpark's own way would talk to Java in the middle of an answer and lose the interrupt."""
    handler = signal.getsignal(signal.SIGINT)
    assert "SparkContext" not in getattr(handler, "__qualname__", "")
    said = "KeyboardInterrupt while sending command."
    record = logging.LogRecord("root", logging.ERROR, "", 1, said, None, None)
    assert not logging.getLogger().filter(record)
