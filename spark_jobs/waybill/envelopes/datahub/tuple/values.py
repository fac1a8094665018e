"""The ten types of DataHub's TUPLE topics, read and written exactly, compiled once per table.

Sources of the rules: DataHub message formats, section Tuple data format; DataHub's service, where a
record's `Data` holds a string or null for every field, whatever its type, and TIMESTAMP counts
microseconds since 1970. A value stays exact, or it is refused; none is rounded, cut or shifted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.errors import Refusal
from waybill.types import BOOLEAN, INTEGER_RANGE, NUMBER, STRING, LogicalType
from waybill.values.declared import SPECIAL_FLOATS, check_for, float_check, integer_check, shown
from waybill.values.generated import FEW, Few
from waybill.values.instants import FIRST_MS, LAST_MS, Zone, instant_ms, instant_text
from waybill.values.notation import (
    DIGITS,
    SHORT_FLOATS,
    WHOLE_DIGITS,
    WORDS,
    ColumnForm,
    Notation,
    declared_form,
    integers,
    units_read,
    units_written,
    whole_form,
)
from waybill.values.row_functions import AS_IT_IS, Step
from waybill.values.values import (
    JSON_ERRORS,
    float32_text,
    float32_value,
    float64_text,
    is_float64_text,
    is_integer_text,
    is_plain_number,
    json_refusal,
    number_text,
    to_float32,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Column

    Convert = Callable[[str], str]

DIALECT = "datahub"

INTEGERS = {"TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64"}

LOGICAL = {
    **{name: LogicalType(kind) for name, kind in INTEGERS.items()},
    "STRING": STRING,
    "BOOLEAN": BOOLEAN,
    "TIMESTAMP": LogicalType("timestamptz"),
    "FLOAT": LogicalType("float32"),
    "DOUBLE": LogicalType("float64"),
    "DECIMAL": NUMBER,
}
"""What each type holds where nothing is declared."""

_WRITTEN = {
    **{kind: name for name, kind in INTEGERS.items()},
    "uint8": "SMALLINT",
    "uint16": "INTEGER",
    "uint32": "BIGINT",
    "uint64": "DECIMAL",
    "decimal": "DECIMAL",
    "number": "DECIMAL",
    "boolean": "BOOLEAN",
    "timestamptz": "TIMESTAMP",
    "float32": "FLOAT",
    "float64": "DOUBLE",
}

MAX_MICROS = 20
"""Characters of the longest count of microseconds in 64 bits, with its sign."""

_WALL = ("timestamp", "date", "time")
_ALWAYS_FIT = {"int8": 2, "int16": 4, "int32": 9, "int64": 18}
"""As many digits make a number of the type, whatever they are."""


def type_for(kind: LogicalType) -> str:
    """The DataHub type that holds a logical one: STRING for what has no type of its own."""
    return _WRITTEN.get(kind.kind, "STRING")


def text_of(raw: Raw, kind: str) -> str | None:
    """The text of a value of a type: from a string, or from JSON's own number or truth value.

    Raises:
        Refusal: it is an object or an array, or a STRING that is no JSON string.
    """
    first = bytes(raw)[:1]
    if first == b'"':
        return _string(raw)
    literal = str(raw, "ascii", "replace")
    if literal == "null":
        return None
    if first in b"[{":
        raise Refusal("value", "no type takes a JSON object or array")
    if kind == "STRING":
        raise Refusal("value", "a STRING must be a JSON string")
    return literal


def _string(raw: Raw) -> str:
    try:
        return _decode_string(raw)
    except JSON_ERRORS as error:
        raise json_refusal(error) from None


_decode_string = msgspec.json.Decoder(str).decode


# Reading


def reader(kind: str, logical: LogicalType, zone: Zone) -> Convert | None:
    """From the text of a value to its canonical text; None where that is the same for every text.

    Args:
        kind: the DataHub type of the column.
        logical: its logical type; another one than the natural one where a migration declares it.
        zone: the zone of wall clocks that came as TIMESTAMP.
    """
    natural = LOGICAL[kind].kind == logical.kind
    if kind == "STRING":
        return None if natural else check_for(logical)
    if kind == "TIMESTAMP":
        if logical.kind in _WALL:
            return _wall(logical.kind, zone)
        return _instant if natural else _then(_micros, check_for(logical))
    if natural:
        return _NATURAL[kind]
    return _then(_FORMS[kind], check_for(logical))


def _then(first: Convert, second: Convert | None) -> Convert:
    if second is None:
        return first
    check = second
    return lambda text: check(first(text))


def _digits(text: str) -> str:
    if is_integer_text(text) is None:
        raise Refusal("value", f"{shown(text)} is not an integer in digits")
    return text


def _number(text: str) -> str:
    return text if text in SPECIAL_FLOATS else number_text(text)


def _boolean(text: str) -> str:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise Refusal("value", f"{shown(text)} is neither true nor false")
    return lowered


def _micros(text: str) -> str:
    if len(text) > MAX_MICROS or is_integer_text(text) is None:
        message = f"{shown(text)} is no TIMESTAMP (microseconds since 1970 in digits)"
        raise Refusal("value", message)
    return text


def micros_text(micros: int) -> str:
    """ISO 8601 in UTC with six digits; counts that no four-digit year tells stay digits."""
    ms, rest = divmod(micros, 1000)
    if not FIRST_MS <= ms <= LAST_MS:
        return str(micros)
    return f"{instant_text(ms)[:-1]}{rest:03d}Z"


def _instant(text: str) -> str:
    return micros_text(int(_micros(text)))


def _wall(kind: str, zone: Zone) -> Convert:
    def read(text: str) -> str:
        ms, rest = divmod(int(_micros(text)), 1000)
        wall = zone.wall_text(ms)
        if wall is None:
            message = f"{text} is no single wall clock in {zone.name}; declare it as timestamptz"
            raise Refusal("value", message)
        day, clock = wall.split("T")
        clock = f"{clock}{rest:03d}"
        if kind == "timestamp":
            return f"{day}T{clock}"
        if kind == "date" and clock == "00:00:00.000000":
            return day
        if kind == "time" and day == "1970-01-01":
            return clock
        raise Refusal("value", f"{text} is {day} {clock} in {zone.name}, which is no {kind}")

    return read


_DOUBLE = float_check(float64_text)


def _double(text: str) -> str:
    return text if is_float64_text(text) else _DOUBLE(text)


_NATURAL: dict[str, Convert] = {
    **{name: integer_check(kind) for name, kind in INTEGERS.items()},
    "BOOLEAN": _boolean,
    "FLOAT": float_check(float32_text),
    "DOUBLE": _double,
    "DECIMAL": number_text,
}
_FORMS: dict[str, Convert] = {
    **dict.fromkeys(INTEGERS, _digits),
    "BOOLEAN": _boolean,
    "FLOAT": _number,
    "DOUBLE": _number,
    "DECIMAL": _number,
}
"""What a value of a type looks like, before it is held against the type that is declared."""


def step_of(convert: Convert | None, kind: str, logical: LogicalType, has_value: str) -> Step:
    """What becomes of a column's values in a row that is read or written.

    Args:
        convert: reads or writes a value; None where that leaves it as it is.
        kind: the column's DataHub type.
        logical: its type.
        has_value: a test of the variable `{v}`, whether there is a value.
    """
    if convert is None:
        return AS_IT_IS
    if logical.kind in FEW:
        return Step((f"if {has_value}: {{v}} = {{t}}[{{v}}]",), test=Few(convert))
    usual = _usual(kind, logical)
    if usual is not None:
        has_value = f"{has_value} and not ({usual})"
    return Step((f"if {has_value}: {{v}} = {{c}}({{v}})",), call=convert)


USED_BY_STEPS = {"plain": is_plain_number}
"""What the statements of steps ask for besides."""


def _usual(kind: str, logical: LogicalType) -> str | None:
    """A test of the local variable `{v}` that spares most values their reader or writer.

    It is None where there is none.
    """
    if LOGICAL[kind].kind != logical.kind:
        return None
    if kind == "DECIMAL":
        return "plain({v}) is not None"
    if kind not in INTEGERS:
        return None
    return (
        f"{{v}}.isdecimal() and len({{v}}) <= {_ALWAYS_FIT[logical.kind]} and {{v}}.isascii()"
        ' and ({v}[0] != "0" or {v} == "0")'
    )


# Writing


def writer(column: Column, kind: str, zone: Zone) -> Convert | None:
    """From the canonical text of a value to its text in a type; None where that is the same.

    The function raises a Refusal of kind `encoding` for a value that the type does not hold: the
    service would round it, or not take the record.
    """
    if kind == "STRING":
        return None
    logical = column.type

    def wrong(text: str) -> Refusal:
        return Refusal("encoding", f"column {shown(column.name)}: {shown(text)} is no {kind}")

    if kind == "TIMESTAMP":
        return _timestamp_writer(logical, zone, wrong)
    holds = _HOLDS[kind]

    def write(text: str) -> str:
        if holds(text):
            return text
        if logical.kind == "boolean" and kind in INTEGERS and text in ("true", "false"):
            return "1" if text == "true" else "0"
        raise wrong(text)

    return write


def _timestamp_writer(logical: LogicalType, zone: Zone, wrong: Callable[[str], Refusal]) -> Convert:
    def write(text: str) -> str:
        micros = _micros_of(text, logical.kind, zone)
        if micros is not None:
            return str(micros)
        if is_integer_text(text) is None or len(text) > MAX_MICROS or text == "-0":
            raise wrong(text)
        # Digits are an instant beyond the year 9999, or those of a column declared as a number.
        if logical.kind == "timestamptz" and micros_text(int(text)) != text:
            raise wrong(text)
        return text

    return write


def _micros_of(text: str, kind: str, zone: Zone) -> int | None:
    """Microseconds since 1970; None where the text is no time of this kind, or a finer one."""
    tail = ""
    if kind == "date":
        text += "T00:00:00"
    elif kind == "time":
        text = f"1970-01-01T{text}"
    elif kind != "timestamp":
        if text[-1:] != "Z":
            return None
        text, tail = text[:-1], "Z"
    # With three digits of the second the instant is found by looking it up.
    whole, point, fraction = text.partition(".")
    if len(whole) != 19 or (point and not (fraction.isdecimal() and fraction.isascii())):
        return None
    if fraction[6:].strip("0"):
        return None
    ms = instant_ms(f"{whole}.000Z") if tail else zone.wall_ms(whole)
    return None if ms is None else ms * 1000 + int(fraction[:6].ljust(6, "0"))


def _holds_integer(kind: str) -> Callable[[str], bool]:
    low, high = INTEGER_RANGE[kind]

    def holds(text: str) -> bool:
        fits = len(text) <= 20 and is_integer_text(text) is not None and text != "-0"
        return fits and low <= int(text) <= high

    return holds


def _holds_double(text: str) -> bool:
    return text in SPECIAL_FLOATS or is_float64_text(text)


def _holds_float(text: str) -> bool:
    try:
        return text in SPECIAL_FLOATS or float32_value(to_float32(float(text))) == text
    except (ValueError, OverflowError):
        return False


_HOLDS: dict[str, Callable[[str], Any]] = {
    **{name: _holds_integer(kind) for name, kind in INTEGERS.items()},
    "BOOLEAN": ("true", "false").__contains__,
    "FLOAT": _holds_float,
    "DOUBLE": _holds_double,
    "DECIMAL": is_plain_number,
}


# Both, for a single value and for a whole column


def notation_of(column: Column, kind: str, zone: Zone) -> Notation:
    """The notation of a column, whose values are strings or may stand without quotes.

    Args:
        column: it has the logical type.
        kind: its DataHub type.
        zone: the zone of wall clocks that stand as TIMESTAMP.
    """
    return Notation(
        "text",
        reader(kind, column.type, zone),
        writer(column, kind, zone),
        _reads(kind, column.type, zone),
        _writes(kind, column.type, zone),
    )


def _reads(kind: str, logical: LogicalType, zone: Zone) -> ColumnForm | None:
    natural = LOGICAL[kind].kind == logical.kind
    if kind == "STRING":
        return declared_form(logical)
    if kind == "TIMESTAMP":
        return units_read(logical, 6, zone.name == "UTC")
    if kind == "BOOLEAN":
        return WORDS if natural else None
    if kind in INTEGERS:
        return WHOLE_DIGITS if check_for(logical) is None else whole_form(logical)
    if natural and kind == "FLOAT":
        return None
    return declared_form(logical) if logical.kind in _DECLARED or logical.is_integer else None


_DECLARED = frozenset({"decimal", "number", "float64"})


def _writes(kind: str, logical: LogicalType, zone: Zone) -> ColumnForm | None:
    if kind == "TIMESTAMP":
        return units_written(logical, 6, zone.name == "UTC")
    return _WRITES.get(kind)


_WRITES = {
    **{name: integers(*INTEGER_RANGE[kind]) for name, kind in INTEGERS.items()},
    "DECIMAL": DIGITS,
    "DOUBLE": SHORT_FLOATS,
    "BOOLEAN": WORDS,
}
