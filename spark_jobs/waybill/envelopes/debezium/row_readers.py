"""One table as its messages describe it, compiled: from the JSON of a row to an image.

Structs and functions are made per schema, so that a row costs one typed decode and one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.envelopes.debezium.source import rule_of
from waybill.envelopes.debezium.values.readings import ColumnReading
from waybill.errors import Refusal
from waybill.records import Column, TableSchema, intern_schema
from waybill.values.generated import function
from waybill.values.values import is_plain_number

to_json = msgspec.json.Encoder().encode

FieldsOf = Callable[[bytes | Raw], dict[str, Raw]]
fields_of: FieldsOf = msgspec.json.Decoder(dict[str, Raw]).decode
"""The fields of a JSON object, values untouched."""


class KeyShape(NamedTuple):
    """How the message keys of a table look.

    Attributes:
        names: names of the key columns; None where the key does not tell them.
        prefix: the bytes before the payload of a key with a schema; empty without one.
        given: whether there is a message key at all.
    """

    names: tuple[str, ...] | None
    prefix: bytes = b""
    given: bool = True


NO_KEY = KeyShape(None, given=False)
NO_KEY_COLUMNS = (
    "a delete has no row in `before`, and its message key does not name the key columns of the "
    "table: declare the key under `tables`"
)


class RowPlan:
    """Everything that is decided once for the rows of one table.

    Args:
        identity: database, schema and table.
        columns: names and readings in order.
        required: columns that an after image always has; others may be left out of it.
        nullable: whether each column may be null, where the message says so.
        key: names of the key columns, empty for a table without key, None if unknown.
        shape: how message keys look.
        dialect: which names the source types are.
        connector: `source.connector`, on which notations depend.
        key_only: whether only the key columns of a before image can be trusted.
        lasting: whether later messages are likely to look like this one.
    """

    def __init__(
        self,
        identity: tuple[str | None, str | None, str | None],
        columns: Mapping[str, ColumnReading],
        required: frozenset[str],
        nullable: Mapping[str, bool],
        key: tuple[str, ...] | None,
        shape: KeyShape,
        dialect: str,
        connector: str | None,
        key_only: bool,
        lasting: bool = True,
    ) -> None:
        self.database, self.namespace, self.table = identity
        self.columns = columns
        self.shape = shape
        self.connector = connector
        self.key_only = key_only
        self.lasting = lasting
        self.schema: TableSchema = intern_schema(
            *identity,
            tuple(
                Column(name, reading.type, reading.source_type, nullable.get(name))
                for name, reading in columns.items()
            ),
            key,
            dialect,
        )
        self.after_row = _row_struct(columns, required)
        self.before_row = _row_struct(columns, frozenset())
        image = self.schema.Image
        readings = list(columns.values())
        partial = len(required) < len(columns)
        self.after = _image_maker(readings, image, partial)
        self.before = _image_maker(readings, image, True)
        self.both = _images_maker(readings, image, partial)
        self.rule = rule_of(connector)
        self.only_key: Callable[[Any], Any] = lambda image: image
        self.stated_key: tuple[str, ...] = ()
        """The columns whose values the message key tells."""
        self.read_key: Callable[[bytes], Any] = lambda _key: None
        self.is_key_of: Callable[[Any, Any], bool] = lambda _key, _row: True
        if shape.names is not None:
            self._compile_stated_key(shape.names)
        if key:
            self._compile_key(key)

    def _compile_key(self, key: tuple[str, ...]) -> None:
        columns = {name: self.columns[name] for name in key}
        self.decode_key = decoder_of(_row_struct(columns, frozenset(key)))
        self.key_image = _image_maker(list(columns.values()), self.schema.Key, False)
        fields = self.schema.key_fields
        image = self.schema.Image
        kept = [
            f"i.{field}" if field in fields else "U"
            for field in (f"f{n}" for n in range(len(self.columns)))
        ]
        names = {"Image": image, "U": UNSET}
        self.only_key = function("only_key(i)", [f"return Image({', '.join(kept)})"], names)
        row = [f"k.f{fields.index(name)}" if name in fields else "U" for name in _names(image)]
        self.row_of_key = function("row_of_key(k)", [f"return Image({', '.join(row)})"], names)

    def _compile_stated_key(self, names: tuple[str, ...]) -> None:
        types = {name: self.columns.get(name, _ANY) for name in names}
        self.stated_key = tuple(name for name in names if name in self.columns)
        self.read_key = decoder_of(_row_struct(types, frozenset(names)))
        places = {name: place for place, name in enumerate(self.columns)}
        same = [
            f"k.f{i} == r.f{places[name]}" for i, name in enumerate(names) if name in self.columns
        ]
        if same:
            self.is_key_of = function("is_key_of(k, r)", [f"return {' and '.join(same)}"], {})

    def has(self, names: tuple[str, ...]) -> bool:
        """Whether all of the names are columns."""
        return set(names) <= self.columns.keys()

    def fits_key(self, key: bytes | None, row: Any) -> bool:
        """Whether a message key looks as the plan expects, and tells the values of its row.

        Args:
            key: the message key.
            row: the row as it was decoded, before its values are converted; None where it is not
                to be compared.

        Raises:
            ValueError: it does not, too.
        """
        shape = self.shape
        if key is None:
            return not shape.given
        if shape.names is None:
            return shape.given and not key.startswith(b"{")
        if shape.prefix:
            if not (key.startswith(shape.prefix) and key.endswith(b"}")):
                return False
            key = key[len(shape.prefix) : -1]
        stated = self.read_key(key)
        return row is None or self.is_key_of(stated, row)

    def key_of(self, fields: Mapping[str, Raw]) -> Any:
        """The key image of the fields of a key's JSON object.

        Raises:
            Refusal: a key column is missing or has a value that its type does not allow.
        """
        if not self.schema.key:
            raise Refusal("key", NO_KEY_COLUMNS)
        try:
            chosen = {name: fields[name] for name in self.schema.key}
            return self.key_image(self.decode_key(msgspec.json.encode(chosen)))
        except KeyError as error:
            raise Refusal("key", f"key column {error} is not in the message key") from None
        except ValueError as error:
            raise Refusal("key", f"the message key cannot be read: {error}") from None

    def explain(self, rows: tuple[bytes | Raw, ...], error: Exception) -> Refusal:
        """The refusal for rows that the plan cannot read; names the column at fault."""
        for row in rows:
            found = self._explained(row)
            if found is not None:
                return found
        if isinstance(error, Refusal):
            return error
        return Refusal("shape", f"the message does not fit its schema: {error}")

    def _explained(self, row: bytes | Raw) -> Refusal | None:
        if bytes(row) == b"null":
            return None
        try:
            fields = fields_of(row)
        except ValueError:
            return Refusal("shape", "a row is not a JSON object")
        for name, raw in fields.items():
            reading = self.columns.get(name)
            if reading is None:
                return Refusal("shape", f"the schema has no column {name!r}")
            found = fault_of(reading, raw)
            if found is not None:
                return Refusal("value", f"column {name!r}: {found}")
        return None


def fault_of(reading: ColumnReading, raw: Raw) -> str | None:
    """What is wrong with the JSON value of a column, None where it can be read."""
    try:
        text_of(reading, raw)
    except Refusal as refusal:
        return refusal.sentence
    except (ValueError, RecursionError, OverflowError) as error:
        return str(error)
    return None


def text_of(reading: ColumnReading, raw: Raw) -> Any:
    """The text of the JSON value of a column, UNSET where it stands for none that was sent.

    Raises:
        Refusal, ValueError, RecursionError, OverflowError: it is no value of the column.
    """
    value = raw if reading.raw else msgspec.json.decode(raw, type=reading.wide or reading.wire)
    if value is None:
        return None
    if value in reading.marks:
        return UNSET
    return value if reading.convert is None else reading.convert(value)


_ANY = ColumnReading(Column("").type, Raw)


def _names(struct: type[Any]) -> tuple[str, ...]:
    fields: tuple[str, ...] = struct.__struct_fields__
    return fields


def _row_struct(columns: Mapping[str, ColumnReading], required: frozenset[str]) -> type[Any]:
    """The struct of a row; a column that is no column of the table is an error."""
    fields: list[Any] = []
    for i, (name, reading) in enumerate(columns.items()):
        if name in required:
            fields.append((f"f{i}", reading.wire))
        else:
            fields.append((f"f{i}", reading.wire | UnsetType, UNSET))
    try:
        return msgspec.defstruct(
            "Row",
            fields,
            rename={f"f{i}": name for i, name in enumerate(columns)},
            forbid_unknown_fields=True,
            kw_only=True,
            gc=False,
        )
    except ValueError as error:
        raise Refusal("shape", f"a column name cannot be carried: {error}") from error


def decoder_of(struct: type[Any]) -> Callable[[bytes | Raw], Any]:
    """Reads JSON as a struct."""
    decode: Callable[[bytes | Raw], Any] = msgspec.json.Decoder(struct).decode
    return decode


def _image_maker(
    readings: list[ColumnReading], image: type[Any], partial: bool
) -> Callable[[Any], Any]:
    """The function from a decoded row to an image.

    Args:
        readings: of the columns in order.
        image: the image's struct.
        partial: whether the row may lack columns.
    """
    loads = [f"v{i} = w.f{i}" for i in range(len(readings))]
    values = [_expression(f"v{i}", i, reading, partial) for i, reading in enumerate(readings)]
    lines = [*loads, f"return Image({', '.join(values)})"]
    return function("make(w)", lines, _names_of(readings, image))


def _images_maker(
    readings: list[ColumnReading], image: type[Any], partial: bool
) -> Callable[[Any, Any], Any]:
    """The function from the decoded rows of an update to both images.

    Most columns are the same before and after, and those are converted once.
    """
    lines, before, after = [], [], []
    for i, reading in enumerate(readings):
        lines += [f"a{i} = a.f{i}", f"b{i} = b.f{i}"]
        new = _expression(f"a{i}", i, reading, partial)
        old = _expression(f"b{i}", i, reading, True)
        if new == f"a{i}":
            after.append(f"a{i}")
            before.append(old)
        else:
            lines.append(f"x{i} = {new}")
            after.append(f"x{i}")
            before.append(f"x{i} if b{i} == a{i} else {old}")
    lines.append(f"return Image({', '.join(before)}), Image({', '.join(after)})")
    return function("make(b, a)", lines, _names_of(readings, image))


def _names_of(readings: list[ColumnReading], image: type[Any]) -> dict[str, Any]:
    """What generated bodies call."""
    names: dict[str, Any] = {"Image": image, "plain": is_plain_number, "U": UNSET}
    for i, reading in enumerate(readings):
        names[f"c{i}"] = reading.convert
        for n, mark in enumerate(reading.marks):
            names[f"m{i}_{n}"] = mark
    return names


def _expression(v: str, i: int, reading: ColumnReading, partial: bool) -> str:
    """The text of column `i` from the variable `v`."""
    absent = f" or {v} is U" if partial else ""
    if reading.raw:
        return f"{v} if {v} is U else c{i}({v})" if partial else f"c{i}({v})"
    if reading.convert is None:
        # Nearly every text differs from the placeholders in its length, so this is cheap.
        tests = "".join(f" or {v} == m{i}_{n}" for n in range(len(reading.marks)))
        return f"U if {tests[4:]} else {v}" if tests else v
    value = f"c{i}({v})"
    if reading.quick == "str":
        value = f"str({v})"
    for n in range(len(reading.marks)):
        value = f"U if {v} == m{i}_{n} else {value}"
    if reading.quick == "plain":
        # No placeholder is a number in plain digits.
        value = f"{v} if plain({v}) else {value}"
    return f"{v} if {v} is None{absent} else {value}"
