"""The waybill of a batch: what came in, what went out, what was refused and why."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from waybill.counting import counted
from waybill.errors import ReconciliationError

STAGES = ("snapshot", "convert", "merge", "validate", "publish")
"""The stages in the order of the data."""


EXACT = 2**53
"""The integer from which on readers of JSON that have only floats of 64 bits round."""


TABLES_HELD = "tables that wait"
"""The detail of a merge's report with the tables whose changes wait for a person's decision."""

COLUMN_CHANGES = "column changes"
"""In what a merge's report has of a table: the changes of its columns, some of them."""

TRIED_AGAIN = "tried_again"
"""The detail of a report that says that the stage took messages out of the quarantine for another
try; what it refused again is among what it refused."""


SEEN = "seen"
"""The detail of a snapshot's report that says when it asked the source how far that is (`at`, in
milliseconds since 1970), and how much it had to leave for a later batch (`left`)."""
SOURCES = "mapped_tables"
"""The detail of a conversion's report with what the migration calls mapped tables, by the source's
names, of this batch and those before."""

NEWEST = "newest"
"""The detail of a conversion's report with the newest source time of each table's changes, in
microseconds since 1970."""

TABLE_ROWS = "table rows"
"""In the details of a gate: how many rows each table has that the batch changed."""

BEGAN = "began"
"""The detail of a snapshot's report that says when it looked what the source holds, in seconds
since 1970 by the clock of the machine."""


def as_texts(data: Any, least: int = EXACT) -> Any:
    """Plain data with integers of at least this as texts."""
    if isinstance(data, dict):
        return {name: as_texts(value, least) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [as_texts(value, least) for value in data]
    is_number = isinstance(data, int) and not isinstance(data, bool)
    return str(data) if is_number and abs(data) >= least else data


_ROWS_NAMED = re.compile(r" \(([\d,]+ rows?): .*\)\Z", re.DOTALL)
"""The end of a sentence about a rule, where it names some of the rows that do not meet it."""


def without_rows(sentence: str) -> str:
    """A sentence about a rule that is not met, with the number of the rows that it may name.

    Verdicts and decisions of earlier versions named keys of rows in what more people see than may
    see rows, and lakes and reports keep them.
    """
    return _ROWS_NAMED.sub(r" (\1)", sentence)


def decision_without_rows(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision of a person about a batch as plain data, its rules as `without_rows` has them."""
    rules = [{**rule, "rule": without_rows(rule["rule"])} for rule in decision["rules"]]
    return {**decision, "rules": rules}


def json_safe_cursor(stage: str, cursor: dict[str, Any]) -> dict[str, Any]:
    """The cursor of a stage for other programs, its ids of snapshots as texts."""
    # Apart from what the source is read up to, cursors hold nothing but snapshots.
    texts: dict[str, Any] = as_texts(cursor, EXACT if stage == STAGES[0] else 0)
    return texts


@dataclass(slots=True)
class StageReport:
    """The account of one stage of one batch.

    `rows_in + extra_in == rows_out + refused + superseded + skipped + waiting` holds for every
    committed report (`reconcile`).
    """

    stage: str
    batch: str
    rows_in: int = 0
    """Rows read: messages, changes, outbox rows, by stage."""
    extra_in: dict[str, int] = field(default_factory=dict)
    """Rows that came in otherwise, by reason: further rows of a message, halves carried over,
    the second effect of a key change, further targets."""
    rows_out: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """Refused rows by class of the reason."""
    superseded: int = 0
    """Rows that a newer row of the same key made void."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Rows left out on purpose, by reason."""
    waiting: int = 0
    """Rows held for the next batch."""
    losses: dict[str, dict[str, int]] = field(default_factory=dict)
    """What each target could not carry, counted by capability."""
    made_ids: dict[str, dict[str, int]] = field(default_factory=dict)
    """Ids that had to be made for each target, by whether they order across partitions or within
    each only (`waybill.made_ids`)."""
    details: dict[str, Any] = field(default_factory=dict)
    """Further figures of the stage (per table, per target), for people."""
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    file: str = ""
    """Digest of the migration's file that the stage ran with (`Migration.digest`)."""
    snapshots: dict[str, int] = field(default_factory=dict)
    """Snapshot id of every table that the stage committed."""
    cursor: dict[str, Any] = field(default_factory=dict)
    """What was consumed, up to where."""
    repeated: bool = False
    """Whether the batch had been done before and this run changed nothing."""

    def reconcile(self) -> None:
        """Check that rows in and rows out add up.

        Raises:
            ReconciliationError: they do not; names both sides.
        """
        came = self.rows_in + sum(self.extra_in.values())
        went = (
            self.rows_out
            + sum(self.refused.values())
            + self.superseded
            + sum(self.skipped.values())
            + self.waiting
        )
        if came != went:
            message = (
                f"stage {self.stage} of batch {self.batch} does not reconcile: "
                f"{counted(came, 'row')} in ({self.rows_in} + {self.extra_in}), {went} accounted "
                f"for ({self.rows_out} out, {self.refused} refused, {self.superseded} superseded, "
                f"{self.skipped} skipped, {self.waiting} waiting); nothing was committed"
            )
            raise ReconciliationError(message)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as kept in snapshot summaries and `runs`."""
        return asdict(self)

    def to_json_safe(self) -> dict[str, Any]:
        """Plain data for other programs, as returned by tasks and printed as JSON.

        Ids of snapshots are texts, and so are other integers of 2^53 and more: JavaScript and jq
        round these.
        """
        data: dict[str, Any] = as_texts(asdict(self))
        data["snapshots"] = {table: str(snapshot) for table, snapshot in self.snapshots.items()}
        data["cursor"] = json_safe_cursor(self.stage, self.cursor)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StageReport:
        """The report that `to_dict` or `to_json_safe` described."""
        snapshots = {table: int(snapshot) for table, snapshot in data["snapshots"].items()}
        return cls(**{**data, "snapshots": snapshots})


@dataclass(slots=True)
class Waybill:
    """The account of one batch through all stages."""

    migration: str
    batch: str
    stages: list[StageReport] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; ids of snapshots are texts (`StageReport.to_json_safe`)."""
        stages = [report.to_json_safe() for report in self.stages]
        return {"migration": self.migration, "batch": self.batch, "stages": stages}

    def to_json(self) -> str:
        """The waybill as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def stage(self, name: str) -> StageReport | None:
        """The report of one stage, None if the batch did not get there."""
        return next((report for report in self.stages if report.stage == name), None)
