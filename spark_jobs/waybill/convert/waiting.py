"""How long half an update may wait for its other half, and what then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.durations import seconds_of
from waybill.errors import WaitingError
from waybill.layout import CHANGES
from waybill.task_start import light

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.context import StageContext
    from waybill.lake import Branch
    from waybill.lake.row_sizes import RowSizes
    from waybill.report import StageReport

REASON = "pair"
"""Class of the refusal of a half that waited too long."""


def end_waiting(
    context: StageContext, branch: Branch, sizes: RowSizes, report: StageReport
) -> None:
    """Stop, or put aside, where halves have waited longer than the migration allows.

    Args:
        context: the stage.
        branch: of `changes`, with what the batch brought.
        sizes: is told of the rows that are written.
        report: gets the counts.

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
    told = {
        "outcome": F.lit("refused"),
        "half": F.lit(None).cast("string"),
        "batch": F.lit(report.batch),
        "reason_kind": F.lit(REASON),
        "reason": F.lit(sentence),
    }
    _put_aside(branch, late.withColumns(told), waiting.where(~F.col("batch").isin(old)), sizes)
    report.waiting -= count
    report.refused[REASON] = report.refused.get(REASON, 0) + count
    report.warnings.append(f"{count} before images, the first at {place}: {sentence}")


def _put_aside(branch: Branch, late: DataFrame, rest: DataFrame, sizes: RowSizes) -> None:
    """Write late halves as refused rows of this batch, and leave the others waiting.

    They are appended: stages, and the gate's account, read of a batch what it appended.
    """
    refused = late.mapInArrow(light(sizes.of), from_arrow_schema(CHANGES))
    branch.append(refused)
    if rest.isEmpty():
        branch.delete_partition("outcome", "waiting")
    else:
        branch.overwrite(rest, F.col("outcome") == "waiting")
