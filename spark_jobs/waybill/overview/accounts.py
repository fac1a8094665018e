"""The account of every batch, from what stages have committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.counting import counted
from waybill.lake.decisions import HELD as JUDGED_NO
from waybill.lake.decisions import STAMPS
from waybill.lake_columns import BOOTSTRAP
from waybill.overview.schema import (
    DONE,
    DROPPED,
    HELD,
    PART,
    PUBLISHED,
    TAKEN,
    UNDER_WAY,
    VERSION,
    WAITING,
    BatchAccount,
    FailedRule,
    GateVerdict,
    StageAccount,
    TableAccount,
    TargetAccount,
)
from waybill.report import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.lake.commit import Commit
    from waybill.overview.commits import Commits, SnapshotLine

READ = 100
"""So many partitions or files of a batch are named."""

SHOWN = 20
"""Warnings, places and rules that a file names of each list."""


class _Step(NamedTuple):
    """How a stage is recorded.

    Attributes:
        commits: by batch, the newest of each.
        reads: the table that it reads, as far as its cursor tells.
        upto: up to which snapshot of that table the commit of a stage has read.
        source: the commits of the stage before, by batch.
    """

    commits: dict[str, Commit]
    reads: SnapshotLine
    upto: Any
    source: dict[str, Commit]


class Accounts:
    """The accounts of the batches of a migration.

    Args:
        migration: its name.
        commits: what stages have committed.
    """

    def __init__(self, migration: str, commits: Commits) -> None:
        self._migration = migration
        self._commits = commits
        self._archived = _by_batch(commits.archive.of("snapshot"))
        self._decoded = _by_batch(commits.changes.of("convert"))
        self._encoded = _by_batch(commits.outbox.of("convert"))
        self._merged = _by_batch(commits.merges.of("merge"))
        self._judged = _by_batch(commits.runs.of("validate", JUDGED_NO))
        self._passed = _by_batch(commits.runs.of("validate"))
        self._published = _by_batch(commits.published.of("publish"))
        self._decided = _by_batch(commits.runs.of(*STAMPS.values()))
        self._held = commits.held.merge if commits.held is not None else None
        merged = {**self._merged, **({self._held.batch: self._held} if self._held else {})}
        self._steps = {
            "convert": _Step(
                self._decoded, commits.archive, lambda c: c["archive"]["upto"], self._archived
            ),
            "merge": _Step(merged, commits.changes, lambda c: c["changes"], self._decoded),
            "publish": _Step(self._published, commits.runs, lambda c: c["runs"], self._passed),
        }

    def batches(self) -> list[str]:
        """Every batch that a stage has committed, the newest first."""
        found: dict[str, int] = {}
        for commit in self._every():
            found[commit.batch] = min(commit.time_ms, found.get(commit.batch, commit.time_ms))
        return sorted(found, key=lambda batch: (found[batch], batch), reverse=True)

    def _every(self) -> Iterator[Commit]:
        for line in self._commits.lines:
            # What a target begins with belongs to the batch that comes after it.
            yield from (commit for commit in line.commits if commit.stage != BOOTSTRAP)
        if self._held is not None:
            yield self._held

    def account(self, batch: str) -> BatchAccount:
        """The account of a batch."""
        stages = [
            self._snapshot(batch),
            self._convert(batch),
            self._merge(batch),
            self._validate(batch),
            self._publish(batch),
        ]
        return BatchAccount(
            VERSION,
            self._migration,
            batch,
            self._state(batch, stages),
            stages,
            self._targets(batch),
            self._tables(batch),
            self._verdict(batch),
            *_read(self._archived.get(batch)),
        )

    def _state(self, batch: str, stages: list[StageAccount]) -> str:
        if batch in self._published:
            return PUBLISHED
        merge = stages[STAGES.index("merge")]
        if merge.state in (HELD, DROPPED):
            return merge.state
        states = {stage.state for stage in stages}
        return TAKEN if TAKEN in states and WAITING not in states else UNDER_WAY

    def _snapshot(self, batch: str) -> StageAccount:
        commit = self._archived.get(batch)
        if commit is None:
            return StageAccount("snapshot", WAITING, "It archived no messages for this batch.")
        return _done(commit, DONE)

    def _convert(self, batch: str) -> StageAccount:
        encoded, decoded = self._encoded.get(batch), self._decoded.get(batch)
        if encoded is not None:
            return _done(encoded, DONE)
        if decoded is None:
            return self._not_done("convert", batch)
        by = self._encoder(decoded)
        if by is None:
            why = "It has decoded the messages, but not yet written those of the targets."
        else:
            why = f"It has decoded the messages; batch {by} wrote those of the targets."
        account = _done(decoded, PART)
        return _with(account, why=why, by=by)

    def _encoder(self, decoded: Commit) -> str | None:
        """The batch that encoded what another one has decoded."""
        line = self._commits.changes
        place = line.place(decoded.snapshot)
        for commit in sorted(self._encoded.values(), key=lambda one: one.time_ms):
            if line.place(commit.cursor["changes"]["upto"]) >= place > 0:
                return commit.batch
        return None

    def _merge(self, batch: str) -> StageAccount:
        if self._held is not None and self._held.batch == batch:
            judged = self._judged.get(batch)
            failed = judged is not None and judged.cursor.get("merges") == self._held.snapshot
            why = (
                "The gate holds the batch, so its rows are not visible."
                if failed
                else "The gate has not judged the batch yet, so its rows are not visible."
            )
            return _with(_done(self._held, HELD if failed else DONE), why=why)
        if batch in self._merged:
            return _done(self._merged[batch], DONE)
        account = self._not_done("merge", batch)
        if self._was_held(batch):
            by = account.by
            why = "Its merge was dropped after the batch failed the gate; " + (
                f"batch {by} has merged the changes again."
                if by is not None
                else "the next batch merges the changes again."
            )
            return StageAccount("merge", DROPPED, why, by)
        return account

    def _was_held(self, batch: str) -> bool:
        """Whether the gate said no to a batch whose merge is gone."""
        judged = self._judged.get(batch)
        return judged is not None and judged.stage == JUDGED_NO

    def _validate(self, batch: str) -> StageAccount:
        judged = self._judged.get(batch)
        if judged is not None:
            if judged.stage != JUDGED_NO:
                return _done(judged, DONE)
            held = self._held is not None and self._held.batch == batch
            state = HELD if held else DROPPED
            return _with(
                _done(judged, state), why="The batch failed the gate, so nothing was published."
            )
        return self._after_merge("validate", batch)

    def _publish(self, batch: str) -> StageAccount:
        if batch in self._published:
            return _done(self._published[batch], DONE)
        if self._was_held(batch):
            merge = self._merge(batch)
            if merge.state == DROPPED and merge.by is not None:
                why = f"Batch {merge.by} publishes its messages, if it passes the gate."
                return StageAccount("publish", TAKEN, why, merge.by)
            return StageAccount("publish", WAITING, "The gate holds the batch.")
        if batch in self._passed:
            return self._not_done("publish", batch)
        return self._after_merge("publish", batch)

    def _after_merge(self, stage: str, batch: str) -> StageAccount:
        """A stage that did nothing for a batch because of what became of its merge."""
        merge = self._merge(batch)
        if merge.state == TAKEN:
            return StageAccount(stage, TAKEN, merge.why, merge.by)
        return StageAccount(stage, WAITING, "It has not reached this batch yet.")

    def _not_done(self, stage: str, batch: str) -> StageAccount:
        """A stage that has no commit of a batch: a later batch took it along, or it waits."""
        by = self._taker(stage, batch)
        if by is not None:
            why = f"The run of this batch ended before this stage; batch {by} took over its work."
            return StageAccount(stage, TAKEN, why, by)
        why = "It has not reached this batch yet; the next run continues here."
        if stage == "merge" and self._held is not None:
            why = f"It waits because batch {self._held.batch} has not passed the gate."
        return StageAccount(stage, WAITING, why)

    def _taker(self, stage: str, batch: str) -> str | None:
        """The batch whose run did a stage for another one, None where none did."""
        step = self._steps[stage]
        source = step.source.get(batch)
        if source is None:
            earlier = STAGES[STAGES.index(stage) - 1]
            # Who took the stage before took this one along, too, or handed it on.
            other = self._taker(earlier, batch) if earlier in self._steps else None
            if other is None:
                return None
            return other if other in step.commits else self._taker(stage, other)
        place = step.reads.place(source.snapshot)
        for commit in sorted(step.commits.values(), key=lambda one: one.time_ms):
            if commit.batch != batch and step.reads.place(step.upto(commit.cursor)) >= place > 0:
                return commit.batch
        return None

    def _targets(self, batch: str) -> list[TargetAccount]:
        encoded, published = self._encoded.get(batch), self._published.get(batch)
        report = {} if encoded is None else encoded.report
        counts: dict[str, Any] = report.get("details", {}).get("targets", {})
        losses, made = report.get("losses", {}), report.get("made_ids", {})
        sent: dict[str, Any] = {}
        if published is not None:
            details = published.report.get("details", {})
            sent = {label: data for label, data in details.items() if isinstance(data, dict)}
        return [
            TargetAccount(
                target=label,
                messages=counts.get(label, {}).get("messages", 0),
                published=sent[label].get("messages", 0) if label in sent else None,
                refused=counts.get(label, {}).get("refused", {}),
                skipped=counts.get(label, {}).get("skipped", {}),
                losses=losses.get(label, {}),
                made_ids=made.get(label, {}),
                places=_places(sent.get(label, {})),
            )
            for label in sorted({*counts, *sent, *losses})
        ]

    def _tables(self, batch: str) -> list[TableAccount]:
        merge = self._merged.get(batch)
        if merge is None and self._held is not None and self._held.batch == batch:
            merge = self._held
        decoded = self._encoded.get(batch) or self._decoded.get(batch)
        operations = {} if decoded is None else decoded.report["details"].get("tables", {})
        merged = {} if merge is None else merged_tables(merge)
        return [
            TableAccount(
                table=name,
                operations=operations.get(name, {}),
                rows_in=merged.get(name, {}).get("in", 0),
                rows_out=merged.get(name, {}).get("out", 0),
                superseded=merged.get(name, {}).get("superseded", 0),
                refused=merged.get(name, {}).get("refused", 0),
                columns=merged.get(name, {}).get("columns", []),
                sequence=merged.get(name, {}).get("complete up to", {}).get("sequence"),
                complete=merged.get(name, {}).get("complete up to", {}).get("time"),
            )
            for name in sorted({*operations, *merged})
        ]

    def _verdict(self, batch: str) -> GateVerdict | None:
        judged = self._judged.get(batch)
        return None if judged is None else verdict_of(judged, self._decided.get(batch))


def merged_tables(merge: Commit) -> dict[str, Any]:
    """What a merge tells of each table that it changed."""
    details: dict[str, Any] = merge.report["details"]
    return {
        name: account
        for name, account in details.items()
        if isinstance(account, dict) and "complete up to" in account
    }


def verdict_of(judged: Commit, decision: Commit | None) -> GateVerdict:
    """What the gate said, and what a person has decided."""
    details = judged.report.get("details", {})
    decided = "" if decision is None else _sentence(decision.report["details"]["decision"])
    if "decision" in details and not decided:
        decided = _sentence(details["decision"])
    return GateVerdict(
        outcome=details.get("outcome", ""),
        checked=details.get("checked", 0),
        failed_critical=details.get("failed_critical", 0),
        failed_warning=details.get("failed_warning", 0),
        rules=[
            FailedRule(one["rule"], one["waivable"]) for one in details.get("held_for", [])[:SHOWN]
        ],
        decided=decided,
        limits=details.get("limits", {}),
    )


def _sentence(decision: dict[str, Any]) -> str:
    parts = (decision.get(name, "") for name in ("what", "by", "time", "reason"))
    return "{} by {} at {}: {}".format(*parts)


def _read(commit: Commit | None) -> tuple[list[str], int]:
    """What a snapshot has read, part by part, and how many parts its report does not name."""
    if commit is None:
        return [], 0
    details = commit.report["details"]
    parts = [
        "{topic}/{partition} from offset {start} to {end}: ".format(**span)
        + counted(span["rows"], "message", style=",")
        for span in details.get("ranges", ())
    ]
    parts += [
        f"{file['file']}: {counted(file['rows'], 'message', style=',')}"
        for file in details.get("files", ())
    ]
    unnamed = max(0, details.get("new_files", 0) - len(details.get("files", ())))
    dumps = details.get("full_loads", {})
    parts += [f"{name}: {counted(rows, 'row', style=',')}" for name, rows in dumps.items()]
    return parts[:READ], unnamed + len(parts[READ:])


def _by_batch(newest_first: Iterable[Commit]) -> dict[str, Commit]:
    found: dict[str, Commit] = {}
    for commit in newest_first:
        found.setdefault(commit.batch, commit)
    return found


def _done(commit: Commit, state: str) -> StageAccount:
    report = commit.report
    # The stamp of a batch that the gate holds has a name of its own.
    stage = "validate" if commit.stage == JUDGED_NO else commit.stage
    return StageAccount(
        stage=stage,
        state=state,
        time=commit.time_ms,
        seconds=report.get("seconds", 0.0),
        rows_in=report.get("rows_in", 0),
        extra_in=report.get("extra_in", {}),
        rows_out=report.get("rows_out", 0),
        refused=report.get("refused", {}),
        superseded=report.get("superseded", 0),
        skipped=report.get("skipped", {}),
        waiting=report.get("waiting", 0),
        warnings=report.get("warnings", [])[:SHOWN],
        file=report.get("file", ""),
    )


def _with(account: StageAccount, why: str, by: str | None = None) -> StageAccount:
    return msgspec.structs.replace(account, why=why, by=by)


def _places(sent: dict[str, Any]) -> list[str]:
    """Where messages of a target are: its manifests, or ranges of offsets."""
    if "manifests" in sent:
        return [str(place) for place in sent["manifests"][:SHOWN]]
    topic, offsets = sent.get("topic", ""), sent.get("offsets", {})
    return [
        f"{topic}/{partition} from offset {first} to {last}"
        for partition, (first, last) in list(offsets.items())[:SHOWN]
    ]
