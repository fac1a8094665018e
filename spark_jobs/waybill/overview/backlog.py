"""What waits: before each stage, between archive and targets, and in the quarantine."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake_columns import BOOTSTRAP
from waybill.overview.schema import Quarantine, StageWaiting
from waybill.report import TRIED_AGAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.overview.commits import Commits, SnapshotLine

MOST_COUNTED = 100_000
"""Refused rows are counted individually up to so many; see `quarantine`."""

REFUSED_ROWS = {"changes": "outcome", "outbox": "outcome", "merges": "kind"}
"""The tables that hold what was refused, and the column that says so."""


class PublishLag(NamedTuple):
    """Messages that are in the archive and not published, and when the oldest was archived."""

    messages: int
    since: int | None


def waiting_before(commits: Commits) -> list[StageWaiting]:
    """What each stage has not read yet of what the stage before it committed."""
    held = commits.held.merge if commits.held is not None else None
    merged = held or next(commits.merges.of("merge"), None)
    converted = next(commits.outbox.of("convert"), None)
    decoded = next(commits.changes.of("convert"), None)
    published = next(commits.published.of("publish"), None)
    read = decoded or converted
    archived = commits.archive.after(None if read is None else read.cursor["archive"]["upto"])
    after = commits.changes.after(None if merged is None else merged.cursor["changes"])
    changed = [commit for commit in after if commit.stage != BOOTSTRAP]
    passed = commits.runs.after(None if published is None else published.cursor["runs"])
    to_send = [commit for commit in passed if commit.stage == "validate"]
    return [
        StageWaiting("convert", len(archived), _rows(archived)),
        StageWaiting("merge", len(changed), _rows(changed)),
        StageWaiting("validate", *((1, held.report["rows_out"]) if held else (0, 0))),
        StageWaiting("publish", len(to_send), _messages(commits, to_send, published)),
    ]


def _rows(waiting: Sequence[Commit]) -> int:
    return sum(commit.report["rows_out"] for commit in waiting)


def _messages(commits: Commits, passed: Sequence[Commit], published: Commit | None) -> int:
    """Messages that the gate let through and that are not sent."""
    if not passed:
        return 0
    upto = commits.outbox.place(passed[0].cursor["outbox"])
    after = commits.outbox.place(published.cursor["outbox"] if published is not None else None)
    return sum(
        target.get("messages", 0)
        for commit in commits.outbox.commits
        if after < commits.outbox.place(commit.snapshot) <= upto
        for target in commit.report["details"].get("targets", {}).values()
    )


def lag_of(commits: Commits) -> PublishLag:
    """What was archived since the batch that was published last."""
    published = next(commits.published.of("publish"), None)
    judged = None
    if published is not None:
        wanted = published.cursor["runs"]
        judged = next((c for c in commits.runs.commits if c.snapshot == wanted), None)
        if judged is None:
            return PublishLag(0, None)
    behind = commits.archive.after(None if judged is None else judged.cursor["archive"])
    with_rows = [commit for commit in behind if commit.report["rows_out"]]
    if not with_rows:
        return PublishLag(0, None)
    return PublishLag(_rows(with_rows), with_rows[-1].time_ms)


def quarantine(lake: History, commits: Commits, before: Quarantine | None) -> Quarantine:
    """How many refused rows wait for another try.

    What a batch refuses is added to what was counted before. Rows are counted individually
    only where that is not enough: first, where commits between have expired, and after a replay.
    """
    newest = {name: line.commits[0].snapshot for name, line in _refusing(commits) if line.commits}
    added = None if before is None else _added(commits, before)
    if before is None or added is None:
        rows, more = _counted(lake)
    else:
        rows, more = before.rows + added, before.more
    return Quarantine(rows, more, newest)


def with_held(counted: Quarantine, commits: Commits) -> int:
    """The rows in quarantine with those that the merge refused that waits for its gate."""
    held = commits.held.merge if commits.held is not None else None
    return counted.rows + (0 if held is None else sum(held.report["refused"].values()))


def _refusing(commits: Commits) -> list[tuple[str, SnapshotLine]]:
    return [("changes", commits.changes), ("outbox", commits.outbox), ("merges", commits.merges)]


def _added(commits: Commits, before: Quarantine) -> int | None:
    """What was refused since, None where it cannot be known without counting."""
    added = 0
    for name, line in _refusing(commits):
        start = before.counted.get(name)
        if not line.reaches(start):
            return None
        since = line.after(start)
        if any(TRIED_AGAIN in commit.report["details"] for commit in since):
            return None
        added += sum(_refused(name, commit) for commit in since)
    return added


def _refused(name: str, commit: Commit) -> int:
    """Rows that a commit has put into the quarantine."""
    refused: dict[str, int] = commit.report["refused"]
    if name != "outbox":
        return sum(refused.values())
    targets: dict[str, Any] = commit.report["details"].get("targets", {})
    return sum(sum(target.get("refused", {}).values()) for target in targets.values())


def _counted(lake: History) -> tuple[int, bool]:
    found = 0
    for name, column in REFUSED_ROWS.items():
        table = lake.log(name)
        if not lake.exists(table):
            continue
        rows = lake.scan(table, ["batch"], {column: ["refused"]})
        found += sum(1 for _ in islice(rows, MOST_COUNTED - found))
        if found >= MOST_COUNTED:
            return found, True
    return found, False
