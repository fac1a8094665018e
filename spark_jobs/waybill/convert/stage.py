"""Stage `convert`: what is new in the archive into `changes`, and from there into `outbox`.

Two tables, two commits. Each consumes its upstream from snapshot to snapshot, so a run that was
stopped between the two does the second one only, whatever batch it belongs to.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from waybill.convert.beginning import (
    BEGUN,
    WAITS,
    newly_begun,
    sentence_of,
    to_begin,
    why_waits,
)
from waybill.convert.decode import Decoding
from waybill.convert.encode import MADE_FROM, NAMES, Encoding
from waybill.convert.mapped_names import EarlierTables
from waybill.convert.plan import ConvertPlan, make_plan
from waybill.counting import counted
from waybill.lake import LOG_PROPERTIES
from waybill.lake.changed_targets import check_targets
from waybill.lake.stage_commit import land, repeated
from waybill.lake_columns import BOOTSTRAP, CHANGES, OUTBOX
from waybill.report import StageReport

if TYPE_CHECKING:
    from collections.abc import Collection

    from waybill.lake import Commit
    from waybill.spec.migration import Migration
    from waybill.stage_context import StageContext

STAGE = "convert"


def run_convert(spec: Migration, context: StageContext) -> StageReport:
    """Decode what the snapshots brought and encode it for every target.

    Raises:
        ConfigurationError: an envelope or its settings are wrong, or messages wait for the gate
            that were written for a target as it was before.
        LossError: a target cannot carry what the source holds, and `on_loss: fail` is set.
        ConflictError: another run moved a table first.
        ReconciliationError: the counts do not add up; nothing was committed.
    """
    started = time.monotonic()
    plan = make_plan(spec)
    lake, batch = context.lake, context.batch
    changes = lake.ensure(lake.log("changes"), CHANGES, ("outcome",), LOG_PROPERTIES)
    outbox = lake.ensure(lake.log("outbox"), OUTBOX, ("target", "outcome"), LOG_PROPERTIES)
    done = lake.find(outbox, STAGE, batch)
    if done is not None:
        context.progress("convert: batch %s was done before", batch)
        return repeated(done, "outbox")
    check_targets(spec, lake)
    decoded = lake.find(changes, STAGE, batch)
    if decoded is None:
        report = _decode(context, plan, changes, started)
    else:
        context.progress("convert: batch %s was decoded before", batch)
        report = repeated(decoded, "changes")
        report.repeated = False
    _encode(context, plan, (changes, outbox), report, started)
    context.progress(
        "convert: %s, %d refused, for %s",
        counted(report.rows_out, "change"),
        sum(report.refused.values()),
        counted(len(plan.writings), "target"),
    )
    return report


def _decode(context: StageContext, plan: ConvertPlan, changes: str, started: float) -> StageReport:
    lake = context.lake
    archive = lake.log("archive")
    report = StageReport(STAGE, context.batch, file=context.spec.digest)
    branch = lake.branch(changes, STAGE, context.batch)
    after = _upto(lake.last(changes, STAGE), "archive")
    upto = lake.newest(archive, after)
    report.details["sizes"] = lake.cut_shuffles(archive, after, upto)
    Decoding(context, plan.reading, branch).run(after, upto, report)
    report.cursor = {"archive": {"after": after, "upto": upto}}
    land(branch, report, "changes", started)
    lake.mark_read(archive, STAGE, upto)
    return report


def _encode(
    context: StageContext,
    plan: ConvertPlan,
    tables: tuple[str, str],
    report: StageReport,
    started: float,
) -> None:
    lake = context.lake
    changes, outbox = tables
    branch = lake.branch(outbox, STAGE, context.batch)
    last = lake.last(outbox, STAGE)
    after = _upto(last, "changes")
    upto = lake.newest(changes, after)
    lake.cut_shuffles(changes, after, upto)
    decoded = [c for c in lake.between(changes, after, upto) if c.stage == STAGE]
    accepted = sum(commit.report["rows_out"] for commit in decoded)
    before = {} if last is None else last.report["details"]
    names = before.get(NAMES, {})
    waits = {
        target.label: sentence_of(target.label, why_waits(lake, target))
        for target in to_begin(context.spec, lake)
    }
    writings = tuple(writing for writing in plan.writings if writing.label not in waits)
    report.details[BEGUN] = [writing.label for writing in writings]
    for begun in newly_begun(lake):
        details = {
            name: begun.report["details"].get(name) for name in ("as_of", "tables", "changes")
        }
        details = {name: value for name, value in details.items() if value is not None}
        report.details.setdefault(BOOTSTRAP, {})[begun.cursor["target"]] = details
        report.warnings += begun.report["warnings"]
        names |= begun.report["details"].get(NAMES, {})
    if waits:
        report.details[WAITS] = list(waits)
        report.warnings += waits.values()
    begun_before, earlier = before.get(BEGUN, ()), EarlierTables(lake, after)

    def had(label: str) -> Collection[str]:
        return earlier.there if label in begun_before else ()

    encoding = Encoding(context, writings, branch, before.get(MADE_FROM, {}), names, had)
    encoding.run(after, upto, accepted, report)
    report.cursor = {**report.cursor, "changes": {"after": after, "upto": upto}}
    land(branch, report, "outbox", started)
    lake.mark_read(changes, "outbox", upto)


def _upto(commit: Commit | None, table: str) -> int | None:
    """Up to where the last batch read a table."""
    if commit is None:
        return None
    upto: int | None = commit.cursor[table]["upto"]
    return upto
