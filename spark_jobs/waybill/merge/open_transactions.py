"""The rows and events of transactions, as Spark finds them in `changes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.lake.names import literal
from waybill.mapping.shards import VOID
from waybill.mapping.transaction_rows import LEFT_OUT_ROW, OF_EMPTIED
from waybill.merge.transactions import (
    EVENTS,
    NAME_SQL,
    PLACE_SQL,
    Came,
    Event,
    Members,
    Open,
    announced,
    is_serial,
    name_of,
)
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATEMENTS = ("truncate", "ddl")
_DIGEST = f"CASE WHEN outcome = 'skipped' THEN get_json_object(extra, '$.{LEFT_OUT_ROW}') END"
"""SQL: what tells a row that the migration leaves out from others; null for one that it takes."""

CAME = (
    "(outcome = 'ok' OR (outcome = 'skipped' AND transaction IS NOT NULL AND "
    f"(reason_kind = {literal(VOID)} OR {_DIGEST} IS NOT NULL)))"
)
"""SQL: a row of `changes` that came of a table that is read, whether or not it is taken."""

_COUNTED = f"NOT coalesce(get_json_object(extra, '$.{OF_EMPTIED}') = 'true', false)"
"""SQL: a row that the source has sent, not one that a statement about one of several joined tables
became."""

_DELIVERED = (
    "sha2(to_json(struct(`database`, `schema`, `table`, operation, key, old_key, before, after, "
    f"{_DIGEST} AS left_out, "
    "CASE WHEN operation != 'read' AND split_part(order_key, '/', 2) != '' "
    "THEN substring_index(order_key, '/', 3) "
    "ELSE concat_ws('|', topic, `partition`, offset, `index`) END AS place)), 256)"
)
"""SQL: what all deliveries of a row share. Without a sequence id each is a row of its own."""
_NUMBERED = "order_key LIKE '1/%' AND NOT order_key LIKE '1//%'"


def in_transactions(transactions: Iterable[Members]) -> str:
    """SQL: a row (not a begin or an end) of one of the transactions."""
    every = sorted(set(transactions), key=lambda members: (members.name, members.first or 0))
    if not every:
        return "false"
    names = ", ".join(literal(members.name) for members in every if members.first is None)
    conditions = [f"{NAME_SQL} IN ({names})"] if names else []
    for members in every:
        if members.first is not None:
            is_one = f"{NAME_SQL} = {literal(members.name)}"
            is_one += f" AND coalesce({PLACE_SQL} >= {members.first}, true)"
            if members.last is not None:
                is_one += f" AND coalesce({PLACE_SQL} <= {members.last}, true)"
            conditions.append(f"({is_one})")
    events = ", ".join(f"'{operation}'" for operation in EVENTS)
    return f"(({' OR '.join(conditions)}) AND operation NOT IN ({events}))"


def transaction_events(rows: DataFrame, tables: Iterable[str]) -> list[Event]:
    """The begins and ends among accepted changes.

    Args:
        rows: the changes.
        tables: the source's names of the tables that are read; see `announced`.
    """
    ends = rows.where(F.col("operation").isin(*EVENTS) & F.col("transaction").isNotNull())
    columns = ("order_key", "operation", "transaction", F.unix_micros("source_time"))
    counts = F.expr("CASE WHEN operation = 'commit' THEN extra END")
    known = tuple(tables)
    found = ends.select(*columns, counts.alias("said")).collect()
    return [Event(row[0], row[1], row[2], row[3], announced(row.said, known)) for row in found]


def arrived(
    transactions: tuple[Open, ...], increment: DataFrame, frames: Iterable[DataFrame]
) -> dict[str, Came]:
    """What has come of transactions.

    Args:
        transactions: those that are asked about.
        increment: the new changes that came; see `CAME`.
        frames: more and more of the log; the next one is read for transactions of which the one
            before has too few rows.
    """
    found: dict[str, Came] = {}
    last: dict[str, str] = {}
    asked = list(transactions)
    for frame in frames:
        if not asked:
            break
        ids = {name_of(t.id): t.id for t in asked}
        operations = [*ROW_OPERATIONS, *_STATEMENTS]
        mine = frame.where(F.col("operation").isin(*operations)).where(_COUNTED)
        rows = (
            mine.where(in_transactions(t.members for t in asked))
            .groupBy(F.expr(NAME_SQL).alias("name"))
            .agg(
                F.count_distinct(F.expr(_DELIVERED)).alias("rows"),
                F.max(F.col("operation").isin(*_STATEMENTS)).alias("statement"),
                F.max(F.expr(f"CASE WHEN {_NUMBERED} THEN order_key END")).alias("last"),
            )
            .collect()
        )
        for row in rows:
            id_ = ids[row["name"]]
            found[id_] = Came(row["rows"], row["statement"])
            if row["last"] is not None:
                last[id_] = row["last"]
        asked = [t for t in asked if found.get(t.id, Came()).rows < (t.count or 1)]
    for transaction in transactions:
        order = last.get(transaction.id)
        if transaction.end is None and order is not None and is_serial(transaction.id):
            name = literal(name_of(transaction.id))
            later = increment.where(_NUMBERED).where(
                f"transaction IS NOT NULL AND {NAME_SQL} <> {name} AND order_key > {literal(order)}"
            )
            followed = not later.isEmpty()
            found[transaction.id] = found[transaction.id]._replace(followed=followed)
    return found
