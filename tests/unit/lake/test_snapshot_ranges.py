"""What a batch has to read of a table, from the table's metadata alone."""

from __future__ import annotations

import pytest

from waybill.lake.metadata import Metadata, Snapshot, Span
from waybill.lake.snapshot_ranges import onward


@pytest.fixture
def metadata() -> Metadata:
    """A line from 1 to 4, and 5 beside it, made from 2."""
    parents = {1: None, 2: 1, 3: 2, 4: 3, 5: 2}
    snapshots = {id_: Snapshot(id_, parent, id_, {}) for id_, parent in parents.items()}
    return Metadata(snapshots, {"main": 4}, frozenset(), {})


def test_a_batch_reads_what_came_after_the_one_before(metadata):
    assert onward(metadata, Span("t", 1, 4)) == Span("t", 1, 4)
    assert onward(metadata, Span("t", 3, 3)).empty


def test_nothing_is_left_where_a_later_batch_has_read_on(metadata):
    late = onward(metadata, Span("t", 4, 2))
    assert late.empty
    assert late.upto == 4  # the cursor stays


def test_what_lies_beside_the_line_is_not_taken_for_read(metadata):
    assert onward(metadata, Span("t", 4, 5)) == Span("t", 4, 5)
