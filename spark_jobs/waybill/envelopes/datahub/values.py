"""The six types of StreamX and the images made of them, compiled once per table.

DataHub's BLOB messages and other messages of DataWorks describe their columns by these types
(DataHub message formats, section Field types). Everything that the types decide is decided when a
table is first met: a struct that JSON is decoded into, and one generated function each way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from waybill.envelopes.notation.declared import (
    SPECIAL_FLOATS,
    check_for,
    float_check,
    integer_check,
    shown,
)
from waybill.envelopes.notation.instants import FIRST_MS, LAST_MS, Zone, instant_ms, instant_text
from waybill.envelopes.notation.values import (
    JSON_ERRORS,
    base64_bytes,
    float64_text,
    is_integer_text,
    is_json_number,
    json_refusal,
)
from waybill.errors import Refusal
from waybill.types import BOOLEAN, BYTES, STRING, LogicalType

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Column, TableSchema

DIALECT = "streamx"

LOGICAL = {
    "BOOLEAN": BOOLEAN,
    "DOUBLE": LogicalType("float64"),
    "DATE": LogicalType("timestamptz"),
    "BYTES": BYTES,
    "LONG": LogicalType("int64"),
    "STRING": STRING,
}
"""What each type holds where nothing is declared. DATE is an instant: milliseconds since 1970."""

_WRITTEN = {
    "boolean": "BOOLEAN",
    "float32": "DOUBLE",
    "float64": "DOUBLE",
    "bytes": "BYTES",
    "bit": "BYTES",
    "geometry": "BYTES",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "LONG"),
}

INT64 = (-(2**63), 2**63 - 1)
_LONG = Annotated[int, Meta(ge=INT64[0], le=INT64[1])] | None
_DATE = Annotated[int, Meta(ge=FIRST_MS, le=LAST_MS)] | None
_TEXT = str | None


def type_for(column: Column, dialect: str) -> str:
    """The StreamX type that a column is written as.

    A column that came as a StreamX type keeps it. Numbers that a LONG or DOUBLE cannot hold, and
    every kind of date and time, are written as STRING with their exact text: a consumer finds the
    same type in every message of a table, whatever its values are.
    """
    if dialect == DIALECT and column.source_type in LOGICAL:
        return column.source_type
    return _WRITTEN.get(column.type.kind, "STRING")


def is_natural(kind: str, logical: LogicalType) -> bool:
    """Whether a StreamX type holds a logical type without being told; digits of a second apart."""
    return kind in LOGICAL and LOGICAL[kind].kind == logical.kind


# Reading


class Number(str):
    """A JSON number as it stood in the message, to tell it from a string."""

    __slots__ = ()


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    raise Refusal("value", "a STRING must be a JSON string")


def _long(value: Any) -> str:
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and is_integer_text(text) is not None:
        return text
    raise Refusal("value", "a LONG must be an integer in digits")


def _double(value: Any) -> str:
    text = str(value) if type(value) is int else value
    if isinstance(text, str):
        return text
    raise Refusal("value", "a DOUBLE must be a number")


def _boolean(value: Any) -> str:
    text = {True: "true", False: "false"}[value] if type(value) is bool else value
    if text in ("true", "false"):
        return str(text)
    raise Refusal("value", "a BOOLEAN must be true or false")


def _bytes(value: Any) -> str:
    if type(value) is str:
        return value
    raise Refusal("value", "a BYTES must be Base64 in a JSON string")


def _date(value: Any) -> str:
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and is_integer_text(text) is not None and len(text) < 20:
        return text
    raise Refusal("value", "a DATE must be milliseconds since 1970 in digits")


def _scalar(value: Any) -> str:
    return _boolean(value) if type(value) is bool else _double(value)


_FORMS: dict[str, Callable[[Any], str]] = {
    "STRING": _string,
    "LONG": _long,
    "DOUBLE": _double,
    "BOOLEAN": _boolean,
    "BYTES": _bytes,
    "DATE": _date,
}

_float64 = float_check(float64_text)


def _base64(text: str) -> str:
    base64_bytes(text)
    return text


def _date_instant(text: str) -> str:
    """Instants that no ISO 8601 text of four-digit years tells stay the digits they were."""
    ms = int(text)
    return instant_text(ms) if FIRST_MS <= ms <= LAST_MS else str(ms)


def _date_wall(kind: str, zone: Zone) -> Callable[[str], str]:
    def read(text: str) -> str:
        wall = zone.wall_text(int(text))
        if wall is None:
            message = f"{text} is no single wall clock in {zone.name}; declare it as timestamptz"
            raise Refusal("value", message)
        day, clock = wall.split("T")
        if kind == "date" and clock == "00:00:00.000":
            return day
        if kind == "time" and day == "1970-01-01":
            return clock
        if kind == "timestamp":
            return wall
        message = f"{text} is {wall} in {zone.name}, which is no {kind}; set timezone"
        raise Refusal("value", message)

    return read


def _take(column: Column, kind: str, zone: Zone) -> Callable[[Any], Any]:
    """The exact reader of one column: a decoded JSON value in, text out."""
    form = _FORMS.get(kind, _scalar)
    logical = column.type
    check: Callable[[str], str] | None
    if kind == "DATE" and logical.kind in ("timestamp", "date", "time"):
        check = _date_wall(logical.kind, zone)
    elif is_natural(kind, logical):
        natural: dict[str, Callable[[str], str]] = {
            "LONG": integer_check("int64"),
            "DOUBLE": _float64,
            "BYTES": _base64,
            "DATE": _date_instant,
        }
        check = natural.get(kind)
    else:
        check = check_for(logical)

    def take(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        text = str(form(value))
        return text if check is None else check(text)

    return take


def _fast_double(value: Any) -> Any:
    if type(value) is str:
        try:
            if repr(float(value)) == value:
                return value if value[-1] not in "nf" else _float64(value)
        except ValueError:
            pass
        return _float64(value)
    if value is None or value is UNSET:
        return value
    return _float64(_double(value))


_BOOLEANS = {True: "true", False: "false", None: None, UNSET: UNSET}
_NO_LONG = {0: "0", None: None, UNSET: UNSET}
_NO_DATE = {0: instant_text(0), None: None, UNSET: UNSET}


class _Reading(NamedTuple):
    """How the fast way reads a column: the type of the wire struct's field, and an expression."""

    wire: Any
    expression: str


_FAST = {
    "STRING": _Reading(_TEXT, "w.f{i}"),
    "LONG": _Reading(_LONG, "(str(v) if (v := w.f{i}) else no_long[v])"),
    "DATE": _Reading(_DATE, "(instant(v) if (v := w.f{i}) else no_date[v])"),
    "BOOLEAN": _Reading(bool | None, "booleans[w.f{i}]"),
    "BYTES": _Reading(_TEXT, "(base64(v) if (v := w.f{i}) else v)"),
    "DOUBLE": _Reading(Any, "double(w.f{i})"),
}
_SCOPE = {
    "no_long": _NO_LONG,
    "no_date": _NO_DATE,
    "booleans": _BOOLEANS,
    "instant": instant_text,
    "base64": _base64,
    "double": _fast_double,
}

_raw_image = msgspec.json.Decoder(dict[str, Raw])
_any_value = msgspec.json.Decoder(Any)


class ImageReader:
    """Reads the images of one table.

    `whole` and `partial` are structs that an image is decoded into: one where every column is
    there, and one where any may be left out. `convert` turns both into an image of the schema.
    They are strict and fast; what they do not take is read again by `read`, which knows every
    accepted notation and names the column that is wrong.

    `colons` counts the colons in the texts of a decoded image, `name_colons` those in the names
    of the columns: with them, a reader can tell from the colons of a message whether a name stood
    in it twice. `width` is the number of names of an image and its `dataColumn`.

    Args:
        schema: the table; the StreamX types stand in `source_type`.
        zone: the zone of wall clocks that came as DATE.
    """

    def __init__(self, schema: TableSchema, zone: Zone) -> None:
        self.schema = schema
        self.take = {
            column.name: _take(column, column.source_type or "STRING", zone)
            for column in schema.columns
        }
        self.width = len(schema.columns) + 1
        self.name_colons = sum(column.name.count(":") for column in schema.columns)
        scope: dict[str, Any] = {**_SCOPE, "Image": schema.Image}
        kinds, parts, texts = [], [], []
        for i, column in enumerate(schema.columns):
            kind = column.source_type or "STRING"
            if kind == "STRING":
                texts.append(f"{{w.f{i}}}")
            if is_natural(kind, column.type):
                wire, expression = _FAST[kind]
            else:
                wire = _TEXT if kind == "STRING" else Any
                expression = "take{i}(w.f{i})"
                scope[f"take{i}"] = self.take[column.name]
            kinds.append(wire)
            parts.append(expression.format(i=i))
        self.whole = self._wire([(f"f{i}", wire) for i, wire in enumerate(kinds)])
        self.partial = self._wire(
            [(f"f{i}", wire | UnsetType, UNSET) for i, wire in enumerate(kinds)]
        )
        exec(
            f"def convert(w): return Image({', '.join(parts)})\n"
            f"def colons(w): return f'{''.join(texts)}'.count(':')",
            scope,
        )
        self.convert: Callable[[Any], Any] = scope["convert"]
        self.colons: Callable[[Any], int] = scope["colons"]

    def _wire(self, fields: list[Any]) -> type[Any]:
        names = {f"f{i}": column.name for i, column in enumerate(self.schema.columns)}
        return msgspec.defstruct("Wire", fields, rename=names, forbid_unknown_fields=True, gc=False)

    def read(self, image: Raw | bytes) -> Any:
        """An image from the JSON object of its columns, column by column.

        Raises:
            Refusal: names the column that is wrong.
        """
        try:
            values = _raw_image.decode(image)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        fields = {}
        for name, raw in values.items():
            if name not in self.take:
                message = f"column {shown(name)} of the row is not in schema.dataColumn"
                raise Refusal("schema", message)
            try:
                fields[f"f{self.schema.index[name]}"] = self.take[name](_value(bytes(raw)))
            except Refusal as refusal:
                sentence = f"column {shown(name)}: {refusal.sentence}"
                raise Refusal(refusal.kind, sentence) from None
        return self.schema.Image(**fields)


def _value(raw: bytes) -> Any:
    """A JSON value; a number comes as the text it was."""
    if raw[:1] in b"-0123456789" and raw:
        return Number(raw.decode("ascii"))
    if raw[:1] in b"[{":
        raise Refusal("value", "no type takes a JSON object or array")
    try:
        return _any_value.decode(raw)
    except JSON_ERRORS as error:
        raise json_refusal(error) from None


# Writing


def _cannot(column: Column, value: Any, kind: str) -> Refusal:
    message = f"column {shown(column.name)}: {shown(str(value))} is no value of {kind}"
    return Refusal("encoding", message)


def _long_writer(column: Column) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        if (
            is_integer_text(value) is not None
            and value != "-0"
            and len(value) <= 20
            and INT64[0] <= int(value) <= INT64[1]
        ):
            return Raw(value)
        if column.type == BOOLEAN and value in ("true", "false"):
            return int(value == "true")
        raise _cannot(column, value, "LONG (64 bits)")

    return write


def _double_writer(column: Column) -> Callable[[Any], Any]:
    """A number where a consumer's double holds it, else its text, which is a legal DOUBLE too."""

    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        try:
            if repr(float(value)) == value and value[-1] not in "nf":
                return Raw(value)
        except ValueError:
            pass
        if value in SPECIAL_FLOATS:
            return value
        if is_json_number(value) is None:
            raise _cannot(column, value, "DOUBLE")
        return Raw(value) if float64_text(value) != value else value

    return write


def _boolean_writer(column: Column) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        if value == "true":
            return True
        if value == "false":
            return False
        raise _cannot(column, value, "BOOLEAN")

    return write


def _bytes_writer(column: Column) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        if value:
            try:
                base64_bytes(value)
            except Refusal:
                raise _cannot(column, value, "BYTES (Base64)") from None
        return value

    return write


def _date_writer(column: Column, zone: Zone) -> Callable[[Any], Any]:
    def moment(value: str) -> int | None:
        if column.type.kind == "timestamp":
            return zone.wall_ms(value)
        if column.type.kind == "date":
            return zone.wall_ms(f"{value}T00:00:00")
        if column.type.kind == "time":
            return zone.wall_ms(f"1970-01-01T{value}")
        return instant_ms(value)

    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        ms = moment(value)
        if ms is None:
            # Instants beyond the year 9999, and digits of a column declared as a number.
            if is_integer_text(value) is None or len(value) >= 20 or value == "-0":
                raise _cannot(column, value, "DATE (milliseconds since 1970)")
            return Raw(value)
        return ms

    return write


def _writer(column: Column, kind: str, zone: Zone) -> Callable[[Any], Any] | None:
    if kind == "DATE":
        return _date_writer(column, zone)
    makers: dict[str, Callable[[Column], Callable[[Any], Any]]] = {
        "LONG": _long_writer,
        "DOUBLE": _double_writer,
        "BOOLEAN": _boolean_writer,
        "BYTES": _bytes_writer,
    }
    return makers[kind](column) if kind in makers else None


_DIGITS = (
    "(Raw(v) if (v := i.f{i}) and v.isdigit() and v.isascii() and len(v) < 19"
    ' and (v[0] != "0" or v == "0") else write{i}(v))'
)


def image_writer(schema: TableSchema, zone: Zone) -> Callable[[Any], bytes]:
    """A function from an image to the JSON object of its columns.

    It raises a Refusal of kind `encoding` for a value that its type cannot carry; columns that
    the image leaves out stay out.
    """
    encode = msgspec.json.Encoder().encode
    scope: dict[str, Any] = {"Raw": Raw, "encode": encode}
    parts = []
    for i, column in enumerate(schema.columns):
        kind = type_for(column, schema.dialect)
        write = _writer(column, kind, zone)
        scope[f"write{i}"] = write
        if write is None:
            parts.append(f"i.f{i}")
        else:
            parts.append(_DIGITS.format(i=i) if kind == "LONG" else f"write{i}(i.f{i})")
    if all(part == f"i.f{i}" for i, part in enumerate(parts)):
        return encode
    scope["Wire"] = msgspec.defstruct(
        "Wire",
        [(f"f{i}", Any, UNSET) for i in range(len(parts))],
        rename={f"f{i}": column.name for i, column in enumerate(schema.columns)},
        gc=False,
    )
    exec(f"def write(i): return encode(Wire({', '.join(parts)}))", scope)
    writer: Callable[[Any], bytes] = scope["write"]
    return writer
