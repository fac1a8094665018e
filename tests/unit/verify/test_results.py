"""When results are recorded, and from where the next verification of what changed goes on."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.verify.test_outcomes import result
from waybill.verify import results
from waybill.verify.newest import VERIFIED
from waybill.verify.results import STAGE, TABLES_OF_A_COMMIT, Recording, TableResult, verified_up_to


class Log:
    """The table of verifications, as a list of its commits."""

    def __init__(self) -> None:
        self.stamped: list[Any] = []
        self.rows: list[Any] = []
        self.now = 0.0

    def log(self, name: str) -> str:
        return name

    def ensure(self, name: str, *_: object) -> str:
        return name

    def exists(self, _: str) -> bool:
        return True

    def commits(self, _: str) -> Any:
        return reversed(self.stamped)

    def last(self, _: str, stage: str) -> Any:
        return next((commit for commit in self.commits("") if commit.stage == stage), None)

    def branch(self, *_: object) -> Any:
        return SimpleNamespace(append_rows=lambda rows, _: self.rows.extend(rows))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Log()

    def land(_: object, report: Any, *__: object) -> None:
        commit = SimpleNamespace(stage=STAGE, cursor=report.cursor, tables=[*report.details])
        made.stamped.append(commit)

    monkeypatch.setattr(results, "land", land)
    return made


def verified(table: str, changes: int | None = None) -> TableResult:
    return result(table, VERIFIED)._replace(changes=changes)


def recording(log: Any) -> Recording:
    return Recording(log, "v", lambda: log.now)


def test_many_small_tables_make_few_commits(log):
    kept = recording(log)
    for number in range(2 * TABLES_OF_A_COMMIT + 1):
        table = f"shop.t{number}"
        kept.add([verified(table), verified(table)._replace(method="counts")])
    assert [len(commit.tables) for commit in log.stamped] == [TABLES_OF_A_COMMIT] * 2
    kept.finish()
    kept.finish()
    assert [len(commit.tables) for commit in log.stamped] == [TABLES_OF_A_COMMIT] * 2 + [1]


def test_what_is_known_of_the_keys_is_kept_for_whoever_makes_rows_anew(log):
    kept = recording(log)
    kept.add([verified("shop.a"), verified("shop.b")._replace(by_key=False, one_text=False)])
    kept.finish()
    bodies = [json.loads(row[-1]) for row in log.rows]
    assert [(one["by_key"], one["one_text"]) for one in bodies] == [(True, True), (False, False)]


def test_what_took_long_is_recorded_at_once(log):
    kept = recording(log)
    for number in range(4):
        log.now += 31
        kept.add([verified(f"shop.t{number}")])
    assert [commit.tables for commit in log.stamped] == [
        ["shop.t0", "shop.t1"],
        ["shop.t2", "shop.t3"],
    ]


def test_a_commit_says_nothing_of_tables_that_it_is_not_about(log):
    # A lake of before: its newest commit tells it of all tables.
    before = {"shop.a": 1, "shop.b": 2, "shop.c": 3}
    log.stamped.append(SimpleNamespace(stage=STAGE, cursor={"changes": before}))
    for table, changes in (("shop.a", 7), ("shop.b", None), ("shop.d", 8)):
        kept = recording(log)
        kept.add([verified(table, changes)])
        kept.finish()
    cursors = [commit.cursor["changes"] for commit in log.stamped]
    assert cursors == [before, {"shop.a": 7}, {}, {"shop.d": 8}]
    known = {name: verified_up_to(log, f"shop.{name}") for name in "abcde"}
    assert known == {"a": 7, "b": 2, "c": 3, "d": 8, "e": None}
