"""The last stage: what the gate let through is sent, and what was sent is recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.errors import ConfigurationError, GateError
from waybill.lake.landing import land, repeated
from waybill.layout import PUBLISHED
from waybill.publish.files import LINE_FEED, NO_LINE, Published, publish_files
from waybill.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.context import StageContext
    from waybill.spec import Migration, Target

STAGE = "publish"


def run_publish(spec: Migration, context: StageContext) -> StageReport:
    """Send the batch to every target and record it.

    A batch without messages puts no file anywhere; it is recorded like any other. A batch that was
    published before is not sent again. A killed run is taken up by the next one:
    files that are there already with the right content stay, and nothing is sent twice.

    Raises:
        GateError: the gate has not let the batch through.
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
        raise GateError(message)
    branch = lake.branch(published, STAGE, batch)
    report = StageReport(STAGE, batch)
    outbox, upto = lake.log("outbox"), judged.cursor["outbox"]
    last = lake.last(published, STAGE)
    after = last.cursor["outbox"] if last is not None else None
    # The cursor stays where it is if the gate let through a batch that brought no messages.
    report.cursor = {"outbox": after if upto is None else upto, "runs": judged.snapshot}
    rows: list[tuple[object, ...]] = []
    if upto is None:
        # Nothing has ever come. The batch is on record all the same: every target, no messages.
        for target in spec.publish:
            _account(Published([], None), target, report)
    else:
        messages = lake.increment(outbox, after, upto).where(F.col("outcome") == "ok")
        for target in spec.publish:
            own = messages.where(F.col("target") == target.label)
            rows += _send(own, target, context, report)
    if rows:
        branch.append(context.spark.createDataFrame(rows, from_arrow_schema(PUBLISHED)))
    land(branch, report, "published", started)
    lake.mark_read(outbox, STAGE, upto)
    return report


def _send(
    messages: DataFrame, target: Target, context: StageContext, report: StageReport
) -> list[tuple[object, ...]]:
    """Send to one target; returns the rows of `published` and adds to the report."""
    if target.files is None:
        message = f"target {target.label}: only files can be published to; say files: {{path: …}}"
        raise ConfigurationError(message)
    sent = publish_files(
        messages, target.files, target.label, target.envelope, context.batch, context.progress
    )
    _account(sent, target, report)
    folder = (sent.manifest or "").rpartition("/")[0]
    return [
        (
            context.batch,
            target.label,
            part.part,
            f"{folder}/{part.file}",
            part.messages,
            part.bytes,
            part.sha256,
            part.first,
            part.last,
            sent.manifest,
        )
        for part in sent.parts
    ]


def _account(sent: Published, target: Target, report: StageReport) -> None:
    messages = sum(part.messages for part in sent.parts)
    tombstones = sum(part.tombstones for part in sent.parts)
    refused = sum(part.refused for part in sent.parts)
    report.rows_in += messages + tombstones + refused
    report.rows_out += messages
    if tombstones:
        report.skipped[NO_LINE] = report.skipped.get(NO_LINE, 0) + tombstones
    if refused:
        report.refused[LINE_FEED] = report.refused.get(LINE_FEED, 0) + refused
        report.warnings.append(
            f"{refused} messages of {target.label} hold a line feed and are in no file: "
            "publish them with layout: parquet"
        )
    report.details[target.label] = {
        "messages": messages,
        "parts": len(sent.parts),
        "bytes": sum(part.bytes for part in sent.parts),
        "manifest": sent.manifest,
    }
