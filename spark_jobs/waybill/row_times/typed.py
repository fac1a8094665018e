"""Whether the texts of a row are values of their columns' types, as far as times go.

Readers hold numbers, booleans, bytes and bits against their types where they make texts of them
(`values.declared`). A text of a time is looked at here, once, for every envelope: a
wall clock in a column of instants, an instant among wall clocks, a date for a time, a number or a
word for any of them would go on as a value that no reader of the column can take, or takes for
another time.

Dates that databases hold although no calendar has them stay the texts that they are: the zeros of
MySQL (`0000-00-00`, `2024-02-00`) and its `2024-02-30` (MySQL 8.4 Reference Manual, "Server SQL
Modes": NO_ZERO_IN_DATE, ALLOW_INVALID_DATES), `infinity` and years before 1 and after 9999 of
PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from waybill.caches import Bounded
from waybill.errors import Refusal

if TYPE_CHECKING:
    from waybill.records import Change, TableSchema

TIMES = frozenset({"date", "time", "timestamp", "timestamptz"})
"""The types whose values are looked at."""

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(.*)")
_ZONE = re.compile(r" ?(?:Z|UTC|[-+][0-9]{2}(?::?[0-9]{2})?)| [A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+")

_CALENDAR = r"(?:0[0-9]|1[0-2])-(?:[0-2][0-9]|3[01])"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_PLAIN = {
    "date": re.compile(rf"[0-9]{{4}}-{_CALENDAR}").fullmatch,
    "time": re.compile(_CLOCK).fullmatch,
    "timestamp": re.compile(rf"[0-9]{{4}}-{_CALENDAR}T{_CLOCK}").fullmatch,
    "timestamptz": re.compile(rf"[0-9]{{4}}-{_CALENDAR}T{_CLOCK}Z").fullmatch,
}
"""What nearly all values of a type look like."""
_KEPT = re.compile(
    # 24:00:00 is a time of PostgreSQL, and the 60th second one that is added to a day.
    r"[-+]?infinity"
    r"|-?(?:[01][0-9]|2[0-4]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:\.[0-9]+)?)?"
    rf"|[-+]?[0-9]{{4,7}}-{_CALENDAR}"
    r"(?:[T ](?:[01][0-9]|2[0-4]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:\.[0-9]+)?)?)?"
    r"(?: ?(?:Z|UTC|[-+][0-9]{2}(?::?[0-9]{2})?)| [A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+)?(?: BC)?"
)
"""What databases hold although it is not a date of the calendar or not a time of day."""
_MOST_HOURS = 838
"""MySQL's TIME has no more (MySQL 8.4 Reference Manual, "The TIME Type")."""

_WORDS = {
    "number": "a number: declare a type of numbers, or timestamptz if it counts from 1970 and the "
    "envelope writes instants so",
    "date": "a date: declare the column as date",
    "time": "a time of day: declare the column as time",
    "timestamp": "a wall clock without zone: declare the column as timestamp, or set the zone "
    "where the envelope has a setting for it",
    "timestamptz": "an instant with its zone: declare the column as timestamptz",
}


def kind_of(text: str) -> str | None:
    """What a text is, `number` or one of `TIMES`; None for anything else."""
    if _NUMBER.fullmatch(text):
        return "number"
    if _TIME.fullmatch(text):
        return "time" if int(text.lstrip("-").partition(":")[0]) <= _MOST_HOURS else None
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
        (f"f{place}", column.name, column.type.kind, _PLAIN[column.type.kind])
        for place, column in enumerate(schema.columns)
        if column.type.kind in TIMES
    ]
    if not columns:
        return None

    def check(change: Change) -> None:
        for image in (change.after, change.before):
            if image is None:
                continue
            for field, name, kind, plain in columns:
                text = getattr(image, field)
                if text.__class__ is not str or plain(text):
                    continue
                why = fault_of(kind, text)
                if why is not None:
                    raise Refusal("value", f"column {name!r} is {kind}, and {why}", change.index)

    return check


def fault_of(kind: str, text: str) -> str | None:
    """Why a text is not a value of a type of times, with what to declare; None if it is one."""
    found = kind_of(text)
    if found == kind or (found is None and _KEPT.fullmatch(text)):
        return None
    if found is not None:
        return f"{text[:60]!r} is {_WORDS[found]}"
    return f"{text[:60]!r} is no date or time that there is: {_TEXTS}"


_TEXTS = "declare the column as string if it holds such texts"
