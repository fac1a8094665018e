"""How many bytes the changes of each table have, where an average over all of them may mislead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.lake import Span
from waybill.lake.sizing import SHUFFLED
from waybill.lake_columns import CHANGES, columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.lake import Lake
    from waybill.merge.increment import Increment

NOT_MEASURED = 256 << 20
"""A batch of so many bytes in the shuffle goes by the average: a task takes all of it, if need be.
Of a larger one of several tables the images are read once more, for their lengths."""


def bytes_of(
    lake: Lake, increment: Increment, tables: Mapping[str, int], size: int, rows: int
) -> dict[str, float]:
    """Bytes of the changes of tables in the shuffle, by name.

    Args:
        lake: the lake.
        increment: the batch.
        tables: how many changes of rows each table has.
        size: bytes of the files that hold the batch.
        rows: changes of rows in the batch.
    """
    shuffled = size * SHUFFLED
    if shuffled <= NOT_MEASURED or rows in tables.values():
        each = shuffled / max(1, rows)
        return {name: count * each for name, count in tables.items()}
    found = _measured(lake, increment)
    return {name: float(found.get(name, 0)) for name in tables}


def _measured(lake: Lake, increment: Increment) -> dict[str, int]:
    """Bytes of keys, orders and images of the accepted changes of each table."""
    from waybill.merge.upsert.winners import BYTES_DDL, BYTES_READ, measured, qualified

    span = Span(lake.log("changes"), increment.after, increment.upto)
    changes = lake.task_rows(span, columns_of(CHANGES, *BYTES_READ), {"outcome": ["ok"]})
    found: dict[str, int] = {}
    for row in changes.collected(measured, BYTES_DDL):
        size = row.pop("bytes")
        name = qualified(**row)
        if name is not None:
            found[name] = found.get(name, 0) + size
    return found
