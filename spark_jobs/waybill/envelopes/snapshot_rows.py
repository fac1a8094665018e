"""Rows of snapshots for targets whose readers take such a row without a place for a full row.

A full row is older than every change (`records.Change.full_row`). What a snapshot reads while
changes go on has a place among them, and loses to none of those before it. Where a target tells the
one from the other by the place alone, the rows of both kinds that do not go with it are written as
what keeps their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    from waybill.records import Change

AS_INSERT = (
    "a snapshot row that is not older than every change is written as an insert if it has no "
    "sequence id to write, because readers would treat it as older"
)
"""The limit of `full_rows`."""

WITHOUT_PLACE = (
    "a snapshot row that is older than every change is written without the sequence id that it has"
)
"""The limit of `sequence_id`."""


def in_order(change: Change, losses: list[str], has_room: bool = True) -> Change:
    """A change of a row as it has to be written to keep its order.

    Args:
        change: the change.
        losses: gets what is given up.
        has_room: whether the target can hold its sequence.
    """
    read = change.operation == "read"
    if change.sequence is not None and ((read and change.full_row) or not has_room):
        losses.append("sequence_id")
        change = structs.replace(change, sequence=None)
    if read and not change.full_row and change.sequence is None:
        losses.append("full_rows")
        change = structs.replace(change, operation="insert")
    return change
