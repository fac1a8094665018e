"""What the page of a migration shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import WaybillError
from waybill.overview.ends import source_and_targets
from waybill.overview.files import read_failure, read_index, read_source
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.airflow_runs import RUNS_SEARCHED, DagFacts, dag_facts
from waybill_airflow.web.batch_charts import charts_of
from waybill_airflow.web.condition import (
    BUSY,
    FAILING,
    HELD,
    NEVER_RAN,
    Condition,
    Step,
    condition_of,
    quarantine_steps,
    usual_steps,
)
from waybill_airflow.web.failed_batches import FAILED, failed_batches
from waybill_airflow.web.form import Field, form_fields
from waybill_airflow.web.formatting import clock
from waybill_airflow.web.source_view import SourceView, source_view

if TYPE_CHECKING:
    from waybill.overview.schema import (
        BatchLine,
        EndpointPlace,
        FailedStage,
        Index,
        TableLine,
        TableWaits,
    )
    from waybill.spec.migration import Migration
    from waybill_airflow.web.airflow_runs import RunFacts
    from waybill_airflow.web.charts import Chart

SHOWN_BATCHES, SHOWN_TABLES, CHARTED = 50, 100, 40


class FailureView(NamedTuple):
    """Why a stage stopped.

    Attributes:
        stage: its name; empty where a run stopped before its first stage.
        batch: its batch.
        at: when that was.
        code: of the runbook; empty where there is none.
        title: of the runbook's section.
        sentence: the cause; empty for users who may not see values of rows, which it may name.
    """

    stage: str
    batch: str
    at: str
    code: str
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class MigrationView:
    """The page.

    Attributes:
        name: of the migration.
        condition: how it is, and what to do.
        ends: its source and its targets.
        index: what its lake says; None where there is nothing yet, or it cannot be read.
        source: what waits at its source, None where it was never asked.
        failed_run: id of the last run, where that has failed in Airflow.
        failure: why it has failed there or elsewhere, where a stage could say so.
        busy_run: the last run, where it has not ended.
        quarantine: what to do about refused messages.
        usual: runs that can be started at any time; empty where one would be about the same as what
            `condition` says.
        may_trigger: whether the user may start runs.
        paused: whether Airflow starts none.
        fields: of the trigger form.
        charts: of the last batches.
        charted: how many these are.
        held_tables: the first that wait for a decision, also where something else is the worst.
        more_held_tables: how many there are beside them.
        tables: the first of them.
        more_tables: how many there are beside them.
        batches: the last of them.
        failed: by batch the stage in which its run failed, see `failed_batches`.
        more_batches: how many there are beside them.
        status: the command that tells all of it.
        now: as of when.
    """

    name: str
    condition: Condition
    ends: list[tuple[str, EndpointPlace]]
    index: Index | None
    source: SourceView | None
    failed_run: str
    failure: FailureView | None
    busy_run: RunFacts | None
    quarantine: list[Step]
    usual: list[Step]
    may_trigger: bool
    paused: bool
    fields: list[Field]
    charts: list[Chart]
    charted: int
    held_tables: list[TableWaits]
    more_held_tables: int
    tables: list[TableLine]
    more_tables: int
    batches: list[BatchLine]
    failed: dict[str, str]
    more_batches: int
    status: str
    now: datetime


def migration_view(spec: Migration, may_trigger: bool, sees_values: bool = False) -> MigrationView:
    """The page of a migration.

    Args:
        spec: the migration.
        may_trigger: whether the user may start runs of it.
        sees_values: whether the user may see keys and values of rows.
    """
    now = datetime.now(UTC)
    facts = dag_facts([spec.name]).get(spec.name, DagFacts())
    index, look, problem = None, None, ""
    try:
        index, look = in_lake_of(spec, lambda spec: (read_index(spec), read_source(spec)))
    except WaybillError as error:
        problem = str(error)
    condition = condition_of(spec, index, facts, now, problem)
    failing = condition.word == FAILING
    failed_run = facts.last if failing and facts.last and facts.last.state == FAILED else None
    stopped = failed_run or _stopped(index, failing)
    source, targets = source_and_targets(spec)
    batches = [] if index is None else index.batches
    tables = [] if index is None else index.tables
    held = [] if index is None else index.tables_waiting
    charted = batches[:CHARTED][::-1]
    return MigrationView(
        name=spec.name,
        condition=condition,
        ends=[("Source", source), *(("Target", target) for target in targets)],
        index=index,
        source=source_view(look, index),
        failed_run=failed_run.run_id if failed_run else "",
        failure=_failure(spec, stopped.batch, sees_values) if stopped else None,
        busy_run=facts.last if facts.last is not None and facts.last.state in BUSY else None,
        quarantine=quarantine_steps(spec),
        usual=[] if condition.word in (HELD, NEVER_RAN) else usual_steps(spec),
        may_trigger=may_trigger,
        paused=facts.paused,
        fields=form_fields() if may_trigger else [],
        charts=charts_of(spec, charted, now),
        charted=len(charted),
        held_tables=held[:SHOWN_TABLES],
        more_held_tables=max(0, len(held) - SHOWN_TABLES),
        tables=tables[:SHOWN_TABLES],
        more_tables=max(0, len(tables) - SHOWN_TABLES),
        batches=batches[:SHOWN_BATCHES],
        failed=failed_batches(
            spec.name,
            batches[:SHOWN_BATCHES],
            {} if index is None else index.failures,
            facts.last,
            RUNS_SEARCHED,
        ),
        more_batches=max(0, len(batches) - SHOWN_BATCHES),
        status=spec.command("status", "FILE"),
        now=now,
    )


def _stopped(index: Index | None, failing: bool) -> FailedStage | None:
    """The failure that the migration's condition is about; Airflow may know nothing of it."""
    if index is None or index.stopped is None:
        return None
    return index.stopped if failing or index.stopped.batch == index.unjudged else None


def _failure(spec: Migration, batch: str, sees_values: bool) -> FailureView | None:
    """Why the run of a batch failed last; None where no stage of it has said so."""
    try:
        found = in_lake_of(spec, read_failure)
    except WaybillError:
        # The condition of the migration says that its lake cannot be read.
        return None
    if found is None or found.batch != batch:
        return None
    at = clock(datetime.fromtimestamp(found.at / 1000, UTC))
    sentence = found.sentence if sees_values else ""
    return FailureView(found.stage, batch, at, found.code, found.title, sentence)
