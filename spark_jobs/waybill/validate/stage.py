"""The stage `validate`: what is staged is judged, and only then made visible."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from waybill.batches.message_rows import CHANGE
from waybill.counting import counted
from waybill.errors import Code, ConflictError, GateError
from waybill.lake import TaskRows
from waybill.lake.branches import TABLES_ASKED, statement_of_branch
from waybill.lake.changed_targets import check_targets
from waybill.lake.decisions import HELD, MERGE
from waybill.lake.newest_rows import newest_rows
from waybill.lake_columns import BATCHES, BOOTSTRAP, CHANGE_PLACE, RUNS, SCHEMA_COLUMNS
from waybill.records import TableSchema
from waybill.report import TABLE_ROWS, StageReport
from waybill.validate.batch import (
    STAGE,
    Judged,
    account,
    changes_in,
    commits_in,
    judged,
    judged_before,
    let_pass,
    newest_changes,
    outbox_parts,
)
from waybill.validate.deciding import decide, refuse_late_drop, standing_decision
from waybill.validate.footers import Footers
from waybill.validate.looking import Example, with_commands
from waybill.validate.measured import figures_with_limits, trend_of
from waybill.validate.metering import Meter, metered
from waybill.validate.pairing import compare_in_tasks, place_ranges, tasks_of
from waybill.validate.profiles import (
    backwards,
    changes_profile,
    example_of_topic,
    outcomes,
    refused_messages,
)
from waybill.validate.readers import check_named, readers_of
from waybill.validate.recording import record
from waybill.validate.rereading import MESSAGE, Reread, reread
from waybill.validate.result import (
    APPROVED,
    FAILED,
    TRENDS,
    GateResult,
    count_sentence,
    sentence_of,
    verdict_mark,
)
from waybill.validate.results import keep
from waybill.validate.schema_events import schema_events
from waybill.validate.suite_runs import SuiteInput, run_every
from waybill.validate.suites import ROWS, Suite, load_suites
from waybill.validate.table_profiles import (
    example_of_table,
    staged_tables,
    table_profiles,
)
from waybill.validate.trends import ages_of, past_of, trends_profile, verdicts_of
from waybill.validate.unjudged import visible_unjudged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame

    from waybill.lake import Branch, Lake
    from waybill.lake.decisions import GateDecision
    from waybill.spec.migration import Migration
    from waybill.stage_context import StageContext
    from waybill.validate.pairing import PlaceRange
    from waybill.validate.table_profiles import Staged
    from waybill.validate.trends import Spoken


CLOCKS_DIFFER = 600.0
"""By so many seconds the clock of a source may be ahead of ours."""

SHOWN_RULES = 20
"""How many rules that are not met the account of a held batch names, those first that nobody may
waive."""


def run_validate(spec: Migration, context: StageContext) -> StageReport:
    """Judge a merged batch; let it through or hold it.

    What passes is made visible: every table, then the record of the merge. The result is kept in
    the lake's folder (`waybill.validate.results`) and in `runs`. So is what a person has approved,
    if the gate finds nothing else than what it found then.

    Raises:
        GateError: something critical failed, or a person has dropped the batch; tables and messages
            stay where they are.
        ConfigurationError: a suite cannot be used, a decision cannot be taken, or messages wait
            that were written for a target as it was before.
        ConflictError: another run moved a table first.
    """
    started = time.monotonic()
    lake, batch = context.lake, context.batch
    runs = lake.ensure(lake.log("runs"), RUNS)
    done = lake.find(runs, STAGE, batch)
    if done is not None:
        context.progress("validate: batch %s was judged before", batch)
        refuse_late_drop(batch, context.options.decision)
        return judged_before(done)
    suites = load_suites(spec.quality.suites)
    if context.options.decision is not None:
        decide(spec, lake, context.options.decision, batch)
    batch_judged = judged(lake, batch)
    decision = standing_decision(spec, lake, batch_judged)
    check_targets(spec, lake)
    staged = _staged(lake, batch_judged, batch)
    changes = batch_judged.changes
    sizes = lake.cut_shuffles(changes.table, changes.after, changes.upto)
    before = cache(partial(verdicts_of, lake))
    result = judge(spec, context, batch_judged, staged, suites, decision, before)
    # To judge may have taken long, and until a table shows it a batch can be dropped.
    standing_decision(spec, lake, batch_judged)
    places = keep(spec, result, trend_of(result, before()))
    report = _report(context, batch_judged, result, places)
    report.details["sizes"] = sizes
    context.progress(
        "validate: %s, %s, report at %s",
        *(result.outcome, counted(len(result.checks), "expectation"), places[1]),
    )
    if result.outcome == FAILED:
        # The log may show rows; what is raised is in mails and events, too.
        for check in result.failures("critical")[:SHOWN_RULES]:
            context.progress("validate: not met: %s", sentence_of(check))
        record(lake, report, result.outcome, result.to_dict(), HELD, started)
        raise GateError(
            _refusal(spec, batch, result, places[1], decision),
            report.to_dict(),
            code=Code.GATE_REFUSED,
        )
    standing_decision(spec, lake, batch_judged)
    _show(staged, batch_judged.record, context)
    shown = visible_unjudged(lake, batch_judged.merge.snapshot)
    events = schema_events(lake, shown[::-1])
    record(lake, report, result.outcome, result.to_dict(), STAGE, started, events)
    for span in (batch_judged.changes, batch_judged.outbox, batch_judged.archive):
        lake.mark_read(span.table, STAGE, span.upto)
    return report


def _staged(lake: Lake, found: Judged, batch: str) -> list[Staged]:
    """The tables that a batch changed; what was merged is dropped where a part of it is lost.

    Raises:
        ConflictError: the branch of a table is gone, and the table does not show the batch.
    """
    branches, record = found.merge.cursor["branches"], found.record
    try:
        return staged_tables(lake, branches, batch)
    except ConflictError as error:
        shows = {table: lake.find(table, MERGE, batch) is not None for table in branches}
        there = {table: name in lake.metadata(table).refs for table, name in branches.items()}
        lost = next((table for table in branches if not (shows[table] or there[table])), None)
        if lost is None:
            raise
        if record is None or any(shows.values()):
            snapshot = found.merge.report["snapshots"][lost]
            statement = statement_of_branch(lost, branches[lost], snapshot)
            message = (
                f"the branch {branches[lost]} of {lost} is gone while batch {batch} is visible "
                f"in part: create it again (`{statement}`), then run validate again"
            )
            raise ConflictError(message, code=Code.TABLE_CHANGED) from error
        # The record first: one without its branches cannot be judged.
        record.drop()
        for table in branches:
            if there[table]:
                lake.reopen(table, branches[table]).drop()
        raise


def judge(
    spec: Migration,
    context: StageContext,
    batch: Judged,
    staged: list[Staged],
    suites: list[Suite],
    approval: GateDecision | None = None,
    before: Callable[[], Sequence[Spoken]] = tuple,
) -> GateResult:
    """Profile what is staged and run the suites, over the profiles and over rows.

    Args:
        spec: the migration.
        context: the stage.
        batch: what is judged.
        staged: the merged tables that it changed.
        suites: what is expected.
        approval: what a person has approved. Ages are then those that they saw.
        before: gives the verdicts of earlier batches, oldest first.
    """
    lake = context.lake
    # To plan a query takes a while, and most batches need none.
    changes = cache(partial(changes_in, lake, batch.changes))
    made: dict[str, Meter] = {}
    with metered(context.spark) as made["changes"]:
        figures, accounts, found = _figures_of_changes(spec, context, batch, changes)
    with metered(context.spark) as made["tables"]:
        tables = table_profiles(context.spark, staged, context.batch)
    profiles = {"changes": figures, "tables": tables}
    now = datetime.now(UTC)
    if any(suite.over.name == TRENDS for suite in suites):
        seen = now if approval is None else datetime.fromisoformat(approval.judged)
        with metered(context.spark) as made[TRENDS]:
            newest = newest_changes(lake, batch, seen.timestamp() + CLOCKS_DIFFER)
            ages = ages_of(newest, batch.merge.report["details"], seen)
            profiles[TRENDS] = trends_profile(figures, tables, ages, past_of(before()))
    ran = run_every(spec, context, suites, profiles, made, SuiteInput(batch, changes, staged))
    result = GateResult(
        migration=spec.name,
        batch=context.batch,
        time=now.isoformat(timespec="seconds"),
        checks=ran.checks,
        profiles=profiles,
        differences=found.examples,
        accounts=accounts,
        stages=_stages(lake, batch),
        costs=ran.costs,
        shared=ran.shared,
    )
    waived = {rule["finding"] for rule in approval.rules} if approval is not None else set()
    result.judge(spec.quality.on_failure, waived)
    if approval is not None and result.outcome == APPROVED:
        result.decision = approval._asdict()
    result.checks = with_commands(spec, result, partial(_example, context, changes, staged))
    return result


def _figures_of_changes(
    spec: Migration, context: StageContext, batch: Judged, changes: Callable[[], DataFrame]
) -> tuple[list[dict[str, Any]], list[str], Reread]:
    """The profile `changes`, where the stages disagree, and what reading messages again found."""
    lake = context.lake
    footers = Footers(lake, batch.changes, batch.outbox)
    counted = outcomes(changes()) if footers.counted is None else footers.counted
    context.progress("validate: reading the messages to publish again")
    found = _reread(spec, context, batch, footers)
    named_outcomes = ("ok", "refused", "replayed", "skipped", BOOTSTRAP)
    rows = {f"changes {outcome}": 0 for outcome in named_outcomes}
    ordered = 0
    for _topic, outcome, count, _messages, with_order in counted:
        ordered += with_order
        rows[f"changes {outcome}"] = rows.get(f"changes {outcome}", 0) + count
    rows["outbox ok"] = footers.sent if footers.sent is not None else _sent(lake, batch)
    accounts = account(lake, batch, rows)
    refused = {}
    if rows["changes refused"] or batch.merge.report["refused"]:
        merges = batch.record.read() if batch.record else lake.read(lake.log("merges"))
        own = merges.where(merges.batch == context.batch)
        refused = refused_messages(changes(), own, let_pass(lake, batch))
    topic = spec.source.files.topic if spec.source.files else None
    profile = changes_profile(
        counted,
        refused,
        backwards(changes()) if ordered else {},
        found,
        len(accounts),
        [topic] if topic and not counted else [],
    )
    return profile, accounts, found


def _example(
    context: StageContext,
    changes: Callable[[], DataFrame],
    staged: list[Staged],
    profile: str,
    column: str,
    name: str,
) -> Example:
    """A row behind a figure of a profile, or one that a suite on rows has found."""
    if profile == "changes":
        return example_of_topic(changes(), column, name)
    if profile == ROWS:
        name, key = column, name or None
    else:
        table = next((table for table in staged if table.name == name), None)
        if table is None:
            return Example()
        key = example_of_table(table.rows, column, context.batch)
    log = context.lake.read(context.lake.log("changes"))
    # A row of a table without key has a key of the merge's own, which no change has.
    if key is not None and log.where(F.col("key") == key).isEmpty():
        key = None
    return Example(name, key)


def _sent(lake: Lake, batch: Judged) -> int:
    """How many messages to publish there are."""
    return lake.increment(*batch.outbox, parallel=True).where("outcome = 'ok'").count()


def _reread(spec: Migration, context: StageContext, batch: Judged, footers: Footers) -> Reread:
    lake = context.lake
    labels: Iterable[str] | None = footers.messages
    if labels is None:
        waiting = lake.increment(*batch.outbox).where("outcome = 'ok'").select("target")
        labels = [row.target for row in waiting.distinct().collect()]
    check_named(labels, [target.label for target in spec.publish], spec.dropped_targets)
    if not spec.publish:
        return Reread()
    known = lake.few_rows(batch.changes, SCHEMA_COLUMNS, {"outcome": ["schema"]})
    older = _older(lake, batch)
    if older is not None:
        ids = older.select("schema_id").distinct()
        log = lake.read(batch.changes.table, batch.changes.upto).where("outcome = 'schema'")
        rows = log.join(ids, "schema_id", "left_semi").select(*SCHEMA_COLUMNS.names)
        known += [row.asDict() for row in rows.collect()]
    texts = {row["schema_id"]: row["extra"] for row in known}
    schemas = {id_: TableSchema.from_json(text) for id_, text in texts.items()}
    parts = outbox_parts(lake, batch.outbox)
    read_by = [readers_of(spec.source, spec.publish, schemas.values(), ids) for _, ids in parts]
    if not any(read_by):
        return Reread()
    if older is None and len(parts) == 1:
        tasks = _side_by_side(lake, footers, list(read_by[0]))
        if tasks is not None:
            return compare_in_tasks(lake.spark, tasks, schemas, read_by[0])
    accepted = lake.task_rows(batch.changes, CHANGE, {"outcome": ["ok", BOOTSTRAP]})
    read = [batch.changes, batch.outbox]
    if older is not None:
        read.append(batch.changes._replace(after=None))
        older = older.join(accepted.rows, list(CHANGE_PLACE), "left_anti")
        # Where full runs have brought a change again, the message was made of the last.
        older = newest_rows(older, CHANGE_PLACE, lake.commits(batch.changes.table))
        accepted = TaskRows.of(accepted.rows.unionByName(older.select(*CHANGE.names)))
    found = Reread()
    with lake.batches_by_rows(*read):
        for (span, _), readers in zip(parts, read_by, strict=True):
            sent = lake.task_rows(span, MESSAGE, {"outcome": ["ok"], "target": list(readers)})
            found.add(reread(sent, accepted, schemas, readers))
    return found


def _side_by_side(
    lake: Lake, footers: Footers, labels: Sequence[str]
) -> list[list[PlaceRange]] | None:
    """What each task compares; None where messages and changes do not lie side by side."""
    if footers.changes is None or footers.messages is None:
        return None
    messages = {label: footers.messages.get(label, []) for label in labels}
    found = place_ranges(footers.changes, messages)
    return None if found is None else tasks_of(found, lake.spark.sparkContext.defaultParallelism)


def _older(lake: Lake, batch: Judged) -> DataFrame | None:
    """Changes of earlier batches that messages were made from.

    A target has refused them before, or begins with all of them.

    None where there is no such message; changes of this batch are among them.
    """
    encoded = commits_in(lake, batch.outbox, "convert")
    begun = commits_in(lake, batch.outbox, BOOTSTRAP)
    again = any("encoded_again" in c.report["details"] for c in encoded)
    if not again and not any(BATCHES in c.cursor for c in begun):
        return None
    log = lake.read(batch.changes.table, batch.changes.upto)
    outbox = lake.increment(*batch.outbox).where("outcome = 'ok'")
    older = log.join(outbox.select(*CHANGE_PLACE), list(CHANGE_PLACE), "left_semi")
    return older.where(F.col("outcome").isin("ok", BOOTSTRAP))


def _stages(lake: Lake, batch: Judged) -> list[dict[str, Any]]:
    """The reports of the stages, oldest first; a rerun may judge several batches at once."""
    found = [
        commit.report
        for span, stage in ((batch.archive, "snapshot"), (batch.outbox, "convert"))
        for commit in reversed(list(commits_in(lake, span, stage)))
    ]
    return [*found, batch.merge.report]


def _report(
    context: StageContext, batch: Judged, result: GateResult, places: tuple[str, str]
) -> StageReport:
    counts = result.counts()
    report = StageReport(STAGE, context.batch, file=context.spec.digest)
    report.rows_in = report.rows_out = counts["checked"]
    report.details = {"outcome": result.outcome, **counts, "json": places[0], "page": places[1]}
    report.details["limits"] = figures_with_limits(result)
    report.details[TABLE_ROWS] = {row["table"]: row["rows"] for row in result.profiles["tables"]}
    if result.outcome == FAILED:
        failed = result.failures("critical")
        report.details["verdict"] = verdict_mark(failed)
        report.details["held_for"] = [
            {"rule": count_sentence(check), "waivable": check.may_be_waived}
            for check in sorted(failed, key=lambda check: check.may_be_waived)[:SHOWN_RULES]
        ]
    if result.decision is not None:
        report.details["decision"] = result.decision
    report.warnings = [
        f"{check.severity}: {count_sentence(check)}" for check in result.checks if not check.success
    ]
    report.cursor = {
        "archive": batch.archive.upto,
        "changes": batch.changes.upto,
        "outbox": batch.outbox.upto,
        "outbox_after": batch.outbox.after,
        "merges": batch.merge.snapshot,
    }
    return report


def _show(staged: list[Staged], record: Branch | None, context: StageContext) -> None:
    """Make the tables visible, and last the record that says they are.

    Raises:
        ConflictError: a table has got other rows since the merge; nothing more is made visible.
    """
    _check_bases([table.branch for table in staged], record, context.batch)

    def show(table: Staged) -> None:
        if table.branch is not None:
            table.branch.fast_forward()

    context.progress("validate: showing %s", counted(len(staged), "table"))
    with ThreadPoolExecutor(TABLES_ASKED) as pool:
        list(pool.map(show, staged))
    if record is not None:
        record.fast_forward()


def _check_bases(branches: list[Branch | None], record: Branch | None, batch: str) -> None:
    """See to it that all can be made visible, before one is.

    Where nothing shows yet what was merged is dropped, so that the batch can be merged again.
    """
    waiting = [branch for branch in branches if branch is not None]
    every = [*waiting, *([] if record is None else [record])]
    with ThreadPoolExecutor(TABLES_ASKED) as pool:
        stand = list(pool.map(lambda branch: branch.stands(), every))
    behind = next((branch for branch, good in zip(every, stand, strict=True) if not good), None)
    if behind is None:
        return
    if len(waiting) < len(branches):
        message = (
            f"{behind.table} was changed by another program while batch {batch} was "
            f"visible in part: roll it back to snapshot {behind.base}, then run validate again"
        )
        raise ConflictError(message, code=Code.TABLE_CHANGED)
    # The record first: one without its branches cannot be judged.
    for branch in reversed(every):
        branch.drop()
    message = (
        f"{behind.table} has been changed since batch {batch} was merged, or another run has "
        "dropped the batch, so nothing of it was made visible: run the batch again from merge on"
    )
    raise ConflictError(message, code=Code.TABLE_CHANGED)


def _refusal(
    spec: Migration, batch: str, result: GateResult, page: str, decision: GateDecision | None
) -> str:
    failed = result.failures("critical")
    first = count_sentence(failed[0])
    more = f", and {len(failed) - 1} more like it" if len(failed) > 1 else ""
    approved = (
        f" ({decision.by} has approved it, but for other findings)" if decision is not None else ""
    )
    waive = (
        f", or have it published as it is, `{spec.command('gate', 'approve', 'FILE')}`"
        if all(check.may_be_waived for check in failed)
        else ""
    )
    return (
        f"batch {batch} does not pass the gate, which expects: {first}{more}{approved}; nothing "
        f"was published, the report is {page}; fix the cause, then "
        f"`{spec.command('run', 'FILE', '--drop-held')}`{waive}"
    )
