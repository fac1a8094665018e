"""Batches whose run failed: the lake knows only that they are not done, Airflow knows why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.overview.schema import UNDER_WAY
from waybill_airflow.web.airflow_runs import runs_by_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.overview.schema import BatchLine
    from waybill_airflow.web.airflow_runs import RunFacts

FAILED = "failed"
"""The state of such a batch and of the stage where it stopped; also that of the run, in Airflow."""


def failed_batches(
    dag_id: str, lines: Sequence[BatchLine], last: RunFacts | None, searched: int
) -> dict[str, str]:
    """By batch the stage in which its run failed, empty where no stage is known to have.

    A batch that a later one took along is not among them, nor one that Airflow is trying again.

    Args:
        dag_id: of the migration.
        lines: the batches that are asked about.
        last: the run that was made last, None where there was none.
        searched: how many of the newest runs are looked through for those of other batches.
    """
    open_ones = [line.batch for line in lines if line.state == UNDER_WAY]
    runs = {} if last is None else {last.batch: last}
    if not runs.keys() >= set(open_ones):
        runs = {**runs_by_batch(dag_id, searched), **runs}
    return {
        batch: runs[batch].stage
        for batch in open_ones
        if batch in runs and runs[batch].state == FAILED
    }
