"""What the page of a batch shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.counting import counted
from waybill.envelopes import registry
from waybill.made_ids import made_ids_sentence
from waybill.overview.files import read_account, read_index
from waybill.overview.schema import DROPPED, HELD, PUBLISHED, TAKEN, UNDER_WAY
from waybill.protocol import CAPABILITIES
from waybill.report import STAGES
from waybill_airflow.lake_access import in_lake_of
from waybill_airflow.web.airflow_runs import RUNS_SEARCHED, RunFacts, runs_by_batch, task_states
from waybill_airflow.web.condition import Step, quarantine_steps
from waybill_airflow.web.failed_batches import failed_stage
from waybill_airflow.web.file_view import FileView, file_view

if TYPE_CHECKING:
    from waybill.overview.schema import BatchAccount, TableAccount, TargetAccount
    from waybill.spec.migration import Migration

SHOWN_TABLES = 100


class TargetView(NamedTuple):
    """A target.

    Attributes:
        account: what became of the batch there.
        losses: what it could not carry, how often, each with a sentence.
        made: ids that had to be made, as a sentence.
    """

    account: TargetAccount
    losses: list[tuple[int, str]]
    made: str


class BatchView(NamedTuple):
    """The page.

    Attributes:
        name: of the migration.
        account: the batch.
        failed: the stage in which its run failed, empty where no stage is known to have; None
            where the run did not fail, or the batch went on without it.
        sentence: what became of it.
        run: its run in Airflow, None where it has none (any more).
        tasks: states of the run's tasks.
        warnings: stage and sentence.
        targets: in the order of their names.
        quarantine: what to do about what it refused; empty where it refused nothing.
        tables: the first that it changed.
        more_tables: how many there are beside them.
        altered: those whose columns it changed.
        file: the migration's file that it ran with.
        with_file: whether the user may read it.
        lists: where on the page a figure is shown in parts, by stage and column.
        further: where the figures are listed that no page lists.
        rules: how many the gate has checked, and how many are not met.
    """

    name: str
    account: BatchAccount
    failed: str | None
    sentence: str
    run: RunFacts | None
    tasks: dict[str, str]
    warnings: list[tuple[str, str]]
    targets: list[TargetView]
    quarantine: list[Step]
    tables: list[TableAccount]
    more_tables: int
    altered: list[TableAccount]
    file: FileView | None
    with_file: bool
    lists: dict[tuple[str, str], str]
    further: list[Step]
    rules: str


def batch_view(
    spec: Migration, batch: str, run: RunFacts | None = None, with_file: bool = False
) -> BatchView | None:
    """The page of a batch, None where the lake has no account of it.

    Args:
        spec: the migration.
        batch: id of the batch.
        run: its run in Airflow, where that is known already.
        with_file: whether the user may read the migration's file.

    Raises:
        WaybillError: the lake cannot be read.
    """
    account = in_lake_of(spec, lambda spec: read_account(spec, batch))
    if account is None:
        return None
    run = run or runs_by_batch(spec.name, RUNS_SEARCHED).get(batch)
    refused = any(stage.refused for stage in account.stages)
    failed = _failed(spec, account, run) if account.state == UNDER_WAY else None
    return BatchView(
        name=spec.name,
        account=account,
        failed=failed,
        sentence=_sentence(account, failed),
        run=run,
        tasks={} if run is None else task_states(spec.name, run.run_id),
        warnings=[(stage.stage, text) for stage in account.stages for text in stage.warnings],
        targets=[_target(spec, target) for target in account.targets],
        quarantine=quarantine_steps(spec) if refused else [],
        tables=account.tables[:SHOWN_TABLES],
        more_tables=max(0, len(account.tables) - SHOWN_TABLES),
        altered=[table for table in account.tables if table.columns][:SHOWN_TABLES],
        file=in_lake_of(spec, lambda spec: file_view(spec, account)) if with_file else None,
        with_file=with_file,
        lists=_lists(account),
        further=_further(spec, account),
        rules=_rules(account),
    )


def _failed(spec: Migration, account: BatchAccount, run: RunFacts | None) -> str | None:
    """The stage in which the run of a batch that is under way failed, see `failed_stage`."""
    index = in_lake_of(spec, read_index)
    return failed_stage(run, None if index is None else index.failures.get(account.batch))


def _sentence(account: BatchAccount, failed: str | None) -> str:
    read = account.stages[0]
    sent = sum(target.published or 0 for target in account.targets)
    begin = f"It read {counted(read.rows_in, 'message', style=',')}."
    verdict = account.verdict
    if account.state == PUBLISHED:
        passed = {
            "reported": "The gate found failures and let it pass, as on_failure: report says.",
            "approved": "A person approved it although the gate had found failures.",
        }
        said = passed.get(verdict.outcome if verdict is not None else "", "The gate let it pass.")
        return f"{begin} {said} {counted(sent, 'message', style=',')} went to the targets."
    if account.state == HELD:
        return f"{begin} The gate holds it: nothing of it is visible or published."
    if account.state == DROPPED:
        return f"{begin} The gate held it, and it was dropped; no change was lost."
    if account.state == TAKEN:
        return f"{begin} Its run ended early, and a later batch took over its work."
    if failed is not None:
        where = f" in {failed}" if failed else ""
        return f"{begin} Its run failed{where}; the next run continues from there."
    return f"{begin} It is not published yet; the stages below show how far it is."


def _rules(account: BatchAccount) -> str:
    verdict = account.verdict
    if verdict is None:
        # What an earlier version has kept; its gate counted rules as it counts rows.
        return counted(account.stages[STAGES.index("validate")].rows_in, "rule", style=",")
    unmet = [
        f"{count} {kind} not met" if count else ""
        for count, kind in (
            (verdict.failed_critical, "critical"),
            (verdict.failed_warning, "other"),
        )
    ]
    checked = counted(verdict.checked, "rule", style=",")
    return ", ".join([checked, *filter(None, unmet)] if any(unmet) else [checked, "all met"])


def _lists(account: BatchAccount) -> dict[tuple[str, str], str]:
    """The parts of the page that tell a figure of a stage by table or target."""
    found: dict[tuple[str, str], str] = {}
    if account.read:
        ways = (("snapshot", "in"), ("snapshot", "out"), ("convert", "in"))
        found |= dict.fromkeys(ways, "#read")
    if account.targets:
        found |= {("convert", "out"): "#targets"}
        found |= {("publish", way): "#targets" for way in ("in", "out")}
    if account.tables:
        found |= {("merge", way): "#tables" for way in ("in", "out")}
    return found


def _further(spec: Migration, account: BatchAccount) -> list[Step]:
    """What no page lists, and what shows it."""
    steps = []
    if any(sum(stage.extra_in.values()) for stage in account.stages):
        steps.append(
            Step(
                "Rows further in were in the lake already, or are more than one of a message or of "
                "a change; they are counted by reason above, and among the changes of the batch",
                command=spec.command("changes", "FILE"),
            )
        )
    if any(stage.superseded for stage in account.stages):
        steps.append(
            Step(
                "Superseded changes lost against a newer one of their row: the changes of a row "
                "say which, and why",
                command=spec.command("changes", "FILE", "--table", "TABLE", "--key", "KEY"),
            )
        )
    if any(sum(stage.skipped.values()) for stage in account.stages):
        steps.append(
            Step(
                "Skipped messages hold no change of a row, such as heartbeats, or the migration "
                "leaves them out; they are in the archive and counted by reason above"
            )
        )
    if any(stage.waiting for stage in account.stages):
        steps.append(
            Step(
                "Waiting changes belong to a transaction that is open or to a table that waits for "
                "a decision, or are half of an update whose other half has not come; a later batch "
                "takes them up",
                command=spec.command("changes", "FILE", "--table", "TABLE"),
            )
        )
    return steps


def _target(spec: Migration, target: TargetAccount) -> TargetView:
    losses = [(count, _why(spec, target.target, name)) for name, count in target.losses.items()]
    return TargetView(target, losses, made_ids_sentence(target.made_ids))


def _why(spec: Migration, label: str, capability: str) -> str:
    """What was lost, as a sentence; the migration may name the target no more."""
    known = next((target for target in spec.publish if target.label == label), None)
    if known is not None:
        source, written = registry.get(spec.source.envelope), registry.get(known.envelope)
        losses = source.losses_to(written, known.settings, spec.source.settings)
        if capability in losses:
            return losses[capability]
    return CAPABILITIES.get(capability, capability)
