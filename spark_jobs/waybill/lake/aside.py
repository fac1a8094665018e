"""Rows that are kept aside: they are in what stages write, and not in what people read.

A table may name a column of booleans (`ASIDE`), by which it is partitioned. Rows where it is true
are in every snapshot that a stage writes; such a snapshot is *whole*, and the next stage goes on
from it. Where it becomes visible, main names a child of it that is *cleared* of the files of these
rows. The child is made of metadata alone, in the commit that moves main. So whoever reads the table
sees the other rows only, and nobody ever sees a whole snapshot and main at odds.
"""

from __future__ import annotations

from typing import Any

from waybill.lake.branches import CLEARED

ASIDE = "waybill.aside"
"""Table property: the column that is true in rows that are kept aside."""

LISTS = {"commit.manifest.min-count-to-merge": "20"}
"""Property of tables that keep rows aside: a list of files that names some of these rows is
rewritten with each batch that is shown, so there are to be few."""

DELETED_FILES = "deleted-data-files"


def whole_of(metadata: Any) -> int | None:
    """What `branches.whole` tells, of metadata in Java."""
    main = metadata.ref("main")
    if main is None:
        return None
    snapshot = metadata.snapshot(main.snapshotId())
    while snapshot is not None:
        parent = snapshot.parentId()
        if snapshot.summary().containsKey(CLEARED):
            return int(parent)
        if str(snapshot.operation()) != "replace":
            break
        snapshot = None if parent is None else metadata.snapshot(parent)
    return int(main.snapshotId())


def cleared(table: Any, rows: Any, branch: str | None) -> Any:
    """The newest snapshot of a branch without the rows that are kept aside.

    It is in no commit yet: its lists of files are written, and that is all.

    Args:
        table: the table, in Java.
        rows: Iceberg's expression for the rows that are kept aside.
        branch: the branch.

    Returns:
        Iceberg's snapshot; None where there are no such rows.
    """
    delete = table.newDelete().deleteFromRowFilter(rows)
    made = delete.toBranch(branch).set(CLEARED, "true").apply()
    if made.summary().containsKey(DELETED_FILES):
        return made
    table.io().deleteFile(made.manifestListLocation())
    return None


def keep_aside(table: Any, column: str, partitioned: bool) -> None:
    """Let a table that was made without it keep rows aside from now on.

    The files that it has stay as they are; `setting_aside.set_aside` moves their rows.

    Args:
        table: the table, in Java.
        column: true in the rows that are to be kept aside.
        partitioned: whether it is partitioned by that column already.
    """
    if not partitioned:
        table.updateSpec().addField(column).commit()
    update = table.updateProperties().set(ASIDE, column)
    for key, value in LISTS.items():
        update = update.set(key, value)
    update.commit()
