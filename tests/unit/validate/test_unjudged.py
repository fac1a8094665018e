"""Which merged batches wait for the gate, and how often its record is read to find that out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.overview.made_lake import MadeLake
from waybill.validate.unjudged import unjudged, visible_unjudged

if TYPE_CHECKING:
    from waybill.lake import Commit
    from waybill.lake.metadata import Metadata


class NotedLake(MadeLake):
    """One that counts how often its tables are asked for their snapshots.

    Attributes:
        asked: names of the tables.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def found(self, table: str) -> Metadata | None:
        self.asked.append(table)
        return super().found(table)

    def held(self, table: str, stage: str, batch: str | None = None) -> list[tuple[Commit, Any]]:
        """As a lake with Spark tells it."""
        return [(commit, None) for _, commit in self.held_commits(table, stage, batch)]

    def forget(self, verdicts: int) -> None:
        """Take the newest verdicts away, as if their runs had been ended before them."""
        name = self.log("runs")
        known = self.tables[name]
        line = known.ancestors(known.refs["main"])
        self.tables[name] = known._replace(refs={"main": line[verdicts].id})


@pytest.fixture
def lake() -> NotedLake:
    made = NotedLake()
    for number in range(5):
        made.run(f"b-{number}", 10)
    return made


def batches(commits: list[Commit]) -> list[str]:
    return [commit.batch for commit in commits]


def test_a_visible_merge_without_a_verdict_is_found_newest_first(lake):
    assert visible_unjudged(lake) == []
    lake.forget(2)
    assert batches(visible_unjudged(lake)) == ["b-4", "b-3"]
    older = next(c for c in lake.commits(lake.log("merges")) if c.batch == "b-3")
    assert batches(visible_unjudged(lake, older.snapshot)) == ["b-3"]
    assert unjudged(lake) == ["b-3", "b-4"]


def test_a_lake_without_any_verdict(lake):
    del lake.tables[lake.log("runs")]
    assert batches(visible_unjudged(lake)) == [f"b-{n}" for n in (4, 3, 2, 1, 0)]


def test_what_waits_is_judged_unless_the_gate_said_no(lake):
    lake.snapshot("b-5", 10)
    lake.convert("b-5")
    branch = lake.merge("b-5")
    assert unjudged(lake) == ["b-5"]
    assert unjudged(lake, dropping=True) == []
    lake.validate("b-5", branch, passes=False)
    assert unjudged(lake) == []


def test_the_record_of_verdicts_is_read_once(lake):
    runs = lake.log("runs")
    for ask in (visible_unjudged, unjudged):
        lake.asked.clear()
        ask(lake)
        assert lake.asked.count(runs) == 1
