"""What a stage tells other systems once it has ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.definitions.asset import AssetUniqueKey
from airflow.sdk.execution_time.context import OutletEventAccessors

from tests.dags.conftest import PROJECT
from tests.dags.receivers import Collector, StatsD
from tests.dags.showcase import Showcase, tampered
from waybill.overview.files import ACCOUNT, read_index
from waybill.overview.writing import write_overview
from waybill.report import StageReport
from waybill.validate.results import reports_folder
from waybill_airflow.signals import after_stage, metrics
from waybill_airflow.signals.metrics import METRICS, MetricValue, figures_of, figures_of_lake

pytestmark = pytest.mark.airflow

NOW = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)


@pytest.fixture
def showcase(tmp_path):
    return Showcase(tmp_path, int(NOW.timestamp() * 1000))


def passes(lake) -> None:
    """Nothing happens after the batches that go through."""


def complete_up_to(spec, time: str) -> None:
    """Let the overview say up to when the table is complete."""
    tables = msgspec.to_builtins(read_index(spec).tables)
    tampered(spec, tables=[{**table, "complete": time} for table in tables])


def report(stage: str = "convert", **more) -> dict:
    """A report of a stage that adds up."""
    made = StageReport(stage, "b-1", rows_in=10, extra_in={"rows of a message": 2}, seconds=1.5)
    made.rows_out, made.superseded, made.waiting = 5, 1, 1
    made.refused, made.skipped = {"json": 2, "type": 1}, {"heartbeat": 2}
    for name, value in more.items():
        setattr(made, name, value)
    made.reconcile()
    return made.to_json_safe()


def test_a_report_in_figures():
    figures = list(figures_of("shop", report()))
    rows = {f.tags[2]: f.value for f in figures if f.metric == "waybill.rows"}
    assert rows == {"in": 10, "extra": 2, "out": 5, "refused": 3, "superseded": 1, "skipped": 2}
    assert MetricValue("waybill.refused", 2, ("shop", "convert", "json")) in figures
    assert MetricValue("waybill.rows_waiting", 1, ("shop", "convert")) in figures
    assert MetricValue("waybill.stage.duration", 1500, ("shop", "convert")) in figures


def test_work_that_was_done_before_is_not_counted_twice():
    assert list(figures_of("shop", report(repeated=True))) == []


@pytest.mark.parametrize("verdict", ["passed", "reported", "approved", "failed"])
def test_the_gate_s_verdict_is_counted(verdict):
    figures = figures_of("shop", report("validate", details={"outcome": verdict}))
    assert MetricValue("waybill.gate", 1, ("shop", verdict)) in figures


def test_a_lake_in_figures(showcase):
    def held(lake) -> None:
        lake.snapshot("20261126T210000.000-held00", 500)
        lake.convert("20261126T210000.000-held00", 3)
        branch = lake.merge("20261126T210000.000-held00")
        lake.validate("20261126T210000.000-held00", branch, passes=False)

    showcase.with_lake("orders", held, batches=2)
    complete_up_to(showcase.file("orders"), "2026-01-02T03:04:05Z")
    index = read_index(showcase.file("orders"))
    figures = {f.metric: f for f in figures_of_lake(index, NOW)}
    assert figures["waybill.held"].value == 1
    assert figures["waybill.lag.messages"].value == 500
    assert figures["waybill.lag.seconds"].value == NOW.timestamp() - index.lag_since / 1000 > 0
    assert figures["waybill.quarantine"].value == index.quarantine.rows
    age = MetricValue("waybill.table.age", 3600, ("orders", "shop.orders"))
    assert figures["waybill.table.age"] == age


def test_of_many_tables_those_furthest_behind_have_figures(showcase, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_TABLES", 2)
    showcase.with_lake("orders", passes, batches=1)
    spec = showcase.file("orders")
    (line,) = msgspec.to_builtins(read_index(spec).tables)
    lines = [
        {**line, "table": f"shop.t{hour}", "complete": f"2026-01-02T0{hour}:00:00Z"}
        for hour in (3, 1, 2)
    ]
    tampered(spec, tables=[*lines, {**line, "table": "shop.unknown", "complete": None}])
    figures = figures_of_lake(read_index(spec), NOW)
    aged = [figure.tags[1] for figure in figures if figure.metric == "waybill.table.age"]
    assert aged == ["shop.t1", "shop.t2"]


def test_every_metric_is_documented():
    text = (PROJECT / "docs/signals.md").read_text(encoding="utf-8")
    for name, metric in METRICS.items():
        tags = ", ".join(f"`{tag}`" for tag in metric.tags)
        assert f"| `{name}` | {metric.kind} | {tags} | {metric.meaning} |" in text
    board = json.loads((PROJECT / "docs/grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    shown = {name for query in queries for name in re.findall(r"airflow_(waybill_\w+?)\b", query)}
    known = {name.replace(".", "_") for name in METRICS}
    suffixes = ("_total", "_sum", "_count", "_bucket", "_milliseconds")
    plain = {re.sub(rf"({'|'.join(suffixes)})+$", "", name) for name in shown}
    assert plain == known - {"waybill_rows_waiting"}


SENDS = """
import os, sys
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
from waybill_airflow.signals import after_stage
from waybill.spec.file import load_migration
import json

stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
after_stage.tell(load_migration(sys.argv[1]), json.loads(sys.argv[2]), {})
os._exit(0)  # as a task's process ends
"""


def sent(showcase, receiver, **more):
    """What a task sends to a receiver."""
    showcase.with_lake("orders", passes, batches=2)
    complete_up_to(showcase.file("orders"), "2026-01-02T03:04:05Z")
    report_text = json.dumps(report("validate", details={"outcome": "passed"}))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT / "spark_jobs")]),
        **receiver.environment(),
        **more,
    }
    file = str(showcase.migrations / "orders.yaml")
    run = subprocess.run(
        [sys.executable, "-c", SENDS, file, report_text],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "could not be sent" not in run.stderr + run.stdout
    return receiver.close()


def test_statsd_gets_figures_whose_tags_are_part_of_the_name(showcase):
    came = sent(showcase, StatsD())
    assert came["waybill.rows.orders.validate.out"] == ["5|c"]
    assert came["waybill.refused.orders.validate.json"] == ["2|c"]
    assert came["waybill.gate.orders.passed"] == ["1|c"]
    assert came["waybill.held.orders"] == ["0|g"]
    assert came["waybill.stage.duration.orders.validate"] == ["1500.000000|ms"]
    # A dot parts names, and so may not stand in the name of a table.
    assert came["waybill.table.age.orders.shop__orders"][0].endswith("|g")


def test_influxdb_s_statsd_gets_tags(showcase):
    came = sent(showcase, StatsD(), AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED="True")
    assert came["waybill.held,migration=orders"] == ["0|g"]


def test_opentelemetry_gets_all_before_the_task_s_process_ends(showcase):
    came = sent(showcase, Collector())
    assert came["waybill.rows", "orders", "validate", "out"] == 5
    assert came["waybill.gate", "orders", "passed"] == 1
    assert came["waybill.stage.duration", "orders", "validate"] == 1500
    assert came["waybill.lag.messages", "orders"] == 0
    assert ("waybill.table.age", "orders", "shop__orders") in came


def test_a_receiver_that_is_not_there_does_not_fail_the_stage(showcase):
    class Nobody:
        def environment(self):
            return {
                "AIRFLOW__METRICS__OTEL_ON": "True",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            }

        def close(self):
            return "ended"

    assert sent(showcase, Nobody()) == "ended"


def updated(spec, batch: str, **more) -> dict[str, dict]:
    """The assets that the publish stage of a batch updates, with what it tells of each."""
    events = OutletEventAccessors()
    made = StageReport("publish", batch, **more).to_json_safe()
    after_stage.tell(spec, made, {"outlet_events": events})
    found = events[AssetAlias(spec.name)].asset_alias_events
    assert len({event.dest_asset_key for event in found}) == len(found), "one update of each"
    assert all(
        event.dest_asset_key == AssetUniqueKey.from_asset(Asset(event.dest_asset_key.name))
        for event in found
    ), "a DAG that waits for the name waits for this asset"
    return {event.dest_asset_key.name: event.extra for event in found}


FIRST = "20261126T000000.000-000000"


def test_a_published_batch_updates_its_tables_and_targets(showcase):
    lake = showcase.with_lake("orders", passes, batches=1)
    spec = showcase.file("orders")
    updates = updated(spec, FIRST)
    assert sorted(updates) == ["orders/tables/shop.orders", "orders/targets/canal"]
    rows = lake.last(lake.log("published"), "publish").report["rows_out"]
    assert updates["orders/tables/shop.orders"] == {
        "batch": FIRST,
        "verdict": "passed",
        "rows": rows,
        "changes": {"insert": rows},
        "sequence": "29",
        "complete_up_to": "2026-01-02T03:04:05Z",
    }
    assert updates["orders/targets/canal"] == {
        "batch": FIRST,
        "verdict": "passed",
        "rows": rows,
        "messages": rows,
        "places": [f"out/{FIRST}/manifest.json"],
        "complete_up_to": "2026-01-02T03:04:05Z",
    }
    again = updated(spec, FIRST, repeated=True)
    assert again == updates, "whoever ran it before may have been killed before Airflow knew"


@pytest.mark.parametrize(
    ("times", "complete"),
    [
        (["2026-01-02T03:04:05Z", "2026-01-02T04:04:04+01:00"], "2026-01-02T04:04:04+01:00"),
        (["2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05Z"], "2026-01-02T03:04:05Z"),
        (["2026-01-02T03:04:05Z", None], None),
        ([], None),
    ],
)
def test_a_target_is_complete_as_far_as_the_table_furthest_behind(showcase, times, complete):
    showcase.with_lake("orders", passes, batches=1)
    spec = showcase.file("orders")
    place = Path(reports_folder(spec, FIRST), ACCOUNT)
    told = json.loads(place.read_text())
    told["tables"] = [{"table": f"t{n}", "complete": time} for n, time in enumerate(times)]
    place.write_text(json.dumps(told))
    assert updated(spec, FIRST)["orders/targets/canal"]["complete_up_to"] == complete


def test_what_an_earlier_run_had_left_is_updated_too(showcase):
    def left(lake) -> None:
        lake.snapshot("left", 100)
        lake.convert("left")
        lake.validate("left", lake.merge("left"))
        lake.source_table = "shop.parcels"
        lake.run("next", 7)

    showcase.with_lake("orders", left, batches=1)
    updates = updated(showcase.file("orders"), "next")
    assert updates["orders/tables/shop.orders"]["rows"] == 100
    assert updates["orders/tables/shop.parcels"]["rows"] == 7
    assert {extra["batch"] for extra in updates.values()} == {"next"}
    assert updates["orders/targets/canal"]["messages"] == 107


def test_a_batch_without_changes_updates_nothing(showcase):
    showcase.with_lake("orders", lambda lake: lake.run("empty", 0), batches=1)
    assert updated(showcase.file("orders"), "empty") == {}


def test_a_batch_that_the_overview_does_not_have_is_a_warning(showcase, caplog):
    showcase.with_lake("orders", passes, batches=1)
    assert updated(showcase.file("orders"), "unknown") == {}
    (line,) = caplog.messages
    assert "does not say yet that batch unknown is published" in line
    assert "the batch is not concerned" in line


@pytest.mark.parametrize("table", ["shop.a/b", "shop.naïve", "<script>alert(1)</script>", "é/../x"])
def test_names_of_tables_do_not_leave_their_asset(showcase, table):
    lake = showcase.with_lake("orders", passes, batches=1, table=table)
    write_overview(showcase.file("orders"), lake)
    names = [name for name in updated(showcase.file("orders"), FIRST) if "/tables/" in name]
    ((_, _, last),) = [name.split("/") for name in names]
    assert last.isascii()


def test_the_publish_task_names_the_alias(migrations):
    from waybill.spec.file import load_migration
    from waybill_airflow.factory import build_dag

    file = migrations("shop", "after_assets: [orders/tables/shop.orders, s3://bucket/dumps]\n")
    dag = build_dag(load_migration(file), file)
    outlets = {task.task_id: task.outlets for task in dag.tasks}
    assert outlets.pop("publish") == [AssetAlias("shop")]
    assert not any(outlets.values())
    asked = dag.timetable.asset_condition
    assert list(asked.objects) == [Asset("orders/tables/shop.orders"), Asset("s3://bucket/dumps")]
