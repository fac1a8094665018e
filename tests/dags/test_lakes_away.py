"""The list of migrations asks lakes in object storage once in a while, not for every look."""

from __future__ import annotations

import pytest

from waybill.spec.migration import Migration
from waybill_airflow.web import migrations_view

pytestmark = pytest.mark.airflow


def spec(name: str, warehouse: str) -> Migration:
    source = {"files": {"path": "in"}, "envelope": "canal"}
    return Migration.model_validate(
        {"name": name, "source": source, "lake": {"warehouse": warehouse}}
    )


@pytest.fixture
def asked(monkeypatch):
    names: list[str] = []

    def told(spec: Migration):
        names.append(spec.name)
        return None, None, f"{spec.name} {len(names)}"

    monkeypatch.setattr(migrations_view, "_told", told)
    monkeypatch.setattr(migrations_view, "_known", {})
    return names


def test_what_a_lake_away_said_is_shown_again_for_some_seconds(asked, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(migrations_view, "monotonic", lambda: clock[0])
    both = [spec("away", "s3://lakes/w"), spec("here", "/lakes/w")]
    first = migrations_view._every_told(both)
    assert sorted(asked) == ["away", "here"]
    clock[0] += migrations_view.FRESH - 1
    again = migrations_view._every_told(both)
    assert again["away"] == first["away"]
    assert sorted(asked) == ["away", "here", "here"]
    clock[0] += 2
    assert migrations_view._every_told(both)["away"] != first["away"]
    assert sorted(asked) == ["away", "away", "here", "here", "here"]


def test_two_migrations_of_one_bucket_are_two(asked):
    found = migrations_view._every_told([spec("a", "s3://lakes/w"), spec("b", "s3://lakes/w")])
    assert found["a"] != found["b"]
