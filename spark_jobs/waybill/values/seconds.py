"""Times of messages that follow each other: most share their second with one before.

What is known of a second is kept, and only the digits behind it are looked at again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

from waybill.caches import Bounded

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock in UTC, never compared
_LENGTH = len("2020-01-01 00:00:00")
_LONGEST_FRACTION = 12


class Seconds(Bounded[str, int]):
    """Microseconds since 1970 of texts that begin with a date and a time of day to the second."""

    def find(self, text: str) -> int | None:
        """What `learn` kept of a text of the same second; None where it kept nothing."""
        known = self.get(text[:_LENGTH])
        if known is None or len(text) == _LENGTH:
            return known
        digits = text[_LENGTH + 1 :]
        if text[_LENGTH] != "." or not (digits.isdecimal() and digits.isascii()):
            return None
        if len(digits) > _LONGEST_FRACTION:
            return None
        return known + (int(digits) if len(digits) == 6 else int(digits[:6].ljust(6, "0")))

    def learn(self, text: str, micros: int) -> None:
        """Keep what a text stands for, digits below a microsecond cut off."""
        digits = text[_LENGTH + 1 : _LENGTH + 7]
        if text[_LENGTH : _LENGTH + 1] in ("", "."):
            self[text[:_LENGTH]] = micros - (int(digits.ljust(6, "0")) if digits else 0)


@lru_cache(maxsize=10_000)
def second_text(second: int) -> str:
    """Date and time of day in UTC of seconds since 1970, with a blank between them.

    Raises:
        OverflowError: the year is not one of 1 to 9999.
    """
    return (_EPOCH + timedelta(seconds=second)).isoformat(" ")
