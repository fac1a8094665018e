"""Writes settled rows into the branch of a merged table."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from waybill.lake.names import quoted
from waybill.merge import columns as own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from waybill.lake import Branch


def merge_rows(
    branch: Branch,
    source: DataFrame,
    values: Mapping[str, Column],
    mark: str,
    matched: str,
    unmatched: str = "",
) -> dict[str, str]:
    """One MERGE by key.

    Args:
        branch: the branch to write; a view of `source` has the name `s` in the statement, the
            table the name `t`.
        source: the rows.
        values: every column of the table in the order `c0`, `c1`, … of the view; the key is first.
        mark: a column of `source` that the conditions use beside them.
        matched: condition and action for keys that are there, after WHEN MATCHED AND.
        unmatched: condition for keys that are not there, which are inserted.

    Returns:
        The summary of the snapshot it made.
    """
    view = f"merge_{secrets.token_hex(8)}"
    named = [value.alias(f"c{i}") for i, value in enumerate(values.values())]
    source.select(mark, *named).createOrReplaceTempView(view)
    names = ", ".join(quoted(name) for name in values)
    told = ", ".join(f"s.c{i}" for i in range(len(values)))
    also = f" AND {unmatched}" if unmatched else ""
    try:
        return branch.sql(
            f"MERGE INTO {{branch}} AS t USING {view} AS s ON t.{own.KEY} = s.c0 "
            f"WHEN MATCHED AND {matched} "
            f"WHEN NOT MATCHED{also} THEN INSERT ({names}) VALUES ({told})"
        )
    finally:
        source.sparkSession.catalog.dropTempView(view)
