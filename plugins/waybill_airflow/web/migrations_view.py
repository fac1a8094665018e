"""What the page of all migrations shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from waybill_airflow.web.airflow_runs import DagFacts, dag_facts
from waybill_airflow.web.charts import sparkline
from waybill_airflow.web.condition import ATTENTION, BROKEN, Condition, condition_of
from waybill_airflow.web.failed_batches import failed_batches
from waybill_airflow.web.formatting import NOTHING, length, number
from waybill_airflow.web.known_migrations import known_migrations
from waybill_airflow.web.lake_outlines import outlines
from waybill_airflow.web.source_view import SourceView, source_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.overview.schema import BatchLine, Index
    from waybill.spec.migration import Migration
    from waybill_airflow.web.lake_outlines import Outline
    from waybill_airflow.web.rights import Rights

VERDICTS = 14
"""So many verdicts of the gate a row shows."""

RUNS_SEARCHED = 20
"""So many of the newest runs of a DAG are looked through for that of the last batch, if that batch
is not done and the last run was another's."""


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """A migration in the list.

    Attributes:
        name: of the migration.
        formats: its source's, and those of its targets.
        condition: how it is; None where the user may not see its runs.
        facts: what Airflow says.
        starts: how it starts where no run is planned for a time.
        index: what its lake says.
        last: its last batch.
        failed: the stage in which the run of that batch failed, empty where no stage is known to
            have; None where the run did not fail.
        verdicts: of the last batches, oldest first.
        line: points of the line of messages read.
        source: what waits at its source.
    """

    name: str
    formats: tuple[str, list[str]]
    condition: Condition | None
    facts: DagFacts
    starts: str = ""
    index: Index | None = None
    last: BatchLine | None = None
    failed: str | None = None
    verdicts: Sequence[BatchLine] = ()
    line: str = ""
    source: SourceView | None = None


class Figure(NamedTuple):
    """A figure on top of the page, its unit, and whether it is one to worry about."""

    value: str
    unit: str
    bad: bool


class Overview(NamedTuple):
    """The page.

    Attributes:
        rows: the worst first.
        broken: a sentence for each file that cannot be used.
        figures: four.
        now: as of when.
        age: how long before that a lake in object storage was asked, at most; empty where that is
            less than a second.
        old: how many of them said it longer ago than should be, so that the page looks again.
        due: migrations whose lakes are to be asked again when the page is sent.
    """

    rows: list[MigrationRow]
    broken: list[Condition]
    figures: list[Figure]
    now: datetime
    age: str
    old: int
    due: list[Migration]


def overview(rights: Rights) -> Overview:
    """All migrations that a user may see."""
    now = datetime.now(UTC)
    found = known_migrations()
    mine = rights.dags()
    specs = [spec for _, spec in found.migrations if spec.name in mine]
    facts = dag_facts(spec.name for spec in specs)
    with_runs = rights.with_runs([spec.name for spec in specs])
    open_ones = [spec for spec in specs if spec.name in with_runs]
    lakes = outlines(open_ones)
    nothing = DagFacts()
    rows = [_row(s, facts.get(s.name, nothing), lakes.found.get(s.name), now) for s in specs]
    rows.sort(key=lambda row: (99 if row.condition is None else row.condition.rank, row.name))
    problems = found.problems if rights.sees_broken_files() else []
    broken = [Condition(BROKEN, problem, []) for problem in problems]
    age = length(lakes.age) if lakes.age >= 1 else ""
    return Overview(rows, broken, _figures(rows, broken), now, age, lakes.old, lakes.due)


def _row(spec: Migration, facts: DagFacts, outline: Outline | None, now: datetime) -> MigrationRow:
    formats = (spec.source.envelope, [target.envelope for target in spec.publish])
    if outline is None:
        return MigrationRow(spec.name, formats, None, facts)
    index = outline.index
    condition = condition_of(spec, index, facts, now, outline.problem)
    batches = [] if index is None else index.batches
    noted = {} if index is None else index.failures
    failed = failed_batches(spec.name, batches[:1], noted, facts.last, RUNS_SEARCHED)
    values = [batch.rows_in for batch in reversed(batches)]
    return MigrationRow(
        name=spec.name,
        formats=formats,
        condition=condition,
        facts=facts,
        starts=_starts(spec),
        index=index,
        last=batches[0] if batches else None,
        failed=failed.get(batches[0].batch) if batches else None,
        verdicts=batches[:VERDICTS][::-1],
        line=sparkline(values),
        source=source_view(outline.source, index),
    )


def _starts(spec: Migration) -> str:
    """How a migration starts of which no run is planned."""
    if spec.after_assets:
        return "after assets"
    return NOTHING if spec.schedule else "by hand"


def _figures(rows: Sequence[MigrationRow], broken: Sequence[Condition]) -> list[Figure]:
    words = [row.condition.word for row in rows if row.condition is not None]
    words += [one.word for one in broken]
    indexes = [row.index for row in rows if row.index is not None]
    look = sum(word in ATTENTION for word in words)
    held = sum(index.held is not None for index in indexes)
    lag = sum(index.lag for index in indexes)
    refused = sum(index.refused_waiting for index in indexes)
    return [
        Figure(number(look), f"of {number(len(rows) + len(broken))} need attention", look > 0),
        Figure(number(held), "held by the gate", held > 0),
        Figure(number(lag), "messages archived, not published", False),
        Figure(number(refused), "refused, in quarantine", refused > 0),
    ]
