"""What no run tells of: looked for by a DAG of its own, and told once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from tests.dags.conftest import PROJECT
from tests.dags.receivers import Kept
from tests.dags.showcase import HOUR, Showcase
from tests.lake_by_hand import catalog_in, commit
from waybill.errors import WaybillError
from waybill.lake_columns import ARCHIVE
from waybill.overview.files import read_index
from waybill.sources.kafka import retention
from waybill.sources.kafka.retention import Endangered
from waybill.spec.file import load_migration
from waybill_airflow.factory import build_watch
from waybill_airflow.signals.watching import find, find_endangered

pytestmark = pytest.mark.airflow

NOW = datetime(2026, 11, 26, 16, 0, tzinfo=UTC)
RECEIVER = "{notifier: tests.dags.receivers.Kept, arguments: {message: '{{ alert.title }}'}}"


def alerts(on: str = "[late, stalled]", more: str = "") -> str:
    return f"alerts: {{to: [{RECEIVER}], on: {on}{more}}}"


def passes(lake) -> None:
    """Nothing happens after the batches that go through."""


@pytest.fixture
def looked(tmp_path):
    """What is found of a migration whose last batch ended some hours ago."""

    def look(ago: float, more: str, fill=passes, on: str = "[late, stalled]", set_: str = ""):
        showcase = Showcase(tmp_path, int(NOW.timestamp() * 1000))
        file_lines = f"{more}\n{alerts(on, set_)}\n"
        showcase.with_lake("orders", fill, file_lines, batches=3, ago=int(ago * HOUR))
        spec = load_migration(showcase.migrations / "orders.yaml")
        return find(spec, read_index(spec), NOW)

    return look


@pytest.mark.parametrize(
    ("ago", "more", "set_", "found"),
    [
        (30, 'schedule: "@hourly"', "", ["late"]),
        (0.1, 'schedule: "@hourly"', "", []),
        (30, "", "", []),
        (30, "", ", late_after: 29h", ["late"]),
        (30, "", ", late_after: 40h", []),
        (30, 'schedule: "@hourly"', ", late_after: 40h", []),
        (30, "after_assets: [a]", ", late_after: 1d", ["late"]),
    ],
)
def test_late(looked, ago, more, set_, found):
    assert [finding.event for finding in looked(ago, more, set_=set_)] == found


def left(lake) -> None:
    lake.snapshot("left", 100)
    lake.convert("left")


def held(lake) -> None:
    lake.snapshot("held", 100)
    lake.convert("held")
    lake.validate("held", lake.merge("held"), passes=False)
    left(lake)


@pytest.mark.parametrize(
    ("ago", "fill", "set_", "found"),
    [
        (3, left, "", ["stalled"]),
        (0, left, "", []),
        (3, left, ", stalled_after: 20h", []),
        (3, passes, "", []),
        (3, held, "", []),
    ],
)
def test_stalled(looked, ago, fill, set_, found):
    findings = looked(ago, "", fill, "[stalled]", set_)
    assert [finding.event for finding in findings] == found
    if found:
        assert findings[0].mark == "left"
        assert "waybill run" in findings[0].text


def test_a_migration_that_never_ran_is_neither(tmp_path, looked):
    assert looked(30, 'schedule: "@hourly"', on="[failed]") == []


def test_the_dag_is_there_where_somebody_asks(migrations):
    for on, there in (("[failed, held]", False), ("[failed, late]", True), ("[stalled]", True)):
        file = migrations("shop", f"{alerts(on)}\n")
        dag = build_watch(load_migration(file), file)
        assert (dag is not None) == there
        if dag is not None:
            assert (dag.dag_id, str(dag.schedule)) == ("shop_watch", "*/10 * * * *")
    file = migrations("shop")
    assert build_watch(load_migration(file), file) is None


def test_what_was_reported_is_not_reported_again(airflow_home, tmp_path, monkeypatch):
    """Until it is about something else."""
    showcase = Showcase(tmp_path)
    more = f'schedule: "@hourly"\n{alerts()}'
    showcase.with_lake("orders", passes, more, batches=3, ago=30 * HOUR)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    Kept.messages.clear()

    def run(minutes: int) -> dict:
        bag = DagBag(PROJECT / "dags", known_pools={"default_pool"}, load_op_links=False)
        assert bag.import_errors == {}
        at = datetime.now(UTC) + timedelta(minutes=minutes)
        ended = bag.dags["orders_watch"].test(logical_date=at)
        assert str(ended.state) == "success"
        with create_session() as session:
            rows = session.scalars(select(XComModel).where(XComModel.run_id == ended.run_id)).all()
            (found,) = [
                XComModel.deserialize_value(row) for row in rows if row.key == "return_value"
            ]
        return found

    first = run(0)
    assert list(first) == ["late"]
    assert run(10) == first
    assert Kept.messages == ["orders is late"]
    showcase.with_lake("orders", passes, more, batches=3, ago=20 * HOUR)
    assert run(20) != first
    assert Kept.messages == ["orders is late"] * 2


KAFKA = """\
name: orders
source: {{kafka: {{connection: kafka_orders, topics: [shop.eu]}}, envelope: canal}}
lake: {{warehouse: {folder}/lake}}
alerts: {{to: [{receiver}], on: [retention]}}
"""


def test_messages_that_expire_unread_are_reported_by_topic(tmp_path, monkeypatch):
    file = tmp_path / "orders.yaml"
    file.write_text(KAFKA.format(folder=tmp_path, receiver=RECEIVER))
    spec = load_migration(file)
    asked = []

    def two(source, cursors, now):
        asked.append((source, list(cursors), now))
        return [Endangered("shop.eu", n, 7, 1200, 36_000.0) for n in range(2)]

    monkeypatch.setattr(retention, "endangered", two)
    (before,) = find_endangered(spec, NOW)
    assert asked == [(spec.source.kafka, [], NOW.timestamp())], "nothing was archived yet"
    cursor = {"source": "kafka", "topics": {"shop.eu": {"id": "x", "ranges": {"0": [0, 7]}}}}
    stamp = ("b-1", "snapshot", cursor, {})
    commit(catalog_in(tmp_path / "lake"), "orders_log.archive", ARCHIVE, [], stamp)
    (after,) = find_endangered(spec, NOW)
    assert asked[1][1] == [cursor]
    assert before == after
    assert (after.event, after.mark) == ("retention", "shop.eu")
    assert "shop.eu/1: 1,200 offsets from offset 7 on" in after.text
    assert "keeps messages for 10.0 hours" in after.text


def test_brokers_that_do_not_answer_fail_the_look(tmp_path, monkeypatch):
    file = tmp_path / "orders.yaml"
    file.write_text(KAFKA.format(folder=tmp_path, receiver=RECEIVER))
    there = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}'
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_ORDERS", there)
    with pytest.raises(WaybillError, match=r"127\.0\.0\.1:9"):
        find_endangered(load_migration(file), NOW)


def test_files_do_not_expire(tmp_path):
    assert find_endangered(Showcase(tmp_path).file("orders", alerts("[retention]")), NOW) == []
