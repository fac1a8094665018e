"""What stages have committed to the batch tables, with the order in which it happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.lake.commit import is_stamped, read_commit
from waybill.lake.decisions import decision_on, waiting_merge
from waybill.report import TABLE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from waybill.lake.commit import Commit
    from waybill.lake.history import History

LAST = 200
"""So many batches the index has; of each table no more commits are read."""

BATCH_TABLES = ("archive", "changes", "outbox", "merges", "runs", "published")


class SnapshotLine:
    """The visible snapshots of a batch table, and what was committed with the last of them.

    Attributes:
        commits: of stages, newest first, as many as are looked at.
        since: the time up to which commits may be missing, 0 where all that ever were are here.
    """

    def __init__(self, lake: History, name: str, limit: int) -> None:
        metadata = lake.found(lake.log(name))
        line = [] if metadata is None else metadata.ancestors(metadata.refs.get("main"))
        self._places = {snapshot.id: len(line) - place for place, snapshot in enumerate(line)}
        self.commits: list[Commit] = []
        self.since = line[-1].time_ms if line and line[-1].parent is not None else 0
        for snapshot in line:
            commit = read_commit(snapshot) if len(self.commits) < limit else None
            if commit is not None:
                self.commits.append(commit)
            elif len(self.commits) == limit and is_stamped(snapshot):
                self.since = self.commits[-1].time_ms
                break

    def place(self, snapshot: int | None) -> int:
        """Where a snapshot stands, from 1; 0 for none, or for one that has expired since."""
        return 0 if snapshot is None else self._places.get(snapshot, 0)

    def reaches(self, snapshot: int | None) -> bool:
        """Whether all that was committed after a snapshot, or ever, is among the commits."""
        if snapshot is None or not self.commits:
            return self.since == 0 and snapshot is None
        there = self.place(snapshot)
        return there > 0 and (self.since == 0 or there >= self.place(self.commits[-1].snapshot))

    def of(self, *stages: str) -> Iterator[Commit]:
        """Commits of some stages, newest first."""
        return (commit for commit in self.commits if commit.stage in stages)

    def after(self, snapshot: int | None) -> list[Commit]:
        """Commits that came after a snapshot, newest first."""
        start = self.place(snapshot)
        return [commit for commit in self.commits if self.place(commit.snapshot) > start]


class HeldMerge(NamedTuple):
    """The merge that waits for its gate, and what a person has decided about it."""

    merge: Commit
    decided: str


class Commits(NamedTuple):
    """Everything that an overview is made from.

    Attributes:
        archive: of stage `snapshot`.
        changes: of stage `convert`, when it has decoded.
        outbox: of stage `convert`, when it has encoded.
        merges: of stage `merge`, visible ones.
        runs: verdicts and decisions.
        published: of stage `publish`.
        held: what waits for the gate.
    """

    archive: SnapshotLine
    changes: SnapshotLine
    outbox: SnapshotLine
    merges: SnapshotLine
    runs: SnapshotLine
    published: SnapshotLine
    held: HeldMerge | None

    @property
    def lines(self) -> Iterable[SnapshotLine]:
        """Those of every table."""
        return (
            *(self.archive, self.changes, self.outbox),
            *(self.merges, self.runs, self.published),
        )

    @property
    def since(self) -> int:
        """The time from which on all commits are here, 0 where all that ever were are."""
        return max(line.since for line in self.lines)


def table_rows(verdicts: Iterable[Commit]) -> dict[str, int]:
    """How many rows merged tables have, by source table, as the gate has counted them.

    Args:
        verdicts: commits of `runs`, newest first.
    """
    rows: dict[str, int] = {}
    for commit in verdicts:
        if commit.stage == "validate":
            for name, count in commit.report["details"].get(TABLE_ROWS, {}).items():
                rows.setdefault(name, count)
    return rows


def read_commits(lake: History, limit: int = LAST) -> Commits:
    """What is committed now.

    Args:
        lake: the migration's.
        limit: how many batches are wanted; of `runs`, where a batch may have several, four times
            as many commits are read.
    """
    archive, changes, outbox, merges, runs, published = (
        SnapshotLine(lake, name, limit * 4 if name == "runs" else limit + 1)
        for name in BATCH_TABLES
    )
    merge = waiting_merge(lake)
    held = None
    if merge is not None:
        decision = decision_on(lake, merge)
        held = HeldMerge(merge, "" if decision is None else str(decision))
    return Commits(archive, changes, outbox, merges, runs, published, held)
