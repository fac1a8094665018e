"""The tables that a decoder of DMS has met, and whether rows of one are read the same way for now.

Rows may lack columns, so that which columns a table has, and in which order, is told by all of its
messages so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.envelopes.notation.json_rows import Readers
from waybill.records import Column, intern_schema

if TYPE_CHECKING:
    from waybill.envelopes.notation.json_rows import Name
    from waybill.records import TableSchema

_MOST_TABLES, _MOST_COLUMNS = 5_000, 1_000
"""Far below the numbers from which on `Readers` begins anew."""


class DmsReaders(Readers):
    """The tables that a decoder has met."""

    def settled(self, name: Name) -> TableSchema | None:
        """The schema that all rows of a table have that tell nothing new about it.

        Their columns are in it, and values of those that nobody declared are null or of their
        types. None where the table is not known.
        """
        types = self._columns.get(name)
        if types is None or len(types) > _MOST_COLUMNS:
            return None
        columns = tuple(Column(column, kind) for column, kind in types.items())
        return intern_schema(*name, columns, self.rules.find(*name).key)

    def room(self) -> int:
        """How many tables may surely be met before those that are known are forgotten."""
        return _MOST_TABLES - max(len(self._columns), len(self._readers))
