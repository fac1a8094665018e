"""The keys of a table that changed since an earlier verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.lake_columns import REBUILT, TABLE_PARTS
from waybill.verify.plan import CanonicalRows, image_of

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.verify.plan import Compared

MOST = 200_000
"""Of more keys the whole table is compared: reading it in ranges costs less than that many
look-ups."""


def changed_keys(
    lake: Lake, table: Compared, identity: tuple[str, str, str], after: int, upto: int | None
) -> frozenset[str] | None:
    """The keys, as `CanonicalRows.key` writes them; None where the whole table has to be compared.

    Args:
        lake: the lake.
        table: the table.
        identity: its database, schema and table in the messages.
        after: snapshot of `changes` up to which the table was verified.
        upto: snapshot of `changes` up to which everything is merged.
    """
    changes = lake.log("changes")
    if not table.is_looked_up or upto is None:
        return None
    known = {snapshot.id for snapshot in lake.metadata(changes).ancestors(upto)}
    if after not in known:
        # Upkeep has expired it.
        return None
    rows = lake.increment(changes, after, upto).where(F.col("outcome").isin("ok", REBUILT))
    for column, name in zip(TABLE_PARTS, identity, strict=True):
        rows = rows.where(F.coalesce(F.col(column), F.lit("")) == name)
    # Also changes of before, which have waited in `changes` or came once more. A table that a
    # reload has rebuilt may have lost rows that none of its changes names; one that has
    # rebuilt single keys names each.
    rebuilt = (F.col("outcome") == REBUILT) & F.isnull("key")
    whole = F.col("operation").isin("truncate", "ddl") | rebuilt
    if rows.where(whole).limit(1).count():
        return None
    keys = (
        rows.select(F.explode(F.array("key", "old_key")).alias("key"))
        .where("key IS NOT NULL")
        .distinct()
        .limit(MOST + 1)
        .collect()
    )
    if len(keys) > MOST:
        return None
    texts = CanonicalRows(table)
    images = [image_of(row[0]) for row in keys]
    if not all(texts.has_key(image) for image in images):
        # A late change names a column of the key as it was called before it was renamed.
        return None
    return frozenset(map(texts.key_of_image, images))
