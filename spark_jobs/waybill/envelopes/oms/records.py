"""What OMS's records of rows tell beside the row: what happened to it, and when."""

from __future__ import annotations

from waybill.errors import Refusal
from waybill.types import FIRST_SECOND, LAST_SECOND
from waybill.values.values import is_integer_text

ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "ROW": "read"}
"""Record types that carry a row, and their operations; ROW is a row of a full synchronization."""

_LONGEST = 12


def seconds(timestamp: str | None) -> int | None:
    """Microseconds since 1970 of `timestamp`, which is whole seconds in a string.

    Raises:
        Refusal: it is none, or not a time that a timestamp can hold.
    """
    if timestamp is None or timestamp == "":
        return None
    if len(timestamp) > _LONGEST or is_integer_text(timestamp) is None:
        raise Refusal("shape", f"timestamp is {timestamp[:40]!r} and not seconds since 1970")
    number = int(timestamp)
    if not FIRST_SECOND <= number <= LAST_SECOND:
        sentence = "timestamp is not in the years 1 to 9999; it must be in seconds"
        raise Refusal("shape", sentence)
    return number * 1_000_000
