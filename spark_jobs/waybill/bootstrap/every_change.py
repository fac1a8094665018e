"""Lets a new target begin with every change that the lake has, in one commit of the outbox.

Batches keep their order: what a batch brought stands under its own name with that of the run behind
it, because a topic's changes are in order inside a batch, and batches among each other.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.batches.message_rows import CHANGE
from waybill.convert.beginning import STAGE, last_encoded
from waybill.convert.decode import schemas_in
from waybill.convert.encode import Encoding
from waybill.counting import counted
from waybill.lake.local_rows import local_rows
from waybill.lake.newest_rows import newest_rows
from waybill.lake.rebuilt_rows import RebuiltTables
from waybill.lake.stage_commit import land
from waybill.lake_columns import BATCHES, BEFORE_BATCH, BOOTSTRAP, CHANGE_PLACE
from waybill.report import StageReport

if TYPE_CHECKING:
    from waybill.convert.plan import EncodePlan
    from waybill.stage_context import StageContext


def begin_with_changes(context: StageContext, writing: EncodePlan) -> None:
    """Write all changes up to the last batch that was written for the other targets.

    Where a full run or a reload has brought a change again, it is written once, as it came last.

    Args:
        context: of the stage.
        writing: the target.

    Raises:
        ConflictError: another run moved the outbox first.
        ReconciliationError: the messages do not account for every change.
    """
    started, lake = time.monotonic(), context.lake
    encoded = last_encoded(lake)
    assert encoded is not None, "to_begin has found it"
    upto, batch = encoded.cursor["changes"]["upto"], f"{context.batch}{BEFORE_BATCH}"
    log, label = lake.log("changes"), writing.label
    report = StageReport(BOOTSTRAP, batch, file=context.spec.digest)
    branch = lake.branch(lake.log("outbox"), BOOTSTRAP, batch)
    report.cursor = {"target": label, BATCHES: []}
    report.details = {"as_of": encoded.batch, "changes": 0}
    if upto is not None:
        lake.cut_shuffles(log, None, upto)
        every = lake.read(log, upto)
        accepted = RebuiltTables(lake, upto).counting(every).where("outcome = 'ok'")
        known = [c.batch for c in lake.commits(log) if c.stage == STAGE][::-1]
        named = {row.batch for row in accepted.select("batch").distinct().collect()}
        # Batches that upkeep has expired are older than those that are on record.
        ordered = [*sorted(named.difference(known)), *(name for name in known if name in named)]
        context.progress(
            "convert: the target %s begins with the changes of %s",
            *(label, counted(len(ordered), "batch", "batches")),
        )
        ages = list(zip(ordered, range(len(ordered)), strict=True))
        places = local_rows(context.spark, ages, "batch string, _age int")
        newest = newest_rows(accepted, CHANGE_PLACE, lake.commits(log))
        inside = [F.col(name) for name in CHANGE_PLACE]
        rows = newest.join(F.broadcast(places), "batch").orderBy("_age", *inside)
        encoding = Encoding(replace(context, batch=batch), (writing,), branch, {})
        schemas = schemas_in(every.where("outcome = 'schema'"))
        encoding.begin_with_every_change(rows.select(*CHANGE.names, "batch"), schemas, report)
        report.cursor[BATCHES] = [f"{name}-{batch}" for name in ordered]
        report.details["changes"] = report.rows_in
    land(branch, report, "outbox", started)
