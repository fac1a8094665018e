"""Which targets have begun, and what one that is new waits for."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from waybill.convert.beginning import begun, newly_begun, to_begin, why_waits
from waybill.lake.commit import Commit
from waybill.report import TABLES_HELD
from waybill.spec.mapping import Selection


def commit(snapshot: int, stage: str, cursor: Any = None, **report: Any) -> Commit:
    report_of = {"waiting": 0, "details": {}, **report}
    return Commit(snapshot, f"b{snapshot}", stage, cursor or {}, report_of, snapshot, None)


class Lake:
    """What commits say, of each table the newest first."""

    def __init__(self, *open_ones: int | None, cut: bool = False, **tables: list[Commit]) -> None:
        self.tables = tables
        self.open, self.cut = open_ones, cut
        self.since: str | None = None

    def log(self, name: str) -> str:
        return name

    def commits(self, table: str) -> list[Commit]:
        return self.tables.get(table, [])

    def batches(self, table: str) -> list[str]:
        return [one.batch for one in self.commits(table)]

    def last(self, table: str, stage: str) -> Commit | None:
        return next((one for one in self.commits(table) if one.stage == stage), None)

    def between(self, table: str, after: int | None, upto: int | None) -> list[Commit]:
        return [
            one
            for one in self.commits(table)
            if (after is None or one.snapshot > after) and (upto is None or one.snapshot <= upto)
        ]

    def scan(self, table: str, columns: list[str], where: dict[str, list[str]]) -> list[Any]:
        """What the last merge remembers: where transactions are open, they began behind these."""
        newest = next(one.batch for one in self.commits("merges") if one.stage == "merge")
        assert (table, where) == ("merges", {"kind": ["state"], "batch": [newest]})
        return [{"body": json.dumps({"open": [{"id": "t", "after": n} for n in self.open]})}]

    def changes_since(self) -> str | None:
        return self.since

    def known_since(self, table: str) -> int:
        return int(self.cut)

    def held_commits(self, table: str, stage: str, batch: str | None) -> list[Any]:
        return self.tables.get("held", [])


def encoded(snapshot: int, changes: int, **details: Any) -> Commit:
    return commit(
        snapshot, "convert", {"changes": {"after": None, "upto": changes}}, details=details
    )


def spec(*targets: tuple[str, str]) -> Any:
    publish = [
        SimpleNamespace(label=label, bootstrap=how, select=Selection()) for label, how in targets
    ]
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
    ("upto", "merged", "why"),
    [
        (3, 3, None),
        (3, 4, None),
        (1, 2, None),
        (3, 1, "batch b9 is converted and has not passed the gate"),
    ],
)
def test_the_tables_are_to_be_what_was_written(upto, merged, why):
    merge = commit(7, "merge", {"changes": merged})
    lake: Any = Lake(outbox=[encoded(9, upto)], changes=CHANGES, merges=[merge])
    assert why_waits(lake) == why
    assert why_waits(lake, spec(("a", "archive")).publish[0]) is None


def test_none_begins_with_every_change_when_some_are_deleted():
    lake: Any = Lake(outbox=[encoded(9, 3)], changes=CHANGES)
    lake.since = "2026-11-20 06:00 UTC"
    assert why_waits(lake, spec(("a", "archive")).publish[0]) == (
        "retention has deleted changes of batches that ended before 2026-11-20 06:00 UTC, so it "
        "cannot begin with every change (bootstrap: tables begins with the merged tables)"
    )
    assert why_waits(lake, spec(("a", "tables")).publish[0]) == "no batch has passed the gate yet"


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


@pytest.mark.parametrize(
    ("names", "waits_for"),
    [
        ({"include": ["shop.c", "shop.b*"]}, ["shop.b"]),
        ({"exclude": ["shop.a"]}, ["shop.b"]),
        ({"exclude": ["shop.*"]}, []),
        ({"include": ["*.c"]}, []),
        ({"include": ["shop.A"]}, []),
    ],
)
def test_a_target_does_not_wait_for_a_table_that_it_leaves_out(names, waits_for):
    held = {n: {"since": "b5", "time": 1, "why": "?", "changes": 3} for n in ("shop.a", "shop.b")}
    # The merge counts the changes of such tables as waiting, too.
    merge = commit(7, "merge", {"changes": 3}, waiting=6, details={TABLES_HELD: held})
    lake: Any = Lake(outbox=[encoded(9, 3)], changes=CHANGES, merges=[merge])
    target = spec(("a", "tables")).publish[0]
    target.select = Selection(**names)
    found = why_waits(lake, target)
    assert [one.split()[0] for one in (found or "").split("; ") if one] == waits_for


@pytest.mark.parametrize(
    ("open_ones", "waiting", "transactions"),
    [
        # What three merges let wait, the newest first; they had read up to 3, 2 and 1.
        ([], (0, 0, 0), 0),
        ([], (5, 5, 5), 0),
        ([2], (1, 0, 0), 1),
        ([2, 1], (0, 1, 0), 2),
        ([1], (0, 0, 0), 0),
        # Before it began, changes waited for others.
        ([2], (0, 1, 1), 0),
        ([1], (0, 0, 1), 0),
        ([None], (0, 0, 1), 1),
        ([None, 2], (0, 0, 0), 0),
    ],
)
def test_changes_that_wait_since_before_the_last_batch(open_ones, waiting, transactions):
    merges = [
        commit(9 - number, "merge", {"changes": 3 - number}, waiting=rows)
        for number, rows in enumerate(waiting)
    ]
    lake: Any = Lake(*open_ones, outbox=[encoded(9, 3)], changes=CHANGES, merges=merges)
    why = {
        0: None,
        1: "changes wait for the end of 1 transaction",
        2: "changes wait for the end of 2 transactions",
    }
    assert why_waits(lake) == why[transactions]
    if None in open_ones:
        lake.cut = True
        assert (why_waits(lake) or "").startswith("changes wait"), "what is gone may have waited"


def test_a_transaction_that_began_before_what_is_known_may_have_changes():
    merge = commit(7, "merge", {"changes": 3})
    lake: Any = Lake(0, cut=True, outbox=[encoded(9, 3)], changes=CHANGES, merges=[merge])
    assert why_waits(lake) == "changes wait for the end of 1 transaction"


def test_nothing_was_merged_or_something_is_held():
    lake: Any = Lake(outbox=[encoded(9, 1)], changes=CHANGES)
    assert why_waits(lake) == "no batch has passed the gate yet"
    lake.tables["held"] = [("branch", commit(8, "merge"))]
    assert why_waits(lake) == "batch b8 waits for the gate"
