"""What the gate judges: the merge that waits, and the changes and messages that came with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waybill.errors import WaybillError
from waybill.lake import Span
from waybill.report import StageReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.lake import Branch, Commit, Lake

STAGE = "validate"


@dataclass
class Judged:
    """One batch before the gate.

    Attributes:
        merge: the merge's record.
        record: its branch, None if it is visible already.
        changes: the accepted changes since the gate last let something through.
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
        raise WaybillError(message)
    last = lake.last(runs, STAGE)
    before = last.cursor if last is not None else {}
    upto = merge.cursor["changes"]
    changes = Span(lake.log("changes"), before.get("changes"), upto)
    line = [c for c in lake.commits(lake.log("changes")) if c.stage == "convert"]
    outbox = Span(lake.log("outbox"), before.get("outbox"), _encoded_upto(lake, line, upto))
    archive = Span(lake.log("archive"), before.get("archive"), _decoded_upto(line, upto))
    return Judged(merge, record, changes, outbox, archive)


def _merge_of(lake: Lake, merges: str, batch: str) -> tuple[Commit | None, Branch | None]:
    visible = lake.find(merges, "merge", batch)
    if visible is not None:
        return visible, None
    held = lake.held(merges, "merge", batch)
    return held[0] if held else (None, None)


def _encoded_upto(lake: Lake, line: list[Commit], changes: int | None) -> int | None:
    """Up to where the outbox holds messages of changes up to a snapshot."""
    order = {commit.snapshot: age for age, commit in enumerate(line)}
    age = order.get(changes, 0) if changes is not None else 0
    for commit in lake.commits(lake.log("outbox")):
        if commit.stage == "convert":
            upto = commit.cursor["changes"]["upto"]
            if upto is None or order.get(upto, age) >= age:
                return commit.snapshot
    return None


def _decoded_upto(line: list[Commit], changes: int | None) -> int | None:
    """Up to where the archive was decoded at a snapshot of `changes`."""
    known = [commit.snapshot for commit in line]
    age = known.index(changes) if changes in known else 0
    if not line:
        return None
    upto: int | None = line[age].cursor["archive"]["upto"]
    return upto


def commits_in(lake: Lake, span: Span, stage: str) -> Iterator[Commit]:
    """The commits of a stage in a span, newest first."""
    inside = span.upto is None
    for commit in lake.commits(span.table):
        inside = inside or commit.snapshot == span.upto
        if commit.snapshot == span.after:
            return
        if inside and commit.stage == stage:
            yield commit


def report_of(commit: Commit) -> StageReport:
    """The report that a commit carries."""
    return StageReport.from_dict(commit.report)


def account(lake: Lake, batch: Judged, rows: dict[str, int]) -> list[str]:
    """Where the stages disagree, one sentence each.

    Args:
        lake: the lake.
        batch: what is judged.
        rows: rows counted in the tables: `changes` and `outbox` by outcome, as `changes ok`.
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
    for number in ("refused",):
        told = sum(sum(getattr(r, number).values()) for r in decodes)
        equal(
            f"what convert {number}", told, f"{number} rows of changes", rows[f"changes {number}"]
        )
    merged = report_of(batch.merge)
    equal("accepted rows of changes", rows["changes ok"], "what merge read", merged.rows_in)
    targets = [t for c in encoded for t in report_of(c).details.get("targets", {}).values()]
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
            found.append(str(error))
    return found
