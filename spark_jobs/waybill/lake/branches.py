"""The branches of a table, and how they stand to main, told from its metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waybill.lake.metadata import Metadata


def branches(metadata: Metadata) -> list[str]:
    """Every branch but main."""
    return [ref for ref in metadata.refs if ref != "main" and ref not in metadata.tags]


def branch_base(metadata: Metadata, name: str) -> int | None:
    """The newest snapshot that a branch shares with main."""
    main = {snapshot.id for snapshot in metadata.ancestors(metadata.refs.get("main"))}
    line = metadata.ancestors(metadata.refs[name])
    return next((snapshot.id for snapshot in line if snapshot.id in main), None)


def alike(metadata: Metadata) -> list[int | None]:
    """Snapshots with the rows that main has: its newest one, and those that it was compacted from.

    The line ends where a tag names a compaction: somebody goes on from there, so it has to stay.
    """
    found: list[int | None] = []
    tagged = {metadata.refs[tag] for tag in metadata.tags}
    for snapshot in metadata.ancestors(metadata.refs.get("main")):
        found.append(snapshot.id)
        if snapshot.summary.get("operation") != "replace" or snapshot.id in tagged:
            break
    return found or [None]


def doomed(metadata: Metadata, name: str) -> bool:
    """Whether main has left a branch behind, so that nothing can make it visible any more."""
    return branch_base(metadata, name) not in alike(metadata)
