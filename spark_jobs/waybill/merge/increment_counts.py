"""The increment in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from waybill.full_load import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Row

    from waybill.merge.watermark import Reached


@dataclass
class TableSurvey:
    """What the increment holds for one source table.

    Attributes:
        rows: changes of rows.
        keyed: those that have a key.
        moves: those that gave a row another key.
        truncates: number of TRUNCATEs.
        schema_ids: the schemas of the row changes.
        places: topics and partitions of changes without a sequence id.
        unordered_truncates: TRUNCATEs and DROPs without a sequence id that its changes would have
            to be ordered against: those of the batch, and the newest of before.
        topics: where its changes came from.
        identities: database, schema and table as messages name it; more than one where the dots of
            a name hide that there are several tables.
        lowest: lowest order of the row changes.
        highest: their highest order.
    """

    rows: int = 0
    keyed: int = 0
    moves: int = 0
    truncates: int = 0
    schema_ids: set[str] = field(default_factory=set)
    places: set[tuple[str, int]] = field(default_factory=set)
    unordered_truncates: int = 0
    topics: set[str] = field(default_factory=set)
    identities: set[tuple[str, str, str]] = field(default_factory=set)
    lowest: str = ""
    highest: str = ""


class Survey(NamedTuple):
    """The increment in numbers.

    Attributes:
        total: accepted changes.
        tables: by qualified name.
        skipped: changes that change no rows, by operation.
        reached: how far each partition of a topic is with it.
    """

    total: int
    tables: dict[str, TableSurvey]
    skipped: Counter[str]
    reached: dict[tuple[str, int], Reached]


class HeldRows(NamedTuple):
    """Rows that wait for the end of their transaction, and rows that did.

    Attributes:
        waiting: rows of this increment whose transaction is open.
        rolled_back: rows of this increment whose transaction was rolled back.
        released: rows of earlier batches whose transaction has been committed.
        dropped: rows of earlier batches whose transaction has been rolled back.
    """

    waiting: int = 0
    rolled_back: int = 0
    released: int = 0
    dropped: int = 0


def count(table: TableSurvey, row: Row) -> None:
    """Count a group of accepted changes: so many of an operation, from a partition."""
    operation, n = row.operation, row.n
    table.topics.add(row.topic)
    if operation == "truncate":
        table.truncates += n
        return
    if row.unordered:
        table.places.add((row.topic, row.partition))
    table.lowest = min(table.lowest or row.lowest, row.lowest)
    table.highest = max(table.highest, row.highest)
    table.rows += n
    table.keyed += row.k
    table.moves += row.m
    if not row.topic.startswith(TOPIC):
        # A dump is named by the migration, where nobody can say what a dot means.
        table.identities.add((row.database or "", row["schema"] or "", row.table or ""))
    table.schema_ids.update(row.schema_ids)
