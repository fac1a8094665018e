"""Runs every suite of a migration over what it looks at, and notes what that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake_columns import SCHEMA_COLUMNS
from waybill.records import TableSchema
from waybill.validate.expectations import nothing_to_check, run_suites
from waybill.validate.result import Checked, Cost
from waybill.validate.row_suites import RowsJudged, run_row_suite
from waybill.validate.seen_rows import Rows
from waybill.validate.suites import PROFILE, Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.spec.migration import Migration
    from waybill.stage_context import StageContext
    from waybill.validate.batch import Judged
    from waybill.validate.table_profiles import Staged


class Found(NamedTuple):
    """What there is to look at, beside the profiles.

    Attributes:
        batch: what is judged.
        changes: gives its rows of `changes`.
        staged: the merged tables that it changed.
    """

    batch: Judged
    changes: Callable[[], DataFrame]
    staged: list[Staged]


def run_every(
    spec: Migration,
    context: StageContext,
    suites: Sequence[Suite],
    profiles: Mapping[str, Sequence[Mapping[str, Any]]],
    found: Found,
) -> tuple[list[Checked], list[Cost]]:
    """The results of every expectation, those of suites on profiles first, and what they took.

    Raises:
        ConfigurationError: a suite cannot be used.
    """
    started = time.monotonic()
    on_profiles = [suite for suite in suites if suite.over.kind == PROFILE]
    parameters = {"max_refused_share": spec.quality.max_refused_share}
    checks = run_suites(on_profiles, profiles, parameters)
    costs = []
    if on_profiles:
        # Together: the profiles are made for the account of the batch anyway.
        names = ", ".join(suite.name for suite in on_profiles)
        rows = sum(len(profiles[suite.over.name]) for suite in on_profiles)
        costs.append(Cost(names, "profiles", rows, round(time.monotonic() - started, 2), 0))
    on_rows = [suite for suite in suites if suite.over.kind != PROFILE]
    for judged in _on_rows(spec, context, on_rows, found):
        checks += judged.checks
        costs.append(judged.cost)
    return checks, costs


def _on_rows(
    spec: Migration, context: StageContext, suites: Sequence[Suite], found: Found
) -> Iterator[RowsJudged]:
    if not suites:
        return
    lake, batch = context.lake, found.batch
    known = lake.few_rows(batch.changes, SCHEMA_COLUMNS, {"outcome": ["schema"]})
    rows = Rows(
        batch=context.batch,
        staged=found.staged,
        tables=list(lake.merged_tables()),
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
