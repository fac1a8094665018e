"""What the schemas of a key and a value decide about reading the messages of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.avro.reading import READ_ERRORS, Leaf, Reader, row_reader
from waybill.avro.schema import without_null
from waybill.envelopes.ibmcdc.hints import DIALECT
from waybill.envelopes.ibmcdc.names import Place, place_of
from waybill.envelopes.ibmcdc.values.reading import (
    ColumnReading,
    column_name,
    column_reading,
    in_zone,
)
from waybill.errors import Refusal
from waybill.records import Column, TableSchema, intern_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.avro.schema import Node
    from waybill.envelopes.ibmcdc.settings import IbmCdcReadSettings
    from waybill.tables import TableRule, TableRules

AUDIT_FIELDS = frozenset(
    {
        *("ENTTYP", "CCID", "CNTRRN", "CODE", "JOBNAME", "JOBNO", "JOBUSER", "JOURNAL", "LIBRARY"),
        *("MEMBER", "OBJECT", "PROGRAM", "SEQNO", "SYSTEM", "TIMSTAMP", "USER", "UTC_TIMESTMP"),
    }
)
"""Journal control fields by IBM's names, which audit columns are named after."""


class ReadTable:
    """Reads the rows of one table.

    Args:
        value: the schema of its values.
        key: names of the key columns as the message key tells them, None where it does not.
        settings: how the topic was written.
        rules: declared keys and types.

    Attributes:
        schema: the table.
        by_message_key: whether the message key tells which columns are the key.
        read: from a value to the row, the row before and the audit columns.
        places: places of the columns in the record.
        olds: places of the columns before, None for one that is not stated.
        audits: places of the audit columns.
        audit: names of the audit columns without prefix; empty for topics without.
        has_before: whether a record holds the row before as well.
        null_olds: places in an image of the columns that can be null in the row before. Null stands
            there where there is no such row, and so a value is one of the source.
        null_both: those that can be null in the row as well.
    """

    def __init__(
        self,
        value: Node,
        key: tuple[str, ...] | None,
        settings: IbmCdcReadSettings,
        rules: TableRules,
    ) -> None:
        place = place_of_record(value, "value")
        rule = rules.find(*place)
        self.node = value
        audit, before, columns = _parts(value, settings, {*(key or ()), *(rule.key or ())})
        rules.admit(len(columns), *place)
        zone = settings.column_timezone
        readings = {i: _reading(value, i, rule, zone) for i in columns}
        olds = {i: _reading(value, i, rule, zone, settings.before_prefix) for i in before}
        self.schema = _schema(place, list(readings.values()), key, rule)
        self.by_message_key = rule.key is None and key is not None
        self.places = tuple(columns)
        by_name = {reading.name: i for i, reading in olds.items()}
        self.olds = tuple(by_name.get(name) for name in self.schema.names)
        self.audits = tuple(audit)
        self.audit = tuple(audit.values())
        self.has_before = bool(before)
        self.null_olds = _nullable(value, self.olds)
        self.null_both = sorted({*self.null_olds} & {*_nullable(value, self.places)})
        leaves: list[Leaf | None] = [None] * len(value.fields)
        for i, reading in (*readings.items(), *olds.items()):
            leaves[i] = reading.leaf
        new = ", ".join(f"v{i}" for i in columns)
        image = f"Image({new})"
        old = "None"
        if before:
            values = ["UNSET" if i is None else f"v{i}" for i in self.olds]
            old = f"Image({', '.join(values)})"
        audit_values = "".join(f"v{i}, " for i in audit)
        self.leaves = leaves
        self.read: Reader = row_reader(
            value, leaves, f"({image}, {old}, ({audit_values}))", {"Image": self.schema.Image}
        )

    def fault(self, data: bytes, start: int) -> Refusal | None:
        """The refusal for a record whose data is whole and a value of which is not."""
        return column_fault(self.node, self.leaves, data, start)


class ReadKey:
    """Reads the keys of one table.

    Attributes:
        names: the key columns.
        check: reads a key for no other purpose than to know that it can be read.
        schema: a table of the key columns alone, which is all that a delete tells.
        read: from a key to the row that a delete removes.
    """

    def __init__(self, key: Node, settings: IbmCdcReadSettings, rules: TableRules) -> None:
        place = place_of_record(key, "key")
        rules.admit(len(key.fields), *place)
        rule = rules.find(*place)
        zone = settings.column_timezone
        readings = [_reading(key, i, rule, zone) for i in range(len(key.fields))]
        self.node = key
        self.names = tuple(reading.name for reading in readings)
        self.schema = _schema(place, readings, self.names, rule)
        self.leaves: list[Leaf | None] = [reading.leaf for reading in readings]
        self.check: Reader = row_reader(key, [None] * len(readings), "None", {})
        values = ", ".join(f"v{i}" for i in range(len(readings)))
        self.read: Reader = row_reader(
            key, self.leaves, f"Image({values})", {"Image": self.schema.Image}
        )

    def fault(self, data: bytes, start: int) -> Refusal | None:
        """The refusal for a key whose data is whole and a value of which is not."""
        return column_fault(self.node, self.leaves, data, start)


def column_fault(node: Node, leaves: list[Leaf | None], data: bytes, start: int) -> Refusal | None:
    """Names the column of a record that is whole and holds a value that its type does not allow."""
    raw: list[Leaf | None] = [
        leaf._replace(convert=None, integer=False) if leaf is not None else None for leaf in leaves
    ]
    try:
        values = ", ".join(f"v{i}" for i in range(len(leaves)))
        found, _ = row_reader(node, raw, f"({values},)", {})(data, start, len(data))
    except READ_ERRORS:
        return None
    for field, leaf, value in zip(node.fields, leaves, found, strict=True):
        if leaf is None or leaf.convert is None or value is None:
            continue
        try:
            leaf.convert(value)
        except Refusal as refusal:
            return Refusal("value", f"column {field.name!r}: {refusal.sentence}")
        except READ_ERRORS as error:
            return Refusal("value", f"column {field.name!r}: {error}")
    return None


def place_of_record(node: Node, part: str) -> Place:
    """The table of a key or value.

    Raises:
        Refusal: kind `schema`; it is no record.
    """
    if node.kind != "record" or not node.fields:
        raise Refusal("schema", f"the {part}'s Avro schema is a {node.kind}, not a row's record")
    return place_of(node.name, node.attributes)


def _nullable(node: Node, places: Sequence[int | None]) -> list[int]:
    """The columns whose fields, of those at some places of a record, can be null."""
    fields = node.fields
    return [
        column
        for column, place in enumerate(places)
        if place is not None and without_null(fields[place].node) is not fields[place].node
    ]


def _reading(
    node: Node, i: int, rule: TableRule, zone: str | None, strip: str = ""
) -> ColumnReading:
    field = node.fields[i]
    found = column_reading(field.name, field.node, dict(rule.columns), strip)
    if zone is None or found.type.kind != "timestamptz":
        return found
    return in_zone(found, without_null(field.node), zone)


def _parts(
    node: Node, settings: IbmCdcReadSettings, key: set[str]
) -> tuple[dict[int, str], list[int], list[int]]:
    """Places of the audit columns with their names, of the columns before and of the columns."""
    names = [field.name for field in node.fields]
    prefix, before = settings.audit_prefix, settings.before_prefix
    every = list(range(len(names)))
    given = settings.audit_columns
    audit_names = _audit_columns(node, settings, key) if given is None else given
    if settings.entry_type not in audit_names or settings.entry_type not in names:
        return {}, [], every
    strange = next((name for name in audit_names if name not in names), None)
    if strange is not None:
        sentence = f"audit_columns names {strange!r}, which is no column of the record: fix it"
        raise Refusal("schema", sentence)
    audit = {i: name.removeprefix(prefix) for i, name in enumerate(names) if name in audit_names}
    rest = [i for i in every if i not in audit]
    row = {names[i] for i in rest}
    olds = [i for i in rest if names[i].startswith(before) and names[i][len(before) :] in row]
    return audit, olds, [i for i in rest if i not in olds]


def _audit_columns(node: Node, settings: IbmCdcReadSettings, key: set[str]) -> list[str]:
    """The columns that seem to be audit columns by their names.

    A table may have columns of such names. They are known by its key, of the message or declared,
    and by their twins before, which audit columns do not have.
    """
    prefix, before = settings.audit_prefix, settings.before_prefix
    names = {field.name for field in node.fields}
    return [
        field.name
        for field in node.fields
        if field.name.startswith(prefix)
        and field.name.removeprefix(prefix) in AUDIT_FIELDS
        and f"{before}{field.name}" not in names
        and column_name(field.name, field.node) not in key
    ]


def _schema(
    place: Place, readings: list[ColumnReading], key: tuple[str, ...] | None, rule: TableRule
) -> TableSchema:
    names = [reading.name for reading in readings]
    if len(set(names)) != len(names):
        raise Refusal("schema", "a column occurs twice in the Avro schema (dbColumnName)")
    if rule.key is not None:
        key = rule.key
    elif key is not None:
        strange = next((name for name in key if name not in names), None)
        if strange is not None:
            sentence = f"the message key names {strange!r}, which is no column of the row"
            raise Refusal("key", f"{sentence}: declare the key under tables")
    columns = tuple(Column(r.name, r.type, r.source_type) for r in readings)
    schema = intern_schema(*place, columns, key, DIALECT)
    _ = schema.Image, schema.key_fields  # says now what cannot be read
    return schema
