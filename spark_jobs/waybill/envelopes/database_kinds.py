"""The kind of database that messages name: `dbType` of OMS and of DataHub BLOB.

OMS Default, its extended form and OMS DataWorks have it (OceanBase documentation, Data formats),
and messages of DataWorks in DataHub. It travels in `Change.extra`; another of these formats writes
it again, and all others count it for every row.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from waybill.records import Change

CAPABILITY = "database_kind"

FIELD = "dbType"
"""What the formats call it, as their fields in `extra` do."""

_FORMATS = ("oms", "dataworks", "streamx")

NAMED = rf'^\{{"(?:{"|".join(_FORMATS)})":.*?"dbType":(?P<kind>"(?:[^"\\]|\\.)+")'
"""Where `extra` names a kind, as JSON; quotes inside texts have a backslash before them."""

_BEGINS = tuple(f'{{"{name}":'.encode() for name in _FORMATS)
_OPENINGS = frozenset(begin[:4] for begin in _BEGINS)
_MARK = b'"dbType":"'
_LENGTH, _QUOTE = len(_MARK), ord('"')
_named = re.compile(NAMED.encode(), re.DOTALL).match


def kind_of(change: Change) -> str | None:
    """The kind of database that a change's message named; None where it named none."""
    extra = change.extra
    if extra is None or _MARK not in extra:
        return None
    found = _named(extra)
    return None if found is None else msgspec.json.decode(found["kind"], type=str)


def count_kind(change: Change, losses: list[str]) -> None:
    """Count what a format without a place for it gives up of a row."""
    extra = change.extra
    # Every row of every topic comes here. A slice tells most of them in half the time.
    if extra is None or extra[:4] not in _OPENINGS:
        return
    # Quicker than the pattern, and the same: no text inside JSON has a quote without backslash.
    at = extra.find(_MARK)
    if (
        at > 0
        and extra.startswith(_BEGINS)
        and (extra[at + _LENGTH] != _QUOTE or _named(extra) is not None)
        and change.operation in ROW_OPERATIONS
    ):
        losses.append(CAPABILITY)
