"""Upkeep of tables: small files and delete files put together, old snapshots expired.

It is safe while batches run. A table that somebody writes, or that waits for the gate, is left for
the next time; should a batch begin meanwhile, it takes the place of what upkeep did
(`Branch.fast_forward`), or one of the two loses cleanly and is run again.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import ConflictError
from waybill.lake.aside import ASIDE
from waybill.lake.branches import branches, doomed
from waybill.lake.catalog import is_java
from waybill.lake.commit import read_commit
from waybill.lake.idle_deletes import idle_deletes
from waybill.lake.names import literal, split
from waybill.lake.setting_aside import set_aside
from waybill.lake.settings import CATALOG
from waybill.lake_columns import BOOTSTRAP

if TYPE_CHECKING:
    from waybill.lake.commit import Branch
    from waybill.lake.metadata import Metadata
    from waybill.lake.tables import Lake

STAGE = "upkeep"
"""What branches of upkeep are called by."""
OPTIONS = "map('min-input-files', '5', 'delete-file-threshold', '1')"
BUSY = "somebody writes it, or it waits for the gate"
MEANWHILE = "a batch was committed meanwhile"


class Kept(NamedTuple):
    """What upkeep did to one table.

    Attributes:
        table: its full name.
        files: data files that were put together.
        deletes: delete files that are gone.
        snapshots: snapshots that were expired.
        left: why it was left as it is, None if it was not.
    """

    table: str
    files: int = 0
    deletes: int = 0
    snapshots: int = 0
    left: str | None = None


def keep_up(lake: Lake, table: str, oldest_ms: int, needed: Set[int] = frozenset()) -> Kept:
    """Put the small files of a table together and let old snapshots go.

    Args:
        lake: the lake.
        table: full name.
        oldest_ms: snapshots before this time (milliseconds since 1970) expire, if no consumer
            needs them: one that has not read them, a cursor that stands in them.
        needed: further snapshots that somebody goes on from, which the table itself does not tell.
    """
    clear_away(lake, table)
    metadata = lake.metadata(table)
    if branches(metadata):
        return Kept(table, left=BUSY)
    if metadata.refs.get("main") is None:
        return Kept(table)
    try:
        files, deletes = _compact(lake, table)
        return Kept(table, files, deletes, _expire(lake, table, oldest_ms, needed))
    except Exception as error:
        late = is_java(error, "ValidationException", "CommitFailedException")
        if late or isinstance(error, ConflictError):
            return Kept(table, left=MEANWHILE)
        raise


def _compact_whole(lake: Lake, table: str) -> tuple[int, int]:
    """Compact a table that keeps rows aside, those too: on a branch, which is shown then."""
    branch = lake.branch(table, STAGE, "files")
    try:
        set_aside(lake, branch)
        name = literal(".".join(split(table)))
        done = branch.sql(
            f"CALL {CATALOG}.system.rewrite_data_files(table => {name}, branch => {{name}}, "
            f"options => {OPTIONS})",
            {"name": branch.name},
        )
        deletes = _drop_idle_deletes(lake, branch)
        if branch.head != branch.base:
            branch.fast_forward()
    finally:
        branch.drop()
    return int(done.get("deleted-data-files", 0)), deletes


def _drop_idle_deletes(lake: Lake, branch: Branch) -> int:
    files = lake.java("org.apache.iceberg.ManifestFiles")
    idle = idle_deletes(lake.iceberg(branch.table), files, branch.head)

    def drop(table: Any) -> Any:
        update = table.newRewrite()
        for file in idle:
            update = update.deleteFile(file)
        return update

    return branch.change(drop, "removed-delete-files") if idle else 0


def clear_away(lake: Lake, table: str) -> None:
    """Drop the branches that nobody else would drop, for the sake of which upkeep left the table.

    Those of upkeep that was killed, and of a killed beginning of a target once main has left them:
    the next batch of a stage drops its own, and a target begins once.
    """
    metadata = lake.metadata(table)
    killed = lake.waiting(table, STAGE, metadata=metadata)
    begun = lake.waiting(table, BOOTSTRAP, metadata=metadata)
    killed += [one for one in begun if doomed(metadata, one.name)]
    lake.drop_branches(table, [left.name for left in killed])


def _compact(lake: Lake, table: str) -> tuple[int, int]:
    """Put the small files of a table together; returns how many, and how many of deletes went."""
    if ASIDE in lake.metadata(table).properties:
        return _compact_whole(lake, table)
    name = literal(".".join(split(table)))
    call = f"CALL {CATALOG}.system"
    done = lake.spark.sql(
        f"{call}.rewrite_data_files(table => {name}, options => {OPTIONS})"
    ).collect()[0]
    lake.spark.sql(f"{call}.rewrite_position_delete_files(table => {name})").collect()
    if done.rewritten_data_files_count:
        lake.spark.sql(f"{call}.rewrite_manifests(table => {name})").collect()
    return int(done.rewritten_data_files_count), int(getattr(done, "removed_delete_files_count", 0))


def _expire(lake: Lake, table: str, oldest_ms: int, others: Set[int]) -> int:
    """Let the oldest snapshots of main go, up to the first that is needed, and those of no ref."""
    metadata = lake.metadata(table)
    line = metadata.ancestors(metadata.refs["main"])[::-1]
    needed = _needed(metadata) | others
    at = next(i for i, found in enumerate(line) if found.id in needed or found.time_ms >= oldest_ms)
    # What the table was at that time is the commit before it, which is kept, too.
    while at and not (read_commit(line[at]) and line[at].time_ms < oldest_ms):
        at -= 1
    reached = {found.id for ref in metadata.refs.values() for found in metadata.ancestors(ref)}
    old = [found.id for found in line[:at]]
    # Branches that were dropped, and compactions that a batch took the place of.
    old += [
        found.id
        for found in metadata.snapshots.values()
        if found.id not in reached and found.time_ms < oldest_ms
    ]
    if old:
        expiry = lake.iceberg(table).expireSnapshots().cleanExpiredFiles(True)
        # Only these, whatever their age says to Iceberg's own rules.
        expiry = expiry.expireOlderThan(0)
        for id_ in old:
            expiry = expiry.expireSnapshotId(id_)
        expiry.commit()
    return len(old)


def _needed(metadata: Metadata) -> set[int]:
    """Snapshots that somebody goes on from."""
    needed = set(metadata.refs.values())
    seen: set[str] = set()
    for snapshot in metadata.ancestors(metadata.refs["main"]):
        commit = read_commit(snapshot)
        if commit is None:
            continue
        # The newest commit of a stage is its cursor; the snapshot's is spread over several.
        spread = commit.stage == "snapshot" and "spread" not in seen
        if commit.stage not in seen or spread:
            needed.add(snapshot.id)
        seen.add(commit.stage)
        if commit.cursor.get("complete"):
            seen.add("spread")
    return needed
