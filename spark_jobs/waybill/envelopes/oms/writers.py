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
    told: list[Any] = [] if types is None else [("told", Any, Raw(types))]
    row = msgspec.defstruct(
        "Row",
        [*[(f"f{i}", Any, UNSET) for i in range(size)], *told],
        rename={f"f{i}": name for i, name in enumerate(schema.names)} | {"told": LIGHT_TYPE},
        gc=False,
    )
    names: dict[str, Any] = {
        "Row": row,
        "Raw": Raw,
        "plain": is_plain_number,
        "whole": is_integer_text,
        "parse": datetime.fromisoformat,
        "join": SEPARATOR.join,
        "digit": {"true": "1", "false": "0"},
        "shown": _digits,
    }
    for i, (kind, notation) in enumerate(zip(kinds, notations, strict=True)):
        write = notation.write
        names[f"c{i}"] = Few(write) if write and kind.kind in FEW else write
    columns = list(schema.key_places)
    key = "".join(f"k{i}, " for i in columns)
    shown = [f"s{i}" for i in columns]
    value = "None"
    if columns:
        value = shown[0] if len(columns) == 1 else f"join(({', '.join(shown)}))"
    after = ", ".join(f"a{i}" for i in range(size))
    before = after.replace("a", "b")
    one: list[str] = []
    two: list[str] = []
    for i, (kind, notation) in enumerate(zip(kinds, notations, strict=True)):
        taken = [f"a{i} = after.f{i}"]
        if i in columns:
            taken += [f"k{i} = a{i}", f's{i} = k{i} or ""', *_shown(i, notation)]
        written = _written(f"a{i}", i, kind, notation)
        one += [*taken, *written]
        two += [*taken, f"b{i} = before.f{i}"]
        if written:
            two += [f"if a{i} == b{i}:", *_indented(written), f"    b{i} = a{i}", "else:"]
            two += _indented([*written, *_written(f"b{i}", i, kind, notation)])
    result = f"Row({after}), ({key}), {value}"
    return Writers(
        function("one(after)", [*one, f"return {result}"], names),
        function("two(before, after)", [*two, f"return {result}, Row({before})"], names),
    )


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _written(v: str, i: int, kind: LogicalType, notation: Notation) -> list[str]:
    """Statements that turn a canonical text into what is to stand in the JSON."""
    given = f"if {v} is not None and {v} is not UNSET:"
    if notation.write is None:
        return []
    if kind.kind in FEW:
        return [f"{given} {v} = c{i}[{v}]"]
    if notation.writes in (DIGITS, WHOLE_DIGITS):
        test = f"plain({v}) is not None"
        if notation.writes == WHOLE_DIGITS:
            # Most are positive, which need no pattern to be known.
            positive = f'{v}.isdecimal() and {v}.isascii() and {v}[0] != "0"'
            test = f"({positive}) or whole({v}) is not None"
        return [f"{given} {v} = Raw({v}) if {test} else c{i}({v})"]
    if notation.writes in _WALL_CLOCKS:
        # As that function, without a call for what is a time.
        wall = f'{v}[4:20:3] in ("--T::.", "--T::") and parse({v}).tzinfo is None'
        wall = f"{wall} and len({v}) <= {_LONGEST}"
        if not _WALL_CLOCKS[notation.writes]:
            wall = f'{wall} and ({v}[-1] != "0" or len({v}) == {_WHOLE_SECONDS})'
        return [
            given,
            "    try:",
            f'        {v} = {v}.replace("T", " ") if {wall} else c{i}({v})',
            f"    except ValueError: {v} = c{i}({v})",
        ]
    return [f"{given} {v} = c{i}({v})"]


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
