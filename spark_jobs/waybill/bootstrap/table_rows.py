"""Rows of a merged table as rows of `changes` that a target begins with.

A row keeps the place in the order that its newest change has, so that readers who merge by ids see
every later change win, and every older one that comes late lose. It stands where that change stood,
in a topic of its own: what makes an id of the place makes the one that the change has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.batches.record_batches import record_batch
from waybill.lake_columns import BOOTSTRAP, CHANGES
from waybill.merge import columns as own
from waybill.order import (
    AFTER,
    CHANGE,
    FULL_ROW,
    order_number,
    read_order_key,
    read_position,
    sequence_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 1_000_000
"""So many rows that one statement has deleted stand beside each other."""

NUMBER = "number"
"""The column that numbers rows that do not stand where a change stood."""
READ = (own.KEY, own.ORDER, own.IMAGE, NUMBER)
"""What is read of a merged table, with that number, or null where they do."""

_DATE = re.compile(r"-?\d{4,}-\d\d-\d\d")


@dataclass(frozen=True)
class RowsOfTable:
    """Makes rows of `changes` of rows of one merged table; plain data for the tasks.

    Attributes:
        topic: of what it makes.
        batch: as well.
        names: database, schema and table.
        schema_id: of the schema that describes them.
        columns: names of the schema's columns, in order.
        key: names of its key columns.
        operation: `read`, or `delete` for what stands of deleted rows.
        extra: goes with every row.
        came_up: see `waybill.merge.state.TableState`: what a row up to that order lacks is null.
        dates: columns of timestamps in which a date stands for its midnight.
        lacking: columns that rows may lack because their source table has none, of tables that
            became one; these are null there.
        bag: whether the table has no key, so that its rows have no order among its changes.
        timed: whether orders without a sequence id were made of source times.
        numbered: whether the target numbers changes by the position where they have no id. For
            others such a row is older than every change, which is what it looks like to readers.
    """

    topic: str
    batch: str
    names: tuple[str | None, str | None, str | None]
    schema_id: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    operation: str
    extra: str | None
    came_up: dict[str, str]
    bag: bool
    timed: bool
    numbered: bool
    dates: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, inside a task; those with one position are neighbours."""
        last, again = "", 0
        for batch in batches:
            rows = []
            for key, order, image, number in zip(
                *(batch.column(name).to_pylist() for name in READ), strict=True
            ):
                position = order.rsplit("/", 1)[1]
                again = again + 1 if position == last else 0
                last = position
                rows.append(self._row(key, order, image, number, again))
            yield record_batch(rows, CHANGES)

    def _row(
        self, key: str, order: str, image: str | None, number: int | None, again: int
    ) -> tuple[Any, ...]:
        place, topic = (0, number or 0, 0), self.topic
        if number is None:
            topic, place = self._place(read_position(order), again)
        order, time = self._placed(order)
        row = dict.fromkeys(CHANGES.names)
        if image is None:
            before = self._image(msgspec.json.decode(key), "", False)
            row["before"] = before
        else:
            row["after"] = self._image(msgspec.json.decode(image), order, True)
        database, schema, table = self.names
        fields: dict[str, Any] = {
            **row,
            **dict(zip(("partition", "offset", "index"), place, strict=True)),
            "topic": topic,
            "batch": self.batch,
            "operation": self.operation,
            "database": database,
            "schema": schema,
            "table": table,
            "key": None if self.bag else key,
            "order_key": order,
            "source_time": time,
            "schema_id": self.schema_id,
            "extra": self.extra,
            "outcome": BOOTSTRAP,
        }
        return tuple(fields.values())

    def _place(self, place: tuple[int, int, int], again: int) -> tuple[str, tuple[int, int, int]]:
        """Where a row stands, of several with one position.

        Changes of several topics may have one, each of which gets a topic here as well. What one
        statement has deleted has that of the statement, however many rows these are.
        """
        if not again:
            return self.topic, place
        if self.operation != "delete":
            return f"{self.topic}~{again}", place
        partition, offset, index = place
        more, number = divmod(index * MANY + again, 2**31)
        return f"{self.topic}~{more or ''}", (partition, offset, number)

    def _image(self, values: dict[str, str | None], order: str, whole: bool) -> str:
        """An image in the order of the schema's columns.

        Args:
            values: by column.
            order: of the row.
            whole: whether it is the row and not its key alone.
        """
        row = {}
        for name in self.columns:
            if name in values:
                text = values[name]
                if text is not None and name in self.dates and _DATE.fullmatch(text):
                    text = f"{text}T00:00:00"
                row[name] = text
            elif whole and (
                self.bag or name in self.lacking or order <= self.came_up.get(name, "")
            ):
                row[name] = None
        return msgspec.json.encode(row).decode()

    def _placed(self, order: str) -> tuple[str, int | None]:
        """The order of a row as a change of the source has it, and its time as far as that tells.

        The position stays, whatever stands before it. The time is in microseconds since 1970,
        because not every time is one that Python has.
        """
        position, time = order.rsplit("/", 1)[1], None
        if self.timed and order.startswith(CHANGE) and sequence_of(order):
            sequence, _, _ = read_order_key(order)
            assert sequence is not None
            time = sequence[0] or None
            order = f"{CHANGE}//{order_number(AFTER)}/{position}"
        if self.bag or (not self.numbered and order.startswith(f"{CHANGE}//")):
            order = f"{FULL_ROW}//{order_number(AFTER)}/{position}"
        return order, time
