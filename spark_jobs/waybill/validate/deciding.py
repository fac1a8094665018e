"""Takes down what a person decides about a batch that the gate holds.

A decision is one commit of `runs`: it is there whole or not at all, of two at once one is first,
and the other finds it. What follows from it is done by the next run: of an approved batch the gate
is asked once more and lets it through if it finds nothing else than what was approved; a dropped
one is dropped by the merge, as with `--drop-held`.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waybill.errors import Code, ConfigurationError, ConflictError, GateError
from waybill.lake.decisions import (
    APPROVED,
    DROPPED,
    LONGEST_REASON,
    STAMPS,
    GateDecision,
    decision_on,
    shown_in,
    waiting_merge,
    was_judged,
)
from waybill.report import StageReport
from waybill.validate.batch import STAGE
from waybill.validate.recording import record
from waybill.validate.result import FAILED, GateResult, count_sentence, finding_mark, verdict_mark
from waybill.validate.results import keep

if TYPE_CHECKING:
    from waybill.lake import Commit, Lake
    from waybill.lake.decisions import RequestedDecision
    from waybill.spec.migration import Migration
    from waybill.validate.batch import Judged

TRIES = 5
"""How often a decision is taken down while other runs write to `runs`."""


def decide(
    spec: Migration, lake: Lake, asked: RequestedDecision, batch: str | None = None
) -> GateDecision:
    """Take a decision about the held batch, unless the same was taken before.

    Args:
        spec: the migration.
        lake: its lake.
        asked: what is to be decided, by whom, why.
        batch: id of the batch that is meant; whichever is held where left out.

    Returns:
        The decision that stands: where the same was taken before, the first one.

    Raises:
        ConfigurationError: nothing is held, or another batch is; the reason is missing or too long;
            the batch was dropped before; a rule is not met that nobody may waive; or the gate has
            judged the batch again since.
        ConflictError: other runs were faster every time.
    """
    reason = reason_of(asked)
    for _ in range(TRIES):
        merge = _held(spec, lake, batch)
        result = _verdict(lake, merge)
        before = decision_on(lake, merge)
        if before is not None and before.what == asked.what:
            _tell(spec, result, before)
            return before
        if before is not None and before.what == DROPPED:
            message = (
                f"batch {merge.batch} was {before}; the next batch merges its changes again, so it "
                "can no longer be approved"
            )
            raise ConfigurationError(message, code=Code.DECISION)
        _check(spec, lake, merge, result, asked)
        failed = result.failures("critical")
        decision = GateDecision(
            asked.what,
            merge.batch,
            asked.by,
            datetime.now(UTC).isoformat(timespec="seconds"),
            reason,
            result.time,
            [{"rule": count_sentence(c), "finding": finding_mark(c)} for c in failed],
        )
        try:
            _record(lake, merge, decision)
        except ConflictError:
            continue
        if asked.what == DROPPED:
            # The gate may have begun to show it while this was recorded, and goes on with that.
            _check_hidden(spec, lake, merge)
        _tell(spec, result, decision)
        return decision
    message = (
        f"other runs of {spec.name} wrote to {lake.log('runs')} {TRIES} times while this decision "
        "was recorded, so it was not recorded: run it again when they have ended"
    )
    raise ConflictError(message, code=Code.CONCURRENT_RUN)


def standing_decision(spec: Migration, lake: Lake, found: Judged) -> GateDecision | None:
    """What a person has decided about a batch that may still be shown.

    Raises:
        GateError: it was dropped.
    """
    merge = found.merge
    decision = decision_on(lake, merge, found.record is None or shown_in(lake, merge) is not None)
    if decision is not None and decision.what == DROPPED:
        message = (
            f"batch {merge.batch} was {decision}; nothing of it is visible, and the next batch "
            f"merges its changes again: `{spec.command('run', 'FILE')}`"
        )
        raise GateError(message, code=Code.BATCH_DROPPED)
    return decision


def refuse_late_drop(batch: str, asked: RequestedDecision | None) -> None:
    """Say so where a batch is to be dropped that the gate has let through.

    Raises:
        ConfigurationError: that is the case.
    """
    if asked is not None and asked.what == DROPPED:
        message = f"batch {batch} has passed the gate and is visible, so it cannot be dropped"
        raise ConfigurationError(message, code=Code.DECISION)


def reason_of(asked: RequestedDecision) -> str:
    """The reason in one line.

    Raises:
        ConfigurationError: there is none, or it is too long.
    """
    plain = asked.reason.encode("utf-8", "backslashreplace").decode()
    reason = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
    if not reason:
        message = "a decision needs a reason, which is kept with the batch: say why"
        raise ConfigurationError(message, code=Code.DECISION)
    if len(reason) > LONGEST_REASON:
        message = (
            f"the reason has {len(reason)} characters, and {LONGEST_REASON} are kept: say it in "
            "fewer words"
        )
        raise ConfigurationError(message, code=Code.DECISION)
    return reason


def _held(spec: Migration, lake: Lake, batch: str | None) -> Commit:
    """The merge that the gate has said no to."""
    merge = waiting_merge(lake)
    if merge is None:
        meant = "" if batch is None else f", batch {batch} neither"
        message = (
            f"no batch of {spec.name} is held{meant}, so there is nothing to decide: "
            f"`{spec.command('status', 'FILE')}` shows the last verdict of the gate"
        )
        raise ConfigurationError(message, code=Code.DECISION)
    if batch is not None and merge.batch != batch:
        message = (
            f"the batch that is held is {merge.batch}, not {batch}: read its report, then decide "
            "about it"
        )
        raise ConfigurationError(message, code=Code.DECISION)
    if not was_judged(lake, merge):
        again = spec.command("run", "FILE", "--batch", merge.batch)
        message = (
            f"batch {merge.batch} is merged and the gate has not judged it: `{again}` has it "
            "judged, then decide"
        )
        raise ConfigurationError(message, code=Code.DECISION)
    return merge


def _verdict(lake: Lake, merge: Commit) -> GateResult:
    """What the gate found last."""
    wanted = {"batch": [merge.batch], "stage": [STAGE], "outcome": [FAILED]}
    rows = list(lake.scan(lake.log("runs"), ["time", "result"], wanted))
    newest = max(rows, key=lambda row: row["time"])
    return GateResult.from_dict(json.loads(newest["result"]))


def _check(
    spec: Migration, lake: Lake, merge: Commit, result: GateResult, asked: RequestedDecision
) -> None:
    """See to it that what is asked for can be decided."""
    failed = result.failures("critical")
    if asked.what == APPROVED:
        if asked.verdict is not None and asked.verdict != verdict_mark(failed):
            message = (
                f"the gate has judged batch {merge.batch} again since this was asked, and found "
                "something else: read its report, then decide"
            )
            raise ConfigurationError(message, code=Code.DECISION)
        never = [check for check in failed if not check.may_be_waived]
        if never:
            more = f" (and {len(never) - 1} more)" if len(never) > 1 else ""
            message = (
                f"batch {merge.batch} cannot be published as it is, because no one may waive: "
                f"{count_sentence(never[0])}{more}; fix the cause, then "
                f"`{spec.command('run', 'FILE', '--drop-held')}`"
            )
            raise ConfigurationError(message, code=Code.DECISION)
        return
    _check_hidden(spec, lake, merge)


def _check_hidden(spec: Migration, lake: Lake, merge: Commit) -> None:
    """See to it that no table shows a merge that is to be dropped."""
    shown = shown_in(lake, merge)
    if shown is not None:
        message = (
            f"batch {merge.batch} is visible in part ({shown} shows it already), so it cannot be "
            f"dropped: `{spec.command('run', 'FILE', '--batch', merge.batch)}` ends what began"
        )
        raise ConfigurationError(message, code=Code.BATCH_VISIBLE_IN_PART)


def _record(lake: Lake, merge: Commit, decision: GateDecision) -> None:
    decided = decision._asdict()
    report = StageReport("decide", merge.batch, details={"decision": decided})
    report.cursor = {"merges": merge.snapshot}
    record(lake, report, decision.what, decided, STAMPS[decision.what], time.monotonic())


def _tell(spec: Migration, result: GateResult, decision: GateDecision) -> None:
    """Write the decision into the batch's report."""
    result.decision = decision._asdict()
    keep(spec, result)
