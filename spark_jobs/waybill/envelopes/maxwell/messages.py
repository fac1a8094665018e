"""What a message of Maxwell holds, and the tables that its messages are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from waybill.envelopes.stated_keys import is_compared
from waybill.records import Change
from waybill.types import FIRST_SECOND, LAST_SECOND
from waybill.values.generated import overlay
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.row_functions import picked
from waybill.values.values import JSON_ERRORS, in_one_line

if TYPE_CHECKING:
    from waybill.envelopes.maxwell.positions import Positions
    from waybill.records import Message
    from waybill.values.json_rows import RowReader

ROWS = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "bootstrap-insert": "read",
}
"""Types that carry a row, and their operations."""

Seconds = Annotated[int, Meta(ge=FIRST_SECOND, le=LAST_SECOND)]

XID = Annotated[int, Meta(ge=0, le=2**63 - 1)]

Values = list[Any]
"""Of the key, as they stand in `data`: a SET is an array, a document stands as it is."""

CARRIED: dict[str, Any] = {
    "xoffset": Annotated[int, Meta(ge=0, le=2**63 - 2)] | None | UnsetType,
    "commit": bool | None | UnsetType,
    "position": str | None | UnsetType,
    "gtid": str | None | UnsetType,
    "server_id": int | None | UnsetType,
    "thread_id": int | None | UnsetType,
    "schema_id": int | None | UnsetType,
    "query": str | None | UnsetType,
}
"""Fields that only a Maxwell target carries on, in Maxwell's order."""

HEAD: dict[str, Any] = {"ts": Seconds | None | UnsetType, "xid": XID | None | UnsetType}
KEY: dict[str, Any] = {
    "primary_key": Values | None | UnsetType,
    "primary_key_columns": list[str] | None | UnsetType,
}
_ORIGIN: Any = Literal[tuple(ROWS)]

Carried = msgspec.defstruct(
    "Carried", [(name, kind, UNSET) for name, kind in CARRIED.items()], gc=False
)
"""The fields of `CARRIED` of one message."""

RowMessage: type[Any] = msgspec.defstruct(
    "RowMessage",
    [
        ("database", str),
        ("table", str),
        ("data", Raw),
        *[(n, kind, UNSET) for n, kind in {**HEAD, **CARRIED, **KEY}.items()],
        ("old", Raw | UnsetType, UNSET),
    ],
    gc=False,
)
"""A message with a row of which nothing is known yet."""

TAKEN = {"type", "database", "table", "data", *HEAD, *CARRIED, *KEY}
"""Fields that are understood; others are carried on as they are."""

_json = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode
_EXTRA = b'{"maxwell":%b}'


_carried_of = picked(Carried, CARRIED)


def extra_of(parsed: Any, others: dict[str, Raw] | None = None) -> bytes:
    """What only a Maxwell target can carry on."""
    carried = _json(_carried_of(parsed))
    if others:
        more = _json(others)
        carried = more if carried == b"{}" else b"%b,%b" % (carried[:-1], more[1:])
    return in_one_line(_EXTRA % carried)


def given(value: Any) -> Any:
    """A field that may be missing or null, None in both cases."""
    return None if value is UNSET else value


def key_texts(values: list[Any] | None) -> list[str]:
    """The values of `primary_key` as texts; none where one has a fraction, which was rounded."""
    if values is None or any(isinstance(value, float) for value in values):
        return []
    return [value if isinstance(value, str) else _json(value).decode() for value in values]


def named_key(message: Message) -> tuple[str, ...] | None:
    """Key columns as Maxwell's message key names them: `pk.id`; None where it says nothing."""
    if message.key is None:
        return None
    try:
        names = _decode_names(message.key)
    except JSON_ERRORS:
        return None
    if "database" not in names or "table" not in names:
        return None
    return tuple(name[3:] for name in names if name.startswith("pk."))


class MaxwellTable:
    """The tables of the known-table way: messages whose fields and columns are all known.

    Args:
        database: the database.
        table: the table.
        key: `primary_key_columns` of its messages.
        readers: how its rows are read from the binlog, and from a bootstrap.
        positions: reads positions.
    """

    def __init__(
        self,
        database: str,
        table: str,
        key: list[str] | None,
        readers: tuple[RowReader, RowReader],
        positions: Positions,
    ) -> None:
        self.key = key
        self.readers = readers
        self.schema = readers[0].schema
        self.positions = positions
        self.overlay = overlay(len(self.schema.columns), {})
        self.compared = key == list(self.schema.key or ()) and is_compared(self.schema)
        row = readers[0].wire
        self.decode = KnownMessage(
            strict(
                {
                    "database": Literal[database],
                    "table": Literal[table],
                    "type": _ORIGIN,
                    **HEAD,
                    **CARRIED,
                    **KEY,
                    "data": row,
                    "old": row | UnsetType,
                }
            )
        )

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The change of a message of this table; None if it has to be read exactly.

        Raises:
            ValueError: it is another message (`JSON_ERRORS`), or a value is bad.
            Refusal: a value is bad.
        """
        parsed = self.decode(value)
        if parsed is None or given(parsed.primary_key_columns) != self.key:
            return None
        if self.key is None and named_key(message) is not None:
            return None
        operation = ROWS[parsed.type]
        reader = self.readers[operation == "read"]
        after = reader.read(parsed.data)
        before, old = None, parsed.old
        if reader.gaps(after):
            return None
        if self.compared:
            shown = key_texts(given(parsed.primary_key))
            if shown and shown != [*self.schema.key_values(after)]:
                return None
        if operation == "update":
            before = after.__copy__()
            if old is not UNSET:
                before = reader.read(old)
                # Maxwell leaves `old` out where nothing changed; empty, it tells nothing.
                if before == reader.empty:
                    before = None
                else:
                    self.overlay(before, after)
        elif old is not UNSET:
            return None
        return [self.change(message, parsed, operation, before, after, extra_of(parsed))]

    def change(
        self, message: Message, parsed: Any, operation: str, before: Any, after: Any, extra: bytes
    ) -> Change:
        """The change of a row, whose image is `after` for a delete too."""
        return row_change(
            message, self.positions, self.schema, parsed, (operation, before, after, extra)
        )


def row_change(
    message: Message,
    positions: Positions,
    schema: Any,
    parsed: Any,
    row: tuple[str, Any, Any, bytes],
) -> Change:
    """The change of a row.

    Args:
        message: where it came from.
        positions: reads positions.
        schema: the table.
        parsed: the message with its fields.
        row: operation, image before, image in `data`, and what is carried on.
    """
    operation, before, after, extra = row
    if operation == "delete":
        before, after = after, None
    time, xid, xoffset = parsed.ts, parsed.xid, parsed.xoffset
    if time is UNSET:
        time = None
    if xid is UNSET:
        xid = None
    sequence = positions.sequence(
        parsed.position or None, None if xoffset is UNSET else xoffset, parsed.commit is True
    )
    return Change(
        operation,
        schema,
        message,
        before=before,
        after=after,
        sequence=sequence,
        full_row=operation == "read" and sequence is None,
        source_time=None if time is None else time * 1_000_000,
        transaction=None if xid is None else str(xid),
        extra=extra,
    )
