"""What main shows and what stages go on from, read from lines of snapshots."""

from __future__ import annotations

import pytest

from waybill.lake.branches import CLEARED, STAGED, WHOLE, lost_aside, same_as_main, whole
from waybill.lake.metadata import Metadata, Snapshot

SUMMARIES = {
    "batch": {"operation": "overwrite", STAGED: "merge"},
    "cleared": {"operation": "delete", CLEARED: "true"},
    "compaction": {"operation": "replace"},
    "another": {"operation": "overwrite"},
    "brought back": {"operation": "append", WHOLE: "true"},
    "forgotten": {"operation": "delete"},
}


def line(*kinds: str) -> Metadata:
    """A table whose main ends a line of snapshots, numbered from 1."""
    snapshots = {
        n: Snapshot(n, n - 1 if n > 1 else None, n, SUMMARIES[kind])
        for n, kind in enumerate(kinds, 1)
    }
    refs = {"main": len(kinds)} if kinds else {}
    return Metadata(snapshots, refs, frozenset(), {})


@pytest.mark.parametrize(
    ("kinds", "goes_on", "same", "lost"),
    [
        ((), None, [None], None),
        (("batch",), 1, [1], None),
        (("batch", "cleared"), 1, [2, 1], None),
        # Upkeep compacts what is whole, and main is cleared again.
        (("batch", "compaction"), 2, [2, 1], None),
        (("batch", "compaction", "cleared"), 2, [3, 2, 1], None),
        (("batch", "compaction", "compaction", "cleared"), 3, [4, 3, 2, 1], None),
        # Another program compacts or changes what it sees.
        (("batch", "cleared", "compaction"), 1, [3, 2, 1], None),
        (("batch", "another"), 2, [2], None),
        (("batch", "cleared", "another"), 3, [3], 1),
        (("batch", "cleared", "another", "compaction"), 4, [4, 3], 1),
        (("batch", "cleared", "compaction", "another"), 4, [4], 1),
        (("batch", "compaction", "cleared", "another"), 4, [4], 2),
        (("batch", "cleared", "another", "batch", "cleared"), 4, [5, 4], None),
        # Upkeep has brought back what the other program was not shown, and may have forgotten it.
        (("batch", "cleared", "another", "brought back", "cleared"), 4, [5, 4], None),
        (
            ("batch", "cleared", "another", "brought back", "compaction", "cleared"),
            *(5, [6, 5, 4], None),
        ),
        (("batch", "cleared", "another", "brought back", "forgotten"), 5, [5], None),
        (("batch", "cleared", "another", "brought back", "forgotten", "another"), 6, [6], None),
        (("batch", "cleared", "another", "brought back", "cleared", "another"), 6, [6], 4),
        # The mark is not needed where main itself was cleared of them.
        (("batch", "cleared", "another", "compaction", "cleared"), 4, [5, 4, 3], None),
    ],
)
def test_a_line_of_main(kinds, goes_on, same, lost) -> None:
    metadata = line(*kinds)
    assert whole(metadata) == goes_on
    assert same_as_main(metadata) == same
    if goes_on is not None:
        assert lost_aside(metadata, goes_on) == lost
