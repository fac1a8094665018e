"""What the page of all migrations shows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import WaybillError
from waybill.overview.files import read_outline, read_source
from waybill.storage.objects.places import is_object_url
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.airflow_runs import DagFacts, dag_facts
from waybill_airflow.web.charts import sparkline
from waybill_airflow.web.condition import ATTENTION, BROKEN, Condition, condition_of
from waybill_airflow.web.known_migrations import known_migrations
from waybill_airflow.web.source_view import SourceView, source_view
from waybill_airflow.web.wording import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.overview.schema import BatchLine, Index, SourceLook
    from waybill.spec.migration import Migration
    from waybill_airflow.web.rights import Rights

VERDICTS = 14
"""So many verdicts of the gate a row shows."""

POINTS = 30
"""So many batches the line of a row goes back."""

AT_ONCE = 16
"""Lakes that are read at a time: those in object storage answer after a while."""

FRESH = 10.0
"""For so many seconds what a lake in object storage said is shown again: people look at the page
again and again, and hundreds of lakes take a second to ask."""


@dataclass(frozen=True, slots=True)
class Row:
    """A migration in the list.

    Attributes:
        name: of the migration.
        formats: its source's, and those of its targets.
        condition: how it is; None where the user may not see its runs.
        facts: what Airflow says.
        index: what its lake says.
        last: its last batch.
        verdicts: of the last batches, oldest first.
        line: points of the line of messages read.
        source: what waits at its source.
    """

    name: str
    formats: tuple[str, list[str]]
    condition: Condition | None
    facts: DagFacts
    index: Index | None = None
    last: BatchLine | None = None
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
    """

    rows: list[Row]
    broken: list[Condition]
    figures: list[Figure]
    now: datetime


def overview(rights: Rights) -> Overview:
    """All migrations that a user may see."""
    now = datetime.now(UTC)
    found = known_migrations()
    mine = rights.dags()
    specs = [spec for _, spec in found.migrations if spec.name in mine]
    facts = dag_facts(spec.name for spec in specs)
    with_runs = rights.with_runs([spec.name for spec in specs])
    open_ones = [spec for spec in specs if spec.name in with_runs]
    told = _every_told(open_ones)
    nothing = DagFacts()
    rows = [_row(s, facts.get(s.name, nothing), told.get(s.name), now) for s in specs]
    rows.sort(key=lambda row: (99 if row.condition is None else row.condition.rank, row.name))
    problems = found.problems if rights.sees_broken_files() else []
    broken = [Condition(BROKEN, problem, []) for problem in problems]
    return Overview(rows, broken, _figures(rows, broken), now)


Told = tuple["Index | None", "SourceLook | None", str]
"""An index, what the source said, and why they cannot be read."""


_known: dict[str, tuple[float, Told]] = {}
"""What lakes in object storage said, by the folder of the reports, and until when that is fresh."""


def _every_told(specs: Sequence[Migration]) -> dict[str, Told]:
    """What each migration's lake says; files on a disk are read faster one after the other."""
    now = monotonic()
    for folder in [folder for folder, (until, _) in list(_known.items()) if until <= now]:
        _known.pop(folder, None)
    away = [spec for spec in specs if is_object_url(spec.lake.warehouse)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = pool.map(_told_lately, away)
        told = {s.name: _told(s) for s in specs if not is_object_url(s.lake.warehouse)}
        return told | dict(zip((spec.name for spec in away), asked, strict=True))


def _told_lately(spec: Migration) -> Told:
    """What a lake in object storage says, or has said a few seconds ago."""
    found = _known.get(spec.reports)
    if found is not None:
        return found[1]
    told = _told(spec)
    _known[spec.reports] = (monotonic() + FRESH, told)
    return told


def _told(spec: Migration) -> Told:
    try:
        return *in_lake_of(spec, lambda spec: (read_outline(spec, POINTS), read_source(spec))), ""
    except WaybillError as error:
        return None, None, str(error)


def _row(spec: Migration, facts: DagFacts, told: Told | None, now: datetime) -> Row:
    formats = (spec.source.envelope, [target.envelope for target in spec.publish])
    if told is None:
        return Row(spec.name, formats, None, facts)
    index, look, problem = told
    condition = condition_of(spec, index, facts, now, problem)
    batches = [] if index is None else index.batches
    values = [batch.rows_in for batch in reversed(batches[:POINTS])]
    return Row(
        name=spec.name,
        formats=formats,
        condition=condition,
        facts=facts,
        index=index,
        last=batches[0] if batches else None,
        verdicts=batches[:VERDICTS][::-1],
        line=sparkline(values),
        source=source_view(look, index),
    )


def _figures(rows: Sequence[Row], broken: Sequence[Condition]) -> list[Figure]:
    words = [row.condition.word for row in rows if row.condition is not None]
    words += [one.word for one in broken]
    indexes = [row.index for row in rows if row.index is not None]
    look = sum(word in ATTENTION for word in words)
    held = sum(index.held is not None for index in indexes)
    lag = sum(index.lag for index in indexes)
    refused = sum(index.refused_waiting for index in indexes)
    return [
        Figure(number(look), f"of {number(len(rows) + len(broken))} need a look", look > 0),
        Figure(number(held), "held by the gate", held > 0),
        Figure(number(lag), "messages archived, not published", False),
        Figure(number(refused), "refused, in quarantine", refused > 0),
    ]
