"""Which targets have begun, and whether a new one can begin with what the lake holds.

A target that begins in the middle of a migration gets the state of the merged tables, and then
every change that this state does not have. That is exact where the tables hold the very changes
that were written for the other targets by then: nothing waits for the gate, or for the end of a
transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from waybill.counting import counted
from waybill.lake.decisions import MERGE, waiting_merge
from waybill.lake_columns import BOOTSTRAP, MERGE_STATE
from waybill.mapping.rules import Rules
from waybill.report import TABLES_HELD
from waybill.spec.mapping import rules_of

if TYPE_CHECKING:
    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.spec.endpoints import Target
    from waybill.spec.migration import Migration

BEGUN = "begun"
"""The detail of a report that names the targets that get what comes from then on."""
WAITS = "waits_to_begin"
"""The detail that names those that get nothing yet, as what they begin with is unknown."""

STAGE = "convert"


def last_encoded(lake: History) -> Commit | None:
    """The last batch that was written for the targets."""
    return lake.last(lake.log("outbox"), STAGE)


def begun(lake: History) -> set[str]:
    """Names of the targets that have begun and were not taken out of the migration since."""
    found: set[str] = set()
    for commit in lake.commits(lake.log("outbox")):
        if commit.stage == BOOTSTRAP:
            found.add(commit.cursor["target"])
        elif commit.stage == STAGE:
            labels = commit.report["details"].get(BEGUN)
            if labels is not None:
                return found.union(labels)
            # A batch of before there were bootstraps names those that it wrote anything for.
            found.update(commit.report["details"].get("targets", {}))
    return found


def newly_begun(lake: History) -> list[Commit]:
    """What was written for targets that have begun since the last batch, the first one first."""
    last = last_encoded(lake)
    came = lake.between(lake.log("outbox"), None if last is None else last.snapshot, None)
    return [commit for commit in came if commit.stage == BOOTSTRAP][::-1]


def to_begin(spec: Migration, lake: History) -> list[Target]:
    """The targets that are to begin with what the lake holds and have not done so.

    None where nothing was written for any target yet: all of them begin with the source.
    """
    asked = [target for target in spec.publish if target.bootstrap != "none"]
    if not asked or last_encoded(lake) is None:
        return []
    known = begun(lake)
    return [target for target in asked if target.label not in known]


def why_waits(lake: History, target: Target | None = None) -> str | None:
    """Why a target cannot begin with the merged tables now, half a sentence; None if it can.

    Args:
        lake: the lake.
        target: the target; None for one that takes every table. One that begins with changes can
            do so while the lake has all of them, and none waits for a table that it leaves out.
    """
    if target is not None and target.bootstrap == "archive":
        since = lake.changes_since()
        if since is None:
            return None
        return (
            f"retention has deleted changes of batches that ended before {since}, so it cannot "
            "begin with every change (bootstrap: tables begins with the merged tables)"
        )
    held = waiting_merge(lake)
    if held is not None:
        return f"batch {held.batch} waits for the gate"
    encoded, merged = last_encoded(lake), lake.last(lake.log("merges"), "merge")
    if encoded is None or merged is None:
        return "no batch has passed the gate yet"
    written = _decoded(lake, encoded.cursor["changes"]["upto"])
    if written != _decoded(lake, merged.cursor["changes"]):
        return f"batch {encoded.batch} is converted and has not passed the gate"
    taken = Rules() if target is None else rules_of(target.select, [])
    tables = merged.report["details"].get(TABLES_HELD, {})
    waiting = [
        f"{name} waits for a decision since batch {held['since']}: {held['why']}"
        for name, held in tables.items()
        if taken.chooses(name)
    ]
    if waiting:
        return "; ".join(waiting)
    open_ones = _with_changes(lake, merged)
    if open_ones:
        return f"changes wait for the end of {counted(open_ones, 'transaction')}"
    return None


def _with_changes(lake: History, merged: Commit) -> int:
    """How many transactions are open after a merge, if changes may wait for the end of one.

    A later batch may have brought none of those changes, so that its report counts none.
    """
    wanted = {"kind": [MERGE_STATE], "batch": [merged.batch]}
    (row,) = lake.scan(lake.log("merges"), ["body"], wanted)
    open_ones = json.loads(row["body"]).get("open", [])
    # Up to where the merges before those that met them had read.
    begins = {one["after"] for one in open_ones}
    for commit in lake.commits(lake.log("merges")):
        if not begins:
            return 0
        if commit.stage == MERGE:
            begins.discard(commit.cursor["changes"])
            if begins and commit.report["waiting"]:
                return len(open_ones)
    # Of merges that upkeep has expired nobody knows whether changes waited.
    cut = begins - {None} or (begins and lake.known_since(lake.log("merges")))
    return len(open_ones) if cut else 0


def sentence_of(label: str, why: str | None) -> str:
    """What is said of a target that gets nothing yet."""
    reason = why or "what it begins with was not written"
    return (
        f"the target {label} has not begun and gets nothing yet: {reason}; the next batch tries "
        "again, and nothing is lost"
    )


def _decoded(lake: History, upto: int | None) -> int | None:
    """The last batch that `changes` had decoded at a snapshot: who reads may stand behind it."""
    if upto is None:
        return None
    line = lake.between(lake.log("changes"), None, upto)
    return next((commit.snapshot for commit in line if commit.stage == STAGE), None)
