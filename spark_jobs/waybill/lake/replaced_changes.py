"""What a reload has brought once more, as the log says it, read with Spark or without.

A row of `changes` with the outcome `rebuilt` names a table and a batch whose changes of it count no
more, and, as its reason, the batch of the reload. So it does not matter what upkeep has forgotten
of batches since. One with a key is about the changes of this key alone. A reload of keys leaves one
for each of them that names its own batch, too: it says that the key is rebuilt, whether or not
anything came of it before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake_columns import REBUILT, REBUILT_KEYS, TABLE_PARTS

if TYPE_CHECKING:
    from waybill.lake.history import History

STAGE = "convert"
"""The stage that decodes, and so says what it has rebuilt."""


class Replaced(NamedTuple):
    """The changes that a batch has brought of a table, and that count no more.

    Attributes:
        database: of the table, as the changes name it.
        schema: as above.
        table: as above.
        batch: the batch that brought them.
        by: the batch of the reload.
        key: the one key whose changes are meant; None where all of the table are.
    """

    database: str | None
    schema: str | None
    table: str | None
    batch: str
    by: str
    key: str | None = None

    @property
    def is_mark(self) -> bool:
        """Whether it says of a key that it is rebuilt, and takes no change away."""
        return self.batch == self.by


def reloads_before(lake: History, upto: int | None) -> dict[str, Any]:
    """The details of the last conversion up to a snapshot of the log; None for the newest.

    Each has what reloads have done so far (`REBUILT`, `REBUILT_KEYS`,
    `waybill.lake.rebuilt_rows.ADDED_TO`).
    """
    line = (c for c in lake.between(lake.log("changes"), None, upto) if c.stage == STAGE)
    last = next(line, None)
    details: dict[str, Any] = {} if last is None else last.report.get("details", {})
    return details


def replaced_in(lake: History, upto: int | None) -> list[Replaced]:
    """What counts no more of the changes up to a snapshot of the log; None for the newest."""
    details = reloads_before(lake, upto)
    if not details.get(REBUILT) and not details.get(REBUILT_KEYS):
        return []
    names = (*TABLE_PARTS, "batch", "reason", "key")
    rows = lake.scan(lake.log("changes"), names, {"outcome": [REBUILT]}, upto)
    return [Replaced(*(row[name] for name in names)) for row in rows]
