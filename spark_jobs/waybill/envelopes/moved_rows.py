"""Rows under a new key whose source removes the old one by a message of its own.

Debezium sends a change of the key as two events, a delete and an insert, which may stand in
different partitions and batches. The insert names the old key in a header
(`records.Change.moved_apart`): the merge takes values from there that the source did not send. In
another envelope both are written as what they are. An update in place of the insert would remove
the old key a second time, and with it a row that was given that key meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, structs

if TYPE_CHECKING:
    from waybill.records import Change


def standing_alone(change: Change, losses: list[str], counts_gaps: bool = False) -> Change:
    """A change as it has to be written: an insert where the removal of the old key came apart.

    Args:
        change: the change.
        losses: gets what is given up: the tie to the old key, and columns that only the row under
            the old key has.
        counts_gaps: whether the encoder counts columns itself that an insert leaves out.
    """
    if not change.moved_apart:
        return change
    losses.append("key_change")
    if not counts_gaps and UNSET in structs.astuple(change.after):
        losses.append("unchanged_columns")
    return structs.replace(change, operation="insert", moved_from=None)
