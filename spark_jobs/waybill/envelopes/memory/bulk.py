"""Reading messages in bulk where a decoder remembers tables (`remembering`).

What it makes of a message may depend on the messages before it. As long as all messages of a block
tell nothing new about the tables of those that are read in bulk, it does not.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from waybill.bulk.field_map import BulkReader, ColumnSlot, FieldMap, Sample
from waybill.bulk.value_kinds import ESCAPED
from waybill.errors import Refusal
from waybill.protocol import exactly
from waybill.values.bulk_json_columns import reader_of
from waybill.values.known_columns import News

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.block import Path
    from waybill.bulk.column_codecs import ColumnReader
    from waybill.envelopes.memory.remembering import Remembering
    from waybill.records import Change, Column, Message, TableSchema
    from waybill.types import LogicalType
    from waybill.values.json_columns import Style

Cells = dict[str, ColumnSlot]
"""Columns of an image."""
Row = tuple[ColumnSlot | None, ...]
"""The same, column by column."""
Slots = dict[str, int]
"""Places of columns in a message."""

_MOST_APART = 2_000
"""So many messages of a block may be of tables that were not known."""


class RememberingReader(BulkReader):
    """Says what the values of messages of known tables mean.

    Args:
        decoder: reads one message exactly.

    Attributes:
        names: where the names of the table stand; none where they may stand elsewhere too.
    """

    names: tuple[Path, ...] = ()

    def __init__(self, decoder: Remembering) -> None:
        self._remembering = decoder
        self._apart = 0

    @abstractmethod
    def meaning(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message, None if such are read on their own.

        It depends on the form of the message, and on what the decoder knows of its table.
        """

    def learner(self) -> RememberingReader | None:
        """What reads messages to learn from, without a trace in the decoder."""
        return self

    def decode(self, message: Message) -> list[Change]:
        """The changes of a message; if it tells something new, as if it were the first one."""
        try:
            return self._remembering.settled(message, exact=True)
        except News:
            return exactly(self._remembering.fresh())(message)

    def harmless(self, message: Message) -> bool:
        """Whether those that were read in bulk are read as they would be without a message."""
        try:
            self._remembering.settled(message)
        except Refusal:
            return True
        except News as news:
            self._apart += news.apart
            return news.apart and self._apart < _MOST_APART
        return True

    @property
    def state(self) -> int:
        """See `BulkReader.state`."""
        return self._remembering.memory.additions

    def begin(self) -> None:
        """See `BulkReader.begin`."""
        self._apart = 0

    def read_by(self, message: Message) -> TableSchema | None:
        """See `BulkReader.read_by`."""
        try:
            (change,) = self._remembering.settled(message)
        except (News, Refusal):
            return None
        return change.schema

    def reads_the_same(self, one: TableSchema, other: TableSchema) -> bool:
        """See `BulkReader.reads_the_same`: declared columns are read in a style of their own."""
        return self._declared(one) == self._declared(other)

    def _declared(self, schema: TableSchema) -> frozenset[str]:
        rules = self._remembering.rules
        declared = rules.find(schema.database, schema.schema, schema.table or "").columns
        return frozenset(declared).intersection(schema.names)

    def reading(self, sample: Sample, change: Change) -> FieldMap | None:
        """The meaning of the values of a message, as long as its table is known so."""
        reading = self.meaning(sample, change)
        if reading is not None:
            reading.ready = self._ready(sample, reading)
            slots = [sample.slots.get(path) for path in self.names]
            named = [s for s in slots if s is not None and sample.kinds[s] <= ESCAPED]
            if len(named) == len(slots) and all(map(sample.text, named)):
                reading.named_by = tuple(named)
                reading.described_by = self._declared(change.schema)
        return reading

    def _ready(self, sample: Sample, reading: FieldMap) -> Callable[[], bool]:
        """Tells whether the decoder knows the table; takes over what it knows by now."""
        first = _kinds(reading)
        state: int | None = None

        def ready() -> bool:
            nonlocal state
            if state == self.state:
                return True
            if self.read_by(sample.message) is reading.schema:
                state = self.state
                return True
            try:
                (change,) = self._remembering.settled(sample.message, exact=True)
            except (News, Refusal):
                return False
            now = self.meaning(sample, change)
            if now is None:
                return False
            kinds = _kinds(now)
            # The form was made for the kinds that the values could have at first.
            if kinds.keys() != first.keys() or any(k & ~kinds[s] for s, k in first.items()):
                return False
            reading.schema, reading.before, reading.after = now.schema, now.before, now.after
            state = self.state
            return True

        return ready

    def cells(
        self,
        sample: Sample,
        schema: TableSchema,
        slots: Slots,
        take: Callable[[Column, bool, int], ColumnReader | None],
    ) -> Cells | None:
        """How columns are read; None if one cannot be read in bulk.

        Args:
            sample: the message.
            schema: its table.
            slots: the place of each column.
            take: how a column is read, by whether it is declared and the kind of its value; None
                where values are read individually.
        """
        rule = self._remembering.rules.find(schema.database, schema.schema, schema.table or "")
        cells: Cells = {}
        for name, slot in slots.items():
            place = schema.index.get(name)
            if place is None:
                return None
            kind = sample.kinds[slot]
            how = take(schema.columns[place], name in rule.columns, kind)
            if how is None or not how.kinds >> kind & 1:
                return None
            cells[name] = ColumnSlot(slot, how)
        return cells

    def row(self, sample: Sample, image: str, schema: TableSchema, style: Style) -> Row | None:
        """The columns of an image that is an object of their names; see `cells`."""
        slots = {
            str(path[1]): slot
            for path, slot in sample.slots.items()
            if path[0] == image and path[1:]
        }
        return row_of(self.cells(sample, schema, slots, styled(style)), schema)


def styled(
    style: Style, take: Callable[[LogicalType, Style, int], ColumnReader | None] = reader_of
) -> Callable[[Column, bool, int], ColumnReader | None]:
    """How columns are read in a style; JSON tells the types of those that nobody declared."""
    inferred = style.of_inferred()
    return lambda column, declared, kind: take(column.type, style if declared else inferred, kind)


def row_of(cells: Cells | None, schema: TableSchema) -> Row | None:
    """All columns of a table, of which an image may have some."""
    return None if cells is None else tuple(map(cells.get, schema.names))


def _kinds(reading: FieldMap) -> dict[int, int]:
    """The kinds that the values of rows may have, by their slots."""
    images = (reading.before or (), reading.after or ())
    return {cell.slot: cell.take.kinds for cells in images for cell in cells if cell is not None}
