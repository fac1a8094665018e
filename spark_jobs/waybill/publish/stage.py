"""The last stage: what the gate let through is sent, and what was sent is recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, GateError
from waybill.lake.local_rows import local_rows
from waybill.lake.stage_commit import land, repeated
from waybill.lake_columns import BATCHES, OUTBOX, PUBLISHED
from waybill.publish.files import Sender, publish_files
from waybill.publish.outgoing import groups_by_target, outgoing
from waybill.report import StageReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from waybill.lake import Span
    from waybill.publish.outcome import Published
    from waybill.publish.outgoing import Groups, Outgoing
    from waybill.spec.endpoints import Target
    from waybill.spec.migration import Migration
    from waybill.stage_context import StageContext

STAGE = "publish"


def run_publish(spec: Migration, context: StageContext) -> StageReport:
    """Send the batch to every target and record it.

    A batch without messages sends nothing; it is recorded like any other, and so is one whose
    messages a later batch has sent. A batch that was published before is not sent again. A killed
    run is taken up by the next one: files and transactions that are there already with the right
    content stay, and nothing is sent twice.

    Raises:
        GateError: the gate has not let the batch through.
        ConfigurationError: messages wait for a target that the migration does not name; nothing
            was sent. Or a target does not take a message.
        ConflictError: another run recorded the batch first, or it was published with other
            messages before.
    """
    started = time.monotonic()
    lake, batch = context.lake, context.batch
    published = lake.ensure(lake.log("published"), PUBLISHED)
    done = lake.find(published, STAGE, batch)
    if done is not None:
        context.progress("publish: batch %s was done before", batch)
        return repeated(done, "published")
    judged = lake.find(lake.log("runs"), "validate", batch)
    if judged is None:
        message = (
            f"batch {batch} has not passed the quality gate, so nothing was published: "
            "run the stage validate first"
        )
        raise GateError(message, code=Code.STAGE_MISSING)
    branch = lake.branch(published, STAGE, batch)
    report = StageReport(STAGE, batch, file=context.spec.digest)
    last = lake.last(published, STAGE)
    after = last.cursor["outbox"] if last is not None else None
    span = lake.onward(lake.log("outbox"), after, judged.cursor["outbox"])
    # The cursor stays where it is if the gate let through a batch that brought no messages.
    report.cursor = {"outbox": after if span.upto is None else span.upto, "runs": judged.snapshot}
    rows: list[tuple[object, ...]] = []
    if span.upto is None:
        # Nothing has ever come. The batch is on record all the same: every target, no messages.
        messages = local_rows(context.spark, [], from_arrow_schema(OUTBOX))
    else:
        messages = lake.increment(*span).where(F.col("outcome") == "ok")
    groups = groups_by_target(lake, span)
    _leave_out(messages, groups, spec, report)
    longest = None if groups is None else lake.longest_row(span)
    with lake.batches_by_rows(span):
        for target in spec.publish:
            own = messages.where(F.col("target") == target.label)
            found = outgoing(own, groups, target.label, longest)
            rows += _send(found, target, span, context, report)
    if rows:
        branch.append_rows(rows, PUBLISHED)
    land(branch, report, "published", started)
    lake.mark_read(span.table, STAGE, span.upto)
    return report


def _leave_out(
    messages: DataFrame, groups: Groups | None, spec: Migration, report: StageReport
) -> None:
    """Count the messages of dropped targets, which are sent nowhere.

    The cursor goes past all messages, so those of a target that was renamed would be lost.

    Raises:
        ConfigurationError: messages wait for a target that is neither named nor dropped.
    """
    named = [target.label for target in spec.publish]
    others: Iterable[tuple[str, int]]
    if groups is None:
        others = messages.where(~F.col("target").isin(named)).groupBy("target").count().collect()
    else:
        others = [
            (label, sum(group.rows for group in found))
            for label, found in groups.items()
            if label not in named
        ]
    for label, count in sorted(others):
        if label not in spec.dropped_targets:
            message = (
                f"{counted(count, 'message waits', 'messages wait')} for the target {label!r}, "
                "which the migration no longer names, so nothing was published: restore the name "
                "of the target "
                f"(name: {label}), or write dropped_targets: [{label}] to leave them out"
            )
            raise ConfigurationError(message, code=Code.TARGET_REMOVED)
        report.rows_in += count
        report.skipped[f"for the dropped target {label}"] = count


def _send(
    messages: Outgoing,
    target: Target,
    span: Span,
    context: StageContext,
    report: StageReport,
) -> list[tuple[object, ...]]:
    """Send to one target; returns the rows of `published` and adds to the report."""
    label, progress, lake = target.label, context.progress, context.lake
    batches: dict[str, None] = {}
    for commit in [*lake.commits(span.table)][::-1]:
        # A target that begins with every change gets those of many batches at once.
        batches.update(dict.fromkeys(commit.cursor.get(BATCHES, [commit.batch])))
    if target.kafka is not None:
        # Needed by few, and only here.
        from waybill.publish.kafka.ledger import Owner
        from waybill.publish.kafka.publisher import publish_kafka

        owner = Owner(context.spec.name, label)
        sent = publish_kafka(messages, target.kafka, owner, [*batches], progress)
    elif target.files is not None:
        sender = Sender(context.spec.name, label, target.envelope)
        sent = publish_files(messages, target.files, sender, [*batches], progress)
    else:
        message = f"target {label}: say files: {{path: …}} or kafka: {{topic: …}}"
        raise ConfigurationError(message, code=Code.SPECIFICATION)
    _account(sent, label, report)
    return [(context.batch, label, *part) for part in sent.parts]


def _account(sent: Published, label: str, report: StageReport) -> None:
    report.rows_in += sent.messages + sum(sent.skipped.values())
    report.rows_out += sent.messages
    for reason, count in sent.skipped.items():
        report.skipped[reason] = report.skipped.get(reason, 0) + count
    report.details[label] = sent.details
