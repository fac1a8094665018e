"""What a full reload took away: a marked tombstone for every row that the dump does not have.

A reload is a TRUNCATE with rows behind it (ADR 0011), so nothing older than it counts any more and
no tombstone is needed for the rows to stay away. These tombstones tell people what went, and when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.merge import columns as own

if TYPE_CHECKING:
    from waybill.lake import Branch, Lake
    from waybill.merge.table_plans import FullReload


def mark_gone(lake: Lake, branch: Branch, reload: FullReload, batch: str) -> int:
    """Leave a tombstone for every row that a reload took away; call it after the merge.

    Args:
        lake: the lake.
        branch: the table's branch, with the reload and all changes of the batch in it.
        reload: the reload.
        batch: the batch's id.

    Returns:
        How many rows it took away.
    """
    if branch.begins_empty:
        return 0
    order = F.col(own.ORDER)
    before = lake.read(branch.table, branch.base).where(~F.col(own.DELETED))
    taken = before.where((order > reload.above) & (order < reload.order)).select(own.KEY)
    gone = taken.join(branch.read().select(own.KEY), own.KEY, "left_anti")
    values = {
        own.KEY: F.col(own.KEY),
        own.ORDER: F.lit(reload.order),
        own.DELETED: F.lit(True),
        own.GONE: F.lit(own.BY_RELOAD),
        own.BATCH: F.lit(batch),
    }
    fields = branch.read().schema.fields
    rows = gone.select(
        *(values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields)
    )
    return branch.append(rows)
