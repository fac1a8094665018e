"""What only targets of the source's family carry on (`Change.extra`), beside a mapped row.

It was written for the row as it was. What names tables, columns or values of keys there would be
wrong beside another row, or show what a mask hides, so only what speaks of the event stays: its
position, its times, who made it. What tells of columns stays with tables whose columns all do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from waybill.mapping.table import MappedTable

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

_KEY = "debezium_newkey"
"""The family whose fields are columns: the key that a row has got."""

_OPS = {"read": "r", "insert": "c", "upsert": "c", "update": "u", "delete": "d"}
"""Debezium's words for operations."""

_ENVELOPE = frozenset({"op", "ts_ms", "ts_us", "ts_ns", "source", "transaction"})
"""Debezium's own fields that stay: others were added by a
transformation, which may have taken them from a row."""

_BLOCK = frozenset(
    {
        *("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "sequence"),
        *("db", "schema", "table"),
        # MySQL, MariaDB
        *("server_id", "gtid", "file", "pos", "row", "thread"),
        # PostgreSQL
        *("txId", "lsn", "xmin", "origin", "origin_lsn"),
        # SQL Server, Db2, Informix
        *("change_lsn", "commit_lsn", "begin_lsn", "event_serial_no"),
        # Oracle
        *("scn", "commit_scn", "start_scn", "start_ts_ms", "commit_ts_ms", "txSeq", "rs_id", "ssn"),
        *("redo_thread", "lcr_position", "user_name"),
        # Vitess, Cassandra
        *("shard", "vgtid", "cluster"),
        # Spanner
        *("project_id", "instance_id", "database_id", "change_stream_name", "low_watermark"),
        *("read_at_timestamp", "server_transaction_id", "record_sequence", "mod_number"),
        *("is_last_record_in_transaction_in_partition", "system_transaction"),
        *("number_of_records_in_transaction", "number_of_partitions_in_transaction"),
    }
)
"""Fields of a source block that stay: who wrote it, when, and where the change is in its log.

Not among them: `query` and `redo_sql`, which are statements, `row_id`, which is Oracle's address of
the row under its old table, and whatever a connector may add.
"""

_OF_ROWS = ("query", "sql")
"""Fields of a family in which a row repeats the statement that changed it."""

_OF_BLOCK = ("query", "redo_sql")
"""Fields of a source block that do."""

STATEMENTS = rf'"(?:{"|".join(sorted({*_OF_ROWS, *_OF_BLOCK}))})"\s*:\s*[^n\s]|\\u'
"""What a text has that may hold a statement: one of the names with more than null behind it, or a
name that is spelled with escapes. Read by `re` and by Arrow."""

_may_repeat = re.compile(STATEMENTS.encode()).search
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
            kept[family] = _renamed(raw, mapped, moved)
        elif family == _KEY:
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


def without_statements(extra: bytes, of_row: bool) -> bytes:
    """What is carried on beside a change, without the statements that made it.

    A statement may be about several rows and tables, so it may show what a mapping leaves out of
    any of them, also beside a row that stays as it is. What has none stays byte by byte.

    Args:
        extra: what came with the change.
        of_row: whether it came with a row. An event that is a statement keeps its text.
    """
    if not _may_repeat(extra):
        return extra
    families: dict[str, Any] = dict(_fields(extra))
    found = False
    for family, raw in families.items():
        if family == _KEY or not _is_object(raw):
            continue
        fields: dict[str, Any] = dict(_fields(raw))
        gone = [fields.pop(name, None) for name in _OF_ROWS] if of_row else []
        source = fields.get("source")
        if source is not None and _is_object(source):
            block = _fields(source)
            gone += [block.pop(name, None) for name in _OF_BLOCK]
            fields["source"] = block
        if any(value is not None for value in gone):
            families[family], found = fields, True
    return _encode(families) if found else extra


def _is_object(raw: Raw) -> bool:
    return bytes(raw).lstrip()[:1] == b"{"


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


def _renamed(raw: Raw, mapped: MappedTable, operation: str | None) -> dict[str, Any]:
    """Debezium's own fields, whose block `source` names the table."""
    fields: dict[str, Any] = {n: value for n, value in _fields(raw).items() if n in _ENVELOPE}
    if operation is not None and "op" in fields:
        fields["op"] = _OPS[operation]
    source = fields.get("source")
    if source is None or not _is_object(source):
        return fields
    schema = mapped.schema
    now = {"db": schema.database, "schema": schema.schema, "table": schema.table}
    stays = _BLOCK | {"keyspace"} if schema.database == mapped.source.database else _BLOCK
    block: dict[str, Any] = {n: value for n, value in _fields(source).items() if n in stays}
    for name, new in now.items():
        if name in block and new is not None:
            block[name] = new
    fields["source"] = block
    return fields
