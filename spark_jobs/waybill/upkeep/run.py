"""One upkeep of all tables of a migration."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.counting import counted
from waybill.errors import Code, LakeError
from waybill.lake.branches import branches
from waybill.lake.upkeep import keep_up
from waybill.merge.columns import DELETED
from waybill.merge.ledger import Ledger
from waybill.merge.leftovers import clear_abandoned
from waybill.merge.tombstones import forget_tombstones
from waybill.spec.durations import seconds_of
from waybill.upkeep.retention import delete_messages
from waybill.validate.table_profiles import Staged, example_of_table, table_profiles

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.spec.migration import Migration

SNAPSHOTS = "30d"
"""How long snapshots are kept where nothing else is said."""


class Upkept(NamedTuple):
    """What was done to one table; see `waybill.lake.upkeep.Kept`.

    Attributes:
        tombstones: how many have expired.
        messages: how many were deleted, because they are older than `retention` says.
    """

    table: str
    files: int
    deletes: int
    snapshots: int
    tombstones: int
    messages: int
    left: str | None


def run_upkeep(
    spec: Migration,
    lake: Lake,
    snapshots: str = SNAPSHOTS,
    progress: Callable[..., Any] = lambda *words: None,
) -> list[Upkept]:
    """Keep every table of a migration fast to read and no larger than it has to be.

    Args:
        spec: the migration; `tombstones.keep` says how long deleted keys are remembered,
            `retention` how long messages are.
        lake: its lake.
        snapshots: how long snapshots are kept (e.g. 30d): tables can be read as of that time, and
            batch ids are known as done. Those of the record of merges are kept for at least
            `tombstones.keep`, because they tell how old a tombstone is; those of `changes` since
            a transaction began that is open, because its rows are read from there when it ends.
        progress: says one line about the work.

    Raises:
        LakeError: all is done, and a merged table has a key twice. The gate looks for keys where
            a batch wrote; here all of them are counted.
    """
    now = time.time()
    oldest_snapshot = int((now - seconds_of(snapshots)) * 1000)
    oldest_tombstone = int((now - seconds_of(spec.tombstones.keep)) * 1000)
    done = []
    limits = {lake.log(name): (name, limit) for name, limit in spec.retention.limits.items()}
    merges = lake.log("merges")
    oldest = {merges: min(oldest_snapshot, oldest_tombstone)}
    needed = {lake.log("changes"): Ledger(lake).needed()} if lake.exists(merges) else {}
    merged = {table: qualified for qualified, table in lake.merged_tables().items()}
    names = [f"lake.{space}.{name}" for space, found in lake.tables().items() for name in found]
    for table in sorted(names):
        progress("upkeep: %s", table)
        forgotten, deleted, left = 0, 0, None
        if table in limits:
            name, limit = limits[table]
            before = int((now - seconds_of(limit)) * 1000)
            deleted, left = delete_messages(spec, lake, name, before)
        if table in merged:
            clear_abandoned(lake, table)
            if not branches(lake.metadata(table)):
                # An earlier version made it, and no merge of this one has come since.
                lake.keep_aside(table, DELETED)
            forgotten, left = forget_tombstones(lake, merged[table], oldest_tombstone)
        since = oldest.get(table, oldest_snapshot)
        kept = keep_up(lake, table, since, needed.get(table, frozenset()))
        done.append(
            Upkept(
                *(table, kept.files, kept.deletes, kept.snapshots, forgotten, deleted),
                kept.left or left,
            )
        )
    progress("upkeep: counting the keys of %d tables", len(merged))
    tables = [
        Staged(name, partial(lake.read, table, lake.head(table)), None)
        for table, name in merged.items()
    ]
    for staged, profile in zip(tables, table_profiles(lake.spark, tables, ""), strict=True):
        if profile["duplicate_keys"]:
            raise _keys_twice(spec, staged, profile["duplicate_keys"])
    return done


def _keys_twice(spec: Migration, table: Staged, count: int) -> LakeError:
    key = example_of_table(table.rows, "duplicate_keys", "") or ""

    def sentence(example: str, shown: str) -> str:
        look = spec.command("changes", "FILE", "--table", table.name, "--key", shown)
        return (
            f"{counted(count, 'row')} of {table.name} {'has' if count == 1 else 'have'} the key of "
            f"another row{example}, as if something besides Waybill had written the table: "
            f"`{look}` shows what its row should be; take the others away, or read the source "
            "again under a new migration name"
        )

    public = sentence(" (the log names one)", "KEY")
    return LakeError(public, code=Code.KEY_TWICE, logged=sentence(f", e.g. {key}", key))
