"""Whether the texts of a row are values of their columns' types, as far as times go.

Readers hold numbers, bytes and bits against their types where they make texts of them. A text of a
time is looked at here, once, for every envelope: a wall clock in a column of instants, an instant
among wall clocks, a date for a time, or a number for any of them would go on as a value that no
reader of the column can take, or takes for another time. What is no time at all (`0000-00-00`,
`infinity`) stays the text that it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from waybill.bounded import Bounded
from waybill.errors import Refusal

if TYPE_CHECKING:
    from waybill.records import Change, TableSchema

TIMES = frozenset({"date", "time", "timestamp", "timestamptz"})
"""The types whose values are looked at."""

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(.*)")
_ZONE = re.compile(r" ?(?:Z|UTC|[-+][0-9]{2}(?::?[0-9]{2})?)")

_WORDS = {
    "number": "a number: declare a type of numbers, or timestamptz if it counts from 1970 and the "
    "format writes instants so",
    "date": "a date: declare the column as date",
    "time": "a time of day: declare the column as time",
    "timestamp": "a wall clock without zone: declare the column as timestamp, or set the zone "
    "where the format has a setting for it",
    "timestamptz": "an instant with its zone: declare the column as timestamptz",
}


def kind_of(text: str) -> str | None:
    """What a text is, `number` or one of `TIMES`; None for anything else."""
    if _NUMBER.fullmatch(text):
        return "number"
    if _TIME.fullmatch(text):
        return "time"
    if _DATE.fullmatch(text):
        return "date" if _is_valid(text) else None
    moment = _MOMENT.fullmatch(text)
    if moment is None or not _is_valid(text[:19]):
        return None
    if not moment[1]:
        return "timestamp"
    return "timestamptz" if _ZONE.fullmatch(moment[1]) else None


def _is_valid(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


Check = Callable[["Change"], None]

_CHECKS: Bounded[TableSchema, Check | None] = Bounded()


def times_check(schema: TableSchema) -> Check | None:
    """A check of the times in the images of a change; None for a table without such columns.

    It raises a Refusal of kind `value` that names the column and the right declaration.
    """
    if schema not in _CHECKS:
        _CHECKS[schema] = _made(schema)
    return _CHECKS[schema]


def check_row(change: Change) -> None:
    """What the conversion asks of every row that a decoder took.

    Raises:
        Refusal: a row does not tell its key, or holds a time that is none of its column's type.
    """
    change.key_image()
    fit = times_check(change.schema)
    if fit is not None:
        fit(change)


def _made(schema: TableSchema) -> Check | None:
    columns = [
        (f"f{place}", column.name, column.type.kind)
        for place, column in enumerate(schema.columns)
        if column.type.kind in TIMES
    ]
    if not columns:
        return None

    def check(change: Change) -> None:
        for image in (change.after, change.before):
            if image is None:
                continue
            for field, name, kind in columns:
                text = getattr(image, field)
                if text.__class__ is not str or _plainly(kind, text):
                    continue
                other = kind_of(text)
                if other is not None and other != kind:
                    shown = repr(text[:60])
                    sentence = f"column {name!r} is {kind}, and {shown} is {_WORDS[other]}"
                    raise Refusal("value", sentence, change.index)

    return check


def _plainly(kind: str, text: str) -> bool:
    """Whether a text looks like one of its type at a glance, as nearly all do."""
    if kind == "timestamp":
        return text[10:11] == "T" and (len(text) == 19 or text[20:].isdecimal())
    return kind == "timestamptz" and text[10:11] == "T" and text[-1] == "Z"
