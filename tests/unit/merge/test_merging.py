"""Into how many parts the keys of a plain table are dealt."""

from __future__ import annotations

from typing import Any

import pytest

from waybill.lake.stored_files import StoredFile
from waybill.merge.upsert.merging import BUCKET_BYTES, BUCKET_ROWS, LOOKED_UP, Plain

CHANGE = 100
"""Bytes of a change in the shuffle."""


def table(changes: int, *files: int) -> Plain:
    """A table with so many changes, and so many rows in each of its files."""
    unused: Any = None
    stored = tuple(StoredFile(f"f{i}", f"f{i}", rows=rows) for i, rows in enumerate(files))
    return Plain("shop.t", changes, "", (), unused, unused, stored)


@pytest.mark.parametrize(
    ("changes", "files", "buckets"),
    [
        (1, (), 1),
        (BUCKET_ROWS - 1, (), 1),
        (2 * BUCKET_ROWS, (), 2),
        (100 * BUCKET_ROWS, (), 4),
        (50_000, (500_000,), 2),
        # To look at all rows twice would take longer than writing a half of the winners.
        (50_000, (4_000_000, 4_000_000), 1),
        (50_000, (1_000_000_000,), 1),
        (4 * 80_000_000 // LOOKED_UP, (80_000_000,), 4),
    ],
)
def test_no_more_than_pays(changes, files, buckets):
    assert table(changes, *files).buckets(changes * CHANGE, 4) == buckets


def test_none_is_larger_than_a_task_takes():
    changes = 10 * BUCKET_BYTES // CHANGE
    assert table(changes, 10**12).buckets(changes * CHANGE, 4) == 10
