"""Numbers, alone and with their nouns, for sentences that people read."""

from __future__ import annotations

import math
from decimal import Decimal


def counted(number: int, one: str, many: str = "", style: str = "") -> str:
    """A number and what there is of it: `1 file`, `2 files`, `0 files`.

    Args:
        number: how many.
        one: what stands behind 1, with its verb where it has one: `message waits`.
        many: what stands behind every other number; the noun with an s where it is left out.
        style: how the number is written, as `format` takes it.
    """
    return f"{number:{style}} {one if number == 1 else many or one + 's'}"


def plain(value: float) -> str:
    """A measured figure with as many digits as help and no exponent: `0.1591`, `559412`, `0.00002`.

    What is less than a thousand has four digits, what is more has no fraction.
    """
    if not math.isfinite(value):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{Decimal(f'{value:.4g}'):f}"
