"""One table as it is written: functions from images to JSON rows, and their Connect schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.caches import Bounded
from waybill.envelopes.debezium.values.texts import Marks
from waybill.envelopes.debezium.values.writing import Writing, Writings
from waybill.errors import Refusal
from waybill.values.generated import function

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.debezium.settings import DebeziumWriteSettings
    from waybill.records import Column, TableSchema

to_json = msgspec.json.Encoder(decimal_format="number").encode
"""Writes JSON; decimal numbers keep their digits."""


class TablePlan:
    """Everything that is decided once for writing the rows of one table.

    Args:
        schema: the table.
        settings: those of the envelope.
    """

    def __init__(self, schema: TableSchema, settings: DebeziumWriteSettings) -> None:
        self.schema = schema
        self.settings = settings
        writings = Writings(settings, schema.dialect)
        marks = Marks(settings.unavailable, settings.binary)
        self.writings, self.stand_ins = [], []
        for column in schema.columns:
            writing = writings.of(column)
            encoded = writing.connect["type"] == "bytes" or column.type.kind == "bytes"
            mark = (marks.bytes if encoded else marks.text)[0]
            self.writings.append(_guarded(writing, mark, marks.raw))
            # With a schema only columns of text or bytes can hold the placeholder; others are left
            # out of the row and of its schema, which tells them from null as well.
            able = writing.textual or not settings.schemas
            self.stand_ins.append(mark if able else UNSET)
        names = schema.names
        self.after = _row_maker(names, self.writings, self.stand_ins)
        self.before = _row_maker(names, self.writings, [UNSET] * len(names))
        self.both = _rows_maker(names, self.writings, self.stand_ins)
        absent = [f"i.f{i} is U" for i, stand in enumerate(self.stand_ins) if stand is UNSET]
        lacking = [f"return {' or '.join(absent) or 'False'}"]
        self.lacks = function("lacks(i)", lacking, {"U": UNSET})
        self.key_of_row: Callable[[Any], Any] | None = None
        if schema.key:
            self._compile_key(schema)
        self.key_schema = b""
        self._required: dict[str, tuple[int, ...]] = {}
        if settings.schemas:
            self._required = {
                role: tuple(i for i, c in enumerate(schema.columns) if not self._optional(c, role))
                for role in ("before", "after")
            }
            self.name = ".".join(
                part
                for part in (settings.name, schema.database, schema.schema, schema.table)
                if part
            )
            self.key_schema = to_json(self._key_schema())

    def _compile_key(self, schema: TableSchema) -> None:
        fields = schema.key_fields
        numbers = [int(field[1:]) for field in fields]
        writings = [self.writings[n] for n in numbers]
        names = tuple(schema.names[n] for n in numbers)
        row = _row_struct(names)
        condition = " and ".join(f"r.f{n} is not U" for n in numbers)
        self.key_of_row = function(
            "key_of_row(r)",
            [f"return Row({', '.join(f'r.f{n}' for n in numbers)}) if {condition} else None"],
            {"Row": row, "U": UNSET},
        )
        self.key_of_key = _row_maker(names, writings, [UNSET] * len(names))
        changed = " or ".join(f"(b.{f} != a.{f} and b.{f} is not U)" for f in fields)
        self.key_changed = function("key_changed(b, a)", [f"return {changed}"], {"U": UNSET})
        image = schema.Image
        chosen = {n: i for i, n in enumerate(numbers)}
        values = [f"k.f{chosen[n]}" if n in chosen else "U" for n in range(len(schema.names))]
        self.row_of_key = function(
            "row_of_key(k)",
            [f"return Image({', '.join(values)})"],
            {"Image": image, "U": UNSET},
        )

    def _optional(self, column: Column, role: str) -> bool:
        """Whether the schema of a row or key says that a column may be null.

        A key is never null, unless Debezium has made one of columns that may be.
        """
        if column.name in (self.schema.key or ()):
            return column.nullable is True and self.schema.dialect in _DEBEZIUM
        # A before image may lack columns, and a reader then takes null for them.
        return role == "before" or column.nullable is not False

    def check_nulls(self, before: Any, after: Any) -> None:
        """Refuse rows with a null where their schema has no place for one.

        Args:
            before: the image before, or None.
            after: the image after, or None.

        Raises:
            Refusal: kind `encoding`.
        """
        if not self._required:
            return
        for role, image in (("before", before), ("after", after)):
            for i in self._required.get(role, ()) if image is not None else ():
                if getattr(image, f"f{i}") is None:
                    raise _null(self.schema.names[i], self.schema.key or ())

    def check_key(self, key: Any) -> None:
        """Refuse the image of a key as `check_nulls` does rows."""
        if self._required and key is not None:
            self.check_nulls(self.row_of_key(key), None)

    def explain(self, images: tuple[Any, ...], error: Exception) -> Refusal:
        """The refusal for images that cannot be written; names the column."""
        for image in images:
            found = None if image is None else self._explained(image)
            if found is not None:
                return found
        return Refusal("encoding", f"a row cannot be written: {error}")

    def _explained(self, image: Any) -> Refusal | None:
        for i, (name, writing) in enumerate(zip(self.schema.names, self.writings, strict=True)):
            value = getattr(image, f"f{i}")
            if value is None or value is UNSET:
                continue
            try:
                if writing.convert is not None:
                    writing.convert(value)
                elif value == writing.mark:
                    taken(value)
            except Refusal as refusal:
                return Refusal("encoding", f"column {name!r}: {refusal.sentence}")
            except (ValueError, ArithmeticError, RecursionError) as fault:
                return Refusal("encoding", f"column {name!r}: {fault}")
        return None

    # Connect schemas

    def row_schema(self, role: str, left_out: tuple[int, ...] = ()) -> dict[str, Any]:
        """The Connect type of the row in `before` or `after`."""
        fields = []
        for i, (column, writing) in enumerate(zip(self.schema.columns, self.writings, strict=True)):
            if i in left_out:
                continue
            optional = self._optional(column, role)
            fields.append({**writing.connect, "optional": optional, "field": column.name})
        name = f"{self.name}.Value"
        return {"type": "struct", "fields": fields, "optional": True, "name": name, "field": role}

    def _key_schema(self) -> dict[str, Any]:
        fields = [
            {
                **self.writings[place].connect,
                "optional": self._optional(self.schema.columns[place], "key"),
                "field": self.schema.names[place],
            }
            for place in self.schema.key_places
        ]
        name = f"{self.name}.Key"
        return {"type": "struct", "fields": fields, "optional": False, "name": name}


_DEBEZIUM = frozenset({"connect", "mysql"})
"""Dialects of tables whose messages had a Connect schema, which tells what may be null."""


def _null(name: str, key: tuple[str, ...]) -> Refusal:
    if name in key:
        sentence = f"key column {name!r} is null, and the schema of a key has no place for a null"
        return Refusal("encoding", f"{sentence}: declare another key under `tables`")
    return Refusal("encoding", f"column {name!r} is null, and its source says that it never is")


def taken(_value: Any) -> Any:
    """Refuse a value that looks like the placeholder: a reader would take it for not sent.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        "a value is the placeholder of values that were not sent: set `unavailable` to another text"
    )


def _guarded(writing: Writing, mark: str, raw: frozenset[str]) -> Writing:
    """A writing that gives no value which looks like the placeholder."""
    convert = writing.convert
    if convert is None:
        return writing._replace(mark=mark)
    if writing.document:

        def write_raw(text: str) -> Any:
            return taken(text) if text.replace(" ", "") in raw else convert(text)

        return writing._replace(convert=write_raw)
    if not writing.textual:
        return writing

    def write(text: str) -> Any:
        value = convert(text)
        return taken(value) if value == mark else value

    return writing._replace(convert=write)


_row_structs: Bounded[tuple[str, ...], type[Any]] = Bounded()


def _row_struct(names: tuple[str, ...]) -> type[Any]:
    """A struct that is written as a row; columns that are left out are not written."""
    found = _row_structs.get(names)
    if found is None:
        found = _row_structs[names] = msgspec.defstruct(
            "Row",
            [(f"f{i}", Any, UNSET) for i in range(len(names))],
            rename={f"f{i}": name for i, name in enumerate(names)},
            gc=False,
        )
    return found


def _row_maker(
    names: tuple[str, ...], writings: list[Writing], absent: list[Any]
) -> Callable[[Any], Any]:
    """The function from an image to what is written of it."""
    loads = [f"v{i} = i.f{i}" for i in range(len(names))]
    values = [_expression(f"v{n}", n, writing, absent[n]) for n, writing in enumerate(writings)]
    lines = [*loads, f"return Row({', '.join(values)})"]
    return function("make(i)", lines, _scope(names, writings, absent))


def _rows_maker(
    names: tuple[str, ...], writings: list[Writing], absent: list[Any]
) -> Callable[[Any, Any], Any]:
    """The function from both images of an update to what is written of them.

    Most columns are the same before and after, and those are converted once.
    """
    lines, before, after = [], [], []
    for n, writing in enumerate(writings):
        lines += [f"a{n} = a.f{n}", f"b{n} = b.f{n}"]
        new = _expression(f"a{n}", n, writing, absent[n])
        old = _expression(f"b{n}", n, writing, UNSET)
        if writing.convert is None:
            after.append(new)
        else:
            lines.append(f"x{n} = {new}")
            after.append(f"x{n}")
            old = f"x{n} if b{n} == a{n} and a{n} is not U else {old}"
        before.append(old)
    lines.append(f"return Row({', '.join(before)}), Row({', '.join(after)})")
    return function("make(b, a)", lines, _scope(names, writings, absent))


def _scope(names: tuple[str, ...], writings: list[Writing], absent: list[Any]) -> dict[str, Any]:
    """What generated bodies call: converters, placeholders, and what stands for absent values."""
    scope: dict[str, Any] = {"Row": _row_struct(names), "taken": taken, "U": UNSET}
    for n, (writing, stand_in) in enumerate(zip(writings, absent, strict=True)):
        scope[f"s{n}"], scope[f"c{n}"], scope[f"m{n}"] = stand_in, writing.convert, writing.mark
    return scope


def _expression(v: str, n: int, writing: Writing, stand_in: Any) -> str:
    """What is written of column `n` from the variable `v`."""
    if writing.convert is None:
        # Nearly every text differs from the placeholder in its length, so this is cheap.
        value = f"({v} if {v} != m{n} else taken({v}))"
        return value if stand_in is UNSET else f"(s{n} if {v} is U else {value})"
    value = f"c{n}({v})"
    if writing.integer:
        value = f"int({v}) if {v}.isdecimal() else {value}"
    absent = "U" if stand_in is UNSET else f"s{n}"
    return f"({v} if {v} is None else {absent} if {v} is U else {value})"
