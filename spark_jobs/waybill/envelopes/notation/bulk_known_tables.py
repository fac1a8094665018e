"""What decoders know of tables from earlier messages, for reading many at once.

Which columns a table has, and of which type those are that nobody declared, is told by all of its
messages so far: a form is taken as long as it tells nothing that the decoder does not know, and
gives rows of all columns that this knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from waybill.bulk.forms import Cell
from waybill.bulk.kinds import ESCAPED, FALSE, INTEGER, NULL, PLAIN, TRUE
from waybill.bulk.kinds import NUMBER as NUMERAL
from waybill.bulk.notations import NOTHING
from waybill.envelopes.notation.json_columns import kind_of
from waybill.types import BOOLEAN, NUMBER, STRING, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from msgspec import Raw

    from waybill.bulk.forms import Reading, Sample
    from waybill.bulk.notations import Take
    from waybill.envelopes.notation.json_rows import Name
    from waybill.records import Column, TableSchema
    from waybill.tables import TableRules
    from waybill.types import LogicalType

Cells = dict[str, Cell]
"""Columns of an image."""
Slots = dict[str, int]
"""Places of columns in a message."""


class _Known(Protocol):
    """A decoder that tells what it knows of tables."""

    def settled(self, name: Name) -> TableSchema | None:
        """The schema that all rows of a table have that tell nothing new about it.

        Their columns are in it, and values of those that nobody declared are null or of their
        types. None where the table is not known.
        """

    def room(self) -> int:
        """How many tables may surely be met before those that are known are forgotten."""


class Tables:
    """What a decoder knows of tables, and what messages that are read on their own change in it.

    Args:
        decoder: the decoder.
        rules: declared keys and types.
        take: how a column is read, by whether it is declared and the kind of a value; None where
            values are read one by one.
    """

    def __init__(
        self,
        decoder: _Known,
        rules: TableRules,
        take: Callable[[Column, bool, int], Take | None],
    ) -> None:
        self._decoder, self._rules, self._take = decoder, rules, take
        self._strange = 0

    def cells(self, sample: Sample, schema: TableSchema, slots: Slots) -> Cells | None:
        """How columns are read; None if one cannot be read at once.

        Of a column that nobody declared the first value tells the type; if it is null, only nulls
        are taken.

        Args:
            sample: the message.
            schema: the table, as a decoder told it that has seen no other message.
            slots: the place of each column.
        """
        declared = self._declared(schema)
        cells: Cells = {}
        for name, slot in slots.items():
            place = schema.index.get(name)
            if place is None:
                return None
            kind = sample.kinds[slot]
            take = self._take(schema.columns[place], name in declared, kind)
            if take is None or not take.kinds >> kind & 1:
                return None
            if name not in declared and kind == NULL:
                take = take._replace(kinds=NOTHING)
            cells[name] = Cell(slot, take)
        return cells

    def _declared(self, schema: TableSchema) -> Mapping[str, LogicalType]:
        return self._rules.find(schema.database, schema.schema, schema.table or "").columns

    def aimed(
        self,
        reading: Reading,
        sample: Sample,
        images: tuple[Cells | None, Cells | None],
        columns: Slots,
    ) -> None:
        """Let a reading give rows of the columns that the decoder knows when it is used.

        Args:
            reading: is completed.
            sample: the message.
            images: the columns of the rows before and after.
            columns: the place of each column of the message.
        """
        first = reading.schema
        name = first.database, first.schema, first.table or ""
        declared = self._declared(first)
        inferred = {
            (column, _INFERRED[sample.kinds[slot]])
            for slots in (*(_slots(cells) for cells in images), columns)
            for column, slot in slots.items()
            if column not in declared and sample.kinds[slot] != NULL
        }

        def aim(schema: TableSchema) -> None:
            reading.schema = schema
            reading.before, reading.after = (
                None if cells is None else tuple(cells.get(column) for column in schema.names)
                for cells in images
            )

        def ready() -> bool:
            self._strange = 0
            schema = self._decoder.settled(name)
            if (
                schema is None
                or self._decoder.room() <= 0
                or not schema.index.keys() >= columns.keys()
            ):
                return False
            places = schema.index
            if any(schema.columns[places[column]].type != kind for column, kind in inferred):
                return False
            if schema is not reading.schema:
                aim(schema)
            return True

        aim(first)
        reading.ready = ready

    def harmless(self, name: Name, rows: Iterable[tuple[str, Raw]]) -> bool:
        """Whether a message with a row changes nothing for those that were read at once.

        Of a table that was not known none was. It may bring a table more, though, and too many of
        them make the decoder forget all.

        Args:
            name: the table.
            rows: its columns with their values.
        """
        schema = self._decoder.settled(name)
        if schema is None:
            self._strange += 1
            return self._strange < self._decoder.room()
        declared = self._declared(schema)
        for column, raw in rows:
            place = schema.index.get(column)
            if place is None:
                return False
            known = (UNKNOWN, schema.columns[place].type)
            if column not in declared and kind_of(raw) not in known:
                return False
        return True


_INFERRED = {
    PLAIN: STRING,
    ESCAPED: STRING,
    INTEGER: NUMBER,
    NUMERAL: NUMBER,
    TRUE: BOOLEAN,
    FALSE: BOOLEAN,
}
"""What JSON says that values are; see `json_columns.kind_of`."""


def _slots(cells: Cells | None) -> Slots:
    return {name: cell.slot for name, cell in (cells or {}).items()}
