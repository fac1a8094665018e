"""What the gate judges: the merge that waits, and the changes and messages that came with it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.errors import Code, WaybillError
from waybill.lake import Span
from waybill.lake.stage_commit import repeated
from waybill.lake_columns import BOOTSTRAP, CHANGE_PLACE
from waybill.made_ids import IDS_WRITTEN
from waybill.report import NEWEST, StageReport, decision_without_rows, without_rows
from waybill.validate.profiles import refused_places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyspark.sql import DataFrame

    from waybill.lake import Branch, Commit, Lake

STAGE = "validate"

LOOKED_BACK = 100
"""The newest changes of tables are looked for in so many batches."""


@dataclass
class Judged:
    """One batch before the gate.

    Attributes:
        merge: the merge's record.
        record: its branch, None if it is visible already.
        changes: the accepted changes since the gate last let something through; none where a
            later batch was let through with them.
        outbox: the messages made from them.
        archive: the messages they were decoded from.
    """

    merge: Commit
    record: Branch | None
    changes: Span
    outbox: Span
    archive: Span


def judged(lake: Lake, batch: str) -> Judged:
    """What there is to judge for a batch.

    Raises:
        WaybillError: the batch was not merged.
    """
    merges, runs = lake.log("merges"), lake.log("runs")
    merge, record = _merge_of(lake, merges, batch)
    if merge is None:
        message = f"batch {batch} is not merged, so there is nothing to judge: run merge first"
        raise WaybillError(message, code=Code.STAGE_MISSING)
    last = lake.last(runs, STAGE)
    before = last.cursor if last is not None else {}
    upto = merge.cursor["changes"]
    # Nothing is left to judge where a later batch was judged first, with the changes of this one.
    changes = lake.onward(lake.log("changes"), before.get("changes"), upto)
    line = [c for c in lake.commits(lake.log("changes")) if c.stage == "convert"]
    encoded, decoded = _encoded_upto(lake, line, upto), _decoded_upto(lake, line, upto)
    outbox = lake.onward(lake.log("outbox"), before.get("outbox"), encoded)
    archive = lake.onward(lake.log("archive"), before.get("archive"), decoded)
    return Judged(merge, record, changes, outbox, archive)


def _merge_of(lake: Lake, merges: str, batch: str) -> tuple[Commit | None, Branch | None]:
    visible = lake.find(merges, "merge", batch)
    if visible is not None:
        return visible, None
    held = lake.held(merges, "merge", batch)
    return held[-1] if held else (None, None)


def _encoded_upto(lake: Lake, line: list[Commit], changes: int | None) -> int | None:
    """Up to where the outbox holds messages of changes up to a snapshot."""
    order = _ages(lake, line)
    age = order.get(changes, 0) if changes is not None else 0
    for commit in lake.commits(lake.log("outbox")):
        if commit.stage == "convert":
            upto = commit.cursor["changes"]["upto"]
            if upto is None or order.get(upto, age) >= age:
                return commit.snapshot
    return None


def _decoded_upto(lake: Lake, line: list[Commit], changes: int | None) -> int | None:
    """Up to where the archive was decoded at a snapshot of `changes`."""
    if not line:
        return None
    age = 0 if changes is None else _ages(lake, line).get(changes, 0)
    upto: int | None = line[min(age, len(line) - 1)].cursor["archive"]["upto"]
    return upto


def _ages(lake: Lake, line: list[Commit]) -> dict[int, int]:
    """How many batches were decoded into `changes` after each of its snapshots.

    A cursor may stand at a snapshot that upkeep made: that one is as old as the batch below it.
    """
    if not line:
        return {}
    metadata = lake.metadata(lake.log("changes"))
    decoded = {commit.snapshot for commit in line}
    ages, age = {}, 0
    for snapshot in metadata.ancestors(metadata.refs.get("main")):
        ages[snapshot.id] = age
        age += snapshot.id in decoded
    return ages


def changes_in(lake: Lake, span: Span) -> DataFrame:
    """The rows that a span of `changes` brought, as its end has them.

    A row that was refused in the span and taken once more in it, by a replay or by a run that
    dropped what was held, has the outcome `replayed`.
    """
    rows = lake.increment(*span, parallel=True)
    if span.after is None or span.empty:
        # The table as it was at the end, where the stage has separated them itself.
        return rows
    here = ["batch", *CHANGE_PLACE]
    still = lake.read(span.table, span.upto).where("outcome = 'refused'").select(*here)
    refused = rows.where("outcome = 'refused'").join(
        still.distinct().withColumn("still", F.lit(True)), here, "left"
    )
    outcome = F.expr("if(still IS NULL, 'replayed', outcome)")
    refused = refused.withColumn("outcome", outcome).select(*rows.columns)
    return rows.where("outcome <> 'refused'").unionByName(refused)


def let_pass(lake: Lake, batch: Judged) -> DataFrame | None:
    """The places of the messages that were refused when the gate last let something through.

    It has judged them: a replay or a full run that refuses them again brings nothing new, and a
    message that nobody can fix would otherwise hold every batch that tries it once more.

    Returns:
        None where the gate has let nothing through yet.
    """
    if batch.changes.after is None:
        return None
    merges = lake.read(lake.log("merges"))
    return refused_places(
        lake.read(batch.changes.table, batch.changes.after),
        merges.where(merges.batch != batch.merge.batch),
    )


def commits_in(lake: Lake, span: Span, stage: str) -> Iterator[Commit]:
    """The commits of a stage in a span, newest first."""
    return (commit for commit in lake.between(*span) if commit.stage == stage)


def newest_changes(lake: Lake, batch: Judged, latest: float) -> dict[str, int]:
    """Source times of the newest changes that tables have, in microseconds since 1970.

    Tables that none of the last `LOOKED_BACK` batches changed are left out: trends show tables that
    the batch changed, or that changed until a few batches ago.

    Args:
        lake: the lake.
        batch: what is judged.
        latest: times after this one (seconds since 1970) are mistakes of a source's clock. They are
            not looked at, or a table would be fresh for ever.
    """
    upto = batch.merge.cursor["changes"]
    found: dict[str, int] = {}
    if upto is not None:
        every = commits_in(lake, Span(lake.log("changes"), None, upto), "convert")
        for commit in islice(every, LOOKED_BACK):
            for name, time in commit.report["details"].get(NEWEST, {}).items():
                if int(time) <= latest * 1e6:
                    found[name] = max(int(time), found.get(name, int(time)))
    return found


def outbox_parts(lake: Lake, span: Span) -> list[tuple[Span, dict[str, Any]]]:
    """A span of the outbox, cut where messages were written with other settings of their ids.

    Returns:
        Each part with these settings by target; none are known of batches of long ago.
    """
    parts: list[tuple[Span, dict[str, Any]]] = []

    def add(upto: int, ids: dict[str, Any]) -> None:
        after = parts[-1][0].upto if parts else span.after
        if parts and parts[-1][1] == ids:
            after = parts.pop()[0].after
        parts.append((span._replace(after=after, upto=upto), ids))

    begun: list[tuple[int, dict[str, Any]]] = []
    for commit in reversed(list(lake.between(*span))):
        ids = commit.report["details"].get(IDS_WRITTEN, {})
        if commit.stage == BOOTSTRAP:
            begun.append((commit.snapshot, ids))
        elif commit.stage == "convert":
            for upto, own in begun:
                # The file may have changed after a target has begun, and before the batch.
                if not own.items() <= ids.items():
                    add(upto, {**ids, **own})
            begun = []
            add(commit.snapshot, ids)
    if not parts:
        return [(span, {})]
    last, ids = parts.pop()
    return [*parts, (last._replace(upto=span.upto), ids)]


def report_of(commit: Commit) -> StageReport:
    """The report that a commit carries."""
    return StageReport.from_dict(commit.report)


def judged_before(commit: Commit) -> StageReport:
    """The report of a batch that was let through before, without rows that it may name."""
    report = repeated(commit, "runs")
    report.warnings = [without_rows(text) for text in report.warnings]
    if "decision" in report.details:
        decided = report.details["decision"]
        report.details = {**report.details, "decision": decision_without_rows(decided)}
    return report


def account(lake: Lake, batch: Judged, rows: dict[str, int]) -> list[str]:
    """Where the stages disagree, one sentence each.

    Args:
        lake: the lake.
        batch: what is judged.
        rows: rows counted in the tables: `changes` and `outbox` by outcome, as `changes ok`.
            What was refused counts as such in the account of the batch that refused it, also where
            a later one has taken it once more (`changes replayed`).
    """
    found = []

    def equal(what: str, one: int, other_what: str, other: int) -> None:
        if one != other:
            found.append(f"{what} is {one}, {other_what} is {other}")

    snapshots = [report_of(c) for c in commits_in(lake, batch.archive, "snapshot")]
    decoded = list(commits_in(lake, batch.changes, "convert"))
    encoded = list(commits_in(lake, batch.outbox, "convert"))
    decodes = [report_of(c) for c in decoded]
    equal(
        "what snapshot wrote into the archive",
        sum(r.rows_out for r in snapshots),
        "what convert read from it",
        sum(r.rows_in for r in decodes),
    )
    accepted = sum(r.rows_out for r in decodes)
    equal("what convert accepted", accepted, "accepted rows of changes", rows["changes ok"])
    equal(
        "what convert refused",
        sum(sum(r.refused.values()) for r in decodes),
        "refused rows of changes",
        rows["changes refused"] + rows["changes replayed"],
    )
    merged = report_of(batch.merge)
    if batch.changes.upto == batch.merge.cursor["changes"]:
        equal("accepted rows of changes", rows["changes ok"], "what merge read", merged.rows_in)
    begun = list(commits_in(lake, batch.outbox, BOOTSTRAP))
    taken = {c.snapshot: c.report["rows_out"] for c in commits_in(lake, batch.changes, BOOTSTRAP)}
    equal(
        "what was read of tables for new targets",
        sum(taken.values()),
        "rows of changes for them",
        rows[f"changes {BOOTSTRAP}"],
    )
    equal(
        "what new targets begin with",
        sum(c.report["rows_in"] for c in begun if "changes" in c.cursor),
        "what was read of tables for them",
        sum(taken.get(c.cursor["changes"], 0) for c in begun if "changes" in c.cursor),
    )
    every = (*encoded, *begun)
    targets = [t for c in every for t in report_of(c).details.get("targets", {}).values()]
    equal(
        "what convert wrote for the targets",
        sum(t["messages"] for t in targets),
        "messages to publish in outbox",
        rows["outbox ok"],
    )
    for report in (*snapshots, *decodes, merged):
        try:
            report.reconcile()
        except WaybillError as error:
            found.append(error.sentence)
    return found
