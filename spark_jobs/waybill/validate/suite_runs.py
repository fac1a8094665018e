"""Runs every suite of a migration over what it looks at, and notes what that took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake_columns import SCHEMA_COLUMNS
from waybill.records import TableSchema
from waybill.validate.expectations import nothing_to_check, over_profiles
from waybill.validate.metering import Meter, metered
from waybill.validate.result import Checked, Cost, SharedCost
from waybill.validate.row_suites import RowsJudged, run_row_suite
from waybill.validate.seen_rows import RowSources
from waybill.validate.suites import PROFILE, Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.spec.migration import Migration
    from waybill.stage_context import StageContext
    from waybill.validate.batch import Judged
    from waybill.validate.table_profiles import Staged


class SuiteInput(NamedTuple):
    """What there is to look at, beside the profiles.

    Attributes:
        batch: what is judged.
        changes: gives its rows of `changes`.
        staged: the merged tables that it changed.
    """

    batch: Judged
    changes: Callable[[], DataFrame]
    staged: list[Staged]


class Ran(NamedTuple):
    """What came of all suites.

    Attributes:
        checks: the results of every expectation, those of suites on profiles first.
        costs: what each suite took.
        shared: what was done once for several suites.
    """

    checks: list[Checked]
    costs: list[Cost]
    shared: list[SharedCost]


def run_every(
    spec: Migration,
    context: StageContext,
    suites: Sequence[Suite],
    profiles: Mapping[str, Sequence[Mapping[str, Any]]],
    made: Mapping[str, Meter],
    found: SuiteInput,
) -> Ran:
    """Run every suite.

    Args:
        spec: the migration.
        context: the stage.
        suites: what is expected.
        profiles: the rows of each profile.
        made: what it took to make each profile.
        found: what there is beside the profiles.

    Raises:
        ConfigurationError: a suite cannot be used.
    """
    ran = Ran([], [], [])
    if not suites:
        return ran
    on_profiles = [suite for suite in suites if suite.over.kind == PROFILE]
    parameters = {"max_refused_share": spec.quality.max_refused_share}
    with ExitStack() as block:
        with metered(context.spark) as loading:
            run = block.enter_context(over_profiles(profiles, parameters))
        for suite in on_profiles:
            with metered(context.spark) as meter:
                ran.checks.extend(run(suite))
            rows = len(profiles[suite.over.name])
            over = f"the profile {suite.over}"
            ran.costs.append(Cost(suite.name, over, rows, meter.seconds, meter.jobs))
    names = [suite.name for suite in suites]
    ran.shared.append(_shared("loading Great Expectations", names, 0, loading))
    for profile, meter in made.items():
        names = [suite.name for suite in on_profiles if suite.over.name == profile]
        if names:
            what = f"making the profile {profile}"
            ran.shared.append(_shared(what, names, len(profiles[profile]), meter))
    on_rows = [suite for suite in suites if suite.over.kind != PROFILE]
    for judged in _on_rows(spec, context, on_rows, found):
        ran.checks.extend(judged.checks)
        ran.costs.append(judged.cost)
    return ran


def _shared(what: str, suites: list[str], rows: int, meter: Meter) -> SharedCost:
    return SharedCost(what, suites, rows, meter.seconds, meter.jobs)


def _on_rows(
    spec: Migration, context: StageContext, suites: Sequence[Suite], found: SuiteInput
) -> Iterator[RowsJudged]:
    if not suites:
        return
    lake, batch = context.lake, found.batch
    known = lake.few_rows(batch.changes, SCHEMA_COLUMNS, {"outcome": ["schema"]})
    rows = RowSources(
        batch=context.batch,
        staged=found.staged,
        tables=lake.merged_tables,
        changes=found.changes(),
        schemas=[TableSchema.from_json(row["extra"]) for row in known],
        messages=lake.increment(*batch.outbox, parallel=True),
        targets=[target.label for target in spec.publish],
    )
    for suite in suites:
        seen = rows.seen_by(suite)
        if seen.rows is None:
            context.progress("validate: suite %s looks at nothing: %s", suite.name, seen.note)
            checks = [nothing_to_check(suite, item, seen.note) for item in suite.expectations]
            yield RowsJudged(checks, Cost(suite.name, str(suite.over), 0, 0.0, 0))
            continue
        context.progress("validate: suite %s over %s", suite.name, suite.over)
        yield run_row_suite(suite, seen.rows, seen.kept)
