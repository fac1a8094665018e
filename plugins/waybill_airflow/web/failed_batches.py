"""Batches whose run failed: Airflow knows that of its own runs, and the index of the others.

Of a process that was killed or interrupted only Airflow knows, if it had started it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.overview.schema import UNDER_WAY
from waybill_airflow.web.airflow_runs import runs_by_batch
from waybill_airflow.web.condition import BUSY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from waybill.overview.schema import BatchLine
    from waybill_airflow.web.airflow_runs import RunFacts

FAILED = "failed"
"""The state of such a batch and of the stage where it stopped; also that of the run, in Airflow."""


def failed_batches(
    dag_id: str,
    lines: Sequence[BatchLine],
    noted: Mapping[str, str],
    last: RunFacts | None,
    searched: int,
) -> dict[str, str]:
    """By batch the stage in which its run failed, empty where no stage is known to have.

    A batch that a later one took along is not among them, nor one that Airflow is trying again.

    Args:
        dag_id: of the migration.
        lines: the batches that are asked about.
        noted: what the index says, see `Index.failures`.
        last: the run that was made last, None where there was none.
        searched: how many of the newest runs are looked through for those of other batches.
    """
    open_ones = [line.batch for line in lines if line.state == UNDER_WAY]
    runs = {} if last is None else {last.batch: last}
    if not runs.keys() >= set(open_ones):
        runs = {**runs_by_batch(dag_id, searched), **runs}
    found = {batch: failed_stage(runs.get(batch), noted.get(batch)) for batch in open_ones}
    return {batch: stage for batch, stage in found.items() if stage is not None}


def failed_stage(run: RunFacts | None, noted: str | None) -> str | None:
    """The stage in which a batch failed that is under way; None where it has not.

    Args:
        run: its run in Airflow, None where it has none.
        noted: what the index says of the batch, None where it says nothing.
    """
    if run is not None and run.state in BUSY:
        return None
    if run is not None and run.state == FAILED:
        return run.stage or noted or ""
    return noted
