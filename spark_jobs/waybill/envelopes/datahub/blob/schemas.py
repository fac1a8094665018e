"""The member `schema` of StreamX messages: the table, its columns, key and source.

Both ways: what a message's schema decides for reading it, and the schema that a table is written
with (DataHub message formats, section schema object).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from waybill.envelopes.datahub.blob.values import DIALECT, LOGICAL, ImageReader, type_for
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Column, TableSchema, intern_schema
from waybill.types import UNKNOWN
from waybill.values.known_columns import Form

if TYPE_CHECKING:
    from waybill.tables import TableRules
    from waybill.values.instants import Zone


class ColumnWire(msgspec.Struct, gc=False):
    """A column as a message describes it."""

    name: str
    type: str


class SourceWire(msgspec.Struct, gc=False, omit_defaults=True):
    """Where the table is."""

    dbType: str | None = None
    dbVersion: str | None = None
    dbName: str | None = None
    schemaName: str | None = None
    tableName: str | None = None


class SchemaWire(msgspec.Struct, gc=False, omit_defaults=True):
    """The schema of a message; a heartbeat has an empty one."""

    dataColumn: list[ColumnWire] | None = None
    primaryKey: list[str] | None = None
    source: SourceWire | None = None


decode_schema = msgspec.json.Decoder(SchemaWire | None).decode


class ReadTable(Form):
    """What one `schema` of a message decides, made when its bytes are first met.

    Attributes:
        schema: the table, `NO_TABLE` where the message names none.
        source: database type and version as the message says them.
        refusal: why messages with this schema cannot hold rows, None where they can.
        reader: reads images; only without `refusal`.
        empty: an image without any column; only without `refusal`.
    """

    def __init__(self, wire: SchemaWire, rules: TableRules, zone: Zone) -> None:
        source = wire.source or SourceWire()
        place = (source.dbName or None, source.schemaName or None, source.tableName or None)
        rules.admit(len(wire.dataColumn or ()), *place)
        rule = rules.find(*place)
        self.source = {
            name: value
            for name, value in (("dbType", source.dbType), ("dbVersion", source.dbVersion))
            if value is not None
        }
        self.refusal: Refusal | None = None
        columns = []
        for column in wire.dataColumn or ():
            logical = rule.columns.get(column.name) or LOGICAL.get(column.type)
            if logical is None:
                message = f"column {column.name!r} has the type {column.type!r}, which StreamX"
                message += " does not have; declare the column under `tables:`"
                self.refusal = self.refusal or Refusal("schema", message)
            columns.append(Column(column.name, logical or UNKNOWN, column.type))
        key = rule.key if rule.key is not None else wire.primaryKey
        if place == (None, None, None) and not columns:
            self.schema = NO_TABLE
        else:
            key = None if key is None else tuple(key)
            self.schema = intern_schema(*place, tuple(columns), key, DIALECT)
        self.refusal = self.refusal or _row_refusal(self.schema)
        if self.refusal is None:
            self.reader = ImageReader(self.schema, zone)
            self.empty = self.schema.Image()


def row_struct(image: Any, required: bool = False) -> type[Any]:
    """The struct around an image; `required` if it must be there."""
    field: Any = ("dataColumn", image) if required else ("dataColumn", image | None, None)
    return msgspec.defstruct("Row", [field], forbid_unknown_fields=True, gc=False)


def _row_refusal(schema: TableSchema) -> Refusal | None:
    if schema.table is None:
        return Refusal("shape", "a row needs schema.source.tableName")
    if not schema.columns:
        return Refusal("schema", "a row needs schema.dataColumn")
    if len(schema.index) != len(schema.columns):
        return Refusal("schema", "a column occurs twice in schema.dataColumn")
    try:
        _ = schema.Image, schema.key_fields, schema.Key
    except Refusal as refusal:
        return refusal
    return None


DB_TYPES = {"mysql": "MySQL", "postgresql": "PostgreSQL"}
"""How messages name the databases whose dialect a schema can have."""


def written_schema(
    schema: TableSchema, db_type: str | None = None, db_version: str | None = None
) -> bytes:
    """The `schema` member that a table is written with; an unknown key is left out."""
    source = SourceWire(
        db_type or DB_TYPES.get(schema.dialect),
        db_version,
        schema.database,
        schema.schema,
        schema.table,
    )
    columns = [ColumnWire(c.name, type_for(c, schema.dialect)) for c in schema.columns]
    return msgspec.json.encode(
        SchemaWire(
            columns or None,
            None if schema.key is None else list(schema.key),
            None if source == SourceWire() else source,
        )
    )


def types_are_lost(schema: TableSchema) -> bool:
    """Whether a reader of the written types would find other logical types than the table has."""
    return any(LOGICAL[type_for(c, schema.dialect)] != c.type for c in schema.columns)
