"""The type of a column whose changes have described it in several ways.

Rows of all of them stand in one table, and a target gets them with one type, which has to hold the
text of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.types import INTEGER_RANGE, STRING, UNKNOWN, LogicalType

if TYPE_CHECKING:
    from collections.abc import Iterable

_TIMES = {"date", "timestamp"}
_FLOATS = {"float32", "float64"}


def joined_type(types: Iterable[LogicalType]) -> LogicalType:
    """A type that holds the texts of all types; the newest of them comes first.

    A date in a timestamp is its midnight, and has to be written so. What has nothing in common but
    its text becomes a string.
    """
    first, *others = [type_ for type_ in types if type_ != UNKNOWN] or [UNKNOWN]
    for other in others:
        first = _both(first, other)
    return first


def _both(one: LogicalType, other: LogicalType) -> LogicalType:
    if one.kind == other.kind and one.kind != "decimal":
        precisions = [type_.precision for type_ in (one, other)]
        if None in precisions:
            return LogicalType(one.kind)
        return max(one, other, key=lambda type_: type_.precision or 0)
    kinds = {one.kind, other.kind}
    if kinds <= INTEGER_RANGE.keys():
        return _integer(one, other)
    if kinds <= {*INTEGER_RANGE, "decimal"}:
        return _decimal(one, other)
    if kinds == _FLOATS:
        return LogicalType("float64")
    if kinds == _TIMES:
        return one if one.kind == "timestamp" else other
    return STRING


def _integer(one: LogicalType, other: LogicalType) -> LogicalType:
    low = min(INTEGER_RANGE[one.kind][0], INTEGER_RANGE[other.kind][0])
    high = max(INTEGER_RANGE[one.kind][1], INTEGER_RANGE[other.kind][1])
    for kind, (least, most) in INTEGER_RANGE.items():
        if least <= low and high <= most:
            return LogicalType(kind)
    return LogicalType("decimal", len(str(high)), 0)


def _decimal(one: LogicalType, other: LogicalType) -> LogicalType:
    digits, scale = 0, 0
    for type_ in (one, other):
        if type_.kind == "decimal":
            if type_.precision is None or type_.scale is None:
                return LogicalType("number")
            digits = max(digits, type_.precision - type_.scale)
            scale = max(scale, type_.scale)
        else:
            digits = max(digits, len(str(INTEGER_RANGE[type_.kind][1])))
    return LogicalType("decimal", digits + scale, scale)
