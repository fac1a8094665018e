"""Keys that messages tell beside their rows, for rows in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.column_codecs import joined_texts, same
from waybill.bulk.constant_bytes import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.bulk.arena import Mask, Texts
    from waybill.bulk.block import Scanned
    from waybill.bulk.field_map import KeySlot
    from waybill.bulk.rows import Rows

SEPARATOR = b"\\u0001"
"""What stands between the values of a key that are stated as one text, as JSON has it."""


def other_keys(rows: Rows, stated: list[Texts]) -> Mask:
    """Which rows are converted exactly, because a stated key is not in the same words theirs.

    Args:
        rows: the rows.
        stated: the key, value by value or as one text; null where it is not stated.
    """
    image, arena = rows.before if rows.after is None else rows.after, rows.arena
    keys = [None if image is None else image[place] for place in rows.schema.key_places]
    other = np.zeros(len(rows), np.bool_)
    found = [texts for texts in keys if texts is not None]
    if len(found) < len(keys):
        return ~other
    if len(stated) == 1:
        whole = found[0]
        for texts in found[1:]:
            separator = arena.constant(SEPARATOR, len(rows))
            whole = joined_texts(arena, joined_texts(arena, whole, separator), texts)
        found = [whole]
    for mine, shown in zip(found, stated, strict=True):
        other |= (shown.lengths >= 0) & ~same(arena, mine, shown)
    return other


def other_message_keys(rows: Rows, keys: Scanned, slots: Sequence[KeySlot]) -> Mask:
    """Which rows are converted exactly, because their message key is not in the same words theirs.

    Args:
        rows: the rows.
        keys: the message keys.
        slots: the values of the key, each of a column that the row has.
    """
    image, arena = rows.before if rows.after is None else rows.after, rows.arena
    other = np.zeros(len(rows), np.bool_)
    for cell in slots:
        mine = None if image is None else image[cell.column]
        if mine is None:
            return ~other
        shown = cell.take.read(arena, values(keys, rows.places, cell.slot))
        other |= ~same(arena, mine, shown)
    return other
