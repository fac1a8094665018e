"""Sees to it that a branch has the rows that are kept aside, in files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.lake.aside import ASIDE
from waybill.lake.branches import WHOLE, lost_aside
from waybill.lake.names import literal, quoted, split
from waybill.lake.settings import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.lake.commit import Branch
    from waybill.lake.tables import Lake


def set_aside(lake: Lake, branch: Branch) -> None:
    """Make a new branch ready to be written, and to be shown without the rows kept aside.

    Most often nothing has to be done. Where another program has written main since, which showed
    it none of these rows, they are brought back. Where an earlier version has left them in files
    among the others, these files are rewritten, once.

    Args:
        lake: the lake.
        branch: of any table.

    Raises:
        ConflictError: another run took the branch away.
    """
    metadata = lake.metadata(branch.table)
    column = metadata.properties.get(ASIDE)
    if column is None or branch.base is None:
        return
    lost = lost_aside(metadata, branch.base)
    if lost is not None:
        branch.append(_as_now(branch, lake.read(branch.table, lost).where(column)), WHOLE)
    if metadata.shape.partitionings == 1 or not _is_mixed(lake, branch.table, branch.head, column):
        return
    name = literal(".".join(split(branch.table)))
    branch.sql(
        f"CALL {CATALOG}.system.rewrite_data_files(table => {name}, branch => {{name}}, "
        f"where => '{column} = true', options => map('rewrite-all', 'true'))",
        {"name": branch.name},
    )


def _as_now(branch: Branch, rows: DataFrame) -> DataFrame:
    """Rows kept aside, of an earlier snapshot, with the columns that the table has now.

    They have values in Waybill's own columns alone. Of the others there may be fewer since, or
    some of other types.
    """
    then = {field.name: field.dataType for field in rows.schema}
    return rows.select(
        *(
            (
                rows[quoted(field.name)]
                if then.get(field.name) == field.dataType
                else F.lit(None).cast(field.dataType)
            ).alias(field.name)
            for field in branch.read().schema
        )
    )


def _is_mixed(lake: Lake, table: str, snapshot: int, column: str) -> bool:
    """Whether a file that is not partitioned by a column may have rows where that is true."""
    rows = lake.java("org.apache.iceberg.expressions.Expressions").equal(column, True)
    files = lake.iceberg(table).newScan().useSnapshot(snapshot).filter(rows).planFiles()
    try:
        tasks = files.iterator()
        while tasks.hasNext():
            if tasks.next().spec().isUnpartitioned():
                return True
    finally:
        files.close()
    return False
