"""The functions that write the rows of one OMS table, generated from its columns.

They run once for every message, so everything that the columns decide is decided before, and
nothing is called that can stand in the function itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.oms.values import notation_of
from waybill.envelopes.stated_keys import SEPARATOR
from waybill.types import LogicalType
from waybill.values.generated import FEW, Few, function
from waybill.values.notation import DIGITS, WHOLE_DIGITS, WORDS_AS_DIGITS, Notation
from waybill.values.row_functions import AS_IT_IS, Step, one_row, two_rows
from waybill.values.values import is_integer_text, is_plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from waybill.records import TableSchema

LIGHT_TYPE = "__light_type"
"""The member of a row in which DefaultExtendColumnType tells the types of its columns."""

_LONGEST = 29
"""A wall clock with nine digits of a second."""
_WHOLE_SECONDS = 19
"""One without a fraction."""

_WALL_CLOCKS = {
    notation_of(LogicalType("timestamp"), zeros=zeros).writes: zeros for zeros in (False, True)
}
"""What writes wall clocks, and whether with zeros at the end of their fraction."""


class Writers(NamedTuple):
    """What writes the rows of a table.

    Attributes:
        one: from an image to a struct whose JSON is the row, the values of its key, and the
            key as `record_primary_value` shows it (None for a table without key).
        two: the same of both images of an update, the row before at the end; a value that is the
            same in both is converted once.
    """

    one: Callable[[Any], tuple[Any, tuple[Any, ...], str | None]]
    two: Callable[[Any, Any], tuple[Any, tuple[Any, ...], str | None, Any]]


def writers(
    schema: TableSchema, notations: Sequence[Notation], types: bytes | None = None
) -> Writers:
    """The writers of a table.

    They raise a Refusal of kind `encoding` for a value that has no notation in OMS.

    Args:
        schema: the table.
        notations: those of its columns.
        types: JSON that stands in every row under the name `LIGHT_TYPE`.
    """
    kinds = [column.type for column in schema.columns]
    size = len(notations)
    light: list[Any] = [] if types is None else [("light", Any, Raw(types))]
    row = msgspec.defstruct(
        "Row",
        [*[(f"f{i}", Any, UNSET) for i in range(size)], *light],
        rename={f"f{i}": name for i, name in enumerate(schema.names)} | {"light": LIGHT_TYPE},
        gc=False,
    )
    steps = [_written(*column) for column in zip(kinds, notations, strict=True)]
    names = {
        "Raw": Raw,
        "plain": is_plain_number,
        "whole": is_integer_text,
        "parse": datetime.fromisoformat,
    }
    key = _key_reader(schema, notations, steps)
    made, both = one_row(steps, row, names), two_rows(steps, row, names)

    def one(after: Any) -> tuple[Any, tuple[Any, ...], str | None]:
        return made(after), *key(after)

    def two(before: Any, after: Any) -> tuple[Any, tuple[Any, ...], str | None, Any]:
        was, now = both(before, after)
        return now, *key(after), was

    return Writers(one, two)


def _key_reader(
    schema: TableSchema, notations: Sequence[Notation], steps: Sequence[Step]
) -> Callable[[Any], tuple[tuple[Any, ...], str | None]]:
    """A function from an image to the values of its key, and the key as it is shown."""
    columns = list(schema.key_places)
    shown = [f"s{i}" for i in columns]
    value = "None"
    if columns:
        value = shown[0] if len(columns) == 1 else f"join(({', '.join(shown)}))"
    lines = []
    for i in columns:
        lines += [f"k{i} = image.f{i}", f's{i} = k{i} or ""', *_shown(i, notations[i])]
    names: dict[str, Any] = {
        "join": SEPARATOR.join,
        "digit": {"true": "1", "false": "0"},
        "shown": _digits,
        **{f"c{i}": steps[i].call for i in columns},
    }
    key = "".join(f"k{i}, " for i in columns)
    return function("key(image)", [*lines, f"return ({key}), {value}"], names)


def _written(kind: LogicalType, notation: Notation) -> Step:
    """What turns a canonical text into what is to stand in the JSON."""
    write = notation.write
    given = "if {v} is not None and {v} is not UNSET:"
    if write is None:
        return AS_IT_IS
    if kind.kind in FEW:
        return Step((f"{given} {{v}} = {{t}}[{{v}}]",), write, Few(write))
    if notation.writes in (DIGITS, WHOLE_DIGITS):
        test = "plain({v}) is not None"
        if notation.writes == WHOLE_DIGITS:
            # Most are positive, which need no pattern to be known.
            positive = '{v}.isdecimal() and {v}.isascii() and {v}[0] != "0"'
            test = f"({positive}) or whole({{v}}) is not None"
        return Step((f"{given} {{v}} = Raw({{v}}) if {test} else {{c}}({{v}})",), write)
    if notation.writes in _WALL_CLOCKS:
        # As that function, without a call for what is a time.
        wall = '{v}[4:20:3] in ("--T::.", "--T::") and parse({v}).tzinfo is None'
        wall = f"{wall} and len({{v}}) <= {_LONGEST}"
        if not _WALL_CLOCKS[notation.writes]:
            wall = f'{wall} and ({{v}}[-1] != "0" or len({{v}}) == {_WHOLE_SECONDS})'
        lines = (
            given,
            "    try:",
            f'        {{v}} = {{v}}.replace("T", " ") if {wall} else {{c}}({{v}})',
            "    except ValueError: {v} = {c}({v})",
        )
        return Step(lines, write)
    return Step((f"{given} {{v}} = {{c}}({{v}})",), write)


def _shown(i: int, notation: Notation) -> list[str]:
    """Statements that turn a value of the key into what `record_primary_value` shows."""
    if notation.writes == WORDS_AS_DIGITS:
        return [f"s{i} = digit.get(s{i}, s{i})"]
    if notation.write is None or notation.writes in (DIGITS, WHOLE_DIGITS):
        return []
    if notation.wire in ("bits", "moment"):
        return [f"s{i} = shown(c{i}(s{i}))"]
    return [f"s{i} = c{i}(s{i})"]


def _digits(value: Any) -> str:
    return value if value.__class__ is str else str(value, "ascii")


def keep_changed(columns: int) -> Callable[[Any, Any, Any], None]:
    """A function that leaves out of a row the columns that are the same in two images."""
    lines = [f"if one.f{i} == other.f{i}: row.f{i} = UNSET" for i in range(columns)]
    return function("keep(row, one, other)", lines, {})
