"""Writes Maxwell's messages.

What came from Maxwell is carried on as it was (`position`, `xoffset`, `commit`, ids of server,
thread and schema). The sequence id of another source stands in `position` (see `positions`), its
transaction in `xid` if it is a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, structs

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.maxwell.events import statement_type
from waybill.envelopes.maxwell.positions import position_of
from waybill.envelopes.maxwell.values import style_of
from waybill.envelopes.moved_rows import standing_alone
from waybill.envelopes.snapshot_rows import in_order
from waybill.envelopes.unchanged import one_column
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.types import FIRST_MICRO, LAST_MICRO
from waybill.values.generated import difference, fill
from waybill.values.json_rows import RowWriter
from waybill.values.values import natural_of

if TYPE_CHECKING:
    from waybill.envelopes.maxwell.settings import MaxwellWriteSettings
    from waybill.records import Change, TableSchema
    from waybill.values.json_columns import Style

TYPES = {
    "insert": b"insert",
    "upsert": b"insert",
    "read": b"bootstrap-insert",
    "update": b"update",
    "delete": b"delete",
}
"""Operations with a row, and their types."""
_OURS = b'{"maxwell":{'
_NO_PLACE: dict[str, Any] = {}
_json = msgspec.json.Encoder().encode


class MaxwellEncoder:
    """Writes Maxwell's messages.

    Args:
        settings: the notations of values.
    """

    def __init__(self, settings: MaxwellWriteSettings) -> None:
        self.style = style_of(settings)
        self.own = settings.own_database
        self.control_messages = settings.control_messages
        self.statements = settings.statements
        self.reads_are_inserts = settings.full_rows == "insert"
        self._tables: Bounded[TableSchema, _TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The message of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in Maxwell.
        """
        count_kind(change, losses)
        if change.operation not in TYPES:
            return self._event(change, losses)
        if change.moved_from is not None:
            change = standing_alone(change, losses, counts_gaps=True)
        if not _is_ours(change):
            change = in_order(change, losses)
        if change.operation == "read" and self.reads_are_inserts:
            losses.append("full_rows")
            change = structs.replace(change, operation="insert")
        schema = change.schema
        if self.own and schema.database == self.own:
            sentence = f"rows of database {self.own!r} are taken for Maxwell's own"
            raise Refusal("encoding", f"{sentence}; set own_database to write them")
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = _TableEncoder(schema, self.style)
        return [table.message(change, TYPES[change.operation], losses)]

    def _event(self, change: Change, losses: list[str]) -> list[Encoded]:
        operation, schema, time = change.operation, change.schema, change.source_time
        carried = _carried(change)
        ours = bool(carried)
        lost = self._without_word(operation, carried)
        if lost is not None:
            losses.append(lost)
            return []
        fields: dict[str, Any] = {}
        unit = 1000 if operation == "ddl" else 1_000_000
        if operation == "heartbeat":
            fields = {"database": self._own_database(), "table": "heartbeats"}
            if not carried:
                ms = (change.message.timestamp or 0) if time is None else time // 1000
                carried = b',"type":"update","data":%b' % _json({"heartbeat": ms})
        else:
            if operation == "ddl" and not carried:
                fields["type"] = statement_type(change.ddl_text or "")
                losses.append("ddl")
            names = {"database": schema.database, "table": schema.table}
            fields.update({name: text for name, text in names.items() if text is not None})
            if operation == "ddl":
                fields["sql"] = change.ddl_text or ""
            if schema.schema is not None:
                losses.append("schema_name")
        written = time if ours else _time_of(change, losses)
        if written is not None:
            fields["ts"] = _checked(written) // unit
            if time is not None and time % unit:
                losses.append("source_time")
        fields.update(_place(change, losses))
        return [Encoded(None, _json(fields)[:-1] + carried + b"}")]

    def _without_word(self, operation: str, carried: bytes) -> str | None:
        """What is lost of an event that is not written; None for one that is."""
        if operation in ("begin", "commit", "rollback"):
            return "transactions"
        if operation == "heartbeat":
            return None if self.control_messages else "heartbeat"
        if operation == "ddl":
            return None if self.statements else "ddl"
        if operation == "other":
            # These frame rows of a bootstrap, which then has none.
            return None if carried and not self.reads_are_inserts else "other"
        return operation

    def _own_database(self) -> str:
        if not self.own:
            sentence = "a heartbeat is a row of Maxwell's own database, and there is none"
            raise Refusal("encoding", f"{sentence}; set own_database to write it")
        return self.own


class _TableEncoder:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema, style: Style) -> None:
        self.schema = schema
        self.rows = RowWriter(schema, style)
        self.difference = difference(len(schema.columns), {})
        self.one_column = one_column(schema)
        names = _json({"database": schema.database or "", "table": schema.table or ""})
        self.names = names[:-1]
        pairs = [b",%b:%%b" % _json(f"pk.{name}").replace(b"%", b"%%") for name in schema.key or ()]
        self.key = self.names.replace(b"%", b"%%") + b"".join(pairs) + b"}"
        self.columns = b""
        if schema.key is not None:
            self.columns = b',"primary_key_columns":%b' % _json(schema.key)

    def message(self, change: Change, kind: bytes, losses: list[str]) -> Encoded:
        """The message of a row."""
        image = change.before if kind == b"delete" else change.after
        if image is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        rows = self.rows
        if rows.gaps(image):
            losses.append("unchanged_columns")
            image = image.__copy__()
            if kind == b"update" and change.before is not None:
                fill(image, change.before)
        written = rows.wire(image)
        key = rows.key_of(written)
        if UNSET in key:
            raise Refusal("encoding", "a key column is not in the row")
        old = self._old(change, image, losses) if kind == b"update" else b""
        if rows.types_lost(image):
            losses.append("types")
        if self.schema.schema is not None:
            losses.append("schema_name")
        head = b""
        time = _time_of(change, losses)
        if time is not None:
            head = b',"ts":%d' % (_checked(time) // 1_000_000)
            if change.source_time is not None and time % 1_000_000:
                losses.append("source_time")
        place = _place(change, losses)
        if place:
            head += b",%b" % _json(place)[1:-1]
        values = tuple([_json(value) for value in key])
        stated = self.columns and b',"primary_key":[%b]' % b",".join(values)
        return Encoded(
            self.key % values,
            b'%b,"type":"%b"%b%b%b%b,"data":%b%b}'
            % (self.names, kind, head, _carried(change), stated, self.columns, _json(written), old),
        )

    def _old(self, change: Change, image: Any, losses: list[str]) -> bytes:
        """`old`: the columns that the update changed, as they were.

        It is empty where the row before is not known, because readers take it without a look
        (Flink's MaxwellJsonDeserializationSchema). Maxwell itself leaves it out where nothing
        changed, and then so does what came from Maxwell.
        """
        old = self.schema.Image()
        before = change.before
        if before is not None:
            self.difference(before, image, old)
        if change.moved_from is not None:
            key = self.rows.moved(change, None)
            self.difference(key, image, old)
        whole = before is not None and not self.rows.gaps(before)
        if not whole:
            losses.append("before_image")
        text = _json(self.rows.wire(old))
        if whole and text == b"{}":
            if _is_ours(change):
                return b""
            text = _json(self.rows.wire(self.one_column(before)))
        return b',"old":%b' % text


def _time_of(change: Change, losses: list[str]) -> int | None:
    """The time of a message: that of the change, else the queue's, because Maxwell has always one.

    What came from Maxwell without a time goes on without one.
    """
    if change.source_time is not None or _is_ours(change):
        return change.source_time
    losses.append("source_time")
    return (change.message.timestamp or 0) * 1000


def _is_ours(change: Change) -> bool:
    return change.extra is not None and change.extra.startswith(_OURS)


def _checked(time: int) -> int:
    """A time that readers take.

    Raises:
        Refusal: kind `encoding`, when the year is not one of 1 to 9999.
    """
    if not FIRST_MICRO <= time <= LAST_MICRO:
        raise Refusal("encoding", "a source time outside of the years 1 to 9999")
    return time


def _carried(change: Change) -> bytes:
    """What a message from Maxwell brought along, to be written as it is; else nothing."""
    extra = change.extra
    if extra is None or not extra.startswith(_OURS):
        return b""
    inner = extra[len(_OURS) : -2]
    return b",%b" % inner if inner else b""


def _place(change: Change, losses: list[str]) -> dict[str, Any]:
    """Transaction and position, as far as they did not come from Maxwell."""
    sequence, transaction = change.sequence, change.transaction
    if sequence is None and transaction is None:
        return _NO_PLACE
    place: dict[str, Any] = {}
    if transaction is not None:
        number = natural_of(transaction)
        if number is not None:
            place["xid"] = number
        else:
            losses.append("transactions")
    if sequence and not _is_ours(change):
        place["position"] = position_of(sequence)
    return place
