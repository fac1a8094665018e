"""Writes TiCDC's Canal-JSON with the TiDB extension, fields in TiCDC's own order.

What the canonical change does not hold follows the rules of Canal (see `canal.encoder`); `id` is 0,
and `old` of an UPDATE has all columns, as in a changefeed that is created without
`content-compatible`. Types have their sizes, as with it. A change of the key is a DELETE and an
INSERT of one commit (TiDB documentation, "Split update events"). A full row is an INSERT whose
`_tidb` has no `commitTs`, which readers take for 0.

No watermark is written: it promises that nothing of an earlier commit follows, in all partitions of
the topic, and a consumer may drop what does (TiDB documentation, "WATERMARK Event"). What was true
in the source's partitions may not be in those of the target.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import UNSET, structs

from waybill.caches import Bounded
from waybill.envelopes.canal.encoder import CanalEncoder, Carried, TableEncoder, carried_by
from waybill.envelopes.sequence.written import (
    DATAWORKS_DIGITS,
    UNSIGNED,
    WrittenSequence,
    goes_without,
)
from waybill.envelopes.statements import operation_of
from waybill.envelopes.tidb.values import TidbSqlTypes, type_to_write
from waybill.envelopes.truncates import truncate_of, truncate_statement
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.values.generated import fill
from waybill.values.temporal import zone_named

if TYPE_CHECKING:
    from waybill.envelopes.canal.sql_types import SqlTypes
    from waybill.envelopes.tidb.settings import TidbWriteSettings
    from waybill.records import Change, Column, TableSchema

_LOST = {"begin": "transactions", "commit": "transactions", "rollback": "transactions"}
_json = msgspec.json.Encoder().encode


class TidbEncoder(CanalEncoder):
    """Writes messages of TiCDC with the TiDB extension.

    Args:
        settings: time zone to print instants in, and how sequence ids become one number.
    """

    sql_types: ClassVar[type[SqlTypes]] = TidbSqlTypes

    def __init__(self, settings: TidbWriteSettings) -> None:
        self.zone = zone_named(settings.timezone)
        self.statements = settings.statements
        self.carries_ids = settings.sequence_from == "source"
        self.ids = WrittenSequence(settings, DATAWORKS_DIGITS, UNSIGNED)
        self._tables: Bounded[TableSchema, TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in TiCDC, or the id no room.
        """
        change = self.ids.packed.as_own_message(change, losses, counts_gaps=True)
        return super().encode(change, losses)

    def _table(self, schema: TableSchema) -> TableEncoder:
        return TidbTableEncoder(schema, self)

    def text_of(self, schema: TableSchema, column: Column) -> str:
        """See `CanalEncoder.text_of`."""
        return type_to_write(super().text_of(schema, column))

    def _messages(
        self, table: TableEncoder, change: Change, kind: bytes, losses: list[str]
    ) -> list[Encoded]:
        end = b',"_tidb":%b}' % self._extension(change, carried_by(change), losses)
        old_key = change.old_key_image() if kind == b"UPDATE" else None
        if old_key is None:
            return [_ended(table.message(change, kind, losses), end)]
        gone, come = _split(change, old_key)
        # What both lose is lost once.
        counted = ["key_change"]
        if come.after is not change.after:
            counted.append("unchanged_columns")
        messages = [
            _ended(table.message(gone, b"DELETE", counted), end),
            _ended(table.message(come, b"INSERT", counted), end),
        ]
        losses += dict.fromkeys(counted)
        return messages

    def _extension(self, change: Change, carried: Carried, losses: list[str]) -> bytes:
        """`_tidb`; empty for a full row, and for an event whose id would stand above later rows."""
        if change.full_row or goes_without(change):
            number = None
            if change.sequence is not None:
                losses.append("sequence_id")
        elif carried.commitTs is not None and self.carries_ids:
            number = carried.commitTs
        else:
            number = self.ids.of(change, losses)
            if number > UNSIGNED:
                raise Refusal("encoding", f"commitTs has no room for the sequence id {number}")
        parts = {} if number is None else {"commitTs": number}
        return _json({**parts, **(carried.tidb or {})})

    def _event(self, change: Change, losses: list[str]) -> list[Encoded]:
        carried, schema, operation = carried_by(change), change.schema, change.operation
        if operation not in ("ddl", "truncate") or not self.statements:
            losses.append(_LOST.get(operation, operation))
            return []
        sql = change.ddl_text or ""
        if operation == "truncate":
            kind = "TRUNCATE"
            sql = sql or truncate_of(schema.database, schema.table)
            sql = truncate_statement(
                sql, None, (schema.database, schema.schema), schema.table or ""
            )
        else:
            kind = carried.type or operation_of(sql)
        TidbTableEncoder.count_losses(change, carried, losses)
        time = change.source_time
        es = (change.message.timestamp or 0) if time is None else time // 1000
        value = {
            "id": 0,
            "database": schema.database or "",
            "table": schema.table or "",
            "pkNames": None,
            "isDdl": True,
            "type": kind,
            "es": es,
            "ts": es if carried.ts is None else carried.ts,
            "sql": sql,
            "sqlType": None,
            "mysqlType": None,
            "data": None,
            "old": None,
            "_tidb": msgspec.Raw(self._extension(change, carried, losses)),
        }
        return [Encoded(None, _json(value))]


class TidbTableEncoder(TableEncoder):
    """What a schema decides about its messages; `_tidb` is still to come behind them."""

    layout: ClassVar[bytes] = (
        b'{"id":0,"database":%(database)b,"table":%(table)b,"pkNames":%(pkNames)b,"isDdl":false,'
        b'"type":"%%b","es":%%d,"ts":%%d,"sql":%%b,"sqlType":%%b,"mysqlType":%(mysqlType)b,'
        b'"old":%%b,"data":[%%b]'
    )
    pick: ClassVar[itemgetter[Any] | None] = itemgetter(8, 1, 7, 5, 6, 4, 0)

    @staticmethod
    def count_losses(change: Change, carried: Carried, losses: list[str]) -> None:
        """Note what a message leaves out of a change."""
        if change.operation == "read" and not change.full_row:
            losses.append("full_rows")
        if change.transaction is not None:
            losses.append("transactions")
        if change.source_time is None or change.source_time % 1000:
            losses.append("source_time")
        if change.schema.schema is not None:
            losses.append("schema_name")

    def _old(self, change: Change, row: Any, losses: list[str]) -> bytes:
        """`old`: the row before, with all columns that are known of it."""
        before = change.before
        if before is None or self.gaps(before):
            losses.append("before_image")
        if before is None:
            return b"[{}]"
        if self.convert is not None:
            before = before.__copy__()
            self.convert(before)
        return b"[%b]" % _json(before)


def _ended(message: Encoded, end: bytes) -> Encoded:
    return Encoded(message.key, (message.value or b"") + end)


def _split(change: Change, old_key: Any) -> tuple[Change, Change]:
    """A change of the key as the row that goes and the row that comes."""
    schema, after = change.schema, change.after
    before = schema.Image() if change.before is None else change.before.__copy__()
    for field, source in zip(schema.key_fields, old_key.__struct_fields__, strict=True):
        setattr(before, field, getattr(old_key, source))
    if change.before is not None and UNSET in structs.astuple(after):
        after = after.__copy__()
        fill(after, change.before)
    return (
        structs.replace(change, operation="delete", before=before, after=None, moved_from=None),
        structs.replace(change, operation="insert", before=None, after=after, moved_from=None),
    )
