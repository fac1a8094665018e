"""Rows of DMS's files: the fast way of reading them, and the changes that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from waybill.envelopes.dms.values import key_alone, micros_of
from waybill.errors import Refusal
from waybill.order import parse_digits
from waybill.records import Change
from waybill.values.json_rows import SameMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Message, TableSchema
    from waybill.values.json_rows import RowReader

ROWS = {"I": "insert", "U": "update", "D": "delete"}
"""`Op` of rows that changed; those of a full load have none."""

_TEXT = str | None | UnsetType

Place = tuple[int | None, tuple[int, ...] | None]
"""Time and sequence of a change."""


class FileTable:
    """The fast way: rows whose columns are all known.

    Args:
        reader: reads them.
        time: the column with the time that DMS added, empty if there is none.
        order: likewise that with the order.
    """

    def __init__(self, reader: RowReader, time: str, order: str) -> None:
        self.reader = reader
        self.same = SameMessage()
        self.order = order
        added = {"Op": "op"}
        for column, field in ((time, "time"), (order, "order")):
            if column:
                added[column] = field
        fields = msgspec.structs.fields(reader.wire)
        made = msgspec.defstruct(
            "Row",
            [
                *[(name, _TEXT, UNSET) for name in added.values()],
                *[(field.name, field.type, UNSET) for field in fields],
            ],
            rename={field: column for column, field in added.items()}
            | {field.name: field.encode_name for field in fields},
            forbid_unknown_fields=True,
            gc=False,
        )
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(made).decode
        self.timed, self.ordered = "time" in added.values(), "order" in added.values()

    def read(self, message: Message, value: bytes) -> Change | None:
        """The change of a row of this table; None if it needs a closer look."""
        parsed = self.decode(value)
        operation = ROWS.get(parsed.op) if parsed.op else "read"
        if operation is None or not self.same(parsed, value):
            return None
        image = self.reader.read(parsed)
        if image == self.reader.empty:
            return None
        time = micros_of(parsed.time or None, "the time") if self.timed else None
        sequence = sequence_of(parsed.order or None, self.order) if self.ordered else None
        return file_change(message, self.reader.schema, operation, image, (time, sequence))


def file_change(
    message: Message, schema: TableSchema, operation: str, image: Any, place: Place
) -> Change:
    """The change of a row."""
    time, sequence = place
    before, after = None, image
    if operation == "delete":
        before, after = key_alone(schema, image), None
    return Change(
        operation,
        schema,
        message,
        before=before,
        after=after,
        sequence=sequence,
        full_row=operation == "read" and sequence is None,
        source_time=time,
    )


def sequence_of(order: str | None, column: str) -> tuple[int, ...] | None:
    """The sequence in the column that was added for it; None where it is empty.

    Raises:
        Refusal: kind `shape`, when it is no number.
    """
    if not order:
        return None
    try:
        if order[0] != "-":
            return (parse_digits(order),)
    except ValueError:
        pass  # refused below, as a minus sign is, which would put it before all others
    raise Refusal("shape", f"{column} is {order[:60]!r} and not digits")
