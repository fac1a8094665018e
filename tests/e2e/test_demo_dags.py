"""The example migrations through Airflow's own task runner, held against the sources' own truth."""

from __future__ import annotations

import gzip
import json
import struct
from decimal import Decimal
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from tests.airflow_home import PROJECT
from waybill.jobs import read_table
from waybill.report import STAGES, StageReport

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.timeout(1500),
]
SAMPLES = PROJECT / "samples"


@pytest.fixture(scope="module")
def demo(airflow_home, tmp_path_factory):
    """Where the examples keep their lake and what they publish."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WAYBILL_DEMO", str(folder))
        patch.delenv("WAYBILL_MIGRATIONS", raising=False)
        yield folder


class Ran:
    """A run of a DAG that has ended, with the reports of its stages."""

    def __init__(self, dag_id: str, **conf: Any) -> None:
        bag = DagBag(PROJECT / "dags", known_pools={"default_pool"}, load_op_links=False)
        assert bag.import_errors == {}
        self.run = bag.dags[dag_id].test(run_conf=conf)
        self.states = {ti.task_id: ti.state for ti in self.run.get_task_instances()}
        with create_session() as session:
            kept = {
                (row.task_id, row.key): XComModel.deserialize_value(row)
                for row in session.scalars(
                    select(XComModel).where(
                        XComModel.dag_id == dag_id, XComModel.run_id == self.run.run_id
                    )
                )
            }
        self.reports = {
            stage: StageReport.from_dict(kept[stage, "return_value"])
            for stage in STAGES
            if (stage, "return_value") in kept
        }
        self.link = kept.get(("validate", "_link_GateReportLink"))


@pytest.fixture(scope="module")
def shop(demo):
    return Ran("shop")


@pytest.fixture(scope="module")
def recorded(demo):
    return Ran("recorded_canal")


@pytest.mark.parametrize("name", ["shop", "recorded"])
def test_every_stage_ends_well_and_every_count_reconciles(name, request):
    ran = request.getfixturevalue(name)
    assert ran.states == dict.fromkeys(STAGES, "success")
    assert list(ran.reports) == list(STAGES)
    assert len({report.batch for report in ran.reports.values()}) == 1
    for report in ran.reports.values():
        report.reconcile()
    assert ran.reports["snapshot"].rows_out == ran.reports["convert"].rows_in
    assert ran.link == f"/waybill/gate/{ran.run.dag_id}/{ran.reports['validate'].batch}"


def test_the_shop_s_topic_is_accounted_for(shop):
    lines = sum(len(file.read_bytes().split(b"\n")) - 1 for file in SAMPLES.glob("shop/*.jsonl"))
    assert shop.reports["snapshot"].rows_out == lines
    assert sum(shop.reports["convert"].refused.values()) == 3
    assert {"json", "operation"} < set(shop.reports["convert"].refused)


def comparable(kind: str, text: str | None) -> Any:
    """A value of a text image as something that is equal when the values are."""
    if text is None:
        return None
    if kind == "float64":
        return struct.pack(">d", float(text))
    return text


@pytest.mark.parametrize("table", ["shop.customers", "shop.orders"])
def test_the_shop_s_tables_are_what_the_shop_says(shop, table):
    truth = json.loads((SAMPLES / "shop/final.json").read_text(encoding="utf-8"))[table]
    kinds = truth["columns"]

    def keyed(rows):
        return {
            tuple(row[name] for name in truth["key"]): {
                name: comparable(kinds[name], value) for name, value in row.items()
            }
            for row in rows
        }

    assert keyed(read_table(PROJECT / "migrations/shop.yaml", table)) == keyed(truth["rows"])


@pytest.mark.parametrize("target", ["canal", "datahub-blob"])
def test_the_shop_is_published(shop, demo, target):
    (manifest,) = (demo / "out/shop" / target).glob("*/manifest.json")
    assert manifest.parent.name == shop.reports["publish"].batch
    parts = sorted(manifest.parent.glob("part-*.jsonl"))
    count = 0
    for part in parts:
        for line in part.read_bytes().split(b"\n")[:-1]:
            json.loads(line)
            count += 1
    assert count > 250


TYPES = {
    "orders": {
        "key": ["id"],
        "exact": ["title", "doc", "created_at", "updated_at", "day", "tm", "status", "tags"],
        "numbers": ["id", "amount", "qty", "is_paid", "mid", "yr"],
        "doubles": ["score"],
        "singles": ["ratio"],
    },
    "customers": {
        "key": ["region", "no"],
        "exact": ["region", "name", "latin", "since"],
        "numbers": ["no", "balance"],
    },
    "notes": {"key": ["note_id"], "exact": ["body"], "numbers": ["note_id", "rev"]},
}


@pytest.mark.parametrize("table", list(TYPES))
def test_the_recorded_tables_are_what_the_database_says(recorded, table):
    rules = TYPES[table]
    folder = SAMPLES / "canal_mariadb/truth"
    with gzip.open(folder / f"{table}.jsonl.gz", "rt", encoding="utf-8") as file:
        dump = [json.loads(line) for line in file]
    lost = set()
    for line in (folder / "known_loss.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
        cell = json.loads(line)
        if cell["table"] == table:
            lost.add((*map(str, cell["key"]), cell["column"]))

    def value(row, column):
        text = row[column]
        if text is None:
            return None
        if column in rules.get("numbers", ()):
            return Decimal(text)
        if column in rules.get("doubles", ()):
            return struct.pack(">d", float(text))
        if column in rules.get("singles", ()):
            return struct.pack(">f", float(text))
        # The dump separates day and time by a space and has no zone.
        return text.replace("T", " ").rstrip("Z") if column in _TIMES else text

    def keyed(rows):
        found = {}
        for row in rows:
            key = tuple(row[name] for name in rules["key"])
            found[key] = {
                column: value(row, column)
                for kind in ("exact", "numbers", "doubles", "singles")
                for column in rules.get(kind, ())
                if (*key, column) not in lost
            }
        return found

    spec = PROJECT / "migrations/recorded_canal.yaml"
    assert keyed(read_table(spec, f"shop.{table}")) == keyed(dump)


_TIMES = ("created_at", "updated_at", "since")


def test_a_batch_that_was_done_is_not_done_again(shop, demo):
    before = sorted(path for path in (demo / "out/shop").rglob("*") if path.is_file())
    again = Ran("shop", batch=shop.reports["publish"].batch)
    assert again.states == dict.fromkeys(STAGES, "success")
    assert all(report.repeated for report in again.reports.values())
    assert [r.rows_out for r in again.reports.values()] == [
        r.rows_out for r in shop.reports.values()
    ]
    assert sorted(path for path in (demo / "out/shop").rglob("*") if path.is_file()) == before
