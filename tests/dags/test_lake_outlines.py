"""The list of migrations reads again what has changed, and asks object storage once in a while."""

from __future__ import annotations

from itertools import pairwise

import pytest

from waybill.overview.files import INDEX, SOURCE
from waybill.spec.migration import Migration
from waybill.storage.file_store import open_store
from waybill_airflow.web import lake_outlines
from waybill_airflow.web.lake_outlines import Outline, outlines

pytestmark = pytest.mark.airflow


def spec(name: str, warehouse: str) -> Migration:
    source = {"files": {"path": "in"}, "envelope": "canal"}
    return Migration.model_validate(
        {"name": name, "source": source, "lake": {"warehouse": warehouse}}
    )


@pytest.fixture
def asked(monkeypatch):
    names: list[str] = []

    def read(spec: Migration) -> Outline:
        names.append(spec.name)
        return Outline(object(), object())  # type: ignore[arg-type]

    monkeypatch.setattr(lake_outlines, "_read", read)
    monkeypatch.setattr(lake_outlines, "_away", {})
    monkeypatch.setattr(lake_outlines, "_here", {})
    return names


def test_what_a_lake_away_said_is_shown_again_for_some_seconds(asked, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(lake_outlines, "monotonic", lambda: clock[0])
    away = [spec("away", "s3://lakes/w")]
    first = outlines(away)
    clock[0] += lake_outlines.FRESH - 1
    assert outlines(away) == first
    assert asked == ["away"]
    clock[0] += 2
    assert outlines(away) != first
    assert asked == ["away", "away"]


def test_of_many_lakes_away_a_few_are_asked_at_a_time(asked, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(lake_outlines, "monotonic", lambda: clock[0])
    few = lake_outlines.DUE
    away = [spec(f"away{number}", f"s3://lakes/{number}") for number in range(3 * few)]
    first = outlines(away)
    assert sorted(asked) == sorted(one.name for one in away)
    # All are due; every page asks some others, and shows of the rest what they have said.
    clock[0] += lake_outlines.FRESH
    for _ in range(3):
        asked.clear()
        before, first = first, outlines(away)
        assert len(asked) == few
        assert {name for name in first if first[name] is not before[name]} == {*asked}
    asked.clear()
    assert outlines(away) == first
    assert asked == []
    # A new one is asked first, and what is too old is asked however many these are.
    clock[0] += lake_outlines.FRESH
    new = spec("new", "s3://lakes/new")
    assert outlines([*away, new]).keys() == {one.name for one in (*away, new)}
    assert len(asked) == few
    assert "new" in asked
    clock[0] += lake_outlines.LONGEST - lake_outlines.FRESH
    asked.clear()
    assert outlines(away).keys() == first.keys()
    assert len(asked) == 2 * few + 1
    clock[0] += lake_outlines.LONGEST
    asked.clear()
    outlines([])
    assert lake_outlines._away == {}


def test_whoever_looks_again_and_again_never_waits_for_all(asked, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(lake_outlines, "monotonic", lambda: clock[0])
    away = [spec(f"away{number}", f"s3://lakes/{number}") for number in range(100)]
    outlines(away)
    counts = []
    for _ in range(9):
        asked.clear()
        clock[0] += lake_outlines.FRESH
        outlines(away)
        counts.append(len(asked))
    assert max(counts) <= 34, counts
    assert sum(counts[:3]) == 100


def test_what_is_wrong_with_a_lake_away_is_not_said_for_long(asked, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(lake_outlines, "monotonic", lambda: clock[0])
    faults = ["closed"]

    def read(spec: Migration) -> Outline:
        if spec.name != "closed":
            return Outline()
        clock[0] += 5
        return Outline(problem=faults.pop()) if faults else Outline()

    monkeypatch.setattr(lake_outlines, "_read", read)
    closed = spec("closed", "s3://lakes/closed")
    every = [closed, *(spec(f"away{number}", f"s3://lakes/{number}") for number in range(20))]
    outlines(every[1:])
    assert outlines([closed])["closed"].problem == "closed"
    # It counts from when the answer was there, however long that took.
    clock[0] += lake_outlines.FRESH - 1
    assert outlines(every)["closed"].problem == "closed"
    clock[0] += 1
    assert outlines(every)["closed"].problem == ""


def test_two_migrations_of_one_bucket_are_two(asked):
    found = outlines([spec("a", "s3://lakes/w"), spec("b", "s3://lakes/w")])
    assert found["a"] != found["b"]


@pytest.mark.parametrize("name", [INDEX, SOURCE])
def test_a_lake_on_a_disk_is_read_again_when_a_stage_has_written(asked, tmp_path, name):
    here = spec("here", str(tmp_path))
    store = open_store(here.reports)
    found = [outlines([here])["here"], outlines([here])["here"]]
    for _ in range(2):
        # The same bytes, so that neither their number nor, on a quick disk, the time differs.
        with store.write(name) as stream:
            stream.write(b"{}")
        found += [outlines([here])["here"], outlines([here])["here"]]
    assert [one is other for one, other in pairwise(found)] == [
        True,
        False,
        True,
        False,
        True,
    ]
    store.remove(name)
    assert outlines([here])["here"] is not found[-1]


def test_a_lake_that_could_not_be_read_is_asked_again(tmp_path, monkeypatch):
    here = spec("here", str(tmp_path))
    coming = [Outline(problem="closed"), Outline()]
    monkeypatch.setattr(lake_outlines, "_here", {})
    monkeypatch.setattr(lake_outlines, "_read", lambda _spec: coming.pop(0))
    assert outlines([here])["here"].problem == "closed"
    assert outlines([here])["here"] == Outline()
    assert outlines([here])["here"] == Outline()
    assert not coming
