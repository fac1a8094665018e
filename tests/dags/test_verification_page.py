"""The page of what differs between the source database and the lake."""

from __future__ import annotations

import html
from types import SimpleNamespace

import pytest
from airflow.api_fastapi.core_api import security
from fastapi.testclient import TestClient

from tests.dags.showcase import HOSTILE, Showcase
from tests.dags.values_lake import refuse_and_change
from waybill_airflow.web import app, rights, verification_view
from waybill_airflow.web.known_migrations import known_migration

pytestmark = pytest.mark.airflow


@pytest.fixture
def shown(tmp_path, airflow_home, monkeypatch):
    showcase = Showcase(tmp_path)
    refuse_and_change(showcase)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    return showcase


def view():
    spec = known_migration("orders")
    assert spec is not None
    return verification_view.verification_view(spec)


def test_it_shows_the_newest_verification_of_each_table(shown):
    found = view()
    assert found.is_bad
    assert found.state == ("3 rows differ from the database, in shop.parcels of shop.parcels_1.")
    assert [(t.name, t.in_database, t.differing, t.undecided) for t in found.tables] == [
        ("shop.parcels of shop.parcels_1", 12_345, 3, 1),
        ("shop.people", 12_345, 0, 1),
    ]
    first = next(row for row in found.differences if row.what == "differs")
    assert first.table == "shop.parcels"
    assert first.key == '{"id": "1", "shard": "shop.parcels_1"}'
    assert first.columns == [("note", HOSTILE, "null"), ("x", "1.10", "1.1")]
    assert len(found.differences) == 3
    assert found.repair.startswith("waybill run ")
    assert found.repair.endswith(" --reload shop.parcels --keys differing")
    assert not found.is_asked


def test_more_than_a_page_takes_is_counted(shown, monkeypatch):
    monkeypatch.setattr(verification_view, "MOST", 1)
    monkeypatch.setattr(verification_view, "COLUMNS", 1)
    found = view()
    assert (len(found.differences), found.more) == (1, 2)
    assert {row.more for row in found.differences} <= {0, 1}


def test_a_table_that_could_not_be_verified_is_named(shown, monkeypatch):
    figures = dict.fromkeys(("in_database", "in_lake", "differing", "undecided"), 0)
    figures |= {"method": "full", "read_at": "2026-01-02T03:04:05Z", "position": None}
    kept = [
        {"verification": "v", "table": "shop.a", "sentence": "permission denied", **figures},
        {"verification": "v", "table": "shop.b", "sentence": "", **figures},
    ]
    kept[0]["outcome"] = "not verified"
    monkeypatch.setattr(verification_view, "last_results", lambda _: kept)
    found = view()
    assert found.is_bad
    assert found.state == (
        "Nothing differs in the tables that were verified; shop.a could not be verified."
    )
    assert [table.outcome for table in found.tables] == ["not verified", "verified"]


def test_rows_that_differ_count_once(shown, monkeypatch):
    figures = dict.fromkeys(("in_database", "in_lake", "undecided"), 0)
    figures |= {"read_at": "2026-01-02T03:04:05Z", "position": None, "sentence": ""}
    lines = [
        ("shop.a", "changed", 3),
        ("shop.a", "counts", 3),
        ("shop.b", "changed", 0),
        ("shop.b", "counts", 2),
    ]
    names = ("table", "method", "differing")
    kept = [
        {"verification": "v", **dict(zip(names, line, strict=True)), **figures} for line in lines
    ]
    monkeypatch.setattr(verification_view, "last_results", lambda _: kept)
    assert view().state == "5 rows differ from the database, in shop.a, shop.b."
    # Of a number of rows nobody knows the keys.
    assert view().repair.endswith(" --reload shop.a --keys differing")


def test_the_repair_names_tables_whose_rows_can_be_made_anew_one_by_one(shown, monkeypatch):
    figures = dict.fromkeys(("in_database", "in_lake", "undecided"), 0)
    figures |= {"read_at": "", "position": None, "sentence": "", "method": "full", "differing": 1}
    lines = [("shop.a", "1", True), ("shop.a", "2", False), ("shop.b", None, False)]
    names = ("table", "shard", "by_key")
    kept = [
        {"verification": "v", **dict(zip(names, line, strict=True)), **figures} for line in lines
    ]
    monkeypatch.setattr(verification_view, "last_results", lambda _: kept)
    assert view().repair == ""
    # What verifications of before kept says nothing of it.
    kept.append({"verification": "v", "table": "shop.c", **figures})
    assert view().repair.endswith(" --reload shop.c --keys differing")
    assert view().repair.count("--reload") == 1


def test_a_row_that_is_told_by_masked_values_has_no_page():
    body = {"columns": {}, "key": {"id": "1", "phone": "(masked)"}}
    assert verification_view._difference("shop.a", "differs", body).is_masked
    plain = {**body, "key": {"id": "1"}}
    assert not verification_view._difference("shop.a", "differs", plain).is_masked


def test_what_was_never_verified_says_so(shown):
    shown.file("prices")
    spec = known_migration("prices")
    assert spec is not None
    found = verification_view.verification_view(spec)
    assert (found.tables, found.state) == ([], "No table has been verified yet.")


class Manager:
    """Lets everybody see everything of the migration."""

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        return True


def test_the_page_names_rows_and_runs_nothing(shown, monkeypatch):
    no_team = SimpleNamespace(get_team_name=lambda _dag_id: None)
    for module in (security, rights):
        monkeypatch.setattr(module, "get_auth_manager", Manager)
        monkeypatch.setattr(module, "DagModel", no_team)
    made = app.make_app()
    user = SimpleNamespace(name="ann", get_name=lambda: "ann")
    made.dependency_overrides[security.get_user] = lambda: user
    answer = TestClient(made).get("/verifications/orders")
    assert answer.status_code == 200, answer.text
    assert HOSTILE not in answer.text
    assert HOSTILE in html.unescape(answer.text)
    assert "missing in the database" in answer.text
    assert "1.10" in answer.text
    assert "/rows/orders?table=shop.parcels&amp;key=" in answer.text
    assert "--reload shop.parcels --keys differing</code>" in answer.text
    assert "12,345" in answer.text
