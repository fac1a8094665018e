"""How many digits of the second a column's times have, as its source states it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from waybill.types import LogicalType

if TYPE_CHECKING:
    from waybill.records import Column

TIMES = ("time", "timestamp", "timestamptz")
MOST_DIGITS = 12
"""The most that a database keeps: TIMESTAMP(12) of Db2 (Db2 12 for z/OS, SQL Reference)."""

_UNITS = {
    f"{package}.{prefix}{kind}": digits
    for package, units in (
        ("io.debezium.time", {"": 3, "Micro": 6, "Nano": 9}),
        ("org.apache.kafka.connect.data", {"": 3}),
    )
    for prefix, digits in units.items()
    for kind in ("Time", "Timestamp")
}
"""Names of Kafka Connect's schemas that say the unit in which times are counted."""


def with_digits(column: Column) -> LogicalType:
    """A column's type, that of a time with the digits of its second where its source states them.

    They stand in the source's type, as in Oracle's TIMESTAMP(9), or are those of the unit in
    which the schema of the message counts.
    """
    known = column.type
    if known.kind not in TIMES or known.precision is not None:
        return known
    source = column.source_type or ""
    found = re.search(r"\((\d{1,2})\)", source)
    digits = int(found[1]) if found else _UNITS.get(source)
    return known if digits is None else LogicalType(known.kind, min(digits, MOST_DIGITS))
