"""Rows of DMS's files: the known-table way of reading them, and the changes that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UnsetType

from waybill.envelopes.dms.values import key_alone, micros_of
from waybill.errors import Refusal
from waybill.order import parse_digits
from waybill.records import Change
from waybill.values.known_messages import KnownMessage, strict

if TYPE_CHECKING:
    from waybill.records import Message, TableSchema
    from waybill.values.json_rows import RowReader

ROWS = {"I": "insert", "U": "update", "D": "delete"}
"""`Op` of rows that changed; those of a full load have none."""

_TEXT = str | None | UnsetType

Place = tuple[int | None, tuple[int, ...] | None]
"""Time and sequence of a change."""


class FileTable:
    """The known-table way: rows whose columns are all known.

    Args:
        reader: reads them.
        time: the column with the time that DMS added, empty if there is none.
        order: likewise that with the order.
    """

    def __init__(self, reader: RowReader, time: str, order: str) -> None:
        self.reader = reader
        self.order = order
        added = {"Op": "op", time: "time", order: "order"}
        added.pop("", None)
        columns = msgspec.structs.fields(reader.wire)
        members = {**dict.fromkeys(added, _TEXT), **{c.encode_name: c.type for c in columns}}
        attributes = added | {c.encode_name: c.name for c in columns}
        self.decode = KnownMessage(strict(members, attributes=attributes))
        self.timed, self.ordered = bool(time), bool(order)

    def read(self, message: Message, value: bytes) -> Change | None:
        """The change of a row of this table; None if it has to be read exactly."""
        parsed = self.decode(value)
        if parsed is None:
            return None
        operation = ROWS.get(parsed.op) if parsed.op else "read"
        if operation is None:
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
