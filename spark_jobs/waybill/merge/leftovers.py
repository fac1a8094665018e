"""What merges left on tables: those that wait for the gate and are dropped, and killed ones.

A merge that waits is on record, and the record names its branches. One that was killed before that
left branches that no record names. They go when another merge opens their table, or by upkeep: a
merge asks for no table that it does not write, of which a topic may have thousands.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waybill.errors import WaybillError
from waybill.lake.branches import TABLES_ASKED, branches
from waybill.lake.future_columns import is_future
from waybill.merge.position import STAGE, waiting_merges
from waybill.merge.rewriting import drop_future

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from waybill.lake import Branch, Commit, Lake
    from waybill.lake.metadata import Metadata

CLOCKS_DIFFER_MS = 3_600_000
"""How far the clocks of two machines that merge may be apart, with room to spare."""

Named = tuple[str, str]
"""The full name of a table, and a branch of it."""


def drop_held(lake: Lake) -> None:
    """Drop the merges that wait; their tables stay as the last gate left them."""
    held = waiting_merges(lake)
    # The record first: one without its branches cannot be judged.
    _drop_records(lake)

    def drop(table: str) -> list[Named]:
        metadata = lake.found(table)
        if metadata is None:
            return []
        named = _branches_of(table, held)
        return _drop(lake, table, metadata, [n for n in branches(metadata) if n in named])

    tables = {table for merge in held for table in merge.cursor["branches"]}
    with ThreadPoolExecutor(TABLES_ASKED) as pool:
        dropped = [named for found in pool.map(drop, sorted(tables)) for named in found]
    # One that was not over may have gone on record before its branches went.
    _drop_records(lake, dropped)


def clear_table(lake: Lake, table: str, before_ms: int) -> None:
    """Drop what killed merges left on a table that a merge is about to write.

    The branches of one that is running go too, and it stops; so of two that take a table from each
    other the one that began first does.

    Args:
        lake: the lake.
        table: full name; it may not be there yet.
        before_ms: branches that were written to later stay (milliseconds since 1970).
    """
    metadata = lake.found(table)
    if metadata is None:
        return
    old = _unrecorded(lake, table, metadata, before_ms)
    if old or _has_future(metadata):
        _drop_records(lake, _drop(lake, table, metadata, old))


@contextmanager
def whole_or_nothing(lake: Lake, written: Mapping[str, Branch]) -> Iterator[None]:
    """Drop the branches of tables that a merge has written when it stops with an error."""
    try:
        yield
    except WaybillError:
        for branch in written.values():
            metadata = lake.found(branch.table)
            if metadata is not None:
                _drop(lake, branch.table, metadata, [branch.name])
        raise


def clear_abandoned(lake: Lake, table: str) -> None:
    """Drop the branches of a table that no merge goes on with, long after.

    A merge that began before the last visible one was recorded cannot be recorded any more. Columns
    that wait are left to the next merge: one that is running may just have made them, and has no
    branch before it writes.
    """
    last = lake.last(lake.log("merges"), STAGE)
    if last is not None:
        before_ms = last.time_ms - CLOCKS_DIFFER_MS
        lake.drop_branches(table, _unrecorded(lake, table, lake.metadata(table), before_ms))


def _unrecorded(lake: Lake, table: str, metadata: Metadata, before_ms: int) -> list[str]:
    """The branches that merges have written before a time and that no record names."""
    old = [
        one.name
        for one in lake.waiting(table, STAGE, metadata=metadata)
        if metadata.snapshots[one.head].time_ms < before_ms
    ]
    recorded = _branches_of(table, waiting_merges(lake)) if old else ()
    return [name for name in old if name not in recorded]


def _branches_of(table: str, merges: Iterable[Commit]) -> set[str]:
    """The branches of a table that records name."""
    found = (merge.cursor["branches"].get(table) for merge in merges)
    return {name for name in found if name is not None}


def _has_future(metadata: Metadata) -> bool:
    return any(map(is_future, metadata.shape.types))


def _drop(lake: Lake, table: str, metadata: Metadata, names: Sequence[str]) -> list[Named]:
    """Drop branches of a table, and with the last of a merge the columns that waited for it."""
    lake.drop_branches(table, names)
    left = {one.name for one in lake.waiting(table, STAGE, metadata=metadata)}
    if _has_future(metadata) and left <= {*names}:
        drop_future(lake, table)
    return [(table, name) for name in names]


def _drop_records(lake: Lake, of: Collection[Named] | None = None) -> None:
    """Drop the records of merges that are not visible; given branches, only those naming one."""
    if of is not None and not of:
        return
    merges = lake.log("merges")
    gone = []
    for info in lake.waiting(merges, STAGE):
        named = {*info.commit.cursor["branches"].items()} if info.commit else set()
        if of is None or named & {*of}:
            gone.append(info.name)
    lake.drop_branches(merges, gone)
