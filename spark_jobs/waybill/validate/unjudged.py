"""Merged batches that the gate has said nothing about, because a run ended before it could."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.lake.decisions import DROPPED, HELD, MERGE, decision_on, shown_in
from waybill.validate.batch import STAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake import Commit, Lake


def unjudged(lake: Lake, dropping: bool = False) -> list[str]:
    """Ids of the batches that the gate has to judge before the next merge, oldest first.

    These are merges that wait for a verdict, or were approved after it; those of which something is
    visible, so that the gate was ended after its yes; and those that are visible without a record
    of it.

    Args:
        lake: the lake.
        dropping: whether the next merge drops what waits and is not visible in any part.
    """
    merges = lake.log("merges")
    record = list(lake.commits(lake.log("runs")))
    visible = _without_verdict(lake, record, None)
    shown = {c.batch for c in lake.commits(merges)}
    held = {c.cursor["merges"] for c in record if c.stage == HELD}
    waiting = [
        commit
        for commit, _ in lake.held(merges, MERGE)
        if commit.batch not in shown
        if shown_in(lake, commit) is not None
        or not (dropping or _stays(lake, commit, commit.snapshot in held))
    ]
    found = sorted([*visible, *waiting], key=lambda commit: commit.time_ms)
    return [commit.batch for commit in found]


def visible_unjudged(lake: Lake, upto: int | None = None) -> list[Commit]:
    """The visible merges that have no verdict on record, newest first.

    Args:
        lake: the lake.
        upto: the snapshot of `merges` that is the last one to be looked at; None for the newest.
    """
    return _without_verdict(lake, list(lake.commits(lake.log("runs"))), upto)


def _without_verdict(lake: Lake, record: Sequence[Commit], upto: int | None) -> list[Commit]:
    """See `visible_unjudged`; `record` is that of the verdicts, newest first."""
    passed = [c for c in record if c.stage == STAGE]
    judged_upto = passed[0].cursor["merges"] if passed else None
    batches = {c.batch for c in passed}
    return [
        c
        for c in lake.between(lake.log("merges"), judged_upto, upto)
        if c.stage == MERGE
        if c.batch not in batches
    ]


def _stays(lake: Lake, merge: Commit, held: bool) -> bool:
    """Whether a merge that waits is not judged: it was dropped, or was held and nobody approved."""
    decision = decision_on(lake, merge)
    if decision is None:
        return held
    return decision.what == DROPPED
