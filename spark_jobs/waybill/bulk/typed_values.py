"""The same look at times as `waybill.typed_values` has, for many rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.typed_values import TIMES, kind_of

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
    wrong = ~_plainly(arena, texts, kind)
    for row in np.flatnonzero(wrong).tolist():
        text = arena.text(texts, row) or b""
        other = kind_of(text.decode(errors="replace"))
        wrong[row] = other is not None and other != kind
    return wrong


def _plainly(arena: Arena, texts: Texts, kind: str) -> Mask:
    """Which texts are null or look like a time of their type."""
    lengths = texts.lengths
    good: Mask
    if kind == "date":
        good = (lengths == 10) & (_byte(arena, texts, 4) == ord("-"))
    elif kind == "time":
        # Of a time with a sign or with more than 99 hours the exact way knows more.
        good = (lengths >= 8) & (_byte(arena, texts, 2) == ord(":"))
    else:
        last = _byte(arena, texts, -1)
        good = (lengths >= 19) & (_byte(arena, texts, 10) == ord("T"))
        if kind == "timestamptz":
            good &= last == ord("Z")
        else:
            good &= (lengths == 19) | (_byte(arena, texts, 19) == ord("."))
            good &= (last >= ord("0")) & (last <= ord("9"))
            # An offset behind the digits of the second ends in digits, too.
            for at in (-3, -5, -6):
                sign = _byte(arena, texts, at)
                good &= (lengths == 19) | ((sign != ord("+")) & (sign != ord("-")))
    return good | (lengths < 0)


def _byte(arena: Arena, texts: Texts, at: int) -> np.typing.NDArray[np.uint8]:
    """A byte of each text, counted from its start, or from its end below zero; 0 beyond it."""
    lengths = texts.lengths
    inside = lengths > at if at >= 0 else lengths >= -at
    places = texts.starts + (at if at >= 0 else lengths + at)
    found = arena.data[np.where(inside, places, 0)]
    return np.where(inside, found, np.uint8(0))
