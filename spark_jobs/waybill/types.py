"""Logical types: what a column holds, whatever the envelope calls it.

The names and their texts are those of the text image: a value is null or the exact text of the
value, never a JSON number, so that no reader can round it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

INTEGER_RANGE = {
    **{f"int{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)},
    **{f"uint{n}": (0, 2**n - 1) for n in (8, 16, 32, 64)},
}
"""Smallest and largest value of each integer type."""

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first and the last second since 1970 of the years 1 to 9999, which times can have."""
FIRST_MICRO, LAST_MICRO = FIRST_SECOND * 1_000_000, LAST_SECOND * 1_000_000 + 999_999
"""Their first and last microsecond."""

PLAIN_KINDS = frozenset(
    {
        *INTEGERS,
        "boolean",
        "number",
        "float32",
        "float64",
        "string",
        "enum",
        "set",
        "json",
        "interval",
        "xml",
        "bytes",
        "geometry",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "unknown",
    }
)


class LogicalType(NamedTuple):
    """One logical type: a kind and, for `decimal` and `bit`, its size.

    Attributes:
        kind: a name of the type table (int8 … uint64, decimal, number, float64, string, …).
        precision: digits of a decimal, bits of a bit string (1 for a boolean that is declared as
            one), digits of the second of a time or timestamp that a migration declares so; None
            where there is none or it is not stated.
        scale: digits after the point of a decimal.
    """

    kind: str
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.precision is not None:
            return f"{'bit' if self.kind == 'boolean' else self.kind}({self.precision})"
        return self.kind

    @property
    def is_integer(self) -> bool:
        """Whether the text is digits with an optional minus sign."""
        return self.kind in INTEGER_RANGE

    @property
    def is_number(self) -> bool:
        """Whether the text is a number in plain digits (floats too)."""
        return self.is_integer or self.kind in ("decimal", "number", "float32", "float64")


UNKNOWN = LogicalType("unknown")
NUMBER = LogicalType("number")
STRING = LogicalType("string")
BYTES = LogicalType("bytes")
BOOLEAN = LogicalType("boolean")
ONE_BIT = LogicalType("boolean", 1)
"""A BIT(1) whose values are true and false; formats that have bits write it as one."""

MAX_DIGITS = 20_000
"""Precisions and scales beyond it, which messages can invent, are not believed."""

_SIGNED = {
    "tinyint": 8,
    "smallint": 16,
    "mediumint": 32,
    "int": 32,
    "integer": 32,
    "bigint": 64,
    "int2": 16,
    "int4": 32,
    "int8": 64,
    "int1": 8,
    "int3": 32,
    "middleint": 32,
    "smallserial": 16,
    "serial": 32,
    "bigserial": 64,
    "serial2": 16,
    "serial4": 32,
    "serial8": 64,
}
_MYSQL = {
    "serial": "uint64",
    "real": "float64",
    "long": "string",
    "long varchar": "string",
    "long varbinary": "bytes",
    "linestring": "geometry",
    "polygon": "geometry",
    "multipoint": "geometry",
    "multilinestring": "geometry",
    "multipolygon": "geometry",
    "geometrycollection": "geometry",
    "geomcollection": "geometry",
}
"""Names that MySQL alone has, or that say something else there.

Source: MySQL 8.4 Reference Manual, "Numeric Data Type Syntax" (SERIAL is BIGINT UNSIGNED, REAL is
DOUBLE unless the mode REAL_AS_FLOAT is set), "Using Data Types from Other Database Engines",
"Spatial Data Types".
"""
_LONGEST_FLOAT = 24
"""Binary digits of a FLOAT(p) of 4 bytes in MySQL and PostgreSQL; one with more has 8."""
_SQL = {
    "bool": "boolean",
    "boolean": "boolean",
    "float": "float32",
    "real": "float32",
    "float4": "float32",
    "float8": "float64",
    "double": "float64",
    "double precision": "float64",
    "char": "string",
    "character": "string",
    "character varying": "string",
    "bpchar": "string",
    "nchar": "string",
    "nvarchar": "string",
    "varchar": "string",
    "varchar2": "string",
    "tinytext": "string",
    "text": "string",
    "mediumtext": "string",
    "longtext": "string",
    "clob": "string",
    "citext": "string",
    "uuid": "string",
    "inet": "string",
    "enum": "enum",
    "set": "set",
    "json": "json",
    "jsonb": "json",
    "xml": "xml",
    "interval": "interval",
    "binary": "bytes",
    "varbinary": "bytes",
    "tinyblob": "bytes",
    "blob": "bytes",
    "mediumblob": "bytes",
    "longblob": "bytes",
    "bytea": "bytes",
    "geometry": "geometry",
    "point": "geometry",
    "date": "date",
    "time": "time",
    "time without time zone": "time",
    "datetime": "timestamp",
    "timestamp without time zone": "timestamp",
    "timestamptz": "timestamptz",
    "timestamp with time zone": "timestamptz",
    "year": "int16",
}
_TEMPORAL = ("time", "timestamp", "timestamptz")
_SIZED = (*_TEMPORAL, "decimal", "number", "bit")
_BITS = ("bit", "varbit", "bit varying")
_ZONE = re.compile(r"(time|timestamp)\s*\(\s*(\d+)\s*\)\s*(with|without) time zone")
_TYPE = re.compile(
    r"\s*([a-z_][a-z0-9_ ]*?)\s*(?:\(([^()]*|.*)\))?\s*"
    r"((?>(?:unsigned|signed|zerofill|\s){0,9}))\Z",
    re.S,
)


def parse_type(text: str, dialect: str = "") -> LogicalType:
    """Read a logical type or a source's SQL type, e.g. `decimal(38,10)` or `bigint unsigned`.

    Without a dialect a logical name wins where both notations have it (`int8` is 8 bits, and
    `timestamp` is the wall clock without zone, as in standard SQL). With `mysql`, TIMESTAMP is an
    instant (`timestamptz`) and `int8` has 8 bytes.

    Times and timestamps keep their digits of the second (`timestamp(3)`) only without a dialect,
    that is where a migration declares them: envelopes that count time in units need it. So
    does a boolean that is declared as `bit(1)`; with a dialect the name of its type says it.

    Raises:
        ValueError: the name is not known.
    """
    # Messages name the same types over and over; a long text would keep much memory.
    return _parsed(text, dialect) if len(text) < _LONG else _parsed.__wrapped__(text, dialect)


_LONG = 200


@lru_cache(maxsize=10_000)
def _parsed(text: str, dialect: str) -> LogicalType:
    lowered = text.strip().lower()
    if lowered in PLAIN_KINDS and not dialect:
        return LogicalType(lowered)
    # Messages bring such texts: with one blank each, none takes long to tell.
    blanks = " ".join(lowered.split())
    match = _TYPE.match(_ZONE.sub(r"\1 \3 time zone(\2)", blanks))
    if match is None:
        cut = "(" in text and ")" not in text
        hint = "; put a type with a comma into quotes, or the comma ends it" if cut else ""
        raise ValueError(f"{text!r} is not a column type{hint}")
    name, arguments, suffix = match[1], match[2], match[3]
    if " unsigned" in f" {name}":
        name, suffix = name.replace(" unsigned", "").replace("unsigned", ""), "unsigned"
    numbers = [int(n) for n in re.findall(r"-?\d+", arguments or "")]
    found = _of_dialect(name, numbers, dialect)
    found = found or _numeric(name, numbers, "unsigned" in suffix) or _named(name, dialect)
    if found is not None and not (numbers and numbers[0] < 0 and found.kind in _SIZED):
        if numbers and not dialect and found.kind in _TEMPORAL:
            return LogicalType(found.kind, min(numbers[0], 12))
        return ONE_BIT if found == BOOLEAN and not dialect and name in _BITS else found
    known = ", ".join(sorted(PLAIN_KINDS))
    raise ValueError(
        f"{text!r} is not a column type; logical types are {known}, decimal(p,s), bit(n)"
    )


def _of_dialect(name: str, numbers: list[int], dialect: str) -> LogicalType | None:
    """What a name says in one dialect only."""
    if name == "float" and dialect in ("mysql", "postgresql"):
        # PostgreSQL's FLOAT without digits is DOUBLE PRECISION; MySQL's (M,D) says no binary ones.
        digits = numbers[0] if len(numbers) == 1 else 53 * (dialect == "postgresql")
        return LogicalType("float64" if digits > _LONGEST_FLOAT else "float32")
    kind = _MYSQL.get(name) if dialect == "mysql" else None
    return None if kind is None else LogicalType(kind)


def _numeric(name: str, numbers: list[int], unsigned: bool) -> LogicalType | None:
    if name in ("decimal", "numeric", "dec", "number", "fixed"):
        if not numbers:
            return NUMBER
        scale = numbers[1] if len(numbers) > 1 else 0
        if max(numbers[0], abs(scale)) > MAX_DIGITS:
            return NUMBER
        # Below zero it counts zeros in front of the point: NUMBER(5,-2) holds up to 9999900.
        return LogicalType("decimal", numbers[0] - min(scale, 0), max(scale, 0))
    if name in _BITS:
        return BOOLEAN if (numbers or [1])[0] == 1 else LogicalType("bit", numbers[0])
    if name in _SIGNED:
        return LogicalType(f"{'u' if unsigned else ''}int{_SIGNED[name]}")
    return None


def _named(name: str, dialect: str) -> LogicalType | None:
    if name == "timestamp":
        return LogicalType("timestamptz" if dialect == "mysql" else "timestamp")
    if name in _SQL:
        return LogicalType(_SQL[name])
    return LogicalType(name) if name in PLAIN_KINDS else None


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


def with_digits(known: LogicalType, source_type: str | None) -> LogicalType:
    """A column's type, that of a time with the digits of its second where its source states them.

    They stand in the source's type, as in Oracle's TIMESTAMP(9), or are those of the unit in
    which the schema of the message counts.
    """
    if known.kind not in TIMES or known.precision is not None:
        return known
    source = source_type or ""
    found = re.search(r"\((\d{1,2})\)", source)
    digits = int(found[1]) if found else _UNITS.get(source)
    return known if digits is None else LogicalType(known.kind, min(digits, MOST_DIGITS))


MICROS = 6
"""The digits of a second that most databases and formats have at most."""


def finer_than_micros(known: LogicalType, source_type: str | None) -> LogicalType | None:
    """The type of a time with its digits of the second, where these are more than six; else None.

    See `with_digits`.
    """
    found = with_digits(known, source_type)
    fine = found.kind in TIMES and (found.precision or 0) > MICROS
    return found if fine else None
