"""Writes DMS's records for Kafka; what came from DMS is carried on as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.dms.settings import MEMBERS
from waybill.envelopes.dms.values import (
    KAFKA,
    OWN,
    RECORD,
    check_names,
    key_alone,
    position_text,
    style_of,
    time_text,
)
from waybill.envelopes.moved_rows import standing_alone
from waybill.envelopes.snapshot_rows import in_order
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.values.json_rows import RowWriter
from waybill.values.values import natural_of

if TYPE_CHECKING:
    from waybill.envelopes.dms.settings import DmsWriteSettings
    from waybill.records import Change, TableSchema

OPERATIONS = {
    "insert": "insert",
    "upsert": "insert",
    "read": "load",
    "update": "update",
    "delete": "delete",
}
LOST = {"begin": "transactions", "commit": "transactions", "rollback": "transactions"}
_OURS = b'{"dms":{'
_json = msgspec.json.Encoder().encode


_Fields = dict[str, msgspec.Raw]


def _carried(extra: bytes) -> tuple[_Fields, _Fields]:
    """The fields of the metadata and those of the record that are carried on."""
    held = msgspec.json.decode(extra, type=dict[str, _Fields])
    return held["dms"], held.get("dms_record", {})


def _free_of(more: _Fields, taken: frozenset[str]) -> None:
    """See that fields of a record are none of those that mean something.

    Raises:
        Refusal: kind `encoding`, when one is; the source has another name set than the target.
    """
    for name in sorted(taken & more.keys()):
        sentence = f"field {name!r} of the record that was read means something else here"
        raise Refusal("encoding", f"{sentence}; set before_field")


class DmsEncoder:
    """Writes DMS's records.

    Args:
        settings: notations of bytes and of rows before an update.
    """

    def __init__(self, settings: DmsWriteSettings) -> None:
        self.settings = settings
        self._tables: Bounded[TableSchema, WrittenTable] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The record of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in DMS.
        """
        count_kind(change, losses)
        if change.moved_from is not None:
            change = standing_alone(change, losses)
        schema = change.schema
        if change.operation not in OPERATIONS:
            return self._event(change, losses)
        if change.extra is None or not change.extra.startswith(_OURS):
            has_room = position_text(change.sequence or ()) is not None
            change = in_order(change, losses, has_room)
        if (schema.table or "").startswith(OWN):
            raise Refusal("encoding", f"tables named {OWN}… are those of DMS itself")
        return [self.table(schema).record(change, OPERATIONS[change.operation], losses)]

    def table(self, schema: TableSchema) -> WrittenTable:
        """What writes the records of a table.

        Raises:
            Refusal: kind `encoding`, when a column has a name that stands for something else.
        """
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = WrittenTable(schema, self.settings)
        return table

    def _event(self, change: Change, losses: list[str]) -> list[Encoded]:
        operation, extra = change.operation, change.extra
        if operation != "other" or extra is None or not extra.startswith(_OURS):
            losses.append(LOST.get(operation, operation))
            return []
        stated, more = _carried(extra)
        control = stated.pop("control", msgspec.Raw(b"null"))
        schema = change.schema
        metadata = {
            "record-type": "control",
            "schema-name": schema.database or "",
            "table-name": schema.table or "",
            **stated,
        }
        _free_of(more, MEMBERS | {self.settings.before_field})
        return [Encoded(None, _json({**more, "control": control, "metadata": metadata}))]


class WrittenTable:
    """What a schema decides about its records."""

    def __init__(self, schema: TableSchema, settings: DmsWriteSettings) -> None:
        prefix = settings.before_prefix
        check_names(schema, prefix)
        self.schema = schema
        self.rows = RowWriter(schema, style_of(KAFKA, settings))
        self.prefix = prefix if settings.before_images == "columns" else None
        self.before_field = settings.before_field
        self.field = _json(settings.before_field)
        self.whole = settings.missing == "refuse"
        # As objects that continue: without their last bracket.
        self.names = _json({"schema-name": schema.database or "", "table-name": schema.table or ""})
        self.partitioned = _json("primary-key" if schema.key else "schema-table")

    def record(self, change: Change, kind: str, losses: list[str]) -> Encoded:
        """The record of a row."""
        rows = self.rows
        image = change.before if kind == "delete" else change.after
        if image is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        if self.whole and kind != "delete" and rows.gaps(image):
            sentence = "the row lacks columns, which a reader may take for null"
            raise Refusal("encoding", f"{sentence}; set missing to unchanged to write it")
        old, before = b"", rows.moved(change, change.before) if kind == "update" else None
        if before is not None:
            was, now = rows.wires(before, image)
            data, old = _json(now), _json(was)
        else:
            data = _json(rows.wire(image))
            if kind == "delete" and key_alone(self.schema, image) is not image:
                # Nulls beside the key alone are read as values that were not logged.
                old = data
        if old == b"{}":
            old = b""
        if old and self.prefix is not None:
            columns = {
                self.prefix + name: raw
                for name, raw in msgspec.json.decode(old, type=dict[str, msgspec.Raw]).items()
            }
            data = _json({**msgspec.json.decode(data, type=dict[str, msgspec.Raw]), **columns})
        elif old:
            old = b",%b:%b" % (self.field, old)
        self._count(image, before, losses)
        metadata = self._metadata(change, losses)
        return Encoded(
            rows.message_key(image),
            b'{"data":%b%b%b,"metadata":{%b"record-type":"data","operation":"%b",%b}}'
            % (
                data,
                b"" if self.prefix is not None else old,
                self._record(change.extra),
                metadata,
                kind.encode(),
                self.names[1:-1],
            ),
        )

    def _count(self, image: Any, before: Any, losses: list[str]) -> None:
        if self.rows.types_lost(image, before):
            losses.append("types")
        if self.schema.key:
            losses.append("key_columns")
        if self.schema.schema is not None:
            losses.append("schema_name")

    def _record(self, extra: bytes | None) -> bytes:
        """The fields of the record that nobody knows, each with a comma in front."""
        if extra is None or RECORD not in extra or not extra.startswith(_OURS):
            return b""
        more = _carried(extra)[1]
        _free_of(more, MEMBERS | {self.before_field})
        return b",%b" % _json(more)[1:-1] if more else b""

    def _metadata(self, change: Change, losses: list[str]) -> bytes:
        """The fields of the metadata that the table does not decide, each with a comma behind."""
        extra = change.extra
        if extra is not None and extra.startswith(_OURS):
            if RECORD in extra:
                extra = b'{"dms":%b}' % _json(_carried(extra)[0])
            inner = extra[len(_OURS) : -2]
            return b"%b," % inner if inner else b""
        metadata = b""
        if change.source_time is not None:
            time = time_text(change.source_time).encode()
            metadata = b'"timestamp":"%b","commit-timestamp":"%b",' % (time, time)
        metadata += b'"partition-key-type":%b,' % self.partitioned
        transaction = change.transaction
        if transaction is not None:
            number = natural_of(transaction)
            if number is not None:
                metadata += b'"transaction-id":%d,' % number
            else:
                losses.append("transactions")
        position = position_text(change.sequence or ())
        if position is not None:
            metadata += b'"stream-position":"%b",' % position.encode()
        return metadata
