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
from waybill.overview.writing import read_index
from waybill.spec.file import load_migration
from waybill_airflow.factory import build_watch
from waybill_airflow.signals.watching import find

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


def test_what_was_told_is_not_told_again(airflow_home, tmp_path, monkeypatch):
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
