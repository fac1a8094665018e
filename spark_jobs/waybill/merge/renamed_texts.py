"""Keys and images in Spark with the names that columns have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.lake.names import literal
from waybill.merge.renamings import present_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from waybill.merge.renamings import Renamings

_HOLE = "\x01"
"""Begins what stands for a name while others get theirs: JSON has no such character in a text."""


def present_rows(rows: DataFrame, renamed: Mapping[str, Renamings]) -> DataFrame:
    """Rows of `Increment.rows` with the names of now.

    Args:
        rows: with `qualified`, `order`, keys and images.
        renamed: the renamings of tables, by qualified name.
    """
    older = [
        (
            (F.col("qualified") == qualified) & (F.col("order") < one.order),
            present_names(every[place:]),
        )
        for qualified, every in renamed.items()
        for place, one in enumerate(every)
    ]
    if not older:
        return rows

    def now(name: str) -> Expression:
        # One choice among all, as choices within choices would grow with every renaming.
        (first, names), *others = older
        chosen = F.when(first, renamed_text(F.col(name), names))
        for condition, names in others:
            chosen = chosen.when(condition, renamed_text(F.col(name), names))
        return chosen.otherwise(F.col(name))

    return rows.withColumns({name: now(name) for name in ("key", "old_key", "image", "before")})


def renamed_text(text: Expression, names: Mapping[str, str]) -> Expression:
    """A text image with other names, its values as they are.

    The text is as the decoders write it, without blanks. A comma, a quote, a name, a quote and a
    colon stand together only where a member begins: inside of a value the quote would be escaped,
    and no value is followed by a colon.
    """
    whole = F.concat(F.lit(","), F.substring(text, 2, 2**31 - 1))
    # Names of columns hold no quotes, backslashes or control characters (see ADR 0001).
    for number, old in enumerate(names):
        whole = F.replace(whole, F.lit(f',"{old}":'), F.lit(f",{_HOLE}{number}:"))
    for number, new in enumerate(names.values()):
        whole = F.replace(whole, F.lit(f",{_HOLE}{number}:"), F.lit(f',"{new}":'))
    # `{}` begins with a brace too.
    return F.concat(F.lit("{"), F.substring(whole, 2, 2**31 - 1))


def renamed_keys(texts: Expression, names: Mapping[str, str]) -> Expression:
    """A JSON list of keys (`_waybill_sources`) with other names."""
    keys = F.from_json(texts, "array<string>")
    return F.to_json(F.transform(keys, lambda key: renamed_text(key, names)))


def full_rows_outside(renamed: Renamings) -> str:
    """SQL: a full row of which its place does not say that it is older than all renamings."""
    older = (
        f"(topic = {literal(topic)} AND `partition` = {partition} AND `offset` < {offset})"
        for topic, partition, offset in (one.place for one in renamed)
    )
    return f"order_key LIKE '0/%' AND NOT ({' AND '.join(older)})"
