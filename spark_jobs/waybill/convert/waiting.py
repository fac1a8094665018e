"""How long half an update may wait for its other half, and what then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.counting import counted
from waybill.errors import Code, WaitingError
from waybill.lake_columns import CHANGE_PLACE, CHANGES
from waybill.spark_tasks.worker_startup import light
from waybill.spec.durations import seconds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.lake import Branch
    from waybill.lake.row_sizes import RowSizes
    from waybill.report import StageReport
    from waybill.spec.migration import Halves
    from waybill.stage_context import StageContext

REASON = "pair"
"""Class of the refusal of a half that waited too long."""

_ENDED = "_ended"


def end_waiting(
    context: StageContext, branch: Branch, sizes: RowSizes, report: StageReport
) -> None:
    """Stop, put aside or take, where halves have waited longer than the migration allows.

    With `then: take` and no time to wait, after images are taken at once: the topic's updates have
    no before image. What a reload brings again does not wait once more.

    Args:
        context: the stage.
        branch: of `changes`, with what the batch brought.
        sizes: gets those of the rows that are written.
        report: gets the counts.

    Raises:
        WaitingError: some have, and the migration says `stop`.
    """
    rule = context.spec.halves
    limit = time.time() - seconds_of(rule.longest_wait)
    # By snapshot: the branch's name may be gone, which is reported where it is written to.
    waiting = context.lake.read(branch.table, branch.head).where("outcome = 'waiting'")
    since = {
        commit.batch: commit.time_ms / 1000
        for commit in context.lake.commits(branch.table)
        if commit.stage == report.stage
    }
    brought = [row.batch for row in waiting.select("batch").distinct().collect()]
    # The commit of a very old batch may have expired; this batch has none yet.
    old = [b for b in brought if b != report.batch and since.get(b, 0) <= limit]
    is_late = F.col("batch").isin(old)
    if rule.then == "take" and not seconds_of(rule.longest_wait):
        is_late |= F.col("half") == "after"
    if context.options.mode == "reload" and rule.then != "stop":
        waiting = _with_ended(waiting, context, branch)
        is_late |= F.col(_ENDED) & (F.col("batch") == report.batch)
    rest = waiting.where(~is_late).select(*CHANGES.names)
    late = waiting.where(is_late).select(*CHANGES.names).orderBy("topic", "partition", "offset")
    counts = {row.half: row["count"] for row in late.groupBy("half").count().collect()}
    count = sum(counts.values())
    if not count:
        return
    first = late.first()
    assert first is not None
    place = f"{first.topic}/{first.partition}/{first.offset}"
    what_waits = " and ".join(
        counted(counts[half], f"{half} image") for half in ("before", "after") if half in counts
    )
    if rule.then == "stop":
        message = (
            f"{what_waits} {'has' if count == 1 else 'have'} waited for the other half of "
            f"{'its' if count == 1 else 'their'} update for longer than "
            f"halves.longest_wait ({rule.longest_wait}), the first at {place}: find out at the "
            "source where the other half is, then set a longer wait, or halves.then: refuse to "
            "put them into quarantine, or halves.then: take to take after images as updates "
            "without before image"
        )
        raise WaitingError(message, code=Code.UPDATE_HALF_OVERDUE)
    taken = counts.get("after", 0) if rule.then == "take" else 0
    _put_aside(branch, _ended(late, rule, report.batch), rest, sizes)
    report.waiting -= count
    report.rows_out += taken
    if count > taken:
        report.refused[REASON] = report.refused.get(REASON, 0) + count - taken
    if taken < count or seconds_of(rule.longest_wait):
        what = "the other half has not come within " + rule.longest_wait
        without = counted(taken, "after image is an update", "after images are updates")
        done = f"; {without} without before image" if taken else ""
        report.warnings.append(f"{what_waits}, the first at {place}: {what}{done}")


def _with_ended(waiting: DataFrame, context: StageContext, branch: Branch) -> DataFrame:
    """Waiting rows, each with whether batches of before have ended the wait of the same message.

    A reload brings it again, and it has waited long enough.
    """
    log = context.lake.read(branch.table, branch.base)
    alone = "outcome = 'ok' AND operation = 'update' AND before IS NULL"
    refused = f"outcome IN ('refused', 'replayed') AND reason_kind = '{REASON}'"
    ended = log.where(f"({alone}) OR ({refused})").select(*CHANGE_PLACE).distinct()
    ended = ended.withColumn(_ENDED, F.lit(True))
    return waiting.join(ended, [*CHANGE_PLACE], "left").fillna(False, [_ENDED])


def _ended(late: DataFrame, rule: Halves, batch: str) -> DataFrame:
    """Late halves as what becomes of them."""
    is_taken = (F.col("half") == "after") & F.lit(rule.then == "take")
    other = F.when(F.col("half") == "before", "after").otherwise("before")
    sentence = F.concat(
        F.lit("its "), other, F.lit(f" image has not come within {rule.longest_wait}")
    )
    nothing = F.lit(None)
    return late.withColumns(
        {
            "outcome": F.when(is_taken, "ok").otherwise("refused"),
            "half": nothing.cast("string"),
            "batch": F.lit(batch),
            "reason_kind": F.when(~is_taken, REASON),
            "reason": F.when(~is_taken, sentence),
            "raw": F.when(~is_taken, F.col("raw")),
            "raw_key": F.when(~is_taken, F.col("raw_key")),
        }
    )


def _put_aside(branch: Branch, late: DataFrame, rest: DataFrame, sizes: RowSizes) -> None:
    """Write late halves as rows of this batch, and leave the others waiting.

    They are appended: stages, and the gate's account, read of a batch what it appended.
    """
    branch.append(late.mapInArrow(light(sizes.of), from_arrow_schema(CHANGES)))
    if rest.isEmpty():
        branch.delete_partition("outcome", "waiting")
    else:
        branch.overwrite(rest, F.col("outcome") == "waiting")
