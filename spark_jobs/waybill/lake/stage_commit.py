"""How a stage ends: its report checked and stamped, its branch made visible, or found done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from waybill.errors import ConflictError
from waybill.report import StageReport

if TYPE_CHECKING:
    from waybill.lake.commit import Branch, Commit


def land(branch: Branch, report: StageReport, name: str, started: float) -> None:
    """Check the report, stamp the branch with it and fast-forward main.

    Args:
        branch: what the stage wrote.
        report: its account; gets the seconds, and the snapshot under the table's short name.
        name: short name of the table.
        started: `time.monotonic()` at the start of the stage.

    Raises:
        ReconciliationError: rows in and rows out do not add up; main stays as it is.
        ConflictError: another run moved the table first; main stays as it is.
    """
    try:
        report.reconcile()
    except Exception:
        branch.drop()
        raise
    report.seconds = round(time.monotonic() - started, 3)
    stamp = report.to_dict()
    # The cursor stands in the commit once, beside the report.
    stamp["cursor"] = {}
    branch.commit(report.cursor, stamp, report.batch, report.stage)
    try:
        branch.fast_forward()
    except ConflictError:
        branch.drop()
        raise
    report.snapshots[name] = branch.head


def repeated(commit: Commit, name: str) -> StageReport:
    """The report of a stage that was done before.

    Args:
        commit: what it committed.
        name: short name of the table it committed to.
    """
    report = StageReport.from_dict(commit.report)
    report.cursor = commit.cursor
    report.snapshots[name] = commit.snapshot
    report.repeated = True
    return report
