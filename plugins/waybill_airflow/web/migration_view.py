"""What the page of a migration shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waybill.errors import WaybillError
from waybill.overview.files import read_index, read_source
from waybill.overview.schema import Place, place_of
from waybill.report import STAGES
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.airflow_runs import DagFacts, dag_facts
from waybill_airflow.web.charts import Chart, bars
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
from waybill_airflow.web.form import Field, form_fields
from waybill_airflow.web.source_view import SourceView, source_view
from waybill_airflow.web.wording import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.overview.schema import BatchLine, Index, TableLine
    from waybill.spec.migration import Migration
    from waybill_airflow.web.airflow_runs import RunFacts

SHOWN_BATCHES, SHOWN_TABLES, CHARTED = 50, 100, 40

KINDS = ("one", "two", "three", "four", "five")
"""Colours of the style sheet."""


@dataclass(frozen=True, slots=True)
class MigrationView:
    """The page.

    Attributes:
        name: of the migration.
        condition: how it is, and what to do.
        ends: its source and its targets.
        index: what its lake says; None where there is nothing yet, or it cannot be read.
        source: what waits at its source, None where it was never asked.
        failed_run: id of the last run, where that has failed.
        busy_run: the last run, where it has not ended.
        quarantine: what to do about refused messages.
        usual: runs that can be started at any time; empty where one would be about the same as what
            `condition` says.
        may_trigger: whether the user may start runs.
        paused: whether Airflow starts none.
        fields: of the trigger form.
        charts: of the last batches.
        charted: how many these are.
        tables: the first of them.
        more_tables: how many there are beside them.
        batches: the last of them.
        more_batches: how many there are beside them.
        status: the command that tells all of it.
        now: as of when.
    """

    name: str
    condition: Condition
    ends: list[tuple[str, Place]]
    index: Index | None
    source: SourceView | None
    failed_run: str
    busy_run: RunFacts | None
    quarantine: list[Step]
    usual: list[Step]
    may_trigger: bool
    paused: bool
    fields: list[Field]
    charts: list[Chart]
    charted: int
    tables: list[TableLine]
    more_tables: int
    batches: list[BatchLine]
    more_batches: int
    status: str
    now: datetime


def migration_view(spec: Migration, may_trigger: bool) -> MigrationView:
    """The page of a migration.

    Args:
        spec: the migration.
        may_trigger: whether the user may start runs of it.
    """
    now = datetime.now(UTC)
    facts = dag_facts([spec.name]).get(spec.name, DagFacts())
    index, look, problem = None, None, ""
    try:
        index, look = in_lake_of(spec, lambda spec: (read_index(spec), read_source(spec)))
    except WaybillError as error:
        problem = str(error)
    condition = condition_of(spec, index, facts, now, problem)
    envelope = spec.source.envelope
    ends = [("Source", Place(envelope, envelope, place_of(spec.source)))]
    ends += [("Target", Place(t.label, t.envelope, place_of(t))) for t in spec.publish]
    batches = [] if index is None else index.batches
    tables = [] if index is None else index.tables
    charted = batches[:CHARTED][::-1]
    return MigrationView(
        name=spec.name,
        condition=condition,
        ends=ends,
        index=index,
        source=source_view(look, index),
        failed_run=facts.last.run_id if condition.word == FAILING and facts.last else "",
        busy_run=facts.last if facts.last is not None and facts.last.state in BUSY else None,
        quarantine=quarantine_steps(spec),
        usual=[] if condition.word in (HELD, NEVER_RAN) else usual_steps(spec),
        may_trigger=may_trigger,
        paused=facts.paused,
        fields=form_fields() if may_trigger else [],
        charts=charts_of(charted),
        charted=len(charted),
        tables=tables[:SHOWN_TABLES],
        more_tables=max(0, len(tables) - SHOWN_TABLES),
        batches=batches[:SHOWN_BATCHES],
        more_batches=max(0, len(batches) - SHOWN_BATCHES),
        status=spec.command("status", "FILE"),
        now=now,
    )


def charts_of(batches: Sequence[BatchLine]) -> list[Chart]:
    """Volume, refused share and times of stages; batches are oldest first."""
    if not batches:
        return []
    most = max(batch.rows_in for batch in batches)
    volume = bars(
        "Messages read",
        f"Messages read by each of the last {len(batches)} batches; at most {number(most)}.",
        [(f"{b.batch}: {number(b.rows_in)}", [("one", float(b.rows_in))]) for b in batches],
        [("one", "messages")],
        number(most),
    )
    shares = [_share(batch) for batch in batches]
    refused = bars(
        "Refused share",
        f"Refused rows of each batch in percent of its messages; at most {max(shares):.2f} %.",
        [
            (f"{b.batch}: {share:.2f} %", [("refused", share)])
            for b, share in zip(batches, shares, strict=True)
        ],
        [("refused", "refused")],
        f"{max(shares):.2f} %",
    )
    longest = max(sum(batch.seconds) for batch in batches)
    times = bars(
        "Seconds of the stages",
        f"Seconds that the stages of each batch took; at most {number(longest)} together.",
        [
            (
                f"{b.batch}: "
                + ", ".join(f"{s} {number(t)} s" for s, t in zip(STAGES, b.seconds, strict=False)),
                list(zip(KINDS, b.seconds, strict=False)),
            )
            for b in batches
        ],
        list(zip(KINDS, STAGES, strict=True)),
        f"{number(longest)} s",
    )
    return [volume, refused, times]


def _share(batch: BatchLine) -> float:
    """Refused rows in percent of the messages; a batch may also refuse those of earlier ones."""
    if not batch.refused:
        return 0.0
    return 100.0 * batch.refused / max(batch.rows_in, batch.refused)
