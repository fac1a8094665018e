"""Writes GoldenGate's JSON operations; what came from GoldenGate is carried on as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.ogg.values import STYLE, op_ts_of, pos_of, text_of
from waybill.envelopes.sequence.written import PackedSequence
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.values.json_rows import RowWriter

if TYPE_CHECKING:
    from waybill.envelopes.ogg.settings import OggWriteSettings
    from waybill.records import Change, TableSchema

TYPES = {"insert": b"I", "upsert": b"I", "read": b"I", "update": b"U", "delete": b"D"}
"""Operations with a row, and their `op_type`."""
_LOST = {"begin": "transactions", "commit": "transactions", "rollback": "transactions"}
_OURS = b'{"ogg":{'
_json = msgspec.json.Encoder().encode


class OggEncoder:
    """Writes GoldenGate's JSON.

    Args:
        settings: how sequence ids become one number.
    """

    def __init__(self, settings: OggWriteSettings) -> None:
        self.packed = PackedSequence(settings)
        self.truncates = settings.truncates
        self._tables: Bounded[TableSchema, _TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The message of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in GoldenGate.
        """
        count_kind(change, losses)
        if change.extra is None or not change.extra.startswith(_OURS):
            change = self.packed.as_own_message(change, losses)
        operation, schema = change.operation, change.schema
        kind = TYPES.get(operation)
        if operation == "truncate" and self.truncates:
            name = _json(text_of(schema.database, schema.schema, schema.table))
            value = b'{"table":%b,"op_type":"T"%b,"before":null,"after":null}'
            return [
                Encoded(
                    schema.qualified_name.encode(),
                    value % (name, _head(change, self.packed, losses)),
                )
            ]
        if kind is None:
            losses.append(_LOST.get(operation, operation))
            return []
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = _TableEncoder(schema, self.packed)
        return [table.message(change, kind, losses)]


class _TableEncoder:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema, packed: PackedSequence) -> None:
        self.packed = packed
        self.rows = RowWriter(schema, STYLE)
        self.name = _json(text_of(schema.database, schema.schema, schema.table))
        self.key = b"" if schema.key is None else b',"primary_keys":%b' % _json(schema.key)

    def message(self, change: Change, kind: bytes, losses: list[str]) -> Encoded:
        """The message of a row."""
        rows, before, after = self.rows, change.before, change.after
        image = before if kind == b"D" else after
        if image is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        shown = None
        if kind == b"I":
            images = b',"after":%b' % _json(rows.wire(after))
        elif kind == b"D":
            images = b',"before":%b' % _json(rows.wire(before))
        else:
            shown = rows.moved(change, before)
            images = self._both(shown, after)
        if change.operation == "read":
            losses.append("full_rows")
        if rows.types_lost(image, shown):
            losses.append("types")
        return Encoded(
            rows.message_key(image),
            b'{"table":%b,"op_type":"%b"%b%b%b}'
            % (self.name, kind, _head(change, self.packed, losses), self.key, images),
        )

    def _both(self, before: Any, after: Any) -> bytes:
        """The images of an update."""
        if before is None:
            return b',"after":%b' % _json(self.rows.wire(after))
        old, new = self.rows.wires(before, after)
        return b',"before":%b,"after":%b' % (_json(old), _json(new))


def _head(change: Change, packed: PackedSequence, losses: list[str]) -> bytes:
    """Time and position, and whatever else a message from GoldenGate brought along."""
    if change.transaction is not None:
        losses.append("transactions")
    extra = change.extra
    if extra is not None and extra.startswith(_OURS):
        inner = extra[len(_OURS) : -2]
        return b",%b" % inner if inner else b""
    head = b""
    if change.source_time is not None:
        head = b',"op_ts":"%b"' % op_ts_of(change.source_time).encode()
    if change.full_row:
        # A load that reads no trail has no place in one.
        if change.sequence is not None:
            losses.append("sequence_id")
        return head
    number = packed.of(change, losses)
    if number is not None:
        head += b',"pos":"%b"' % pos_of(number).encode()
    return head
