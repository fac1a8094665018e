"""What only targets of the source's family carry on (`Change.extra`), beside a mapped row.

It was written for the row as it was. What names tables, columns or values of keys there would be
wrong beside another row, or show what a mask hides, so only what speaks of the event stays: its
position, its times, who made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from waybill.records import TableSchema

_STAYS: dict[str, frozenset[str]] = {
    "canal": frozenset({"commitTs", "id", "ts", "tidb"}),
    "maxwell": frozenset(
        {"xoffset", "commit", "position", "gtid", "server_id", "thread_id", "schema_id"}
    ),
    "oms": frozenset({"checkpoint", "source_identity", "dbType", "uniqueId"}),
    "dataworks": frozenset({"systemTime", "checkpointTime", "dbType", "dbVersion", "scn"}),
    "streamx": frozenset({"systemTime", "checkpointTime", "dbType", "dbVersion", "version"}),
    "shareplex": frozenset({"posttime", "size", "idx", "seq"}),
}
"""Fields that stay by family; of families that are not named, all are about the event."""

_GOES = frozenset({"databus", "dms", "dms_record", "debezium_newkey"})
"""Families whose fields stand for the row's key or its columns."""

_OPS = {"read": "r", "insert": "c", "upsert": "c", "update": "u", "delete": "d"}
"""Debezium's words for operations."""

_SOURCE = ("db", "schema", "table")
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def carried_with(extra: bytes, schema: TableSchema, operation: str | None = None) -> bytes | None:
    """What is carried on beside a row that was mapped; None where nothing is left.

    Args:
        extra: what came with the row.
        schema: the table as it is called now.
        operation: the change's, where it became another one.
    """
    kept: dict[str, Any] = {}
    for family, raw in _fields(extra).items():
        if family in _GOES:
            continue
        if family == "debezium":
            kept[family] = _renamed(raw, schema, operation)
        elif family in _STAYS:
            # Without any it still tells whose change it is: see `sequence.written.came_without`.
            kept[family] = {n: v for n, v in _fields(raw).items() if n in _STAYS[family]}
        else:
            kept[family] = raw
    # An insert that goes with a delete of another key is a plain one beside a plain delete.
    kept.pop("debezium_oldkey", None)
    return _encode(kept) if kept else None


def _renamed(raw: Raw, schema: TableSchema, operation: str | None) -> dict[str, Any]:
    """Debezium's own fields, whose block `source` names the table."""
    fields: dict[str, Any] = dict(_fields(raw))
    if operation is not None and "op" in fields:
        fields["op"] = _OPS[operation]
    source = fields.get("source")
    if source is None or bytes(source) == b"null":
        return fields
    block: dict[str, Any] = dict(_fields(source))
    for name, new in zip(_SOURCE, (schema.database, schema.schema, schema.table), strict=True):
        if name in block and new is not None:
            block[name] = new
    block.pop("query", None)
    fields["source"] = block
    return fields
