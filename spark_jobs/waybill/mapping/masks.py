"""Masks: what stands in the place of a value. Null stays null, so that rules about it hold."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.mapping.rules import Mask

KEPT = 4
HIDDEN = "****"

WITHHELD = "the sentence is left out, as it may show what the migration masks"
"""Stands for the reason of a refusal where values are masked."""

DISTINCT = frozenset({"sha256", "hmac"})
"""Masks that give different values different texts, so that they may mask a key."""


OF_NO_VALUE = frozenset({"null", "text"})
"""Masks that make the same of every value."""


def mask_function(mask: Mask) -> Callable[[str], str | None]:
    """What becomes of a value's exact text.

    `sha256` and `hmac` (HMAC-SHA-256) give 64 hexadecimal digits of the text in UTF-8, so equal
    values stay equal. Of few possible values a plain SHA-256 is soon guessed: those need `hmac`.
    """
    if mask.kind == "null":
        return lambda _: None
    if mask.kind == "text":
        text = mask.text
        return lambda _: text
    if mask.kind == "sha256":
        return lambda value: hashlib.sha256(value.encode()).hexdigest()
    if mask.kind == "hmac":
        key = mask.text.encode()
        return lambda value: hmac.digest(key, value.encode(), "sha256").hex()
    # Of a short value nothing is left to be guessed from.
    return lambda value: HIDDEN + (value[-KEPT:] if len(value) > 2 * KEPT else "")
