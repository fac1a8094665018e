"""The six types of StreamX and the images made of them, compiled once per table.

DataHub's BLOB messages and other messages of DataWorks describe their columns by these types
(DataHub message formats, section Field types). Everything that the types decide is decided when a
table is first met: a struct that JSON is decoded into, and one generated function each way.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.envelopes.datahub.blob.columns import (
    INT64,
    Number,
    base64,
    fast_column,
    float64,
    json_value,
)
from waybill.errors import Refusal
from waybill.types import BOOLEAN, BYTES, STRING, LogicalType
from waybill.values.declared import SPECIAL_FLOATS, check_for, integer_check, shown
from waybill.values.generated import function
from waybill.values.instants import FIRST_MS, LAST_MS, Zone, instant_ms, instant_text
from waybill.values.notation import (
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
from waybill.values.values import (
    JSON_ERRORS,
    base64_bytes,
    float64_text,
    is_float64_text,
    is_integer_text,
    is_json_number,
    json_refusal,
)

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
    """Whether a StreamX type holds a logical type undeclared; digits of a second apart."""
    return kind in LOGICAL and LOGICAL[kind].kind == logical.kind


# Reading


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    raise Refusal("value", "a STRING must be a JSON string")


def _digits(text: str) -> str:
    """The text of an integer; the JSON number -0 is 0, as it is for one decoded as an integer."""
    return "0" if type(text) is Number and text == "-0" else text


def _long(value: Any) -> str:
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and is_integer_text(text) is not None:
        return _digits(text)
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
        return _digits(text)
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


def value_reader(column: Column, kind: str, zone: Zone) -> Callable[[Any], Any]:
    """The exact reader of one column: a decoded JSON value in, text out."""
    form = _FORMS.get(kind, _scalar)
    logical = column.type
    check: Callable[[str], str] | None
    if kind == "DATE" and logical.kind in ("timestamp", "date", "time"):
        check = _date_wall(logical.kind, zone)
    elif is_natural(kind, logical):
        natural: dict[str, Callable[[str], str]] = {
            "LONG": integer_check("int64"),
            "DOUBLE": float64,
            "BYTES": base64,
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
        if column.type.kind == "boolean" and value in ("true", "false"):
            return int(value == "true")
        raise _cannot(column, value, "LONG (64 bits)")

    return write


def _double_writer(column: Column) -> Callable[[Any], Any]:
    """A number where a consumer's double holds it, else its text, which is a legal DOUBLE too."""

    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        if is_float64_text(value):
            return Raw(value)
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


def value_writer(column: Column, kind: str, zone: Zone) -> Callable[[Any], Any] | None:
    """The exact writer of one column: text in, a JSON value out; None if the text is written."""
    if kind == "DATE":
        return _date_writer(column, zone)
    makers: dict[str, Callable[[Column], Callable[[Any], Any]]] = {
        "LONG": _long_writer,
        "DOUBLE": _double_writer,
        "BOOLEAN": _boolean_writer,
        "BYTES": _bytes_writer,
    }
    return makers[kind](column) if kind in makers else None


# Both, for a single value and for a whole column


def notation_of(column: Column, kind: str, zone: Zone) -> Notation:
    """The notation of a column.

    Its reader takes strings, and a `Number` or truth value as `json_value` gives them. The column
    form of the reader is for strings and numbers, but not for the JSON number `-0`, which is 0.

    Args:
        column: it has the logical type.
        kind: its StreamX type.
        zone: the zone of wall clocks that stand as DATE.
    """
    return Notation(
        kind,
        value_reader(column, kind, zone),
        value_writer(column, kind, zone),
        _reads(kind, column.type, zone),
        _writes(kind, column.type, zone),
    )


def _reads(kind: str, logical: LogicalType, zone: Zone) -> ColumnForm | None:
    if kind == "LONG":
        return WHOLE_DIGITS if check_for(logical) is None else whole_form(logical)
    if kind == "DATE":
        return units_read(logical, 3, zone.name == "UTC")
    if kind == "BOOLEAN":
        return WORDS if is_natural(kind, logical) else None
    return declared_form(logical) if kind in ("STRING", "DOUBLE") else None


def _writes(kind: str, logical: LogicalType, zone: Zone) -> ColumnForm | None:
    if kind == "DATE":
        return units_written(logical, 3, zone.name == "UTC")
    return _WRITES.get(kind)


_WRITES = {"LONG": integers(*INT64), "DOUBLE": SHORT_FLOATS, "BOOLEAN": WORDS}


# Images

_raw_image = msgspec.json.Decoder(dict[str, Raw])


class ImageReader:
    """Reads the images of one table.

    `whole` and `partial` are structs that an image is decoded into: one where every column is
    there, and one where any may be left out. They are strict; `columns` turn what they hold into
    canonical texts. What they do not take is read again by `read`, which knows every accepted
    notation and names the column that is wrong.

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
            column.name: value_reader(column, column.source_type or "STRING", zone)
            for column in schema.columns
        }
        self.width = len(schema.columns) + 1
        self.name_colons = [column.name.count(":") for column in schema.columns]
        kinds = [column.source_type or "STRING" for column in schema.columns]
        self.columns = [
            fast_column(kind, column.type, is_natural(kind, column.type), self.take[column.name])
            for kind, column in zip(kinds, schema.columns, strict=True)
        ]
        texts = "".join(f"{{w.f{i}}}" for i, kind in enumerate(kinds) if kind == "STRING")
        self.colons: Callable[[Any], int] = function(
            "colons(w)", [f"return f'{texts}'.count(':')"], {}
        )

    @cached_property
    def whole(self) -> type[Any]:
        """The struct of an image with all columns."""
        return self._wire([(f"f{i}", column.wire) for i, column in enumerate(self.columns)])

    @cached_property
    def partial(self) -> type[Any]:
        """The struct of an image that may lack columns."""
        wires = enumerate(column.wire for column in self.columns)
        return self._wire([(f"f{i}", wire | UnsetType, UNSET) for i, wire in wires])

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
        # By place: a struct looks through all of its fields for each one that is named.
        fields: list[Any] = [UNSET] * len(self.schema.columns)
        for name, raw in values.items():
            if name not in self.take:
                message = f"column {shown(name)} of the row is not in schema.dataColumn"
                raise Refusal("schema", message)
            try:
                fields[self.schema.index[name]] = self.take[name](json_value(raw))
            except Refusal as refusal:
                sentence = f"column {shown(name)}: {refusal.sentence}"
                raise Refusal(refusal.kind, sentence) from None
        return self.schema.Image(*fields)
