"""Changes whose source states a time that no calendar has: carried on, and no stage dies of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from waybill import jobs
from waybill.cli.check import check
from waybill.cli.tables import ChangeFilter, changes_command
from waybill.lake.arrow_rows import moment_of
from waybill.merge.increment import Increment, order_sql
from waybill.merge.position import order_of
from waybill.order import order_key, order_number, time_in_order
from waybill.overview.files import read_index

pytestmark = pytest.mark.spark

NOW_MS = 1_700_000_000_000
MICROS_FOR_MILLIS = NOW_MS * 1000
"""What a source writes that has microseconds where milliseconds belong."""
BEFORE_ALL = -(10**15)
"""Milliseconds long before the year 1."""


def row(number: int, millis: int, **more: Any) -> dict[str, Any]:
    source = {"version": "2.7", "connector": "mysql", "name": "shop", "ts_ms": millis}
    source |= {"snapshot": "false", "db": "shop", "table": "orders", "server_id": 1}
    source |= {"file": "mysql-bin.000003", "pos": 100 + number, "row": 0, **more}
    after = {"id": number, "v": f"v{number}"}
    return {"before": None, "after": after, "source": source, "op": "c", "ts_ms": NOW_MS}


def feed(folder: Path, name: str, *messages: dict[str, Any]) -> None:
    (folder / "in" / f"{name}.jsonl").write_text("".join(f"{json.dumps(m)}\n" for m in messages))


@pytest.fixture
def spec(migration, tmp_path):
    suites = []
    for name, over in (("changes", {"changes": "shop.orders"}), ("sent", {"published": "oms"})):
        column = "source_time" if name == "changes" else "timestamp"
        query = f"SELECT {column} FROM {{batch}} WHERE {column} > timestamp'2100-01-01'"
        kwargs = {"unexpected_rows_query": query}
        given = {"type": "unexpected_rows_expectation", "severity": "critical", "kwargs": kwargs}
        expectation = {**given, "description": "No time is of the far future."}
        suite = tmp_path / f"{name}.json"
        suite.write_text(json.dumps({"name": name, "meta": over, "expectations": [expectation]}))
        suites.append(str(suite))
    publish = [
        {"envelope": "debezium-json", "files": {"path": str(tmp_path / "same")}},
        {"name": "oms", "envelope": "oms-default", "files": {"path": str(tmp_path / "oms")}},
        {"envelope": "ogg", "files": {"path": str(tmp_path / "ogg")}},
    ]
    quality = {"max_refused_share": 1.0, "suites": suites}
    tables = {"shop.orders": {"key": ["id"]}}
    return migration(envelope="debezium-json", tables=tables, publish=publish, quality=quality)


@pytest.mark.parametrize("in_tasks", [True, False])
def test_a_row_with_such_a_time_is_merged_and_published(
    spark, spec, tmp_path, capsys, monkeypatch, in_tasks
):
    """The watermark goes by the other times, in the batch and in later ones."""
    monkeypatch.setattr(Increment, "untouched", property(lambda _: in_tasks))
    feed(
        tmp_path,
        "a",
        row(1, MICROS_FOR_MILLIS),
        row(2, NOW_MS),
        row(3, NOW_MS, ts_us=2**63 - 1, ts_ns=0),
        row(4, BEFORE_ALL),
        {"ts_ms": MICROS_FOR_MILLIS},
        {"status": "BEGIN", "id": "7", "ts_ms": MICROS_FOR_MILLIS, "event_count": None},
        {"status": "END", "id": "7", "ts_ms": MICROS_FOR_MILLIS, "event_count": 0},
    )
    said = {finding.about: finding.verdict for finding in check(spec)}
    assert [said[f"suite {name}"] for name in spec.quality.suites] == ["ok", "ok"]
    found = jobs.run_migration(spec, batch="b1", spark=spark)
    assert found.stage("convert").refused == {"encoding": 3}, "ogg has a text for the time"
    assert [r["id"] for r in jobs.read_table(spec, spark=spark)] == ["1", "2", "3", "4"]
    same = [json.loads(x) for f in (tmp_path / "same").rglob("*.jsonl") for x in f.open()]
    times = {m["after"]["id"]: (m["source"]["ts_ms"], m["source"].get("ts_us")) for m in same}
    assert (times[1][0], times[2][0], times[4][0]) == (MICROS_FOR_MILLIS, NOW_MS, BEFORE_ALL)
    assert times[3] == (NOW_MS, 2**63 - 1)
    assert complete(found) == "2023-11-14T22:13:20Z"
    feed(tmp_path, "b", row(5, NOW_MS + 1000), row(6, MICROS_FOR_MILLIS))
    assert complete(jobs.run_migration(spec, batch="b2", spark=spark)) == "2023-11-14T22:13:20Z"

    file = tmp_path / "spec.yaml"
    file.write_text(spec.model_dump_json(exclude_defaults=True))
    for key in ("1", "2"):
        changes_command(file, ChangeFilter("shop.orders", key, 10), True)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["source_time"] for one in shown] == [None, "2023-11-14T22:13:20+00:00"]
    (line,) = read_index(spec).tables
    assert (line.complete, line.newest) == ("2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z")


def complete(found: Any) -> str | None:
    time: str | None = found.stage("merge").details["shop.orders"]["complete up to"]["time"]
    return time


def test_such_a_time_counts_as_none_where_times_order_changes(spark):
    """In SQL as in Python: taken for true, it would be newer than all that ever comes."""
    placed = order_key(None, 1, 0, 5, 0)
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    times = [None, 0, 1, -1, 5_000_000, last, last + 1, 2**63 - 1, first, first - 1, -(2**63)]
    given = spark.createDataFrame(enumerate(times), "number int, micros long")
    rows = given.select(
        "number",
        F.timestamp_micros("micros").alias("source_time"),
        F.lit(placed).alias("order_key"),
    )
    ordered = rows.select("number", F.expr(order_sql(True)).alias("made")).collect()
    found = {row.number: row.made for row in ordered}
    for number, micros in enumerate(times):
        expected = order_of(placed, moment_of(micros, zoned=True), by_source_time=True)
        assert found[number] == expected, micros
        assert expected == f"1/{order_number(time_in_order(micros))}{placed[2:]}"
