"""Times, and lengths of time, as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_LENGTH = re.compile(r"(\d+)([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int:
    """Seconds of a length of time such as `90s`, `15m`, `24h` or `7d`.

    Raises:
        ValueError: it is none.
    """
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ValueError("write a length of time, e.g. 90s, 15m, 24h or 7d")
    return int(match[1]) * _SECONDS[match[2]]


def moment_of(given: str | datetime) -> datetime:
    """A point in time in ISO 8601, UTC where it says nothing else.

    Raises:
        ValueError: the text is none.
    """
    moment = given if isinstance(given, datetime) else datetime.fromisoformat(given)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
