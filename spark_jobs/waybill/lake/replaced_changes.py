"""What a reload has brought once more, as the log says it, read with Spark or without.

A row of `changes` with the outcome `rebuilt` names a table and a batch whose changes of it count no
more, and, as its reason, the batch of the reload. So it does not matter what upkeep has forgotten
of batches since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.lake_columns import REBUILT

if TYPE_CHECKING:
    from waybill.lake.history import History


class Replaced(NamedTuple):
    """The changes that a batch has brought of a table, and that count no more.

    Attributes:
        database: of the table, as the changes name it.
        schema: as above.
        table: as above.
        batch: the batch that brought them.
        by: the batch of the reload.
    """

    database: str | None
    schema: str | None
    table: str | None
    batch: str
    by: str


def replaced_in(lake: History, upto: int | None) -> list[Replaced]:
    """What counts no more of the changes up to a snapshot of the log; None for the newest."""
    names = ("database", "schema", "table", "batch", "reason")
    rows = lake.scan(lake.log("changes"), names, {"outcome": [REBUILT]}, upto)
    return [Replaced(*(row[name] for name in names)) for row in rows]
