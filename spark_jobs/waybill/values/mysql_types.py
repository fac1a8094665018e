"""MySQL's column types: what their texts say and how other types are named in them."""

from __future__ import annotations

import re

from waybill.types import MICROS, UNKNOWN, LogicalType, parse_type

_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_LENGTH = re.compile(r"\(\s*(\d+)\s*\)")
_WORD = re.compile(r"[a-z0-9]+")
_LENGTH_DIGITS = 10
"""No length has more; messages bring such texts, and longer ones are too large all the same."""

_NAMES = {
    "boolean": "bit(1)",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "tinyint unsigned",
    "uint16": "smallint unsigned",
    "uint32": "int unsigned",
    "uint64": "bigint unsigned",
    "number": "decimal",
    "float32": "float",
    "float64": "double",
    "enum": "enum",
    "set": "set",
    "json": "json",
    "bytes": "blob",
    "geometry": "geometry",
    "date": "date",
    "xml": "text",
}

_CLOCKS = {"time": "time", "timestamp": "datetime", "timestamptz": "timestamp"}

_JDBC = {
    "bit": -7,
    "bool": -6,
    "boolean": -6,
    "tinyint": -6,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "integer": 4,
    "bigint": -5,
    "float": 7,
    "double": 8,
    "real": 8,
    "decimal": 3,
    "numeric": 3,
    "char": 1,
    "varchar": 12,
    "tinytext": 2005,
    "text": 2005,
    "mediumtext": 2005,
    "longtext": 2005,
    "tinyblob": 2004,
    "blob": 2004,
    "mediumblob": 2004,
    "longblob": 2004,
    "binary": 2004,
    "varbinary": 2004,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 93,
    "year": 12,
    "enum": 4,
    "set": -7,
    "json": 12,
    **dict.fromkeys(
        (
            *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
            *("multipolygon", "geometrycollection", "geomcollection"),
        ),
        -2,
    ),
}

_RAISED = {"tinyint": (5, 2**7), "smallint": (4, 2**15), "int": (-5, 2**31), "bigint": (3, 2**63)}


def logical_type(text: str | None) -> LogicalType:
    """The logical type of a MySQL type; unknown where the text is none."""
    if not text:
        return UNKNOWN
    try:
        return parse_type(text, "mysql")
    except ValueError:
        return UNKNOWN


def name_of(kind: LogicalType) -> str:
    """MySQL's name of a logical type, e.g. `bigint unsigned`.

    A time keeps its digits of the second, also where MySQL has no such type: read as one of six it
    would lose the others.
    """
    if kind.kind in ("decimal", "bit"):
        return str(kind)
    if kind.kind in _CLOCKS:
        digits = MICROS if kind.precision is None else kind.precision
        return f"{_CLOCKS[kind.kind]}({digits})"
    return _NAMES.get(kind.kind, "varchar")


def members(text: str) -> tuple[str, ...]:
    """The members of an enum or set type, in order; doubled quotes are one quote."""
    _, bracket, inner = text.partition("(")
    return tuple(m.replace("''", "'") for m in _MEMBER.findall(inner)) if bracket else ()


def fixed_length(text: str) -> int | None:
    """The n of `binary(n)`, whose values are exactly n bytes; None for every other type."""
    lowered = text.strip().lower()
    if not lowered.startswith("binary"):
        return None
    found = _LENGTH.search(lowered)
    return int(found[1][:_LENGTH_DIGITS]) if found else 1


def jdbc_type(text: str) -> int:
    """The `java.sql.Types` number that Canal gives to a MySQL type (VARCHAR for unknown ones)."""
    word = _WORD.match(text.strip().lower())
    return _JDBC.get(word[0], 12) if word else 12


def raised_jdbc_type(text: str) -> tuple[int, int] | None:
    """For unsigned integers: the next larger `java.sql.Types` number, and from which value on.

    Canal says it only for a value that the signed type does not hold.
    """
    lowered = text.strip().lower()
    word = _WORD.match(lowered)
    if word is None or "unsigned" not in lowered:
        return None
    return _RAISED.get("int" if word[0] == "integer" else word[0])
