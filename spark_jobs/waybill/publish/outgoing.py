"""The messages of a batch that are to be sent, by target, and the row groups that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from waybill.lake_columns import CHANGE_PLACE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.lake import Lake, Span
    from waybill.lake.ordered_rows import RowGroup

BOUNDS = ("batch", "topic", "partition", "offset")
"""Columns whose least and greatest values are known of every row group."""

COUNTED = ("key",)
"""Columns whose nulls are counted in every row group."""


def place(batch: pa.RecordBatch, row: int) -> str:
    """The change of a message, as topic/partition/offset/index."""
    return "/".join(str(batch.column(name)[row].as_py()) for name in CHANGE_PLACE)


class Outgoing(NamedTuple):
    """The messages of some batches for one target.

    Attributes:
        rows: their rows of the outbox, for queries.
        groups: the row groups that hold them and nothing else, each with messages of one batch and
            bounded by `BOUNDS`; None where that is not known.
        longest: bytes of the longest row, None where that is not known.
    """

    rows: DataFrame
    groups: Sequence[RowGroup] | None = None
    longest: int | None = None


Groups: TypeAlias = "Mapping[str, Sequence[RowGroup]]"
"""The row groups with the messages of each target, bounded by `BOUNDS`."""


def groups_by_target(lake: Lake, span: Span) -> Groups | None:
    """The row groups of a span of the outbox that hold messages to send, and no other rows.

    Returns:
        None where the footers do not tell.
    """
    bounds = ("target", *BOUNDS)
    groups = lake.row_groups(span, {"outcome": ["ok"]}, bounds, COUNTED)
    if groups is None or any(group.low[0] != group.high[0] for group in groups):
        return None
    found: dict[str, list[RowGroup]] = {}
    for group in groups:
        own = group._replace(low=group.low[1:], high=group.high[1:])
        found.setdefault(group.low[0], []).append(own)
    return found


def outgoing(rows: DataFrame, groups: Groups | None, label: str, longest: int | None) -> Outgoing:
    """The messages for a target.

    Args:
        rows: its rows of the outbox.
        groups: the row groups of all targets.
        label: the target's name.
        longest: bytes of the longest row of the outbox, None where that is not known.
    """
    own = None if groups is None else groups.get(label, ())
    # Upkeep joins files, so that one row group may have messages of many batches.
    if own is not None and any(group.low[0] != group.high[0] for group in own):
        own = None
    return Outgoing(rows, own, longest)


def numbered(rows: pa.RecordBatch, column: str, number: int) -> pa.RecordBatch:
    """Messages with one number in a column of its own, inside a task."""
    import pyarrow as pa

    values = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
    return rows.append_column(column, values)
