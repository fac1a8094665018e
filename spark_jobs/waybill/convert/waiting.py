"""How long half an update may wait for its other half, and what then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.durations import seconds_of
from waybill.errors import WaitingError

if TYPE_CHECKING:
    from waybill.context import StageContext
    from waybill.lake import Branch
    from waybill.report import StageReport

REASON = "pair"
"""Class of the refusal of a half that waited too long."""


def end_waiting(context: StageContext, branch: Branch, report: StageReport) -> None:
    """Stop, or put aside, where halves have waited longer than the migration allows.

    Raises:
        WaitingError: some have, and the migration says `stop`.
    """
    rule = context.spec.halves
    limit = time.time() - seconds_of(rule.longest_wait)
    # By snapshot: the branch's name may be gone, which is told where it is written to.
    waiting = context.lake.read(branch.table, branch.head).where("outcome = 'waiting'")
    since = {
        commit.batch: commit.time_ms / 1000
        for commit in context.lake.commits(branch.table)
        if commit.stage == report.stage
    }
    brought = [row.batch for row in waiting.select("batch").distinct().collect()]
    # The commit of a very old batch may have expired; this batch has none yet.
    old = [b for b in brought if b != report.batch and since.get(b, 0) <= limit]
    late = waiting.where(F.col("batch").isin(old)).orderBy("topic", "partition", "offset")
    count = late.count() if old else 0
    if not count:
        return
    first = late.first()
    assert first is not None
    place = f"{first.topic}/{first.partition}/{first.offset}"
    if rule.then == "stop":
        message = (
            f"{count} before images have waited for their after image for longer than "
            f"halves.longest_wait ({rule.longest_wait}), the first at {place}: find out at the "
            "source where the other half is, then set a longer wait, or halves.then: refuse to "
            "put them into quarantine"
        )
        raise WaitingError(message)
    sentence = f"its after image has not come within {rule.longest_wait}"
    for batch in old:
        branch.sql(
            "UPDATE {branch} SET outcome = 'refused', half = NULL, batch = {now}, "
            "reason_kind = {kind}, reason = {why} WHERE outcome = 'waiting' AND batch = {old}",
            {"now": report.batch, "kind": REASON, "why": sentence, "old": batch},
        )
    report.waiting -= count
    report.refused[REASON] = report.refused.get(REASON, 0) + count
    report.warnings.append(f"{count} before images, the first at {place}: {sentence}")
