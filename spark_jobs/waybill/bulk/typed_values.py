"""The same look at times as `waybill.row_times.typed` has, for rows in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk import kernels
from waybill.row_times.typed import TIMES, fault_of

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Mask, Texts
    from waybill.bulk.rows import Rows


def misplaced_times(rows: Rows) -> Mask | None:
    """Which rows hold a value that is refused; None where the table has no columns of times."""
    found: Mask | None = None
    for place, column in enumerate(rows.schema.columns):
        if column.type.kind not in TIMES:
            continue
        for image in (rows.before, rows.after):
            texts = None if image is None else image[place]
            if texts is not None:
                wrong = _misplaced(rows.arena, texts, column.type.kind)
                found = wrong if found is None else found | wrong
    return found


def _misplaced(arena: Arena, texts: Texts, kind: str) -> Mask:
    wrong = ~plainly(arena, texts, kind)
    for row in np.flatnonzero(wrong).tolist():
        text = arena.text(texts, row) or b""
        wrong[row] = fault_of(kind, text.decode(errors="replace")) is not None
    return wrong


def plainly(arena: Arena, texts: Texts, kind: str) -> Mask:
    """Which texts are null or look like a time of their type."""
    good: Mask = np.empty(len(texts.lengths), np.bool_)
    kernels.plain_times(arena.data, texts.starts, texts.lengths, _NUMBERS[kind], good)
    return good


_NUMBERS = {"date": 0, "time": 1, "timestamp": 2, "timestamptz": 3}
"""What `kernels.plain_times` calls the types."""
