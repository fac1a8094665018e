"""Writes the overview of a migration beside the gate's reports, and reads it back."""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.lake.decisions import HELD as JUDGED_NO
from waybill.lake.source_times import on_calendar
from waybill.merge.position import position_of
from waybill.merge.watermark import Reached, plain
from waybill.overview.accounts import Accounts, merged_tables, verdict_of
from waybill.overview.backlog import lag_of, quarantine, waiting_before, with_held
from waybill.overview.commits import LAST, read_commits, table_rows
from waybill.overview.ends import source_and_targets
from waybill.overview.failures import failed_batches
from waybill.overview.files import ACCOUNT, FILES, INDEX, index_in, reports
from waybill.overview.schema import (
    HELD,
    UNDER_WAY,
    VERSION,
    BatchAccount,
    BatchLine,
    Index,
    TableLine,
    TableWaits,
    encoded,
)
from waybill.overview.source_look import keep_planned
from waybill.report import NEWEST, STAGES, TABLES_HELD
from waybill.storage.file_store import file_name, open_store

if TYPE_CHECKING:
    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.overview.commits import Commits
    from waybill.spec.migration import Migration

WINDOW = 20
"""So many batches are looked at again although nothing more is to be expected of them."""

OPEN = (HELD, UNDER_WAY)
"""States of batches of which more is to be expected."""

AT_ONCE = 16
"""Files that are written at a time; only the first overview of an old lake has many."""


def write_overview(spec: Migration, lake: History, worked: str | None = None) -> Index:
    """Write what is known now: the accounts that changed, and the index last.

    All of it follows from the lake's metadata, so that a write that was lost, or that was overtaken
    by another run's, is made good by the next one. Batches whose commits have expired stay in the
    index as they were, and so does which runs have failed.

    Args:
        spec: the migration.
        lake: its lake.
        worked: the batch of which a stage has just done its work, None where none has.

    Raises:
        ConfigurationError: the folder cannot be written.
        UnavailableError: its store does not answer.
    """
    store = open_store(reports(spec))
    before = index_in(store)
    commits = _recent(lake, before)
    accounts = Accounts(spec.name, commits)
    since = commits.since
    kept = {} if before is None else {line.batch: line for line in before.batches}
    lines: list[BatchLine] = []
    changed: list[tuple[str, bytes]] = []
    for batch in accounts.batches()[:LAST]:
        account = accounts.account(batch)
        old = kept.pop(batch, None)
        # Of a batch that is as old as the oldest commit some may have expired.
        if old is not None and old.began <= since:
            lines.append(old)
            continue
        content = encoded(account)
        line = _line(account, content)
        lines.append(line)
        if old is None or old.mark != line.mark:
            changed.append((batch, content))
    _put(spec, changed)
    # What was not read again, or is not in the lake any more.
    lines += [line for line in kept.values() if line.began <= since]
    lines.sort(key=lambda line: (line.began, line.batch), reverse=True)
    index = _index(spec, lake, commits, before, lines[:LAST], worked)
    with store.write(INDEX) as stream:
        stream.write(encoded(index))
    keep_planned(spec, store, commits)
    _keep_text(spec)
    return index


def _keep_text(spec: Migration) -> None:
    """Keep the text of the migration's file, once for each that stages ran with."""
    text = spec.text
    if text is not None:
        content = text.text.encode("utf-8", "backslashreplace")
        open_store(f"{reports(spec)}/{FILES}").create(f"{text.digest}.txt", content)


def _recent(lake: History, before: Index | None) -> Commits:
    """The commits of batches that may have changed since an index was written; all without one."""
    if before is not None:
        numbered = enumerate(before.batches, start=1)
        oldest_open = max((place for place, line in numbered if line.state in OPEN), default=0)
        commits = read_commits(lake, min(oldest_open + WINDOW, LAST))
        counted = before.quarantine.counted
        lines = {"changes": commits.changes, "outbox": commits.outbox, "merges": commits.merges}
        reached = all(line.reaches(counted.get(name)) for name, line in lines.items())
        if reached and commits.merges.reaches(before.merged):
            return commits
    return read_commits(lake)


def _put(spec: Migration, changed: list[tuple[str, bytes]]) -> None:
    def put(one: tuple[str, bytes]) -> None:
        with open_store(f"{reports(spec)}/{file_name(one[0])}").write(ACCOUNT) as stream:
            stream.write(one[1])

    if len(changed) < 2:
        for one in changed:
            put(one)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(put, changed))


def _line(account: BatchAccount, content: bytes) -> BatchLine:
    times = [stage.time for stage in account.stages if stage.ran and stage.time is not None]
    snapshot, publish = account.stages[0], account.stages[STAGES.index("publish")]
    return BatchLine(
        batch=account.batch,
        mark=hashlib.sha256(content).hexdigest()[:16],
        state=account.state,
        began=min(times, default=0),
        ended=max(times, default=0),
        rows_in=snapshot.rows_in,
        published=publish.rows_out,
        refused=sum(sum(stage.refused.values()) for stage in account.stages),
        seconds=[stage.seconds for stage in account.stages],
        verdict="" if account.verdict is None else account.verdict.outcome,
        limits={} if account.verdict is None else account.verdict.limits,
        file=next(iter(account.files[-1:]), ""),
        altered=sum(bool(table.columns) for table in account.tables),
    )


def _index(
    spec: Migration,
    lake: History,
    commits: Commits,
    before: Index | None,
    lines: list[BatchLine],
    worked: str | None,
) -> Index:
    held = commits.held
    waits = None if held is None else held.merge.batch
    said_no = None
    if held is not None:
        judged = (
            c for c in commits.runs.of(JUDGED_NO) if c.cursor["merges"] == held.merge.snapshot
        )
        said_no = next(judged, None)
    counted = quarantine(lake, commits, None if before is None else before.quarantine)
    lag = lag_of(commits)
    merged = next(commits.merges.of("merge"), None)
    source, targets = source_and_targets(spec)
    failed = failed_batches(before, lines)
    if worked is not None:
        failed.pop(worked, None)
    return Index(
        version=VERSION,
        migration=spec.name,
        written=int(time.time() * 1000),
        source=source,
        targets=targets,
        batches=lines,
        waiting=waiting_before(commits),
        lag=lag.messages,
        lag_since=lag.since,
        archived=commits.archive.commits[0].snapshot if commits.archive.commits else None,
        held=None if said_no is None else waits,
        unjudged=waits if said_no is None else None,
        held_rules=[] if said_no is None else verdict_of(said_no, None).rules,
        decided="" if held is None else held.decided,
        quarantine=counted,
        refused_waiting=with_held(counted, commits),
        merged=None if merged is None else merged.snapshot,
        tables=_tables(lake, commits, before, merged),
        tables_waiting=[] if merged is None else _waiting(merged),
        stopped=before.stopped if worked is None and before is not None else None,
        failed=failed,
    )


def _waiting(merged: Commit) -> list[TableWaits]:
    """The tables that wait for a decision after a merge."""
    held: dict[str, dict[str, Any]] = merged.report["details"].get(TABLES_HELD, {})
    return [
        TableWaits(name, waits["since"], waits["why"], waits["changes"])
        for name, waits in held.items()
    ]


def _tables(
    lake: History, commits: Commits, before: Index | None, merged: Commit | None
) -> list[TableLine]:
    """The merged tables; of a thousand only those that changed since are looked into."""
    if merged is None:
        return []
    if before is not None and before.merged == merged.snapshot:
        return before.tables
    known = {} if before is None else {line.table: line for line in before.tables}
    since = None if before is None else before.merged
    state = position_of(lake).state
    changed = _last_changes(commits, since)
    altered = _last_alterations(commits, since)
    counted = table_rows(commits.runs.commits)
    newest = _newest(commits, merged, since)
    lines = {name: known.get(name, TableLine(name)) for name in state.tables}
    for name, full in _written(lake, commits, since).items():
        line = lines.get(name, TableLine(name))
        batch, operations = changed.get(name, (line.batch, line.operations))
        rows = counted[name] if name in counted else lake.shown_rows(full, lake.head(full))
        lines[name] = msgspec.structs.replace(line, rows=rows, batch=batch, operations=operations)
    for name, line in lines.items():
        reached = plain(state.watermark(name))
        batch, columns = altered.get(name, (line.altered, line.columns))
        lines[name] = msgspec.structs.replace(
            line,
            rows=counted.get(name, line.rows),
            altered=batch,
            columns=columns,
            sequence=reached["sequence"],
            complete=reached["time"],
            newest=_later(line.newest, newest.get(name)),
        )
    return [lines[name] for name in sorted(lines)]


def _written(lake: History, commits: Commits, after: int | None) -> dict[str, str]:
    """Full names of the merged tables that merges have written since one, by source table."""
    full = {table for commit in commits.merges.after(after) for table in commit.cursor["branches"]}
    return {lake.source_of(table): table for table in sorted(full) if lake.exists(table)}


def _last_changes(commits: Commits, after: int | None) -> dict[str, tuple[str, dict[str, int]]]:
    """The last batch that changed each table since a merge, with its changes by operation."""
    decoded_by = {commit.batch: commit for commit in reversed(commits.changes.commits)}
    found: dict[str, tuple[str, dict[str, int]]] = {}
    for commit in commits.merges.after(after):
        decoded = decoded_by.get(commit.batch)
        operations = {} if decoded is None else decoded.report["details"].get("tables", {})
        for name in merged_tables(commit):
            found.setdefault(name, (commit.batch, operations.get(name, {})))
    return found


def _newest(commits: Commits, merged: Commit, after: int | None) -> dict[str, str | None]:
    """Source times of the newest changes of tables that were merged since a merge."""
    last = next((c for c in commits.merges.of("merge") if c.snapshot == after), None)
    start = 0 if last is None else commits.changes.place(last.cursor["changes"])
    end = commits.changes.place(merged.cursor["changes"])
    times: dict[str, int] = {}
    for commit in commits.changes.of("convert"):
        if start < commits.changes.place(commit.snapshot) <= end:
            for name, time in commit.report["details"].get(NEWEST, {}).items():
                if on_calendar(int(time)):
                    times[name] = max(int(time), times.get(name, int(time)))
    return {name: plain(Reached(time=time))["time"] for name, time in times.items()}


def _later(one: str | None, other: str | None) -> str | None:
    return max(filter(None, (one, other)), key=datetime.fromisoformat, default=None)


def _last_alterations(commits: Commits, after: int | None) -> dict[str, tuple[str, list[str]]]:
    """The last batch that changed the columns of each table since a merge, and how."""
    found: dict[str, tuple[str, list[str]]] = {}
    for commit in commits.merges.after(after):
        for name, account in merged_tables(commit).items():
            if account.get("columns"):
                found.setdefault(name, (commit.batch, account["columns"]))
    return found
