"""Rows of Avro binary as images: what a schema decides is decided once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from waybill.avro.faults import explain
from waybill.avro.reading import READ_ERRORS, Leaf, row_reader
from waybill.avro.schema import parse
from waybill.envelopes.databus.schemas import Registered, plain_table
from waybill.envelopes.databus.values.reading import (
    column_of,
    declared_leaf,
    text_of,
)
from waybill.errors import Refusal
from waybill.records import Column, intern_schema
from waybill.row_times.typed import TIMES
from waybill.types import parse_type

if TYPE_CHECKING:
    from waybill.envelopes.databus.settings import DatabusReadSettings
    from waybill.tables import TableRules

TABLE = "waybill"
"""Attribute of a schema that Waybill made: the table it is made of; of a field: which column."""


MAX_TYPE = 60
"""Longest name of a logical type; the longest there is has half of that."""


class _StoredTable(msgspec.Struct):
    """A table as Waybill writes it into its schemas; see `TableSchema.to_json`."""

    table: str | None
    columns: list[tuple[str, str, str | None, bool | None]]
    database: str | None = None
    schema: str | None = None
    key: tuple[str, ...] | None = None
    dialect: str = ""


class RowPlan:
    """How rows of one schema are read.

    Args:
        registered: the schema.
        rules: what is declared for the tables.
        settings: those of the envelope.

    Attributes:
        schema: the table.
        own: whether Waybill made the schema for a change of its own.
        ids: every id of the schema.
        node: the schema as a tree.
        columns: the fields as columns.
        places: the column of the table that each field is.
        leaves: how the value of each field becomes text.

    Raises:
        Refusal: kind `schema`; the schema cannot be used.
    """

    def __init__(
        self, registered: Registered, rules: TableRules, settings: DatabusReadSettings
    ) -> None:
        self.ids = registered.ids
        self.node = parse(registered.text)
        if self.node.kind != "record":
            raise Refusal("schema", f"the schema {registered.source!r} is none of a record")
        rules.admit(len(self.node.fields), registered.database, None, registered.table)
        self.columns = [column_of(field.node) for field in self.node.fields]
        stated = self.node.attributes.get(TABLE)
        self.own = TABLE in self.node.attributes
        try:
            if self.own:
                self.places = self._own_table(stated, rules)
            else:
                self.places = self._table(registered, rules, settings)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            message = f"the schema {registered.source!r} does not name its table: {error!r}"
            raise Refusal("schema", message[:500]) from None
        self.leaves = [self._leaf(i, at) for i, at in enumerate(self.places)]
        values = ", ".join(f"f{at}=v{i}" for i, at in enumerate(self.places))
        made = {"Image": self.schema.Image}
        self._read = row_reader(self.node, self.leaves, f"Image({values})", made)

    # What the columns are

    def _own_table(self, stated: Any, rules: TableRules) -> list[int]:
        """The table that Waybill wrote into its schema, and the column of each field."""
        table = msgspec.convert(stated, _StoredTable)
        rules.admit(len(table.columns), table.database, table.schema, table.table)
        rule = rules.find(table.database, table.schema, table.table)
        if any(len(kind) > MAX_TYPE for _, kind, _, _ in table.columns):
            raise ValueError(f"a column's type has more than {MAX_TYPE} characters")
        columns = tuple(
            Column(name, rule.columns.get(name) or parse_type(kind), source, nullable)
            for name, kind, source, nullable in table.columns
        )
        key = table.key if rule.key is None else rule.key
        self.schema = intern_schema(
            table.database, table.schema, table.table, columns, key, table.dialect
        )
        places = [field.attributes[TABLE] for field in self.node.fields]
        if any(type(at) is not int or not 0 <= at < len(columns) for at in places):
            raise ValueError("a field is of no column")
        if len(set(places)) < len(places):
            raise ValueError("two fields are of one column")
        return places

    def _table(
        self, registered: Registered, rules: TableRules, settings: DatabusReadSettings
    ) -> list[int]:
        by_field = settings.names == "fields"
        fields = self.node.fields
        names = [
            field.name if by_field else (attribute(field.attributes, "dbFieldName") or field.name)
            for field in fields
        ]
        if len(set(names)) < len(names):
            raise ValueError("two fields have the same `dbFieldName`")
        table = registered.table
        if table is None and not by_field:
            table = attribute(self.node.attributes, "dbFieldName")
        table = table or plain_table(registered)
        database = registered.database or settings.database
        rule = rules.find(database, None, table)
        columns = tuple(
            Column(name, rule.columns.get(name, column.type), None, column.nullable)
            for name, column in zip(names, self.columns, strict=True)
        )
        key = rule.key
        if key is None:
            key = self._key_columns(names)
        self.schema = intern_schema(database, None, table, columns, key)
        return list(range(len(fields)))

    def _key_columns(self, names: list[str]) -> tuple[str, ...] | None:
        """The columns that the schema's `pk` attribute names, by field or by database column."""
        stated = attribute(self.node.attributes, "pk")
        if not stated:
            return None
        known: dict[str, str] = {}
        for field, name in zip(self.node.fields, names, strict=True):
            known.setdefault((attribute(field.attributes, "dbFieldName") or "").lower(), name)
        for field, name in zip(self.node.fields, names, strict=True):
            known[field.name.lower()] = name
        key = [known.get(part.strip().lower()) for part in stated.split(",")]
        if None in key:
            raise Refusal("schema", f"the schema's key {stated!r} names no field of it")
        return tuple(name for name in key if name is not None)

    def _leaf(self, place: int, at: int) -> Leaf:
        column, kind = self.columns[place], self.schema.columns[at].type
        if self.own and column.kind == "string" and kind.kind in TIMES:
            # Waybill wrote the text of the value itself.
            return column.leaf
        return declared_leaf(column, kind)

    # Rows

    def image(self, data: bytes) -> Any:
        """The row of Avro binary.

        Raises:
            Refusal: kind `value` or `shape`; the bytes are no row of the schema.
        """
        try:
            image, end = self._read(data, 0, len(data))
        except Refusal as refusal:
            raise self._named(data, refusal) from None
        except READ_ERRORS as error:
            raise explain(self.node, data, 0, error) from None
        if end != len(data):
            raise explain(self.node, data, 0)
        return image

    def _named(self, data: bytes, refusal: Refusal) -> Refusal:
        """The refusal of a value, with the name of its field."""
        fields = self.node.fields
        values = "".join(f"v{i}, " for i in range(len(fields)))
        try:
            row, _ = row_reader(self.node, [Leaf()] * len(fields), f"({values})", {})(
                data, 0, len(data)
            )
        except READ_ERRORS as error:
            return explain(self.node, data, 0, error)
        for field, leaf, value in zip(fields, self.leaves, row, strict=True):
            text = text_of(leaf)
            if text is None or value is None:
                continue
            try:
                text(value)
            except Refusal as fault:
                return Refusal(fault.kind, f"field {field.name!r}: {fault.sentence}")
        return refusal


def attribute(attributes: dict[str, Any], name: str) -> str | None:
    """An attribute of a schema or field: its own, or in `meta` (`dbFieldName=person;pk=id;`)."""
    own = attributes.get(name)
    if isinstance(own, str):
        return own
    meta = attributes.get("meta")
    for item in meta.split(";") if isinstance(meta, str) else ():
        key, equals, value = item.partition("=")
        if equals and key.strip() == name:
            return str(value.strip())
    return None
