"""Whether a reload brings everything that the changes came from which it is to replace.

A message that was taken once may be refused today, or mean no change, because a declaration, a
setting or a schema is another one; and then nothing names its table. So what is to be replaced is
held against what came: a table of which a single message is missing keeps its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.lake_columns import MESSAGE_PLACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, Row

NAME = "qualified"
QUALIFIED = "concat_ws('.', `database`, `schema`, `table`)"
"""SQL: the name that the merge knows the table of a change by."""

NOT_THERE = "is not in the archive"

_PLACED = [NAME, *MESSAGE_PLACE]
_OF_ONE_UPDATE = [NAME, "sequence"]
_WHOLE_BEFORE = "outcome = 'ok' AND operation = 'update' AND before IS NOT NULL"
"""SQL: changes that were made of two halves, where there are halves."""

SEQUENCE = "split_part(order_key, '/', 2)"
"""SQL: the sequence id of a change, which the halves of an update share."""
UPDATES = f"(half IS NOT NULL OR ({_WHOLE_BEFORE})) AND sequence <> ''"
"""SQL: halves of updates and updates that were made of two."""
WHOLE = "bool_or(half IS NULL) OR (bool_or(half = 'before') AND bool_or(half = 'after'))"
"""SQL: of `UPDATES` that share an id: whether both halves are there."""


class MessageSpan(NamedTuple):
    """Some messages that rows of a table came from.

    Attributes:
        number: how many.
        first: topic, partition and offset of the first.
    """

    number: int
    first: tuple[str, int, int]

    @property
    def place(self) -> str:
        """The first, as sentences name it."""
        return "/".join(map(str, self.first))


def not_brought(old: DataFrame, new: DataFrame, pairs: bool) -> dict[str, MessageSpan]:
    """The messages that a reload does not bring, by the qualified name of their table.

    Args:
        old: rows of `changes` of its tables, accepted or waiting, that it would replace.
        new: what the batch has written of these tables, whatever became of it.
        pairs: whether updates come in halves; where both met in a task, the row before leaves no
            row, and an update that has lost one of them waits.
    """
    before, came = _named(old), _named(new)
    if not pairs:
        return messages_by(NAME, before.join(came, _PLACED, "left_anti"))
    updates = came.where(UPDATES).groupBy(*_OF_ONE_UPDATE)
    whole = updates.agg(F.expr(WHOLE).alias("whole")).where("whole")
    met = came.where("half IS NOT NULL").join(whole, _OF_ONE_UPDATE, "left_semi")
    apart = came.where("half IS NULL").select(*_PLACED).unionByName(met.select(*_PLACED))
    joined = before.where(_WHOLE_BEFORE).join(apart, _PLACED, "left_anti")
    others = before.where(f"NOT ({_WHOLE_BEFORE})")
    missing = others.join(came, _PLACED, "left_anti")
    halves = missing.where("half = 'before'").join(whole, _OF_ONE_UPDATE, "left_anti")
    rest = missing.where("half IS NULL OR half <> 'before'")
    found = joined.select(*_PLACED).unionByName(halves.select(*_PLACED))
    return messages_by(NAME, found.unionByName(rest.select(*_PLACED)))


def ambiguous(old: DataFrame, archive: DataFrame, column: str) -> dict[Any, MessageSpan]:
    """The places of which the archive has several different messages, by a column of changes.

    A topic that was made again, or a file with other content, has other messages at places that
    were read before. A reload decodes the last one of each, and the rows may come from the others.

    Args:
        old: changes that a reload would replace.
        archive: all its messages.
        column: the column of `old`: its table, or its group of keys.
    """
    several = _several_at_one_place(archive)
    if several is None:
        return {}
    return messages_by(column, old.join(several, [*MESSAGE_PLACE], "left_semi"))


def messages_by(column: str, rows: DataFrame) -> dict[Any, MessageSpan]:
    """The messages that rows of `changes` came from, by a column of them."""
    first = F.min(F.struct(*MESSAGE_PLACE))
    each = rows.select(column, *MESSAGE_PLACE).distinct().groupBy(column)
    found = each.agg(F.count("*"), first).collect()
    return {name: MessageSpan(count, tuple(place)) for name, count, place in found}


def _several_at_one_place(archive: DataFrame) -> DataFrame | None:
    """The places of which an archive has several different messages; None where none has two."""
    place = [*MESSAGE_PLACE]
    twice = archive.groupBy(*place).count().where("count > 1").select(*place)
    if twice.isEmpty():
        return None
    texts = [F.coalesce(F.sha2(F.col(name), 256), F.lit("")) for name in ("key", "value")]
    return (
        archive.join(twice, place, "left_semi")
        .select(*place, F.concat_ws("/", *texts).alias("says"))
        .groupBy(*place)
        .agg(F.min("says").alias("one"), F.max("says").alias("other"))
        .where("one <> other")
    )


def now_read_as(rows: list[Row]) -> Mapping[tuple[str, int, int], str]:
    """What became of messages that were decoded, by their place, in words.

    Of a refusal it is the class alone: everybody who may see runs reads these words, and the
    sentence of a refusal names values of rows.

    Args:
        rows: their place, table (`NAME`), `outcome` and `reason_kind`.
    """
    found: dict[tuple[str, int, int], str] = {}
    for row in rows:
        if row.outcome == "refused":
            sentence = f"is refused now ({row.reason_kind})"
        elif row.outcome == "skipped":
            sentence = f"is skipped now ({row.reason_kind})"
        else:
            sentence = f"is of {row[NAME] or 'no table'} now"
        found[(row.topic, row.partition, row.offset)] = sentence
    return found


def _named(rows: DataFrame) -> DataFrame:
    sequence = F.expr(SEQUENCE).alias("sequence")
    return rows.select(
        F.expr(QUALIFIED).alias(NAME),
        *(*MESSAGE_PLACE, sequence, "operation", "before", "half", "outcome"),
    )
