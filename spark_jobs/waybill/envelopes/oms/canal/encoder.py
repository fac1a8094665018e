"""Writes messages of OMS Canal, one row a message, fields in the document's order.

`es` is the source's time, else the queue's timestamp, else 0; `ts` is the one that came from Canal,
else the same as `es`, so that a rerun writes the same bytes.

The document does not say what `old` of an UPDATE holds where the row before is not known: it has
an empty entry, as in Canal (see `waybill.envelopes.canal.encoder`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from waybill.caches import Bounded
from waybill.envelopes.canal.encoder import carried_by, count_losses
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.moved_rows import standing_alone
from waybill.envelopes.oms.lobs import WrittenLobs
from waybill.envelopes.oms.styles import style_of
from waybill.envelopes.oms.type_names import in_notation, jdbc_number, loses_type, type_name
from waybill.envelopes.oms.writers import keep_changed
from waybill.envelopes.statements import operation_of
from waybill.envelopes.truncates import truncate_of, truncate_statement
from waybill.envelopes.unchanged import one_column
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.values.generated import fill
from waybill.values.json_rows import RowWriter

if TYPE_CHECKING:
    from waybill.envelopes.oms.canal.settings import OmsCanalWriteSettings
    from waybill.envelopes.oms.settings import OmsWriteSettings
    from waybill.records import Change, TableSchema

_ROW_TYPES = {
    "insert": b"INSERT",
    "read": b"INSERT",
    "upsert": b"INSERT",
    "update": b"UPDATE",
    "delete": b"DELETE",
}
_json = msgspec.json.Encoder().encode


class OmsCanalEncoder:
    """Writes messages of the Canal format.

    Args:
        settings: notation of values.
    """

    def __init__(self, settings: OmsCanalWriteSettings) -> None:
        self.settings = settings
        self._tables: Bounded[TableSchema, _TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The message of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in OMS.
        """
        count_kind(change, losses)
        if change.moved_from is not None:
            change = standing_alone(change, losses, counts_gaps=True)
        kind = _ROW_TYPES.get(change.operation)
        if kind is None:
            return self._event(change, losses)
        table = self._tables.get(change.schema)
        if table is None:
            table = self._tables[change.schema] = _TableEncoder(change.schema, self.settings)
        return [table.message(change, kind, losses)]

    def _event(self, change: Change, losses: list[str]) -> list[Encoded]:
        carried, schema, operation = carried_by(change), change.schema, change.operation
        sql = change.ddl_text or carried.sql or ""
        kind = carried.type
        if operation in ("begin", "commit", "rollback"):
            losses.append("transactions")
            return []
        if operation in ("ddl", "truncate", "other") and not self.settings.statements:
            losses.append(operation)
            return []
        if operation == "heartbeat":
            if not self.settings.control_messages:
                losses.append("heartbeat")
                return []
            kind = "MHEARTBEAT"
        elif operation == "truncate":
            kind = "TRUNCATE"
            place = schema.database, None
            sql = sql or truncate_of(schema.database, schema.table)
            sql = truncate_statement(sql, None, place, schema.table or "")
        elif operation == "ddl":
            kind = kind or operation_of(sql)
        elif kind is None:
            losses.append("other")
            return []
        es, ts = _times(change, carried, losses)
        value = {
            "database": schema.database,
            "sqlType": None,
            "data": None,
            "pkNames": None,
            "old": None,
            "mysqlType": None,
            "type": kind,
            "table": schema.table,
            "es": es,
            "isDdl": operation in ("ddl", "truncate"),
            "ts": ts,
            "sql": sql,
        }
        return [Encoded(None, _json(value))]


def _times(change: Change, carried: Any, losses: list[str]) -> tuple[int, int]:
    """`es` and `ts`; what a message leaves out besides is counted."""
    count_losses(change, carried, losses)
    if change.transaction is not None and "transactions" not in losses:
        losses.append("transactions")
    time = change.source_time
    es = (change.message.timestamp or 0) if time is None else time // 1000
    return es, es if carried.ts is None else carried.ts


class _TableEncoder:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema, settings: OmsWriteSettings) -> None:
        self.schema = schema
        earlier = settings.version == "earlier"
        style = style_of(settings.version, settings.trailing_zeros)
        self.rows = RowWriter(in_notation(schema, earlier), style)
        self.keep_changed = keep_changed(len(schema.columns))
        self.one_column = one_column(schema)
        names = {c.name: type_name(c, schema.dialect, earlier) for c in schema.columns}
        self.lobs = WrittenLobs(schema, settings, names, whole=True)
        self.loses_types = any(loses_type(c, names[c.name], earlier) for c in schema.columns)
        typed = {name: kind for name, kind in names.items() if kind is not None}
        self.template = (
            b'{"database":%b,"sqlType":%b,"data":[%%b],"pkNames":%b,"old":%%b,"mysqlType":%b,'
            b'"type":"%%b","table":%b,"es":%%d,"isDdl":false,"ts":%%d,"sql":""}'
        ) % tuple(
            _json(part).replace(b"%", b"%%")
            for part in (
                schema.database,
                {name: jdbc_number(kind) for name, kind in typed.items()},
                list(schema.key) if schema.key else None,
                {name: kind.lower() for name, kind in typed.items()},
                schema.table,
            )
        )

    def message(self, change: Change, kind: bytes, losses: list[str]) -> Encoded:
        """The message of a row."""
        rows = self.rows
        image = change.before if kind == b"DELETE" else change.after
        if image is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        before = change.before
        lost: set[str] = set()
        if kind == b"UPDATE" and not self.lobs.unstated_before(before, image):
            before, image = self.lobs.as_null(before, image, lost)
        if rows.gaps(image):
            lost.add("unchanged_columns")
            image = image.__copy__()
            if kind == b"UPDATE" and before is not None:
                fill(image, before)
        if kind == b"UPDATE":
            old, row = self._old(change, before, image, lost)
        else:
            old, row = b"null", rows.wire(image)
        losses += sorted(lost)
        if self.loses_types:
            losses.append("types")
        es, ts = _times(change, carried_by(change), losses)
        value = self.template % (_json(row), old, kind, es, ts)
        return Encoded(rows.message_key(image), value)

    def _old(self, change: Change, before: Any, image: Any, lost: set[str]) -> tuple[bytes, Any]:
        """`old`, the columns that the update changed as they were, and the row after it.

        Raises:
            Refusal: kind `encoding`, when it would tell that a null LOB column was not touched.
        """
        rows = self.rows
        if before is None:
            row = rows.wire(image)
            if self.lobs.null_in(image):
                # Null beside an empty entry is a column that the update did not touch.
                return b"null", row
            lost.add("before_image")
            return b"[{}]", row
        whole = not rows.gaps(before)
        if not whole:
            lost.add("before_image")
        before = rows.moved(change, before)
        if self.lobs.unstated_before(before, image):
            # Beside columns of `old` that is a column that the update did not touch as well.
            if change.old_key_image() is not None:
                sentence = (
                    "a LOB column is null after a change of the key, and not in the row before it"
                )
                raise Refusal("encoding", f"{sentence}; set lobs: null")
            return b"null", rows.wire(image)
        was, row = rows.wires(before, image)
        self.keep_changed(was, before, image)
        text = _json(was)
        if whole and text == b"{}":
            text = _json(rows.wire(self.one_column(before)))
        return b"[%b]" % text, row
