"""The branches of a table, and how they stand to main, read from its metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.lake.names import quoted

if TYPE_CHECKING:
    from waybill.lake.metadata import Metadata

CLEARED = "waybill.cleared"
"""Key of the summary of a snapshot that is its parent without the rows that are kept aside, see
`waybill.lake.aside`."""
WHOLE = "waybill.whole"
"""Key of the summary of a snapshot in which rows that are kept aside were brought back: all of
them, so none that was there before it is lost."""
STAGED = "waybill.stage"
"""Key of the summary of a snapshot that a stage has committed."""

TABLES_ASKED = 8
"""How many tables are asked for their metadata and files at the same time."""


def whole(metadata: Metadata) -> int | None:
    """The newest visible snapshot with the rows that are kept aside; None where main has none.

    Stages go on from it. It is main's own, or the one that main's was cleared from; what another
    program has compacted since is passed over, as it had no such rows to compact.
    """
    main = metadata.refs.get("main")
    for snapshot in metadata.ancestors(main):
        if CLEARED in snapshot.summary:
            return snapshot.parent
        if snapshot.summary.get("operation") != "replace":
            break
    return main


def lost_aside(metadata: Metadata, base: int) -> int | None:
    """The snapshot with the rows that are kept aside, where the visible one `base` lacks them.

    That is so where another program has changed rows of main after it was cleared, and neither a
    stage nor upkeep has brought them back since. What upkeep has then forgotten is not lost.
    """
    if any(CLEARED in one.summary and one.parent == base for one in metadata.snapshots.values()):
        return None
    for snapshot in metadata.ancestors(base):
        if CLEARED in snapshot.summary:
            return snapshot.parent
        if STAGED in snapshot.summary or WHOLE in snapshot.summary:
            break
    return None


def statement_of_branch(table: str, name: str, snapshot: int) -> str:
    """What a person runs in Spark SQL to make a branch at a snapshot."""
    return f"ALTER TABLE {table} CREATE BRANCH {quoted(name)} AS OF VERSION {snapshot}"


def branches(metadata: Metadata) -> list[str]:
    """Every branch but main."""
    return [ref for ref in metadata.refs if ref != "main" and ref not in metadata.tags]


def branch_base(metadata: Metadata, name: str) -> int | None:
    """The newest snapshot that a branch shares with main."""
    main = {snapshot.id for snapshot in metadata.ancestors(metadata.refs.get("main"))}
    line = metadata.ancestors(metadata.refs[name])
    return next((snapshot.id for snapshot in line if snapshot.id in main), None)


def same_as_main(metadata: Metadata) -> list[int | None]:
    """Snapshots that are what main is: its newest, what it was cleared of, or compacted from.

    The line ends where a tag names a compaction: somebody goes on from there, so it has to stay.
    """
    found: list[int | None] = []
    tagged = {metadata.refs[tag] for tag in metadata.tags}
    for snapshot in metadata.ancestors(metadata.refs.get("main")):
        found.append(snapshot.id)
        if CLEARED in snapshot.summary:
            continue
        if snapshot.summary.get("operation") != "replace" or snapshot.id in tagged:
            break
    return found or [None]


def doomed(metadata: Metadata, name: str) -> bool:
    """Whether main has left a branch behind, so that nothing can make it visible any more."""
    return branch_base(metadata, name) not in same_as_main(metadata)
