"""Which targets have begun, and what one that is new waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waybill.convert.beginning import begun, newly_begun, to_begin, why_waits
from waybill.lake.commit import Commit
from waybill.report import TABLES_HELD


def commit(snapshot: int, stage: str, cursor: Any = None, **report: Any) -> Commit:
    report_of = {"waiting": 0, "details": {}, **report}
    return Commit(snapshot, f"b{snapshot}", stage, cursor or {}, report_of, snapshot, None)


class Lake:
    """What commits say, of each table the newest first."""

    def __init__(self, **tables: list[Commit]) -> None:
        self.tables = tables

    def log(self, name: str) -> str:
        return name

    def commits(self, table: str) -> list[Commit]:
        return self.tables.get(table, [])

    def last(self, table: str, stage: str) -> Commit | None:
        return next((one for one in self.commits(table) if one.stage == stage), None)

    def between(self, table: str, after: int | None, upto: int | None) -> list[Commit]:
        return [
            one
            for one in self.commits(table)
            if (after is None or one.snapshot > after) and (upto is None or one.snapshot <= upto)
        ]

    def held_commits(self, table: str, stage: str, batch: str | None) -> list[Any]:
        return self.tables.get("held", [])


def encoded(snapshot: int, changes: int, **details: Any) -> Commit:
    return commit(
        snapshot, "convert", {"changes": {"after": None, "upto": changes}}, details=details
    )


def spec(*targets: tuple[str, str]) -> Any:
    publish = [SimpleNamespace(label=label, bootstrap=how) for label, how in targets]
    return SimpleNamespace(publish=publish)


def labels(found: list[Any]) -> list[str]:
    return [target.label for target in found]


def test_targets_of_the_last_batch_and_those_that_began_since_have_begun():
    begins = [commit(n, "bootstrap", {"target": label}) for n, label in ((5, "new"), (2, "old"))]
    lake: Any = Lake(outbox=[begins[0], encoded(4, 1, begun=["a", "b"]), begins[1]])
    assert begun(lake) == {"a", "b", "new"}
    assert newly_begun(lake) == [begins[0]]
    targets = spec(("a", "tables"), ("new", "tables"), ("old", "tables"), ("c", "none"))
    # One that was taken out meanwhile begins again.
    assert labels(to_begin(targets, lake)) == ["old"]


def test_batches_of_before_tell_the_targets_that_they_wrote_for():
    lake: Any = Lake(outbox=[encoded(3, 1), encoded(2, 1, targets={"b": {}}), encoded(1, 1)])
    assert labels(to_begin(spec(("a", "tables"), ("b", "archive")), lake)) == ["a"]


def test_at_first_all_targets_begin_with_the_source():
    assert to_begin(spec(("a", "tables")), Lake()) == []  # type: ignore[arg-type]


CHANGES = [commit(4, "upkeep"), commit(3, "convert"), commit(2, "bootstrap"), commit(1, "convert")]


@pytest.mark.parametrize(
    ("upto", "merged", "waiting", "why"),
    [
        (3, 3, 0, None),
        (3, 4, 0, None),
        (1, 2, 0, None),
        (3, 1, 0, "batch b9 is converted and has not passed the gate"),
        (3, 3, 1, "1 change waits for the end of a transaction"),
        (3, 3, 5, "5 changes wait for the end of a transaction"),
    ],
)
def test_the_tables_are_to_be_what_was_written(upto, merged, waiting, why):
    merge = commit(7, "merge", {"changes": merged}, waiting=waiting)
    lake: Any = Lake(outbox=[encoded(9, upto)], changes=CHANGES, merges=[merge])
    assert why_waits(lake) == why
    assert why_waits(lake, spec(("a", "archive")).publish[0]) is None


def test_each_table_that_waits_is_named_with_its_reason():
    held = {
        "shop.a": {"since": "b5", "time": 1, "why": "WB-4001: set `retype: rewrite`", "changes": 3},
        "shop.b": {"since": "b6", "time": 2, "why": "WB-4007: set `add: take`", "changes": 1},
    }
    merge = commit(7, "merge", {"changes": 3}, details={TABLES_HELD: held})
    lake: Any = Lake(outbox=[encoded(9, 3)], changes=CHANGES, merges=[merge])
    assert why_waits(lake) == (
        "shop.a waits for a decision since batch b5: WB-4001: set `retype: rewrite`; "
        "shop.b waits for a decision since batch b6: WB-4007: set `add: take`"
    )


def test_nothing_was_merged_or_something_is_held():
    lake: Any = Lake(outbox=[encoded(9, 1)], changes=CHANGES)
    assert why_waits(lake) == "no batch has passed the gate yet"
    lake.tables["held"] = [("branch", commit(8, "merge"))]
    assert why_waits(lake) == "batch b8 waits for the gate"
