"""What only targets of the source's family carry on (`Change.extra`), beside a mapped row.

It was written for the row as it was. What names tables, columns or values of keys there would be
wrong beside another row, or show what a mask hides, so only what speaks of the event stays: its
position, its times, who made it. What tells of columns stays with tables whose columns all do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from waybill.mapping.table import MappedTable
    from waybill.records import TableSchema

_TIMES = ("systemTime", "checkpointTime", "dbType", "dbVersion")

_STAYS: dict[str, frozenset[str]] = {
    "canal": frozenset({"commitTs", "id", "ts", "tidb", "type"}),
    "maxwell": frozenset(
        {"xoffset", "commit", "position", "gtid", "server_id", "thread_id", "schema_id", "type"}
    ),
    "oms": frozenset({"checkpoint", "source_identity", "dbType", "uniqueId"}),
    "dataworks": frozenset({*_TIMES, "scn", "op"}),
    "streamx": frozenset({*_TIMES, "version", "op"}),
    "shareplex": frozenset({"posttime", "size", "idx", "seq"}),
    "ogg": frozenset({"current_ts", "op_ts", "pos", "tokens"}),
}
"""Fields that stay by family; of families that are not named, all are about the event."""

_OF_COLUMNS: dict[str, frozenset[str]] = {
    "canal": frozenset({"sqlType"}),
    "maxwell": frozenset({"comment", "data", "old", "primary_key", "primary_key_columns"}),
    "dataworks": frozenset({"extend"}),
    "ogg": frozenset({"primary_keys", "priamry_keys"}),
}
"""Fields that name columns or may hold values: they stay where the columns stay as they are."""

_OF_DATABASE = {"oms": "db", "dataworks": "dbName"}
"""Fields with the database behind its tenant, which stay where it keeps its name."""

_GOES = frozenset({"databus", "dms", "dms_record", "debezium_message"})
"""Families whose fields stand for the row's key or its columns, or repeat a statement."""

_OPS = {"read": "r", "insert": "c", "upsert": "c", "update": "u", "delete": "d"}
"""Debezium's words for operations."""

_SOURCE = ("db", "schema", "table")
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def carried_with(extra: bytes, mapped: MappedTable, operation: str | None = None) -> bytes | None:
    """What is carried on beside a row that was mapped; None where nothing is left.

    Args:
        extra: what came with the row.
        mapped: what becomes of its table.
        operation: the change's, where it became another one.
    """
    kept: dict[str, Any] = {}
    for family, raw in _fields(extra).items():
        if family in _GOES:
            continue
        if family == "debezium":
            # What is left of a move to another key is an insert beside a delete, as it was.
            moved = operation if "debezium_oldkey" not in kept else None
            kept[family] = _renamed(raw, mapped.schema, moved)
        elif family == "debezium_newkey":
            kept[family] = Raw(mapped.key_text(bytes(raw).decode()))
        elif family == "debezium_oldkey":
            if operation in (None, "update"):
                kept[family] = raw
        elif family in _STAYS:
            # Without any it still tells whose change it is: see `sequence.written.came_without`.
            kept[family] = _left(family, _fields(raw), mapped, operation)
        else:
            kept[family] = raw
    return _encode(kept) if kept else None


def _left(
    family: str, fields: dict[str, Raw], mapped: MappedTable, operation: str | None
) -> dict[str, Raw]:
    """The fields of a family that stay, in their order."""
    stays = set(_STAYS[family])
    if mapped.columns_stay and operation is None:
        stays |= _OF_COLUMNS.get(family, frozenset())
    if mapped.schema.database == mapped.source.database:
        stays.add(_OF_DATABASE.get(family, ""))
    left = {name: value for name, value in fields.items() if name in stays}
    if family == "shareplex" and "table" in fields:
        left["table"] = _tenants(fields["table"], mapped)
    return left


def _tenants(table: Raw, mapped: MappedTable) -> Raw:
    """A name behind its tenant, as the table is called now."""
    stated: str = msgspec.json.decode(table, type=str)
    tenant = stated.removesuffix(f".{mapped.source.qualified_name}")
    now = mapped.schema.qualified_name
    return Raw(_encode(now if tenant == stated else f"{tenant}.{now}"))


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
