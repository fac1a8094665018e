"""The text that a value of the lake has as a rule, where its type alone decides it.

It is the text that most sources give, and no more than that: 1.10 in a decimal of three digits
behind the point is "1.100" here. Whoever leaves a text out because it is the standard one has to
hold the two against each other first. It is stated three times, for SQL, for columns of Arrow and
for one value of Python; a test holds them equal at the edges of every type.

There is none of floating point numbers, which have as many texts as there are programs, and none
of days and times outside the years 1 to 9999.
"""

from __future__ import annotations

import base64
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from waybill.types import FIRST_MICRO, FIRST_SECOND, LAST_MICRO, LAST_SECOND

_TYPES = ("string", "int", "bigint", "boolean", "binary", "date", "timestamp_ntz", "timestamp")
_YEARS = {
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    ),
    "timestamp": (
        "TIMESTAMP'0001-01-01 00:00:00Z'",
        "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
    ),
}
_DAYS = (FIRST_SECOND // 86_400, LAST_SECOND // 86_400)
_MICROSECONDS = (FIRST_MICRO, LAST_MICRO)
"""The years 1 to 9999, counted from 1970."""


def has_standard(type_: str) -> bool:
    """Whether values of a type of the lake have standard texts."""
    return type_ in _TYPES or type_.startswith("decimal")


def standard_sql(value: str, type_: str) -> str:
    """SQL for the standard text of a value, null where it has none.

    Args:
        value: SQL of the value.
        type_: a type that has standard texts.
    """
    if type_ == "string":
        return value
    if type_ == "binary":
        # A setting of Spark can make it break the text into lines.
        return f"translate(base64({value}), concat(chr(13), chr(10)), '')"
    text = f"CAST({value} AS STRING)"
    if type_.startswith("decimal"):
        return f"CASE WHEN instr({text}, 'E') = 0 THEN {text} END"
    if type_ not in _YEARS:
        return text
    if type_ != "date":
        # Spark leaves out what is zero at the end; the session's clock is UTC.
        point = f"if(length({text}) = 19, '.', substring({text}, 20))"
        clock = f"replace(substring({text}, 1, 19), ' ', 'T')"
        text = f"concat({clock}, rpad({point}, 7, '0'))"
    first, last = _YEARS[type_]
    return f"CASE WHEN {value} BETWEEN {first} AND {last} THEN {text} END"


def standard_texts(values: Any, type_: str) -> Any:
    """The standard texts of an array of values, null where one has none.

    Args:
        values: the values, in the Arrow type that is that of the lake.
        type_: a type that has standard texts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_ == "string":
        return values
    if type_ == "binary":
        found = [None if v is None else base64.b64encode(v).decode() for v in values.to_pylist()]
        return pa.array(found, pa.string())
    if type_ == "date":
        return _in_years(values, pa.int32(), _DAYS, values.cast(pa.string()))
    if type_ in _YEARS:
        clock = values.cast(pa.timestamp("us")).cast(pa.string())
        return _in_years(values, pa.int64(), _MICROSECONDS, pc.replace_substring(clock, " ", "T"))
    texts: Any = values.cast(pa.string())
    if type_.startswith("decimal") and pc.any(pc.match_substring(texts, "E")).as_py():
        found = [None if v is None else standard_text(v) for v in values.to_pylist()]
        return pa.array(found, pa.string())
    return texts


def _in_years(values: Any, counted: Any, years: tuple[int, int], texts: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = values.cast(counted)
    first, last = (pa.scalar(end, counted) for end in years)
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(inside, texts, pa.scalar(None, pa.string()))


def standard_text(value: Any) -> str | None:
    """The standard text of one value that has one, as `History.scan` gives it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return value.isoformat() if isinstance(value, date) else str(value)
