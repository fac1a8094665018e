"""The names that OMS gives to types, and what they say.

Source: OceanBase documentation "Data formats", the samples of the Canal, DataWorks and
DefaultExtendColumnType methods and the table of data types. Names have no sizes in the samples.
INT64 is an integer of 64 bits; BIGINT holds more (a sample has 10223372036854775806), so it is a
number of any size, without a fraction. A BIT without size is its bytes, or a number before V3.3.0.
A time that names its zone is its text, because no instant says which zone it is in, and where
clocks are put back the text alone says no instant; declared as timestamptz it is one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import structs

from waybill.records import intern_schema
from waybill.types import (
    BYTES,
    NUMBER,
    ONE_BIT,
    STRING,
    UNKNOWN,
    LogicalType,
    finer_than_micros,
    parse_type,
    with_digits,
)
from waybill.values.mysql_types import jdbc_type, name_of

if TYPE_CHECKING:
    from waybill.records import Column, TableSchema

DIALECT = "oms"

_OWN = {
    "INT64": LogicalType("int64"),
    "BIGINT": NUMBER,
    "NUMBER": NUMBER,
    "NUMERIC": NUMBER,
    "DECIMAL": NUMBER,
    "BIT": BYTES,
    "ZONED_DATETIME": STRING,
    "TIMESTAMP WITH TIME ZONE": STRING,
    "INTERVAL_DAY_TO_SECOND": LogicalType("interval"),
    "INTERVAL_YEAR_TO_MONTH": LogicalType("interval"),
    "BINARY_FLOAT": LogicalType("float32"),
    "BINARY_DOUBLE": LogicalType("float64"),
    "RAW": BYTES,
    "NVARCHAR2": STRING,
    "NCLOB": STRING,
    "XMLTYPE": LogicalType("xml"),
}
"""Names that MySQL does not have, or that say something else there."""

_LOBS = frozenset(
    {
        *("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "CLOB", "NCLOB"),
        *("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "JSON", "XMLTYPE", "GEOMETRY", "POINT"),
        *("LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"),
        "GEOMETRYCOLLECTION",
    }
)
_LOB_KINDS = frozenset({"bytes", "json", "geometry", "xml"})

_WRITTEN = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "INT64",
    "uint8": "SMALLINT",
    "uint16": "INT",
    "uint32": "INT64",
    "uint64": "BIGINT",
    "number": "DECIMAL",
    "decimal": "DECIMAL",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "bytes": "BLOB",
    "bit": "BIT",
    "json": "JSON",
    "enum": "ENUM",
    "set": "SET",
    "geometry": "GEOMETRY",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "DATETIME",
    "timestamptz": "TIMESTAMP",
}
"""Names of logical types, from the document's samples; an unsigned integer has the next larger."""

_KEPT = frozenset(
    {
        *("CHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "BINARY", "VARBINARY", "YEAR"),
        *("TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "MEDIUMINT"),
    }
)
"""Names of MySQL that say more than those of the logical types, in the document's table."""

_FAMILIES = {
    **dict.fromkeys(("number", "decimal"), "number"),
    **{f"{sign}int{size}": "number" for sign in ("", "u") for size in (8, 16, 32, 64)},
    **dict.fromkeys(("float32", "float64"), "float"),
    **dict.fromkeys(("string", "enum", "set", "json", "xml", "interval"), "text"),
    **dict.fromkeys(("bytes", "bit", "geometry"), "bytes"),
}
"""Kinds of types whose values stand in the same notation."""

_JDBC = {
    "FLOAT": 6,
    "INT64": -5,
    "BOOLEAN": 16,
    "BIT": 2004,
    "YEAR": 4,
    "ENUM": 12,
    "SET": 12,
    "ZONED_DATETIME": 2014,
}
"""Where OMS differs from Canal: the first two are in a sample, the others follow the notation."""

_WORD = re.compile(r"[A-Z0-9_]+")
_INTEGERS, _BITS = LogicalType("number", scale=0), LogicalType("bit", 64)
"""Types whose notations are those of integers and of bits, of any size both."""


def logical_type(name: str | None, earlier: bool = False) -> LogicalType | None:
    """What a name says; None where it says nothing.

    Args:
        name: a name of OMS, or a type of MySQL with its size.
        earlier: in the notation before V3.3.0.
    """
    if not name:
        return None
    upper = name.strip().upper()
    if upper == "BIT" and earlier:
        return LogicalType("uint64")
    found = _OWN.get(upper)
    if found is not None:
        return found
    try:
        return parse_type(name, "mysql")
    except ValueError:
        return None


def in_notation(schema: TableSchema, earlier: bool = False) -> TableSchema:
    """A table by the types in whose notation its values stand.

    The name of a type may say more of it than the type: a BIGINT is an integer, a BIT without size
    a number before V3.3.0, and a truth that is a BIT(1) has the notation of bits.
    """
    named = schema.dialect == DIALECT
    if not (named or any(map(is_one_bit, schema.columns))):
        return schema
    columns = [
        structs.replace(c, type=ONE_BIT)
        if is_one_bit(c)
        else structs.replace(c, type=(_noted(c, earlier) if named else None) or c.type)
        for c in schema.columns
    ]
    return intern_schema(
        schema.database, schema.schema, schema.table, tuple(columns), schema.key, schema.dialect
    )


def is_one_bit(column: Column) -> bool:
    """Whether a column of true and false is a BIT, which is written as its bytes."""
    one_bit = column.type == ONE_BIT or _word(column.source_type or "") == "BIT"
    return column.type.kind == "boolean" and one_bit


def _noted(column: Column, earlier: bool) -> LogicalType | None:
    """The type in whose notation a column stands for its name; None where its own decides."""
    name = (column.source_type or "").strip().upper()
    if name == "BIGINT" and column.type == NUMBER:
        return _INTEGERS
    return _BITS if earlier and name == "BIT" and column.type == BYTES else None


def type_name(column: Column, dialect: str, earlier: bool = False) -> str | None:
    """The name of a column's type without sizes, None for a column that was only null.

    A column that came from OMS keeps its name as long as that fits the notation of its values.
    """
    kind, source = column.type.kind, column.source_type
    if is_one_bit(column):
        return source if dialect == DIALECT and _word(source or "") == "BIT" else "BIT"
    if dialect == DIALECT and source is not None:
        stated = logical_type(source, earlier)
        if stated is not None and (
            _family(stated.kind) == _family(kind) or _noted(column, earlier) is not None
        ):
            return source
    if dialect == "mysql" and source is not None:
        word = _word(source)
        stated = logical_type(word)
        if word in _KEPT and stated is not None and stated.kind == kind:
            return word
    if kind == "unknown":
        return None
    if kind == "interval":
        return _interval(source or "")
    return _WRITTEN.get(kind, "VARCHAR")


def _interval(source: str) -> str:
    """The name of an interval: of years and months where its source says so."""
    upper = source.upper()
    months = "YEAR" in upper or "MONTH" in upper
    return f"INTERVAL_{'YEAR_TO_MONTH' if months else 'DAY_TO_SECOND'}"


def _family(kind: str) -> str:
    return _FAMILIES.get(kind, kind)


def _word(name: str) -> str:
    found = _WORD.match(name.strip().upper())
    return found[0] if found else ""


def is_lob(kind: LogicalType, name: str | None) -> bool:
    """Whether OMS leaves out a column of this type that an update did not touch.

    Those are JSON, geometries, BLOB, and TEXT beyond VARCHAR. Without a name of the type, texts
    cannot be distinguished from VARCHAR.
    """
    return kind.kind in _LOB_KINDS if name is None else _word(name) in _LOBS


def loses_type(column: Column, name: str | None, earlier: bool = False) -> bool:
    """Whether a reader who knows nothing but a name takes the column for another type."""
    both, kind = logical_type(name, earlier) or UNKNOWN, column.type
    fine = finer_than_micros(kind, column.source_type)
    if fine is not None and with_digits(both, name) != fine:
        return True
    return both.kind != kind.kind or (kind.kind in ("decimal", "bit") and both != kind)


def jdbc_number(name: str) -> int:
    """The `java.sql.Types` number that the samples of OMS give to a type, else Canal's."""
    word = _word(name)
    return _JDBC[word] if word in _JDBC else jdbc_type(word)


def sized_name(column: Column, dialect: str, earlier: bool = False) -> str | None:
    """The name of a column's type with its size, None for a column that was only null."""
    kind, source = column.type, column.source_type
    if is_one_bit(column) and dialect != DIALECT:
        return "bit(1)"
    stated = logical_type(source) if dialect == "mysql" else None
    if stated == kind and kind.kind != "boolean":
        return source
    if dialect != DIALECT and kind.kind in ("decimal", "bit"):
        return str(kind)
    if dialect != DIALECT and kind.kind.startswith("uint"):
        return name_of(kind)
    fine = finer_than_micros(kind, source)
    if dialect != DIALECT and fine is not None:
        return f"{type_name(column, dialect, earlier)}({fine.precision})"
    return type_name(column, dialect, earlier)
