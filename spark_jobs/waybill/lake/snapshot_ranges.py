"""What a table got between two snapshots, read from its metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.lake.commit import read_commit
from waybill.lake.names import split

if TYPE_CHECKING:
    from waybill.lake.metadata import Metadata, Span

LONGEST = "longest_row"
"""Under this name a report tells the bytes of the longest row, by the table's short name."""


def onward(metadata: Metadata, span: Span) -> Span:
    """A span; an empty one where what it starts after is newer than what it ends with."""
    before = {snapshot.id for snapshot in metadata.ancestors(span.after)}
    return span._replace(upto=span.after) if span.upto in before else span


def added(metadata: Metadata, span: Span, counter: str, total: str) -> int:
    """Sum of a counter of the appends of a span, or the total at its end if it has no beginning.

    Args:
        metadata: of the table.
        span: one that is not empty.
        counter: of an append, as snapshots sum up.
        total: of the table, as snapshots sum up.
    """
    assert span.upto is not None
    if span.after is None:
        return int(metadata.snapshots[span.upto].summary.get(total, 0))
    counted = 0
    for snapshot in metadata.ancestors(span.upto):
        if snapshot.id == span.after:
            break
        if snapshot.summary.get("operation") == "append":
            counted += int(snapshot.summary.get(counter, 0))
    return counted


def longest_row(metadata: Metadata, span: Span) -> int | None:
    """Bytes of the longest row of a span, None if nobody can tell."""
    (_, name), longest, oldest = split(span.table), 0, None
    for snapshot in metadata.ancestors(span.upto):
        if snapshot.id == span.after:
            return longest
        oldest, commit = snapshot, read_commit(snapshot)
        if commit is not None:
            measured = commit.report.get("details", {}).get(LONGEST, {}).get(name)
            if measured is None:
                return None
            longest = max(longest, measured)
    # The rows of snapshots that are forgotten may be longer.
    return longest if span.after is None and (oldest is None or oldest.parent is None) else None
