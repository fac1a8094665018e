"""One text for each value, whichever way it came: from the database, or from the lake's images.

Both sides go through the code that the decoders use for their texts (`waybill.values`). What is
left out here is notation alone: zeros at the end of a fraction where the type fixes their number,
blanks and the order of names in JSON, a T or a blank between date and time. A text that is not a
value of its type stays as it is, so that it equals nothing but itself.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from waybill.envelopes.debezium.values.texts import split_srid
from waybill.errors import Refusal
from waybill.types import LogicalType
from waybill.values.declared import check_for
from waybill.values.temporal import iso_from_blank, utc_from_wall, without_zeros
from waybill.values.values import base64_bytes, base64_text, bits_value, number_text
from waybill.verify.intervals import interval_text

Text = Callable[[str], str]

POSTGRESQL, MYSQL = "postgresql", "mysql"


class SourceColumn(NamedTuple):
    """A column of a table in the source database.

    Attributes:
        name: its name.
        declared: its type as the database writes it.
        type: what it holds.
        dialect: of the database, `POSTGRESQL` or `MYSQL`.
        array: whether a value is a list of such values (PostgreSQL).
        padded: whether blanks at the end say nothing (CHARACTER(n) of PostgreSQL).
    """

    name: str
    declared: str
    type: LogicalType
    dialect: str
    array: bool = False
    padded: bool = False


def of_database(column: SourceColumn) -> Text:
    """A function from the database's own text of a value to its canonical text."""
    read = _READ.get((column.dialect, _kind(column)))
    normal = _normal(column)
    if column.array:
        return partial(_array_of_database, item=normal)
    return normal if read is None else lambda text: normal(_as_far(read, text))


def of_lake(column: SourceColumn) -> Text:
    """A function from the text in an image of the lake to the canonical text."""
    normal = _normal(column)
    return partial(_array_of_lake, item=normal) if column.array else normal


def as_the_lake_has_it(column: SourceColumn, lake_type: str) -> SourceColumn:
    """A column as its values can be compared with those of the lake.

    How many zeros stand in front makes two values of BIT VARYING (PostgreSQL) different. Text in
    the lake has its digits. Bytes are the number alone, whatever brought them: `Bits` of Debezium
    are as long as the column, not as the value.

    Args:
        column: as the database has it.
        lake_type: what the lake holds it in.
    """
    varies = column.declared.startswith("bit varying") and not column.array
    if varies and lake_type == "string":
        return column._replace(type=LogicalType("string"))
    return column


def is_vector(column: SourceColumn) -> bool:
    """Whether it is a VECTOR of MySQL: no logical type, and no text in its database either."""
    return column.dialect == MYSQL and column.declared.startswith(_VECTOR)


def has_one_text(column: SourceColumn) -> bool:
    """Whether a value has one text, in the database and in whatever brought it to the lake.

    Only of such values a hash in the lake is the hash of the database's text.
    """
    kind = _kind(column)
    if column.array or column.padded or kind in _NORMAL or (column.dialect, kind) in _READ:
        return False
    if column.type.is_integer:
        return not column.declared.startswith(_SEVERAL) and "zerofill" not in column.declared
    return check_for(column.type) is None


def can_be_looked_up(column: SourceColumn) -> bool:
    """Whether the database finds a value by its canonical text, see `literal_text`.

    The text of BIT VARYING (PostgreSQL) may have lost zeros in front, and that of a time of day
    with zone its zone, which are parts of the value there. Arrays, intervals and geometries have
    other texts.
    """
    varies = column.declared.startswith("bit varying") and column.type.kind != "string"
    return not (column.array or varies or _kind(column) in _READ_WHOLE)


_READ_WHOLE = ("timetz", "interval", "geometry")


_SEVERAL = ("tinyint(1)", "year")
"""Integers of MySQL that some write as true and false, or with zeros in front."""


_VECTOR = "vector"


def _kind(column: SourceColumn) -> str:
    return _VECTOR if is_vector(column) else column.type.kind


def _as_far(convert: Text, text: str) -> str:
    """A text converted, or as it is where it is not a value of its type."""
    try:
        return convert(text)
    except (Refusal, ValueError, TypeError, ArithmeticError, struct.error):
        return text


def _normal(column: SourceColumn) -> Text:
    if column.padded:
        return lambda text: text.rstrip(" ")
    special = _NORMAL.get(_kind(column))
    if special is None and column.type.is_integer:
        special = _integer
    if special is None:
        special = check_for(column.type)
    if special is None:
        return str
    chosen = special
    return lambda text: _as_far(chosen, text)


# Numbers


def _integer(text: str) -> str:
    # ZEROFILL of MySQL writes zeros in front, and some tools a TINYINT(1) as a boolean.
    return {"true": "1", "false": "0"}.get(text) or str(int(text))


def _decimal(text: str) -> str:
    """Without zeros at the end: how many there are is the type's matter, not the value's."""
    plain = number_text(text)
    if "." in plain:
        plain = plain.rstrip("0").removesuffix(".")
    return "0" if plain == "-0" else plain


def _boolean(text: str) -> str:
    return {"t": "true", "f": "false", "1": "true", "0": "false"}.get(text, text)


# Bytes


def _bytes_of_hex(text: str) -> str:
    return base64_text(bytes.fromhex(text.removeprefix("\\x")))


def _bits_of_text(text: str) -> str:
    return str(int(text, 2)) if text else "0"


def _bits(text: str) -> str:
    """The number of a bit string: behind a # from the database, as Base64 from the lake."""
    return text if text[:1] == "#" else f"#{bits_value(text)}"


def _mysql_geometry(text: str) -> str:
    """Four bytes of reference system before the well-known binary (MySQL Reference Manual)."""
    data = bytes.fromhex(text)
    return f"{int.from_bytes(data[:4], 'little')}:{data[4:].hex()}"


def _geometry(text: str) -> str:
    if ":" in text:
        return text
    data, srid = split_srid(base64_bytes(text))
    return f"{srid or 0}:{data.hex()}"


_single = check_for(LogicalType("float32")) or str


def _vector(text: str) -> str:
    """The numbers of a vector, each of 32 bits: as bytes, in Base64, or as JSON.

    Source: MySQL Reference Manual, "The VECTOR Type".
    """
    if text.startswith("["):
        data = struct.pack(f"<{text.count(',') + 1}f", *map(float, json.loads(text)))
    else:
        data = base64_bytes(text)
    return f"[{','.join(_single(repr(number)) for (number,) in struct.iter_unpack('<f', data))}]"


# Times


_UTC = utc_from_wall(ZoneInfo("UTC"))
_instant = check_for(LogicalType("timestamptz")) or str
_ENDLESS = {
    "9223372036825200000": "infinity",
    "-9223372036832400000": "-infinity",
}
"""Microseconds that Debezium writes for timestamps without end (PgConnection, DATE_POSITIVE…)."""
_TIMETZ = re.compile(r"(\d\d):(\d\d):(\d\d)(\.\d+)?(?:Z|([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)")


def _timestamp(text: str) -> str:
    return _ENDLESS.get(text) or without_zeros("timestamp")(iso_from_blank(text))


def _timestamptz(text: str) -> str:
    return _ENDLESS.get(text) or without_zeros("timestamptz")(_instant(text))


def _timetz(text: str) -> str:
    """A time of day with its zone, as the same time in UTC."""
    match = _TIMETZ.fullmatch(text)
    if match is None:
        return text
    hours, minutes, seconds, fraction, sign, *offset = match.groups()
    of = sum(int(part or 0) * scale for part, scale in zip(offset, (3600, 60, 1), strict=True))
    there = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    utc = (there - (of if sign != "-" else -of)) % 86_400
    tail = (fraction or "").rstrip("0").removesuffix(".")
    return f"{utc // 3600:02}:{utc % 3600 // 60:02}:{utc % 60:02}{tail}Z"


# Structures


def _json(text: str) -> str:
    """JSON by its values: no blanks, names in order, numbers by their value."""
    parsed = json.loads(text, parse_int=_Digits, parse_float=_Digits, object_pairs_hook=tuple)
    return _written(parsed)


class _Digits(str):
    """A number of JSON, with every digit."""

    __slots__ = ()


def _written(value: Any) -> str:
    if isinstance(value, _Digits):
        return _decimal(value)
    if isinstance(value, tuple):
        pairs = sorted((name, _written(inner)) for name, inner in value)
        return "{" + ",".join(f"{json.dumps(name)}:{inner}" for name, inner in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)


def _array_of_database(text: str, item: Text) -> str:
    try:
        return json.dumps(_of_literal(text, item))
    except ValueError:
        return text


def _array_of_lake(text: str, item: Text) -> str:
    if not text.startswith("["):
        return _array_of_database(text, item)

    def as_texts(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list):
            return [as_texts(inner) for inner in value]
        if isinstance(value, bool):
            return item("true" if value else "false")
        return item(value if isinstance(value, str) else json.dumps(value))

    try:
        return json.dumps(as_texts(json.loads(text, parse_int=str, parse_float=str)))
    except ValueError:
        return text


_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"]*))\s*([,}])', re.S)


def _of_literal(text: str, item: Text) -> list[Any]:
    """The items of an array of PostgreSQL as it writes them.

    Source: PostgreSQL's documentation, "Array Input and Output Syntax".

    Raises:
        ValueError: it is none.
    """
    # Bounds that do not begin at 1 stand before the braces.
    at = text.index("{")
    stack: list[list[Any]] = []
    while at < len(text):
        if text[at] == "{":
            inner: list[Any] = []
            if stack:
                stack[-1].append(inner)
            stack.append(inner)
            at += 1
            if text[at : at + 1] == "}":
                at += 1
                at = _closed(text, at, stack)
            continue
        match = _ITEM.match(text, at)
        if match is None or not stack:
            raise ValueError("no array")
        quoted, plain, end = match.groups()
        if quoted is not None:
            stack[-1].append(item(re.sub(r"\\(.)", r"\1", quoted, flags=re.S)))
        else:
            stack[-1].append(None if plain.upper() == "NULL" else item(plain))
        at = match.end()
        if end == "}":
            at = _closed(text, at, stack)
        if len(stack) == 1 and stack[0] and at >= len(text):
            break
    return stack[0]


def _closed(text: str, at: int, stack: list[list[Any]]) -> int:
    """Close one list, and those that end with it; returns where the next item begins."""
    while True:
        if len(stack) > 1:
            stack.pop()
        elif at < len(text):
            raise ValueError("no array")
        if text[at : at + 1] == "}":
            at += 1
            continue
        return at + 1 if text[at : at + 1] == "," else at


_NORMAL: dict[str, Text] = {
    "decimal": _decimal,
    "boolean": _boolean,
    "bit": _bits,
    "geometry": _geometry,
    _VECTOR: _vector,
    "time": without_zeros("time"),
    "timetz": _timetz,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "json": _json,
    "interval": interval_text,
}

_READ: dict[tuple[str, str], Text] = {
    (POSTGRESQL, "bytes"): _bytes_of_hex,
    (POSTGRESQL, "geometry"): _bytes_of_hex,
    (POSTGRESQL, "bit"): lambda text: f"#{_bits_of_text(text)}",
    (MYSQL, "bytes"): _bytes_of_hex,
    (MYSQL, "geometry"): _mysql_geometry,
    (MYSQL, _VECTOR): _bytes_of_hex,
    (MYSQL, "bit"): lambda text: f"#{text}",
    (MYSQL, "timestamptz"): _UTC,
}


def literal_text(column: SourceColumn, canonical: str) -> str:
    """The text of a key's value that the database reads as that value again.

    Args:
        column: one that `can_be_looked_up`.
        canonical: the value. Of bits the text is their number: PostgreSQL needs more than that.
    """
    kind = column.type.kind
    if kind == "bytes":
        return base64_bytes(canonical).hex()
    if kind == "bit":
        return canonical.removeprefix("#")
    return canonical
