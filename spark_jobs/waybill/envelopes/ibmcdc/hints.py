"""The source's column type as IBM CDC notes it beside an Avro type, and back.

The attributes are `logicalType` (CHARACTER, BINARY, …), `length`, `precision`, `scale` and
`dbColumnName`. Names that Avro does not know must not change how data is read (Avro specification,
section Logical Types), so they only refine a type that holds the same values.
"""

from __future__ import annotations

import re
from typing import Any

from waybill.types import LogicalType, parse_type

DIALECT = "ibmcdc"
"""The dialect of source types like `CHARACTER(6)`."""

_TEMPORAL = ("date", "time", "timestamp", "timestamptz")
_REFINES = {
    "int": {"int8", "int16", "int32", "uint8", "uint16"},
    "long": {"int64", "uint32"},
    "bytes": {"bytes", "bit", "geometry"},
    "string": {
        *_TEMPORAL,
        *("string", "enum", "set", "json", "interval", "xml", "unknown", "decimal", "number"),
    },
    "float": {"float32"},
    "double": {"float64"},
    "boolean": {"boolean"},
    "decimal": {"uint64"},
}
"""The logical types that a hint may name for values of an Avro type."""

# Messages of other formats bring such texts: one pass tells any, and no size has more digits.
_SQL = re.compile(r"([^()]*+)(?:\(\s*+(\d{1,9})\s*+(?:,\s*+(\d{1,9})\s*+)?\)([^()]*+))?")


def hint_of(attributes: dict[str, Any]) -> str | None:
    """The source's type as text, such as `CHARACTER(6)`; None where it is not stated."""
    name = attributes.get("dbType", attributes.get("logicalType"))
    if not isinstance(name, str) or not name:
        return None
    sizes = [attributes.get(size) for size in ("length", "precision", "scale")]
    length, precision, scale = (size if type(size) is int else None for size in sizes)
    if precision is not None:
        size = f"{precision}" if scale is None else f"{precision},{scale}"
    elif length is not None:
        size = f"{length}"
    else:
        return name
    first, blank, rest = name.partition(" ")
    return f"{first}({size}){blank}{rest}"


def refined(kind: str, hint: str | None) -> LogicalType | None:
    """The type that a hint tells of values of an Avro type; None where it tells none of it.

    Args:
        kind: the Avro type, or `decimal`.
        hint: what `hint_of` gave.
    """
    if hint is None:
        return None
    try:
        found = parse_type(hint)
    except ValueError:
        return None
    if found.kind not in _REFINES.get(kind, ()):
        return None
    return LogicalType(found.kind) if found.kind in _TEMPORAL else found


def hint_attributes(source_type: str | None, kind: str, type_: LogicalType) -> dict[str, Any]:
    """The attributes that note a type, so that `refined` gives it back.

    Args:
        source_type: how the source names it.
        kind: the Avro type it is written as, or `decimal`.
        type_: the logical type.
    """
    wanted = LogicalType(type_.kind) if type_.kind in _TEMPORAL else type_
    plain = LogicalType("string" if kind == "string" else _PLAIN.get(kind, ""))
    for text in (source_type, _NAMES.get(type_.kind), str(type_)):
        match = None if text is None else _SQL.fullmatch(text)
        words = () if match is None else (match[1].strip(), (match[4] or "").strip())
        name = " ".join(words).strip().upper()
        if match is None or not name:
            continue
        attributes: dict[str, Any] = {"dbType" if kind == "decimal" else "logicalType": name}
        if match[3] is not None:
            attributes.update(precision=int(match[2]), scale=int(match[3]))
        elif match[2] is not None:
            attributes["length"] = int(match[2])
        if (refined(kind, hint_of(attributes)) or plain) == wanted:
            return attributes
    return {}


_PLAIN = {
    "int": "int32",
    "long": "int64",
    "bytes": "bytes",
    "float": "float32",
    "double": "float64",
    "boolean": "boolean",
}
_NAMES = {
    "string": "VARCHAR",
    "bytes": "VARBINARY",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "TINYINT UNSIGNED",
    "uint16": "SMALLINT UNSIGNED",
    "uint32": "INT UNSIGNED",
    "uint64": "BIGINT UNSIGNED",
    "number": "NUMERIC",
    "float32": "REAL",
    "float64": "DOUBLE",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
}
