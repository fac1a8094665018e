"""The list of migrations reads again what has changed, and waits for no lake that it knows."""

from __future__ import annotations

from itertools import pairwise
from threading import Event, Lock

import pytest

from tests.dags.asking import until_idle
from waybill.overview.files import INDEX, SOURCE
from waybill.spec.migration import Migration
from waybill.storage.file_store import open_store
from waybill_airflow.web import asking_behind, lake_outlines
from waybill_airflow.web.asking_behind import AskingBehind
from waybill_airflow.web.lake_outlines import Outline, ask_again, outlines

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


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which pass when a test says so."""
    now = [1000.0]
    monkeypatch.setattr(lake_outlines, "monotonic", lambda: now[0])
    return now


def test_nobody_waits_for_a_lake_away_that_has_said_something(asked, clock):
    away = [spec("away", "s3://lakes/w")]
    first = outlines(away)
    assert (asked, first.age, first.old, first.due) == (["away"], 0, 0, [])
    for seconds, old, due in (
        (lake_outlines.FRESH - 1, 0, []),
        (lake_outlines.FRESH, 0, away),
        (lake_outlines.OLD, 1, away),
        (lake_outlines.LONGEST - 1, 1, away),
    ):
        clock[0] = 1000 + seconds
        found = outlines(away)
        assert found == (first.found, seconds, old, due)
    assert asked == ["away"]
    ask_again(found.due)
    until_idle(lake_outlines._behind)
    assert asked == ["away", "away"]
    again = outlines(away)
    assert (again.age, again.old, again.due) == (0, 0, [])
    assert again.found != first.found


def test_what_a_lake_away_said_very_long_ago_is_not_shown(asked, clock):
    away = [spec("away", "s3://lakes/w")]
    first = outlines(away)
    clock[0] += lake_outlines.LONGEST
    again = outlines(away)
    assert (asked, again.age, again.old) == (["away", "away"], 0, 0)
    assert again.found != first.found
    clock[0] += lake_outlines.LONGEST
    outlines([])
    assert lake_outlines._away == {}, "nor kept of migrations that are gone"


def test_a_new_lake_is_waited_for_beside_those_that_are_known(asked, clock):
    known = [spec(f"away{number}", f"s3://lakes/{number}") for number in range(3)]
    outlines(known[:1])
    clock[0] += lake_outlines.FRESH
    outlines(known[:2])
    clock[0] += lake_outlines.FRESH
    asked.clear()
    new = spec("new", "s3://lakes/new")
    found = outlines([*known[1::-1], new])
    assert asked == ["new"]
    assert found.found.keys() == {"away0", "away1", "new"}
    assert [spec.name for spec in found.due] == ["away0", "away1"], "the longest ago first"
    assert found.age == 2 * lake_outlines.FRESH


def test_what_is_wrong_with_a_lake_away_is_said_to_be_old_soon(clock, monkeypatch):
    monkeypatch.setattr(lake_outlines, "_away", {})
    faults = ["closed"]

    def read(spec: Migration) -> Outline:
        clock[0] += 5
        return Outline(problem=faults.pop()) if faults else Outline()

    monkeypatch.setattr(lake_outlines, "_read", read)
    closed = [spec("closed", "s3://lakes/closed")]
    assert outlines(closed).found["closed"].problem == "closed"
    # It counts from when the answer was there, however long that took.
    clock[0] += lake_outlines.FRESH - 1
    assert outlines(closed).old == 0
    clock[0] += 1
    found = outlines(closed)
    assert (found.found["closed"].problem, found.old, found.due) == ("closed", 1, closed)
    ask_again(found.due)
    until_idle(lake_outlines._behind)
    assert outlines(closed).found["closed"].problem == ""


def test_lakes_are_asked_behind_a_few_at_a_time_and_none_twice(caplog):
    every = [spec(f"away{number}", f"s3://lakes/{number}") for number in range(20)]
    asked: list[str] = []
    go_on, lock = Event(), Lock()
    now, most = 0, 0

    def ask(one: Migration) -> None:
        nonlocal now, most
        with lock:
            asked.append(one.name)
            now += 1
            most = max(most, now)
        assert go_on.wait(30)
        with lock:
            now -= 1
        if one.name == "away3":
            raise OSError("no way there")

    behind = AskingBehind(ask)
    assert behind.is_idle
    for _ in range(3):
        behind.add(every)
    assert not behind.is_idle
    go_on.set()
    until_idle(behind)
    assert most <= asking_behind.AT_ONCE
    assert sorted(asked) == sorted(one.name for one in every)
    assert "the lake of away3 was asked" in caplog.text
    behind.add(every[:1])
    until_idle(behind)
    assert len(asked) == len(every) + 1


def test_two_migrations_of_one_bucket_are_two(asked):
    found = outlines([spec("a", "s3://lakes/w"), spec("b", "s3://lakes/w")]).found
    assert found["a"] != found["b"]


@pytest.mark.parametrize("name", [INDEX, SOURCE])
def test_a_lake_on_a_disk_is_read_again_when_a_stage_has_written(asked, tmp_path, name):
    here = spec("here", str(tmp_path))
    store = open_store(here.reports)
    found = [outlines([here]).found["here"], outlines([here]).found["here"]]
    for _ in range(2):
        # The same bytes, so that neither their number nor, on a quick disk, the time differs.
        with store.write(name) as stream:
            stream.write(b"{}")
        found += [outlines([here]).found["here"], outlines([here]).found["here"]]
    assert [one is other for one, other in pairwise(found)] == [
        True,
        False,
        True,
        False,
        True,
    ]
    store.remove(name)
    assert outlines([here]).found["here"] is not found[-1]


def test_a_lake_that_could_not_be_read_is_asked_again(tmp_path, monkeypatch):
    here = spec("here", str(tmp_path))
    coming = [Outline(problem="closed"), Outline()]
    monkeypatch.setattr(lake_outlines, "_here", {})
    monkeypatch.setattr(lake_outlines, "_read", lambda _spec: coming.pop(0))
    assert outlines([here]).found["here"].problem == "closed"
    assert outlines([here]).found["here"] == Outline()
    assert outlines([here]).found["here"] == Outline()
    assert not coming
