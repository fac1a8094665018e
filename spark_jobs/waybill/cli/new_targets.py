"""What commands say of targets that are to begin with what the lake holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from waybill.cli.findings import NOTE, OK, Finding
from waybill.cli.lake_session import without_spark
from waybill.convert.beginning import STAGE, sentence_of, to_begin, why_waits
from waybill.counting import counted
from waybill.lake_columns import BOOTSTRAP
from waybill.mapping.rules import fits
from waybill.merge.position import position_of

if TYPE_CHECKING:
    from waybill.convert.plan import ConvertPlan
    from waybill.lake.history import History
    from waybill.mapping.rules import Rules
    from waybill.report import StageReport
    from waybill.spec.migration import Migration


def begun_lines(report: StageReport) -> list[str]:
    """A line for each target that has begun with the batch of a stage's report."""
    lines = []
    for label, begun in report.details.get(BOOTSTRAP, {}).items():
        if "changes" in begun:
            changes = counted(begun["changes"], "change")
            lines.append(f"{label} begins with {changes} up to batch {begun['as_of']}")
            continue
        rows = sum(counts["rows"] for counts in begun["tables"].values())
        deleted = sum(counts.get("deleted", 0) for counts in begun["tables"].values())
        also = f" and {counted(deleted, 'deleted key')}" if deleted else ""
        lines.append(
            f"{label} begins with {counted(rows, 'row')}{also} of "
            f"{counted(len(begun['tables']), 'table')} as of batch {begun['as_of']}"
        )
    return lines


def waiting_targets(spec: Migration, lake: History) -> list[dict[str, Any]]:
    """The targets that get nothing yet, and why; those that begin with the next batch, too."""
    targets = to_begin(spec, lake)
    found = []
    for target in targets:
        why, sentence = (
            why_waits(lake, target),
            f"the target {target.label} begins with the next batch",
        )
        if why is not None:
            sentence = sentence_of(target.label, why)
        found.append({"target": target.label, "waits_for": why, "sentence": sentence})
    return found


def check_beginnings(spec: Migration, plan: ConvertPlan) -> Iterator[Finding]:
    """What each new target will begin with."""
    if not any(target.bootstrap != "none" for target in spec.publish):
        return
    with without_spark(spec) as lake:
        if lake is None:
            text = "only a run can read this catalog; its report says what new targets begin with"
            yield Finding("lake", NOTE, text)
            return
        targets = {target.label: target for target in to_begin(spec, lake)}
        for writing in plan.writings:
            target = targets.get(writing.label)
            if target is None:
                continue
            about, why = f"target {writing.label}", why_waits(lake, target)
            if why is not None:
                yield Finding(about, NOTE, sentence_of(writing.label, why))
                continue
            if target.bootstrap == "archive":
                rows = _changes(lake)
                text = f"begins with every change that the lake has, {counted(rows, 'change')}"
                yield Finding(about, OK, text, {"changes": rows})
                continue
            sizes = _sizes(lake, writing.mapping)
            rows = sum(sizes.values())
            text = (
                f"begins with {counted(len(sizes), 'table')} as of batch {_newest(lake)}, about "
                f"{counted(rows, 'row')}, and continues with later changes"
            )
            yield Finding(about, OK, text, {"tables": sizes})


def _changes(lake: History) -> int:
    """How many changes were accepted, as far as the record of batches goes back."""
    decoded = (c for c in lake.commits(lake.log("changes")) if c.stage == STAGE)
    rows: int = sum(commit.report["rows_out"] for commit in decoded)
    return rows


def _newest(lake: History) -> str:
    merged = lake.last(lake.log("merges"), "merge")
    return "" if merged is None else merged.batch


def _sizes(lake: History, rules: Rules) -> dict[str, int]:
    """About how many rows each table has that a target takes, without those that were deleted."""
    state, sizes = position_of(lake).state, {}
    for name, table in lake.merged_tables().items():
        head = lake.head(table)
        database, _, own = state.table(name).identity or ("", "", name)
        short = ".".join(part for part in (database, own) if part)
        names = (name, short)
        taken = not fits(names, rules.exclude) and (not rules.include or fits(names, rules.include))
        if head is None or not taken:
            continue
        sizes[name] = lake.shown_rows(table, head)
    return sizes
