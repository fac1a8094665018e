"""Writes down in `runs` what became of a batch at the gate: verdicts, and what people decided."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from waybill.errors import ConflictError
from waybill.lake.stage_commit import land
from waybill.lake_columns import RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake import Lake
    from waybill.report import StageReport


def record(
    lake: Lake,
    report: StageReport,
    outcome: str,
    result: dict[str, Any],
    stamp: str,
    started: float,
    events: Sequence[tuple[Any, ...]] = (),
) -> None:
    """Add a row to `runs`, and stamp the commit.

    Args:
        lake: the lake.
        report: the account; its stage is that of the row.
        outcome: what became of the batch.
        result: what is kept with it.
        stamp: the stage that the commit names.
        started: `time.monotonic()` at the start.
        events: further rows of the commit (`waybill.validate.schema_events`).

    Raises:
        ConflictError: another run has added one first; nothing was recorded.
    """
    stage = report.stage
    branch = lake.branch(lake.log("runs"), stage, report.batch, False)
    row = (
        report.batch,
        stage,
        outcome,
        datetime.now(UTC),
        json.dumps(report.to_dict(), ensure_ascii=False),
        json.dumps(result, ensure_ascii=False, default=str),
    )
    branch.append_rows([row, *events], RUNS)
    report.stage = stamp
    try:
        land(branch, report, "runs", started)
    except ConflictError:
        branch.drop()
        raise
    finally:
        report.stage = stage
