"""The state of a migration in a word and a sentence, and what a person can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.counting import counted
from waybill_airflow.lateness import LATE_AFTER, is_overdue
from waybill_airflow.web.formatting import age, clock

if TYPE_CHECKING:
    from datetime import datetime

    from waybill.overview.schema import BatchLine, FailedStage, Index
    from waybill.spec.migration import Migration
    from waybill_airflow.web.airflow_runs import DagFacts

BROKEN, UNREADABLE, HELD, FAILING, WAITING, LATE, REFUSING, NEVER_RAN, FINE = WORST_FIRST = (
    "file broken",
    "not readable",
    "held",
    "failing",
    "table waits",
    "late",
    "refusing",
    "never ran",
    "fine",
)

ATTENTION = WORST_FIRST[: WORST_FIRST.index(NEVER_RAN)]
"""The states that somebody should look at."""

BUSY = ("queued", "running")
"""States of runs, in Airflow's words, that have not ended."""

_ALL = "All that was archived is published."

_LAST_RUN = (
    "The last run failed. The log of its first red task ends with the cause in one sentence."
)


class Step(NamedTuple):
    """Something that can be done.

    Attributes:
        what: what it does.
        in_airflow: how it is done there.
        command: the command line for it.
        conf: how the trigger form is filled in for it; None where no run does it.
    """

    what: str
    in_airflow: str = ""
    command: str = ""
    conf: dict[str, Any] | None = None


class Condition(NamedTuple):
    """How a migration is."""

    word: str
    sentence: str
    steps: list[Step]

    @property
    def rank(self) -> int:
        """Its place when the worst comes first."""
        return WORST_FIRST.index(self.word)

    @property
    def kind(self) -> str:
        """The word as a class of the style sheet."""
        return self.word.replace(" ", "-")


def condition_of(
    spec: Migration, index: Index | None, facts: DagFacts, now: datetime, problem: str = ""
) -> Condition:
    """How a migration is.

    Args:
        spec: the migration.
        index: what its lake says, None where it has no index.
        facts: what Airflow says.
        now: with its zone.
        problem: why the lake cannot be read, empty where it can.
    """
    if problem:
        return Condition(
            UNREADABLE, problem, [Step("Show the state of the lake", "", _status(spec))]
        )
    if index is not None and index.held is not None:
        return _held(spec, index)
    busy = facts.last is not None and facts.last.state in BUSY
    if index is not None and index.unjudged is not None and not busy:
        return _unjudged(spec, index.unjudged)
    if facts.last is not None and facts.last.state == "failed":
        return _failing(spec, _LAST_RUN)
    if index is not None and index.stopped is not None and not busy:
        return _failing(spec, _stopped(index.stopped))
    if index is None or not index.batches:
        return _never(spec, facts)
    if index.tables_waiting:
        return _waiting(spec, index)
    last = index.batches[0]
    if is_overdue(spec.schedule, last.ended, now) and not facts.paused:
        return _late(spec, last, now)
    if last.refused:
        return _refusing(spec, last)
    return Condition(FINE, _fine(index, facts), [])


def _status(spec: Migration) -> str:
    return spec.command("status", "FILE")


def _next_run(spec: Migration) -> Step:
    what = "Start the next run"
    return Step(what, "Trigger the DAG as it is.", spec.command("run", "FILE"), {})


def usual_steps(spec: Migration) -> list[Step]:
    """Runs that can be started at any time."""
    again = Step(
        "Read the whole source again; targets get every message again",
        "Trigger the DAG with Mode “The whole source, from its beginning”.",
        spec.command("run", "FILE", "--full"),
        {"mode": "full"},
    )
    return [_next_run(spec), again]


def _unjudged(spec: Migration, batch: str) -> Condition:
    sentence = (
        f"Batch {batch} was merged and not judged, because its run was ended. Nothing of it is "
        "visible or published. The next run has the gate judge it first."
    )
    return Condition(HELD, sentence, [_next_run(spec)])


def _held(spec: Migration, index: Index) -> Condition:
    batch, rules = index.held or "", index.held_rules
    first = rules[0].rule.rstrip(".") if rules else "something that its report names"
    more = f" and {counted(len(rules) - 1, 'more rule')}" if len(rules) > 1 else ""
    sentence = (
        f"Batch {batch} is held: the gate expects “{first}”{more}. Nothing of it is visible or "
        "published, and later batches wait for it."
    )
    if index.decided:
        sentence += f" Decided: {index.decided}. The next run executes it."
        return Condition(HELD, sentence, [_next_run(spec)])
    drop = Step(
        "When the cause is fixed: drop it, and merge its changes again with new ones",
        "Trigger the DAG and tick “Drop the held batch”.",
        spec.command("run", "FILE", "--drop-held"),
        {"drop_held": True},
    )
    again = Step(
        "When a limit or a suite was wrong: judge it again",
        "Clear the validate task of its run.",
        spec.command("run", "FILE", "--batch", batch),
    )
    steps = [drop, again]
    if spec.quality.on_failure == "ask":
        steps.insert(0, Step("Decide", "“Required actions” of its run show the question."))
    if all(rule.waivable for rule in rules):
        command = spec.command("gate", "approve", "FILE", "--reason", "TEXT")
        steps.append(Step("Publish it as it is, with a reason", "", command))
    return Condition(HELD, sentence, steps)


def _stopped(failure: FailedStage) -> str:
    what = f"The stage {failure.stage}" if failure.stage else "The run"
    since = "no stage has succeeded since" if failure.stage else "no run has succeeded since"
    return f"{what} of batch {failure.batch} failed, and {since}."


def _failing(spec: Migration, what: str) -> Condition:
    sentence = f"{what} The results of earlier batches are unchanged."
    again = Step(
        "When the cause is fixed: continue",
        "Clear the failed task, or trigger the DAG as it is. Finished work is not repeated.",
        spec.command("run", "FILE"),
        {},
    )
    return Condition(FAILING, sentence, [again, Step("Show its progress", "", _status(spec))])


def _never(spec: Migration, facts: DagFacts) -> Condition:
    if facts.last is None:
        sentence = "It has not run yet."
    else:
        sentence = "It has run, but there are no figures yet. Its next stage writes them."
    return Condition(NEVER_RAN, sentence, [_next_run(spec)])


def _waiting(spec: Migration, index: Index) -> Condition:
    first = index.tables_waiting[0]
    others = len(index.tables_waiting) - 1
    more = f" {counted(others, 'more table waits', 'more tables wait')}, too." if others else ""
    sentence = (
        f"The table {first.table} waits for a decision since batch {first.since}, with "
        f"{counted(first.changes, 'change', style=',')}: {first.why.rstrip('.')}.{more} All others "
        "continue."
    )
    step = _next_run(spec)._replace(
        what="Decide under schema_changes in the migration file, then continue"
    )
    return Condition(WAITING, sentence, [step, Step("Show all of them", "", _status(spec))])


def _late(spec: Migration, last: BatchLine, now: datetime) -> Condition:
    sentence = (
        f"Its last batch is {age(last.ended, now)} old, and by its schedule ({spec.schedule}) at "
        f"least {LATE_AFTER} more should have ended since."
    )
    look = Step(
        "Check its runs: one may wait for another run, a worker or an answer",
        "Its page in Airflow shows them.",
        _status(spec),
    )
    return Condition(LATE, sentence, [look])


def _refusing(spec: Migration, last: BatchLine) -> Condition:
    sentence = (
        f"The last batch refused {counted(last.refused, 'row', style=',')} of "
        f"{counted(last.rows_in, 'message', style=',')}. They wait in the quarantine with their "
        "bytes and do not delay other messages."
    )
    return Condition(REFUSING, sentence, quarantine_steps(spec))


def quarantine_steps(spec: Migration) -> list[Step]:
    """What can be done about refused messages."""
    return [
        Step("List them with their reasons", "", spec.command("quarantine", "list", "FILE")),
        Step(
            "When the cause is fixed: replay them",
            "Trigger the DAG with Mode “No new messages: replay the refused ones”.",
            spec.command("quarantine", "replay", "FILE"),
            {"mode": "replay"},
        ),
    ]


def _fine(index: Index, facts: DagFacts) -> str:
    if index.lag:
        return f"{counted(index.lag, 'message', style=',')} in the archive will be published next."
    if facts.next_run is not None and not facts.paused:
        return f"{_ALL} The next run is due at {clock(facts.next_run)}."
    return _ALL
