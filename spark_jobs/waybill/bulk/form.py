"""What messages of one form mean: everything of a message but the values that may differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from waybill.bulk.arena import Value
from waybill.bulk.column_codecs import TEXT
from waybill.bulk.constant_bytes import Skeleton
from waybill.bulk.field_map import ColumnSlot, FieldMap, IntegerSlot, Sample
from waybill.bulk.gather import how_of
from waybill.bulk.rows import Columns, Extra, Rows
from waybill.bulk.stated_keys import other_keys, other_message_keys
from waybill.bulk.typed_values import misplaced_times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.bulk.arena import Mask, Places
    from waybill.bulk.block import Block
    from waybill.bulk.gather import Gathered
    from waybill.bulk.tables import NamedTables, Tables

_LONGEST = 4000
"""Digits of a number that is carried on; decoders refuse numbers that are a little longer."""


class Form(Skeleton):
    """Messages that differ in nothing but the values that may."""

    def __init__(self, sample: Sample, reading: FieldMap) -> None:
        self.reading = reading
        allowed = [1 << kind for kind in sample.kinds]
        for cells in (reading.before, reading.after):
            for cell in cells or ():
                if cell is not None:
                    allowed[cell.slot] = cell.take.kinds
        if isinstance(reading.transaction, ColumnSlot):
            allowed[reading.transaction.slot] = reading.transaction.take.kinds
        for slot, wanted in reading.free.items():
            allowed[slot] = wanted
        used = {how_of(value)[0] for value in self._used()}
        super().__init__(sample.place, allowed, used | set(reading.free))
        self.plan()
        self.group = 0
        """The same number for forms whose messages are read together."""
        self.key: Skeleton | None = None
        """The form of the message keys, where that decides anything."""
        self.tables: NamedTables | None = None
        """The tables that messages may be of, once there are several: their names pick one."""
        self.slots_of_names = np.array(reading.named_by, np.int64)
        self.names = tuple(sample.text(slot) for slot in reading.named_by)
        self.settled: dict[int, int] = {}
        """For tables the state of the reader at which the decoder read their messages so."""
        self.waiting: dict[int, int] = {}
        """How many messages of tables came since the decoder was asked that."""

    def open_to(self, tables: NamedTables) -> None:
        """Let messages have any names, which pick one of some tables."""
        self.tables = tables
        self.allowed[self.slots_of_names] = TEXT
        self.constants[self.slots_of_names] = -1

    def plan(self) -> None:
        """See which values are read; once more whenever the reading tells another schema."""
        self.schema = self.reading.schema
        steps = [how_of(value) for value in (*self._used(), *self.reading.aside)]
        self.slots = np.array([slot for slot, _ in steps], np.int64)
        self.hows = tuple(how for _, how in steps)

    def _used(self) -> Iterator[int | ColumnSlot | IntegerSlot]:
        """The values that changes are made of."""
        reading = self.reading
        for cells in (reading.before, reading.after):
            yield from (cell for cell in cells or () if cell is not None)
        yield from reading.sequence or ()
        for used in (reading.source_time, reading.transaction):
            if used is not None:
                yield used
        yield from (slot for slot in reading.extra.values() if isinstance(slot, int))
        yield from reading.stated_key

    def shape(self) -> tuple[object, ...]:
        """What is the same for forms whose messages are read together."""
        reading = self.reading
        return (
            reading.schema if self.tables is None else (True, reading.schema.unnamed),
            reading.operation,
            _pattern(reading.before),
            _pattern(reading.after),
            None if reading.sequence is None else len(reading.sequence),
            (reading.source_time is None, reading.transaction is None),
            (reading.family, *self._fields()),
            (reading.carry, reading.check, len(reading.stated_key), reading.message_key),
            (reading.rank, reading.full_row, reading.half),
            self.hows,
        )

    def _fields(self) -> list[tuple[str, bytes | bool]]:
        """What is carried on: JSON, or whether a value stands between quotes."""
        return [
            (name, value if isinstance(value, bytes) else bool(self.allowed[value] & TEXT))
            for name, value in self.reading.extra.items()
        ]

    def rows(self, block: Block, found: Gathered, tables: Tables | None) -> tuple[Rows, Places]:
        """The changes of messages of this shape, and those messages that are converted exactly.

        Args:
            block: the messages.
            found: the values that they hold.
            tables: which tables they are of, where their names tell that.
        """
        reading, places, values = self.reading, found.places, iter(found.values)
        schema = reading.schema
        if tables is not None and (tables.numbers == tables.numbers[0]).all():
            schema, tables = tables.of(0), None
        before, after = (_image(cells, values) for cells in (reading.before, reading.after))
        sequence = None
        if reading.sequence is not None:
            sequence = tuple(next(values) for _ in reading.sequence)
        source_time = None if reading.source_time is None else next(values)
        transaction = None if reading.transaction is None else next(values)
        extra = None if reading.carry is None else reading.carry(block, places)
        if reading.family:
            fields = {
                name: value if isinstance(value, bytes) else Value(next(values), value)
                for name, value in self._fields()
            }
            extra = Extra.of(reading.family, fields)
        bad = found.bad if extra is None else found.bad | _not_carried(extra)
        if transaction is not None:
            bad |= transaction.lengths < 1
        rows = Rows(
            block,
            places,
            schema,
            reading.operation,
            before,
            after,
            sequence,
            reading.rank,
            reading.full_row,
            reading.half,
            None,
            source_time,
            transaction,
            extra,
            tables,
        )
        if reading.check is not None:
            bad |= reading.check(rows)
        if reading.stated_key:
            bad |= other_keys(rows, [next(values) for _ in reading.stated_key])
        if reading.message_key and block.keys is not None:
            bad |= other_message_keys(rows, block.keys, reading.message_key)
        misplaced = misplaced_times(rows)
        if misplaced is not None:
            bad |= misplaced
        if not bad.any():
            return rows, places[:0]
        return rows.take(~bad), places[bad]


def _pattern(cells: tuple[ColumnSlot | None, ...] | None) -> tuple[bool, ...] | None:
    return None if cells is None else tuple(cell is None for cell in cells)


def _image(cells: tuple[ColumnSlot | None, ...] | None, values: Iterator[Any]) -> Columns | None:
    """The columns of an image."""
    if cells is None:
        return None
    return tuple(None if cell is None else next(values) for cell in cells)


def _not_carried(extra: Extra) -> Mask:
    """Which rows have something to carry on that is converted exactly."""
    bad: Any = False
    for value in extra.fields.values():
        if isinstance(value, Value):
            bad |= ~value.texts.good
            if not value.quoted:
                bad |= value.texts.lengths > _LONGEST
    return bad  # type: ignore[no-any-return]
