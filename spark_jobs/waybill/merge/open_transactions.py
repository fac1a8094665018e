"""The rows and events of transactions, as Spark finds them in `changes`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
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
    Members,
    Open,
    TransactionBoundary,
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
_TYPES_OF_ASKED = (
    "(CAST(NULL AS string), CAST(NULL AS decimal(38, 0)), CAST(NULL AS decimal(38, 0)), "
    "CAST(NULL AS array<string>))"
)
"""SQL of a row that is not a transaction; columns of nothing but nulls would have no type."""

_NUMBERED = "order_key LIKE '1/%' AND NOT order_key LIKE '1//%'"


def in_transactions(transactions: Iterable[Members]) -> str:
    """SQL for `where`: a row (not a begin or an end) of one of the transactions."""
    return brought_by((members, None) for members in transactions)


def brought_by(transactions: Iterable[tuple[Members, Sequence[str] | None]]) -> str:
    """SQL for `where`: a row of one of the transactions that one of its batches brought.

    It is one subquery however many they are, which Spark joins with the rows. A condition for each
    would take longer to plan than the rows take to read.

    Args:
        transactions: each with the batches that count, None for any.
    """
    every = [(one, batches) for one, batches in transactions if batches is None or batches]
    if not every:
        return "false"
    asked = sorted({_asked(members, batches) for members, batches in every})
    in_batch = ""
    if any(batches for _, batches in every):
        in_batch = " AND (asked.batches IS NULL OR array_contains(asked.batches, batch))"
    events = ", ".join(f"'{operation}'" for operation in EVENTS)
    return (
        f"(EXISTS (SELECT 1 FROM VALUES {', '.join([_TYPES_OF_ASKED, *asked])} "
        f"AS asked(name, first, last, batches) WHERE asked.name = {NAME_SQL} "
        f"AND coalesce({PLACE_SQL} >= asked.first, true) "
        f"AND coalesce({PLACE_SQL} <= asked.last, true){in_batch}) "
        f"AND operation NOT IN ({events}))"
    )


def _asked(members: Members, batches: Sequence[str] | None) -> str:
    """SQL of a row of `brought_by`."""
    # Whose first place is not known has rows at any place.
    last = None if members.first is None else members.last
    places = ("NULL" if place is None else str(place) for place in (members.first, last))
    brought = "NULL"
    if batches is not None:
        brought = f"array({', '.join(map(literal, sorted(batches)))})"
    return f"({literal(members.name)}, {', '.join(places)}, {brought})"


def rows_since_begin(transactions: Iterable[Open], since: Callable[[int], Iterable[str]]) -> str:
    """SQL for `where`: a row of one of some transactions that came when its begin had been read.

    One that came before was merged then, and stays. So does every row of a transaction whose begin
    is read once more, because a connector has started again.

    Args:
        transactions: the transactions.
        since: tells which batches came behind a snapshot of `changes`.
    """
    found: dict[int | None, list[Members]] = defaultdict(list)
    for transaction in transactions:
        found[transaction.after].append(transaction.members)
    held = []
    for after, members in found.items():
        mine = in_transactions(members)
        if after is not None:
            batches = ", ".join(map(literal, since(after)))
            mine = f"({mine} AND batch IN ({batches}))" if batches else "false"
        held.append(mine)
    return " OR ".join(held) or "false"


def transaction_events(rows: DataFrame, tables: Iterable[str]) -> list[TransactionBoundary]:
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
    return [
        TransactionBoundary(row[0], row[1], row[2], row[3], announced(row.said, known))
        for row in found
    ]


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
