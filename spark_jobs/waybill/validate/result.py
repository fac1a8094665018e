"""What the gate found and what follows from it, as plain data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from waybill.counting import counted, plain
from waybill.report import decision_without_rows

PASSED, REPORTED, FAILED, APPROVED = "passed", "reported", "failed", "approved"
SEVERITIES = ("critical", "warning", "info")

FIGURES = re.compile(
    r"expect_table_|expect_column_unique_value_count_|expect_column_proportion_|unexpected_rows_"
)
"""Expectations that observe a count, a share or names of columns, not values of rows."""

TRENDS = "trends"

PROFILES = ("changes", "tables", TRENDS)
"""The profiles that a suite can run over."""


@dataclass(frozen=True)
class Checked:
    """One expectation and what came of it.

    Attributes:
        suite: name of the suite.
        profile: what it ran over.
        type: type of the expectation.
        arguments: what it was given.
        severity: critical stops the batch, warning and info are reported.
        description: what is expected, for a person.
        look: where to look when it is not met.
        success: whether it is met.
        observed: rows that do not meet it, each as `where` and, if it may be shown, `value`.
        error: what went wrong while it was checked.
        table: the source table whose rows or changes it looks at; `where` is a key of it then.
        unexpected: how many rows do not meet it, of which `observed` names some; None where
            `observed` names all.
        note: why there was nothing to look at.
        waivable: whether a person may have the batch published although it is not met.
    """

    suite: str
    profile: str
    type: str
    arguments: dict[str, Any]
    severity: str
    description: str
    look: str
    success: bool
    observed: list[dict[str, Any]]
    error: str | None = None
    table: str | None = None
    unexpected: int | None = None
    note: str = ""
    waivable: bool = True

    @property
    def of_rows(self) -> bool:
        """Whether it looks at rows, changes or messages, not at a profile of them."""
        return self.table is not None or self.profile not in PROFILES

    @property
    def may_be_waived(self) -> bool:
        """Whether a person may do so now: of what could not be checked nobody knows what it is."""
        return self.waivable and self.error is None


@dataclass(frozen=True)
class Cost:
    """What running a suite took, without what it shares with others.

    Attributes:
        suite: its name.
        over: what it ran over.
        rows: how many rows it looked at.
        seconds: by the clock.
        jobs: of Spark.
    """

    suite: str
    over: str
    rows: int
    seconds: float
    jobs: int


@dataclass(frozen=True)
class SharedCost:
    """What was done once for several suites; nobody can tell how much of it each needed.

    Attributes:
        what: what was done.
        suites: the names of all suites that it was done for; one if no other needed it.
        rows: how many rows it made.
        seconds: by the clock.
        jobs: of Spark.
    """

    what: str
    suites: list[str]
    rows: int
    seconds: float
    jobs: int


@dataclass
class GateResult:
    """The gate's word on a batch.

    Attributes:
        migration: name of the migration.
        batch: id of the batch.
        outcome: passed, reported (failures were let through by `on_failure: report`), approved
            (a person has let them through) or failed.
        time: when, ISO 8601 in UTC.
        checks: every expectation.
        profiles: the rows that they ran over.
        differences: examples of messages that do not decode again to their change.
        accounts: counts that do not agree across stages, one sentence each.
        stages: the reports of the stages before.
        costs: what each suite took.
        shared: what was done once for several suites.
        decision: what a person has decided about the batch (`waybill.lake.decisions.GateDecision`);
            None where nobody did.
    """

    migration: str
    batch: str
    time: str
    checks: list[Checked]
    profiles: dict[str, list[dict[str, Any]]]
    differences: list[dict[str, Any]] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    outcome: str = PASSED
    costs: list[Cost] = field(default_factory=list)
    shared: list[SharedCost] = field(default_factory=list)
    decision: dict[str, Any] | None = None

    def judge(self, on_failure: str, waived: Collection[str] = ()) -> None:
        """Set the outcome from what failed.

        Args:
            on_failure: see `quality.on_failure`.
            waived: marks of the findings (`finding_mark`) that a person has let through.
        """
        failed = self.failures("critical")
        if not failed:
            self.outcome = PASSED
        elif on_failure == "report":
            self.outcome = REPORTED
        elif all(check.may_be_waived and finding_mark(check) in waived for check in failed):
            self.outcome = APPROVED
        else:
            self.outcome = FAILED

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GateResult:
        """The result that `to_dict` described, also one of an older version."""
        checks = [Checked(**check) for check in data["checks"]]
        costs = [Cost(**cost) for cost in data.get("costs", [])]
        shared = [SharedCost(**cost) for cost in data.get("shared", [])]
        return cls(**{**data, "checks": checks, "costs": costs, "shared": shared})

    def failures(self, severity: str) -> list[Checked]:
        """The expectations of a severity that are not met."""
        return [check for check in self.checks if not check.success and check.severity == severity]

    def counts(self) -> dict[str, int]:
        """How many were checked, and how many failed by severity."""
        failed = {f"failed_{name}": len(self.failures(name)) for name in SEVERITIES}
        return {"checked": len(self.checks), **failed}

    def counts_sentence(self) -> str:
        """The same as a sentence."""
        names = zip(SEVERITIES, ("critical failure", "warning", "note"), strict=True)
        failed = [counted(len(self.failures(severity)), name) for severity, name in names]
        return f"{counted(len(self.checks), 'expectation')}: {', '.join(failed)}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def without_values(self) -> GateResult:
        """The result without keys and values of rows, for whom only counts are."""
        checks = [_without_rows(check) for check in self.checks]
        decision = None if self.decision is None else decision_without_rows(self.decision)
        return replace(self, checks=checks, differences=[], decision=decision)


def figure_is_a_value(check: Checked) -> bool:
    """Whether what a rule measures is a value of rows, such as the largest of a column.

    Where it looks for rows that do not meet it, that is how many it found.
    """
    return check.unexpected is None and _observes_values(check)


def _observes_values(check: Checked) -> bool:
    return check.of_rows and not FIGURES.match(check.type)


def _without_rows(check: Checked) -> Checked:
    """A check that names no row and no value of one; its commands may name a key."""
    if check.unexpected is not None or _observes_values(check):
        return replace(check, observed=[], look="")
    return replace(check, look="") if "--key" in check.look else check


def finding_mark(check: Checked) -> str:
    """A mark of a rule together with what it found, the same for the same rows however often.

    Rows that were found are counted where they are a sample: the next time it may be others.
    """
    found: Any = check.unexpected
    if found is None:
        found = sorted(_plain(item) for item in check.observed)
    rule = (check.suite, check.profile, check.table, check.type, check.arguments)
    return _mark([*rule, found, check.error])


def verdict_mark(failed: Sequence[Checked]) -> str:
    """A mark of all that a batch is held for."""
    return _mark(sorted(map(finding_mark, failed)))


def _mark(data: Any) -> str:
    return hashlib.sha256(_plain(data).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _plain(data: Any) -> str:
    """Data as text, the same before it was kept as JSON and afterwards."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, default=str)


def count_sentence(check: Checked) -> str:
    """A failed expectation in one line, for whom no key or value of a row is meant."""
    return sentence_of(_without_rows(check))


def sentence_of(check: Checked) -> str:
    """A failed expectation in one line, with keys of rows and what its suite shows of them.

    It is for the logs of tasks and the terminal. Pages, mails and what is kept in `runs` have
    `count_sentence`, because more people see them than may see rows.
    """
    what = check.description or check.type
    if check.error is not None:
        return f"{what.rstrip('.')}; not checked: {' '.join(check.error.split())[:200]}"
    shown = [found_text(found, _short) for found in check.observed[:5]]
    every = len(check.observed)
    found = ["found"]
    if check.unexpected is not None:
        every = check.unexpected
        found = [f"{counted(every, 'row')}:" if shown else counted(every, "row")]
    more = [f"and {every - len(shown)} more"] if shown and every > len(shown) else []
    sentence = " ".join([*found, ", ".join(shown), *more]).strip()
    return what.rstrip(".") if sentence == "found" else f"{what.rstrip('.')} ({sentence})"


def found_text(found: dict[str, Any], number: Callable[[Any], str]) -> str:
    """Where something was found and, if it may be shown, what."""
    parts = [str(found["where"])] if found["where"] != "" else []
    return ": ".join([*parts, number(found["value"])] if "value" in found else parts)


def _short(value: Any) -> str:
    return plain(value) if isinstance(value, float) else str(value)
