"""Rows that are JSON objects with typed values, read and written by what their schema decides."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from waybill.caches import Bounded
from waybill.errors import Refusal
from waybill.records import Column, intern_schema
from waybill.types import UNKNOWN, LogicalType
from waybill.values.generated import fill, gaps, nulls, picker
from waybill.values.json_columns import (
    WIRE_TYPES,
    Style,
    kind_of,
    loses_types,
    notation_of,
    read_one,
)
from waybill.values.known_columns import Form, Memory
from waybill.values.notation import DIGITS, WHOLE_DIGITS, Notation
from waybill.values.row_functions import AS_IT_IS, Step, one_row, two_rows
from waybill.values.values import JSON_ERRORS, is_plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from waybill.records import TableSchema
    from waybill.tables import TableName, TableRules

N = TypeVar("N")

Row = dict[str, Raw]
"""A row in the exact way."""

_decode_row = msgspec.json.Decoder(dict[str, Raw]).decode


def row_of(raw: Raw, what: str) -> Row:
    """The columns of a row.

    Raises:
        Refusal: kind `shape`, when it is no object.
    """
    try:
        return _decode_row(raw)
    except JSON_ERRORS as error:
        raise Refusal("shape", f"{what} is no row: {error}") from None


def row_values(
    row: Mapping[str, Raw],
    names: Sequence[str],
    notations: Sequence[N],
    read: Callable[[N, Raw], str | None],
) -> list[Any]:
    """The values of a row's columns, one after another; UNSET for those that are not there.

    Args:
        row: the values by name.
        names: of the columns.
        notations: what each column's values are written in.
        read: reads one value.

    Raises:
        Refusal: a value does not have its column's notation.
    """
    values: list[Any] = []
    for name, notation in zip(names, notations, strict=True):
        if name not in row:
            values.append(UNSET)
            continue
        try:
            values.append(read(notation, row[name]))
        except Refusal as refusal:
            raise Refusal(refusal.kind, f"column {name!r}: {refusal.sentence}") from None
    return values


class RowReader(Form):
    """Reads the rows of one table.

    Args:
        schema: the table.
        style: the envelope's notations.
        inferred: columns whose type is what JSON said.

    Attributes:
        schema: the table.
        empty: an image without any column.
    """

    def __init__(self, schema: TableSchema, style: Style, inferred: frozenset[str]) -> None:
        self.schema = schema
        self.inferred = inferred
        self.image_type = schema.Image
        self.notations = [
            notation_of(column.type, style.of_inferred() if column.name in inferred else style)
            for column in schema.columns
        ]
        self.empty = self.image_type()

    @cached_property
    def wire(self) -> type[Any]:
        """The struct that a row is decoded as in the known-table way."""
        made: type[Any] = msgspec.defstruct(
            "Row",
            [(f"f{i}", WIRE_TYPES[n.wire], UNSET) for i, n in enumerate(self.notations)],
            rename={f"f{i}": name for i, name in enumerate(self.schema.names)},
            forbid_unknown_fields=True,
            gc=False,
        )
        return made

    @cached_property
    def gaps(self) -> Callable[[Any], bool]:
        """Whether an image lacks a column."""
        return gaps(len(self.notations))

    @cached_property
    def read(self) -> Callable[[Any], Any]:
        """From a struct of the wire to an image.

        What it gives raises ValueError or a Refusal for a bad value.
        """
        return one_row(self._steps, self.image_type)

    @cached_property
    def reads(self) -> Callable[[Any, Any], tuple[Any, Any]]:
        """From two structs, before and after a change, to both images."""
        return two_rows(self._steps, self.image_type)

    @property
    def _steps(self) -> list[Step]:
        return [_read(notation) for notation in self.notations]

    def with_nulls(self, image: Any) -> None:
        """Make null, in place, what an image lacks."""
        for field in image.__struct_fields__:
            if getattr(image, field) is UNSET:
                setattr(image, field, None)

    def image(self, row: Mapping[str, Raw]) -> Any:
        """The image of a row in the exact way; columns that are not there are absent.

        Raises:
            Refusal: a value does not have its column's notation.
        """
        return self.image_type(*row_values(row, self.schema.names, self.notations, read_one))


class Readers(Memory):
    """Finds what reads the rows of a table.

    Types come from `tables:` of the migration. A column that is not declared is what JSON says it
    is: `number` (never an integer type, because the next row may have a fraction), `string`,
    `boolean` or `json`, and `unknown` as long as it was only null.

    Args:
        rules: declared keys and types.
        style: the envelope's notations.
        sparse: whether rows may lack columns, so that a row with fewer is of the same shape.
    """

    def __init__(self, rules: TableRules, style: Style, sparse: bool = False) -> None:
        super().__init__()
        self.rules = rules
        self.style = style
        self.sparse = sparse
        self._readers: Bounded[tuple[TableSchema, Style, frozenset[str]], RowReader] = Bounded()

    def all_declared(self, name: TableName, rows: tuple[Row, ...], why: str) -> tuple[str, ...]:
        """The declared columns of a table, where all of them have to be declared.

        Args:
            name: its name.
            rows: the images of a message.
            why: the setting that asks for it.

        Raises:
            Refusal: a column of the message is not declared.
        """
        declared = self.rules.find(*name).columns
        missing = [column for row in rows for column in row if column not in declared]
        if missing:
            table = ".".join(filter(None, name))
            sentence = f"{why} is set and column {missing[0]!r} of {table} is not declared"
            raise Refusal("schema", f"{sentence}; declare all its columns under tables")
        return tuple(declared)

    def find(
        self,
        name: TableName,
        rows: tuple[Row, ...],
        key: tuple[str, ...] | None,
        style: Style | None = None,
        more: tuple[str, ...] = (),
    ) -> RowReader:
        """The reader of the table that a message describes; `keep` its schema when that is taken.

        Args:
            name: its name.
            rows: the images of the message.
            key: the key as the message says it; a declared one goes before.
            style: another style than the usual one.
            more: names of columns that belong to the table although no row has them.

        Raises:
            Refusal: the rows of the message disagree about a type, or lack a key column.
        """
        rule = self.rules.find(*name)
        style = style or self.style
        known = self.known(name)
        names = tuple(dict.fromkeys([*(n for row in rows for n in row), *more]))
        self.rules.admit(len(names), *name)
        same = known.keys() >= set(names) if self.sparse else known.keys() == set(names)
        if same:
            names = tuple(known)
        elif self.sparse:
            names = tuple(dict.fromkeys([*known, *names]))
        columns = [
            Column(n, rule.columns.get(n) or _inferred(n, rows, known.get(n))) for n in names
        ]
        schema = intern_schema(*name, tuple(columns), key if rule.key is None else rule.key)
        _ = schema.key_fields  # refuses rows without their key
        return self.reader(schema, style, frozenset(names).difference(rule.columns))

    def reader(self, schema: TableSchema, style: Style, inferred: frozenset[str]) -> RowReader:
        """The reader of a schema in a style, some of whose columns nobody declared."""
        found = self._readers.get((schema, style, inferred))
        if found is None:
            found = self._readers[schema, style, inferred] = RowReader(schema, style, inferred)
        return found


def _read(notation: Notation) -> Step:
    """What makes the canonical text of a value of the wire.

    What is seen to be a number as it should be is not read; a string begins with a quote.
    """
    if notation.read is None:
        return AS_IT_IS
    if notation.wire == "text":
        return Step(("if {v}.__class__ is str: {v} = {c}({v})",), notation.read)
    convert = '{v} = None if {v} == "null" else {c}({v})'
    if notation.plain:
        seen = '{v}[0] in "-0123456789" and "e" not in {v} and "E" not in {v}'
        convert = f"if not ({{v}}.isdecimal() or {seen}): {convert}"
    elif notation.reach is not None:
        # Every number with fewer digits than the largest one has is in the range.
        low, high = notation.reach
        digits = len(str(high)) - 1
        seen = f"{{v}}.isdecimal() and len({{v}}) <= {digits}"
        if low < 0:
            minus = '{v}[0] == "-" and {v}[1] != "0" and {v}[1:].isdecimal()'
            seen += f" or {minus} and len({{v}}) <= {digits + 1}"
        convert = f"if not ({seen}): {convert}"
    lines = ("if {v} is not UNSET:", '    {v} = str({v}, "utf-8")', f"    {convert}")
    return Step(lines, notation.read)


def _inferred(name: str, rows: tuple[Row, ...], known: Column | None) -> LogicalType:
    """The type of a column that is not declared.

    Raises:
        Refusal: two images of a message disagree.
    """
    found = {kind_of(row[name]) for row in rows if name in row} - {UNKNOWN}
    if len(found) > 1:
        kinds = " and ".join(sorted(str(kind) for kind in found))
        raise Refusal("schema", f"column {name!r} holds {kinds} in one message; declare its type")
    return found.pop() if found else known.type if known else UNKNOWN


class RowWriter:
    """Writes the rows of one table.

    Attributes:
        wire: from an image to the struct whose JSON is the row; raises a Refusal of kind
            `encoding`.
        wires: from both images of an update to both structs; most values are the same in both,
            and those are converted once.
        key_of: the values of the key columns of an image or of what `wire` gave.
        gaps: whether an image lacks a column.
    """

    def __init__(self, schema: TableSchema, style: Style) -> None:
        self.schema = schema
        notations = [notation_of(column.type, style) for column in schema.columns]
        self.row: type[Any] = msgspec.defstruct(
            "Row",
            [(f"f{i}", Any, UNSET) for i in range(len(notations))],
            rename={f"f{i}": name for i, name in enumerate(schema.names)},
            gc=False,
        )
        names = {"Raw": Raw, "plain": is_plain_number}
        steps = [_written(notation) for notation in notations]
        self.wire = one_row(steps, self.row, names)
        self.wires = two_rows(steps, self.row, names)
        self.key_fields = schema.key_fields if schema.key else ()
        self.key_of = picker(self.key_fields)
        self.gaps = gaps(len(notations))
        self.nulls = nulls(len(notations))
        self.loses_types = loses_types(schema, style)

    def types_lost(self, image: Any, before: Any = None) -> bool:
        """Whether a reader without declarations takes a column for another type.

        Args:
            image: the row.
            before: the row before, where the message has it too; it shows what `image` lacks.
        """
        if self.loses_types or self.nulls(image):
            return True
        if before is None or not self.gaps(image):
            return False
        shown = image.__copy__()
        fill(shown, before)
        return self.nulls(shown)

    def message_key(self, image: Any) -> bytes:
        """JSON array of the key's values; the table's name where it has no key.

        Raises:
            Refusal: kind `encoding`, when a key column is not in the row.
        """
        if not self.schema.key:
            # Without key only one partition keeps the order.
            return self.schema.qualified_name.encode()
        values = self.key_of(image)
        if UNSET in values:
            raise Refusal("encoding", "a key column is not in the row")
        return msgspec.json.encode(values)

    def moved(self, change: Any, image: Any) -> Any:
        """An image before an update with the key that the row had, where that is stated apart."""
        if change.moved_from is None:
            return image
        image = self.schema.Image() if image is None else image.__copy__()
        for field, source in zip(self.key_fields, change.moved_from.__struct_fields__, strict=True):
            setattr(image, field, getattr(change.moved_from, source))
        return image


def _written(notation: Notation) -> Step:
    """What turns a canonical text into what is to stand in the JSON.

    What is seen to be a number is not asked for.
    """
    if notation.write is None:
        return AS_IT_IS
    value = "{c}({v})"
    if notation.writes == DIGITS:
        value = f"Raw({{v}}) if plain({{v}}) is not None else {value}"
    elif notation.writes == WHOLE_DIGITS:
        whole = '{v}.isdecimal() and {v}.isascii() and {v}[0] != "0"'
        value = f"Raw({{v}}) if {whole} else {value}"
    return Step((f"if {{v}}.__class__ is str: {{v}} = {value}",), notation.write)
