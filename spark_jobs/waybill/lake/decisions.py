"""What people have decided about batches that the gate holds, as `runs` has it.

A decision is a commit of `runs` about one merge: the snapshot of `merges` that it names. A batch
that is merged once more is another merge, which nobody has decided about yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.report import decision_without_rows

if TYPE_CHECKING:
    from waybill.lake.commit import Commit
    from waybill.lake.history import History

HELD = "validate-failed"
"""Stamp of the record of a batch that may not go on."""

APPROVED, DROPPED = DECISIONS = ("approved", "dropped")
"""What can be decided: publish the batch as it is, or merge its changes again with the next."""

STAMPS = {APPROVED: "gate-approved", DROPPED: "gate-dropped"}
"""Stamp of the record of each decision."""

MERGE = "merge"

LONGEST_REASON = 1000
"""Characters: a reason is kept in the summary of a snapshot."""


class RequestedDecision(NamedTuple):
    """A decision that somebody asks for.

    Attributes:
        what: one of `DECISIONS`.
        by: who.
        reason: why.
        verdict: mark of the verdict that they saw (`waybill.validate.result.verdict_mark`), so that
            nobody approves what came up later; None for the newest there is.
    """

    what: str
    by: str
    reason: str
    verdict: str | None = None


class GateDecision(NamedTuple):
    """A decision that was taken.

    Attributes:
        what: one of `DECISIONS`.
        batch: id of the batch.
        by: who.
        time: when, ISO 8601 in UTC.
        reason: why.
        judged: when the gate had said no, ISO 8601 in UTC.
        rules: the critical rules that were not met, each as `rule`, a sentence, and `finding`, a
            mark of the rule with what was found.
    """

    what: str
    batch: str
    by: str
    time: str
    reason: str
    judged: str
    rules: list[dict[str, str]]

    def __str__(self) -> str:
        return f"{self.what} by {self.by} at {self.time}: {self.reason}"


def decision_on(lake: History, merge: Commit, shown: bool = False) -> GateDecision | None:
    """What was decided about a merge that waits; None if nothing was.

    The gate may judge a batch again: an approval from before its last no is about what the gate
    found then, and does not count any more. A drop does, also where the gate was judging then.

    Args:
        lake: the lake.
        merge: the merge.
        shown: whether a table shows it already: a drop that was recorded in the moment in which
            that began came too late, and does not count.
    """
    counts = {STAMPS[APPROVED]} if shown else {*STAMPS.values()}
    for commit in lake.commits(lake.log("runs")):
        if commit.cursor.get("merges") != merge.snapshot:
            continue
        if commit.stage == HELD:
            counts.discard(STAMPS[APPROVED])
        elif commit.stage in counts:
            return GateDecision(**_recorded(commit.report))
    return None


def _recorded(report: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = report["details"]["decision"]
    return decision_without_rows(found)


def shown_in(lake: History, merge: Commit) -> str | None:
    """A table that shows a merge, whether or not its record is visible; None if none does."""
    tables = merge.cursor["branches"]
    return next((t for t in tables if lake.find(t, MERGE, merge.batch) is not None), None)


def was_judged(lake: History, merge: Commit) -> bool:
    """Whether the gate has said no to a merge."""
    runs = lake.commits(lake.log("runs"))
    return any(c.stage == HELD and c.cursor.get("merges") == merge.snapshot for c in runs)


def drop_is_next(lake: History) -> bool:
    """Whether somebody has dropped the held batch, and no batch was judged since.

    The next batch then merges its changes again, and decodes its refused messages again.
    """
    newest = next(lake.commits(lake.log("runs")), None)
    return newest is not None and newest.stage == STAMPS[DROPPED]


def waiting_merge(lake: History, batch: str | None = None) -> Commit | None:
    """The merge that waits for its gate, of a batch or of any; None if there is none."""
    merges = lake.log("merges")
    held = [commit for _, commit in lake.held_commits(merges, MERGE, batch)]
    if not held:
        return None
    shown = {*lake.batches(merges)}
    return next((commit for commit in reversed(held) if commit.batch not in shown), None)
