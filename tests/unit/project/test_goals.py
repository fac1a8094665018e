"""What `python -m bench --only goals` tells of what it has measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.goals.report import GOALS, MEASURES, reached
from bench.topics import Topic

TOPIC = Topic("canal", Path("lines"), Path("parquet"), 2_000, 1_000_000)
TWICE = Topic("canal", Path("more"), Path("parquet"), 4_000, 2_000_000)


def figures(names: str) -> dict[str, dict[str, float]]:
    """Each of them is at what is allowed, the last one a little above."""
    found = {}
    for name in names.split():
        most = GOALS[name].most
        found[name] = {"one": 3 * most, "other": 3.0} if not GOALS[name].unit else {"value": most}
    last = found[names.split()[-1]]
    last.update({key: value * 1.01 for key, value in last.items() if key in ("one", "value")})
    return found


def test_every_goal_is_measured_once():
    assert sorted(" ".join(MEASURES).split()) == sorted(GOALS)


def test_every_goal_is_told_with_its_value(tmp_path):
    asked = []

    def measured(title, module, name, told):
        asked.append((module, name, told))
        return figures(name)

    table = reached(TOPIC, TWICE, tmp_path, measured, scale=0.5)
    told = {"lines": "lines", "twice": "more", "scale": 0.5, "turns": 3}
    assert asked == [("goals", name, told) for name in MEASURES]
    rows = json.loads((tmp_path / "goals.json").read_text())
    assert [row["name"] for row in rows] == list(GOALS)
    assert {tuple(row) for row in rows} == {("name", "value", "goal", "met")}
    missed = {names.split()[-1] for names in MEASURES}
    assert {row["name"] for row in rows if not row["met"]} == missed
    assert all(row["value"] == pytest.approx(row["goal"], rel=0.02) for row in rows)
    assert table.row_count == len(GOALS)
    details = json.loads((tmp_path / "goals-figures.json").read_text())
    assert details["G2 G11"]["G2"] == {"one": 2.25, "other": 3.0}


def test_what_was_measured_before_or_fails_is_left_as_it_is(tmp_path):
    reached(TOPIC, TWICE, tmp_path, lambda *_: figures(_[2]))
    before = json.loads((tmp_path / "goals.json").read_text())
    reached(TOPIC, TWICE, tmp_path, lambda *_: None)
    assert json.loads((tmp_path / "goals.json").read_text()) == before

    def other(_title, _module, names, _told):
        assert names == "G1 G4 G6", "only what was asked for"
        return {name: {"one": 1.0, "other": 8.0} for name in names.split()}

    table = reached(TOPIC, TWICE, tmp_path, other, only=["G4"])
    after = {row["name"]: row for row in json.loads((tmp_path / "goals.json").read_text())}
    assert after["G4"] == {"name": "G4", "value": 0.125, "goal": 0.5, "met": True}
    assert after["G5"] == next(row for row in before if row["name"] == "G5")
    assert table.row_count == 3
