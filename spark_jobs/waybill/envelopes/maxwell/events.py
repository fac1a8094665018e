"""Maxwell's messages without a row: schema changes, begin and end of a bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Raw

from waybill.envelopes.statements import defined_by
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, intern_schema
from waybill.types import FIRST_MICRO, LAST_MICRO
from waybill.values.json_rows import row_of
from waybill.values.values import JSON_ERRORS, in_one_line, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.maxwell.positions import Positions
    from waybill.records import Message

EVENTS = {
    "table-create": "ddl",
    "table-alter": "ddl",
    "table-drop": "ddl",
    "database-create": "ddl",
    "database-alter": "ddl",
    "database-drop": "ddl",
    "bootstrap-start": "other",
    "bootstrap-complete": "other",
}
"""Types without a row, and their operations."""

_STATEMENTS = {
    ("create", "table"): "table-create",
    ("drop", "table"): "table-drop",
    ("create", "database"): "database-create",
    ("create", "schema"): "database-create",
    ("alter", "database"): "database-alter",
    ("alter", "schema"): "database-alter",
    ("drop", "database"): "database-drop",
    ("drop", "schema"): "database-drop",
}

_HELD = {"database", "table", "ts", "xid"}
"""Fields of an event that the canonical change holds; of a schema change it is `sql` too."""


class _Event(msgspec.Struct, gc=False):
    database: str | None = None
    table: str | None = None
    ts: int | None = None
    sql: str | None = None
    position: str | None = None
    xid: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None


_NULL = Raw(b"null")
_decode = msgspec.json.Decoder(_Event).decode
_json = msgspec.json.Encoder().encode


def event(
    message: Message, value: bytes, kind: str, top: dict[str, Raw], positions: Positions
) -> Change:
    """The change of a message without a row.

    Raises:
        Refusal: a field has the wrong type, or there is a row: nobody would see it.
    """
    try:
        parsed = _decode(value)
    except JSON_ERRORS as error:
        raise json_refusal(error) from None
    operation = EVENTS[kind]
    _refuse_rows(kind, top)
    if operation == "ddl" and parsed.sql is None:
        raise Refusal("shape", f"{kind} without a statement in sql")
    time = parsed.ts
    if time is not None:
        # A schema change has milliseconds, everything else seconds.
        time *= 1000 if operation == "ddl" else 1_000_000
        if not FIRST_MICRO <= time <= LAST_MICRO:
            raise Refusal("shape", f"ts of {kind} is not in the years 1 to 9999")
    schema = NO_TABLE
    if parsed.database or parsed.table:
        schema = intern_schema(parsed.database or None, None, parsed.table or None)
    held = {*_HELD, "sql"} if operation == "ddl" else _HELD
    others = {name: raw for name, raw in top.items() if name not in held}
    return Change(
        operation,
        schema,
        message,
        sequence=positions.sequence(parsed.position),
        source_time=time,
        transaction=None if parsed.xid is None else str(parsed.xid),
        ddl_text=parsed.sql if operation == "ddl" else None,
        extra=in_one_line(b'{"maxwell":%b}' % _json(others)),
    )


def _refuse_rows(kind: str, top: dict[str, Raw]) -> None:
    """Refuse an event with a row; Maxwell's own have an empty one in `data`, or none."""
    # In a schema change `old` describes the table as it was.
    for name in ("data",) if EVENTS[kind] == "ddl" else ("data", "old"):
        raw = top.get(name, _NULL)
        if raw != _NULL and row_of(raw, name):
            raise Refusal("shape", f"type {kind} with a row in {name}, which it cannot have")


def statement_type(sql: str) -> str:
    """Maxwell's type of a statement; what it has no type for is a change of a table."""
    defined = defined_by(sql)
    return "table-alter" if defined is None else _STATEMENTS.get(defined, "table-alter")
