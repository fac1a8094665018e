"""What waits at the source: asked by the watch DAG, shown with the time at which it was true."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.dags.showcase import HOUR, Showcase
from tests.lake_by_hand import catalog_in, commit
from waybill.lake_columns import ARCHIVE
from waybill.overview.files import SOURCE, read_index, read_source, reports
from waybill.overview.schema import VERSION, PartitionLook, SourceLook, encoded
from waybill.spec.file import load_migration
from waybill_airflow.dag_ids import dags_beside
from waybill_airflow.factory import build_watch
from waybill_airflow.signals import watching
from waybill_airflow.signals.metrics import METRICS, MetricValue, figures_of_source
from waybill_airflow.signals.watching import WatchOperator, ask_source, find
from waybill_airflow.web import migration_view, migrations_view
from waybill_airflow.web.airflow_runs import DagFacts
from waybill_airflow.web.rendering import page
from waybill_airflow.web.source_view import source_view

pytestmark = pytest.mark.airflow

NOW = datetime(2026, 11, 26, 16, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
LOOK = SourceLook(
    VERSION,
    "orders",
    NOW_MS - HOUR,
    "messages",
    unread=12_345,
    oldest=NOW_MS - 3 * HOUR,
    partitions=[PartitionLook("shop.eu<b>", 3, 100, 12_445, NOW_MS - 3 * HOUR)],
)
RECEIVER = "{notifier: tests.dags.receivers.Kept, arguments: {message: '{{ alert.title }}'}}"


class Everybody:
    """Rights to everything."""

    def dags(self):
        return {"orders"}

    def with_runs(self, dag_ids):
        return set(dag_ids)

    def sees_broken_files(self):
        return True


@pytest.fixture
def folder_source(tmp_path):
    """A migration of a folder of which one file is archived."""
    spec = Showcase(tmp_path).file("orders")
    there = Path(spec.source.files.path)
    there.mkdir(parents=True)
    (there / "1.jsonl").write_text("{}\n")
    cursor = {
        "base": str(there),
        "next": 1,
        "complete": True,
        "files": {"1.jsonl": [0, 3, "x", "y", 1]},
    }
    stamp = ("b-1", "snapshot", cursor, {})
    commit(catalog_in(tmp_path / "lake"), "orders_log.archive", ARCHIVE, [], stamp)
    return spec


def keep(spec, look: SourceLook) -> None:
    place = Path(reports(spec), SOURCE)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(encoded(look))


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


@pytest.fixture
def rendered(monkeypatch, tmp_path):
    """Both pages about a migration with a lake."""

    def render(look: SourceLook | None) -> tuple[str, str]:
        showcase = Showcase(tmp_path)
        showcase.with_lake("orders", lambda _lake: None, batches=3)
        spec = showcase.file("orders")
        if look is not None:
            keep(spec, look)
        monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
        for module in (migration_view, migrations_view):
            monkeypatch.setattr(module, "dag_facts", lambda ids: {i: DagFacts() for i in ids})
        one = page("migration", view=migration_view.migration_view(spec, False))
        every = page("migrations", view=migrations_view.overview(Everybody()))
        return one, every

    return render


# Asking.


def test_a_folder_is_asked_for_what_is_not_archived(folder_source):
    there = Path(folder_source.source.files.path)
    assert ask_source(folder_source).unread == 0
    for name, hours in (("2.jsonl", 5), ("3.jsonl", 2)):
        (there / name).write_text("12345678\n")
        os.utime(there / name, (NOW.timestamp(), NOW.timestamp() - hours * 3600))
    (there / "_4.jsonl").write_text("hidden")
    look = ask_source(folder_source)
    assert (look.unread, look.unit, look.bytes) == (2, "files", 18)
    assert look.oldest == NOW_MS - 5 * HOUR
    assert look == read_source(folder_source)
    assert look.archive is not None
    view = source_view(look, None)
    assert (view.unread, view.what) == (2, "files")


def test_a_folder_that_is_gone_leaves_what_was_known(folder_source):
    there = Path(folder_source.source.files.path)
    (there / "2.jsonl").write_text("x")
    before = ask_source(folder_source)
    for file in there.iterdir():
        file.unlink()
    there.rmdir()
    look = ask_source(folder_source)
    assert (look.looked, look.unread) == (before.looked, 1)
    assert look.failed >= before.looked
    assert "no file or folder" in look.problem
    view = source_view(look, None)
    assert view.at is not None
    assert "no file or folder" in view.problem


def test_the_watch_asks_and_sends(folder_source, monkeypatch, tmp_path):
    (Path(folder_source.source.files.path) / "2.jsonl").write_text("x")
    sent = []
    monkeypatch.setattr(watching.metrics, "are_on", lambda: True)
    monkeypatch.setattr(watching.metrics, "send", sent.extend)

    class Task:
        def xcom_pull(self, **_more):
            return None

    file = tmp_path / "migrations" / "orders.yaml"
    assert WatchOperator(task_id="watch", migration=str(file)).execute({"ti": Task()}) == {}
    assert read_source(folder_source).unread == 1
    assert MetricValue("waybill.source.unread", 1, ("orders", "files")) in sent


@pytest.mark.parametrize(
    ("more", "schedule"),
    [
        ("", None),
        ("watch: '*/5 * * * *'", "*/5 * * * *"),
        (f"alerts: {{to: [{RECEIVER}], on: [late]}}", "*/10 * * * *"),
        (f"alerts: {{to: [{RECEIVER}]}}", None),
        (f"watch: '@hourly'\nalerts: {{to: [{RECEIVER}], on: [late]}}", "@hourly"),
    ],
)
def test_the_watch_is_there_where_somebody_asks(migrations, more, schedule):
    file = migrations("shop", f"{more}\n")
    spec = load_migration(file)
    dag = build_watch(spec, file)
    assert (None if dag is None else str(dag.schedule)) == schedule
    assert (dag is not None) == ("shop_watch" in dags_beside(spec))


# Showing.


def test_pages_say_how_much_since_when_and_as_of_when(rendered):
    one, every = rendered(LOOK)
    sentence = (
        "At the source as of 2026-11-26 15:00 UTC, before the last batch was archived: "
        "12,345 messages, 2 h behind."
    )
    assert sentence in words(one)
    assert "shop.eu&lt;b&gt;/3" in one
    assert "<b>" not in one
    assert "12,345 2 h behind, as of 2026-11-26 15:00" in words(every)


def test_a_source_that_was_not_asked_has_no_figure(rendered):
    one, every = rendered(None)
    assert "What waits at the source is not known yet" in words(one)
    assert "behind" not in words(every)


def test_a_source_that_did_not_answer_says_so_beside_what_was_known(rendered):
    gone = msgspec.structs.replace(LOOK, failed=NOW_MS, problem="WB-8001: nobody <i>answers</i>")
    one, _ = rendered(gone)
    assert "as of 2026-11-26 15:00 UTC" in words(one)
    assert "asked at 2026-11-26 16:00 UTC and did not answer: WB-8001" in words(one)
    assert "<i>" not in one
    never = msgspec.structs.replace(gone, looked=0, unread=0, oldest=None)
    one, every = rendered(never)
    assert "At the source as of" not in one
    assert "did not answer" in one
    assert "12,345" not in every


def test_a_look_at_the_archive_as_it_is_needs_no_word(rendered, tmp_path):
    rendered(None)
    spec = load_migration(tmp_path / "migrations" / "orders.yaml")
    index = read_index(spec)
    current = msgspec.structs.replace(LOOK, archive=index.archived)
    assert index.archived is not None
    assert not source_view(current, index).earlier
    assert source_view(LOOK, index).earlier


# Signals.


def test_a_look_in_figures():
    figures = list(figures_of_source(LOOK, NOW))
    assert figures == [
        MetricValue("waybill.source.unread", 12_345, ("orders", "messages")),
        MetricValue("waybill.source.seconds", 7200.0, ("orders",)),
        MetricValue("waybill.source.asked", 3600.0, ("orders",)),
    ]
    assert all(len(METRICS[f.metric].tags) == len(f.tags) for f in figures)
    assert list(figures_of_source(msgspec.structs.replace(LOOK, looked=0), NOW)) == []
    unknown = msgspec.structs.replace(LOOK, oldest=None)
    assert [f.metric for f in figures_of_source(unknown, NOW)] == [
        "waybill.source.unread",
        "waybill.source.asked",
    ]


@pytest.mark.parametrize(
    ("ago", "set_", "look", "found"),
    [
        (0, ", late_after: 110m", LOOK, "messages wait at the source"),
        (0, ", late_after: 3h", LOOK, ""),
        (0, "", LOOK, ""),
        (0, ", late_after: 110m", None, ""),
        (5, ", late_after: 110m", LOOK, "is late"),
    ],
)
def test_messages_that_wait_too_long_at_the_source_are_late(tmp_path, ago, set_, look, found):
    showcase = Showcase(tmp_path, NOW_MS)
    more = f"alerts: {{to: [{RECEIVER}], on: [late]{set_}}}"
    showcase.with_lake("orders", lambda _lake: None, more, batches=3, ago=ago * HOUR)
    spec = load_migration(showcase.migrations / "orders.yaml")
    findings = find(spec, read_index(spec), NOW, look)
    assert [found in finding.title for finding in findings] == ([True] if found else [])
    if found:
        said = "As of 15:00 UTC 12,345 messages waited at the source, the oldest for 2.0 hours."
        assert said in findings[0].text
        assert "waybill status" in findings[0].text
