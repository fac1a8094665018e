"""What a message of OMS DataWorks holds, and the rules that hold however it is read."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from waybill.envelopes.oms.dataworks.encoder import Carried
from waybill.envelopes.oms.tables import database_of
from waybill.errors import Refusal
from waybill.sequence_layout import optional
from waybill.values.instants import FIRST_MS, LAST_MS
from waybill.values.json_rows import Row, row_of
from waybill.values.values import in_one_line

NULL = Raw(b"null")
_MAX_DIGITS = 1_000
_Millis = Annotated[int, Meta(ge=FIRST_MS, le=LAST_MS)]


class Source(msgspec.Struct, gc=False):
    """Where a change comes from."""

    dbType: str | None = None
    dbVersion: str | None = None
    dbName: str | None = None
    schema: str | None = None
    table: str | None = None


class ColumnType(msgspec.Struct, gc=False):
    """A column and the name of its type."""

    name: str
    type: str | None = None


class SchemaWire(msgspec.Struct, gc=False):
    """`schema`: the table, the types of its columns, and its key."""

    source: Source | None = None
    column: list[ColumnType] | None = None
    pk: list[str] | None = None


MOMENTS: dict[str, Any] = {
    "eventTime": _Millis | None | UnsetType,
    "systemTime": int | None | UnsetType,
    "checkpointTime": int | None | UnsetType,
}
"""Fields of `timestamp`, in milliseconds, but for the last one."""
Times: type[Any] = msgspec.defstruct(
    "Times", [(name, kind, UNSET) for name, kind in MOMENTS.items()], gc=False
)


class Ddl(msgspec.Struct, gc=False):
    """The statement of a change without a row."""

    text: str | None = None


class Payload(msgspec.Struct, gc=False):
    """`payload`: the change, its images still as they stand there."""

    op: str
    before: Raw = NULL
    after: Raw = NULL
    timestamp: Times | None = None  # type: ignore[valid-type]
    ddl: Ddl | None = None
    scn: str | int | None = None


class WireMessage(msgspec.Struct, gc=False):
    """A message of which nothing is known yet."""

    version: str
    payload: Payload
    schema: Raw = NULL
    extend: Raw = NULL


_json = msgspec.json.Encoder().encode
_NO_TIMES = Times()


def columns_of(raw: Raw, name: str) -> Row | None:
    """The columns of an image; None where there is none, or an empty one."""
    if raw == NULL:
        return None
    members = row_of(raw, f"payload.{name}")
    strange = [member for member in members if member != "data"]
    if strange:
        raise Refusal("shape", f"payload.{name} cannot have a member {strange[0][:60]!r}")
    data = members.get("data", NULL)
    return None if data == NULL else row_of(data, f"payload.{name}.data") or None


def check_images(op: str, before: Any, after: Any) -> None:
    """Refuse a row that has not the images that its operation asks for."""
    if (before if op == "DELETE" else after) is None:
        raise Refusal("shape", f"{op} without a row in {'before' if op == 'DELETE' else 'after'}")
    if op != "UPDATE" and before is not None and after is not None:
        raise Refusal("shape", f"{op} with a row in before and after")


def database_in(source: Source, tenant: str | None) -> str | None:
    """The database, without a tenant that is left out; see `tables.database_of`."""
    return database_of(source.dbName, (source.dbType or "").upper(), tenant)


def sequence_of(scn: Any) -> tuple[int, ...] | None:
    """The sequence of `scn`; None where there is none, which may be said by the text null.

    Full rows have none, so that the number of a change is `sequence_layout.optional`.

    Raises:
        Refusal: kind `shape`, when it is no number.
    """
    if scn is UNSET or scn is None or scn in ("", "null"):
        return None
    text = str(scn)
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise Refusal("shape", f"payload.scn is {text[:40]!r} and not digits, 1000 at most")
    return optional(int(text))


def times_of(
    payload: Any,
    source: Source,
    database: str | None,
    extend: Raw,
    op: str | None = None,
    schema: Any = UNSET,
) -> tuple[int | None, bytes]:
    """Microseconds of the change, and what only a DataWorks target can carry on.

    Args:
        payload: that of the message.
        source: where the change comes from.
        database: its name, without a tenant that is left out.
        extend: that of the message.
        op: the operation of an event, where the change does not say it.
        schema: that of an event which tells columns, UNSET where the change holds all of it.
    """
    times = payload.timestamp or _NO_TIMES
    time, system, checkpoint = (
        None if moment is UNSET else moment
        for moment in (times.eventTime, times.systemTime, times.checkpointTime)
    )
    name = source.dbName
    carried = Carried(
        op,
        system,
        checkpoint,
        source.dbType,
        source.dbVersion,
        None if name is None or name == database else name,
        UNSET if extend == NULL else Raw(in_one_line(bytes(extend))),
        payload.scn if payload.scn in ("", "null") else None,
        schema,
    )
    return None if time is None else time * 1000, b'{"dataworks":%b}' % _json(carried)
