"""`sqlType` of Canal's messages: numbers of `java.sql.Types` for the columns of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from waybill.values.mysql_types import jdbc_type, logical_type, members, raised_jdbc_type

if TYPE_CHECKING:
    from waybill.records import TableSchema

MOST_KNOWN = 1_000
"""So many `sqlType` of a table are remembered."""
Unusual = frozenset[tuple[str, int]]
"""Columns whose number is another one than usual, with that number."""
USUAL: Unusual = frozenset()
"""No such column."""

_BLOB, _VARCHAR = 2004, 12
_json = msgspec.json.Encoder().encode


def _number(text: str) -> int:
    """The number of a MySQL type, that of what stands in `data`."""
    if logical_type(text).kind in ("enum", "set") and not members(text):
        # Without its words a value has no number, and is written as its text.
        return _VARCHAR
    return jdbc_type(text)


class Varying(NamedTuple):
    """A column whose number in `sqlType` depends on its value.

    Attributes:
        place: its place in the schema.
        name: its name.
        number: what is stated instead of the usual number.
        least: of which integer on; None for a null.
    """

    place: int
    name: str
    number: int
    least: int | None

    def holds(self, value: Any) -> bool:
        """Whether it is stated for a value; `bulk.unusual_rows` tells the same of many."""
        if self.least is None:
            return value is None
        digits = value.__class__ is str and len(value) < 21 and value.isdecimal()
        return digits and int(value) >= self.least


class SqlTypes:
    """`sqlType` as Canal would state it.

    An unsigned integer that its signed type does not hold gets the next larger type, and a SET
    that is null the number of a BLOB. An ENUM or SET whose words are not known has that of a text.

    Args:
        schema: a schema whose source types are MySQL's.
    """

    null_set: ClassVar[int | None] = _BLOB
    """The number of a SET that is null; None where it has that of any SET."""

    def __init__(self, schema: TableSchema) -> None:
        self.usual = {c.name: _number(c.source_type or "") for c in schema.columns}
        self.varying: list[Varying] = []
        for i, column in enumerate(schema.columns):
            text = column.source_type or ""
            raised = raised_jdbc_type(text)
            if raised is not None:
                self.varying.append(Varying(i, column.name, *raised))
            elif self.null_set and text.lower().startswith("set") and members(text):
                self.varying.append(Varying(i, column.name, self.null_set, None))
        self._json = {USUAL: _json(self.usual)}

    def of(self, image: Any) -> dict[str, int]:
        """The numbers for a row."""
        return {**self.usual, **dict(self.unusual(image))}

    def json(self, image: Any) -> bytes:
        """The same as JSON."""
        unusual = self.unusual(image)
        text = self._json.get(unusual)
        if text is None:
            text = _json({**self.usual, **dict(unusual)})
            if len(self._json) < MOST_KNOWN:
                self._json[unusual] = text
        return text

    def unusual(self, image: Any) -> Unusual:
        """Columns whose number depends on the value, with the number, where it is another one."""
        if not self.varying:
            return USUAL
        return frozenset(
            (one.name, one.number)
            for one in self.varying
            if one.holds(getattr(image, f"f{one.place}"))
        )
