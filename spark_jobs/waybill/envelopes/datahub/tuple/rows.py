"""Rows of TUPLE topics: what a table's columns decide for reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.caches import Bounded
from waybill.envelopes.datahub.tuple.topics import (
    AFTER,
    BEFORE,
    METADATA,
    OPERATION,
    SEQUENCE,
    TABLE,
    TIMES,
    Field,
)
from waybill.envelopes.datahub.tuple.values import (
    DIALECT,
    LOGICAL,
    USED_BY_STEPS,
    reader,
    step_of,
    text_of,
    type_for,
)
from waybill.errors import Refusal
from waybill.records import Column, intern_schema
from waybill.types import BOOLEAN, NUMBER, STRING, UNKNOWN
from waybill.values.declared import shown
from waybill.values.generated import function
from waybill.values.json_columns import kind_of
from waybill.values.known_columns import Memory
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.row_functions import Step, statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import TableSchema
    from waybill.tables import TableName, TableRule, TableRules
    from waybill.values.instants import Zone

Row = dict[str, Raw]

_NOT_KNOWN = Step(("if {v} is not None: raise ValueError",))
"""Of a column whose type nothing says no value is known."""

_INFERRED = {NUMBER: "DECIMAL", STRING: "STRING", BOOLEAN: "BOOLEAN"}


class Metadata(NamedTuple):
    """What the metadata columns of a record say, as texts; None where one is null or missing."""

    sequence: str | None
    operation: str | None
    time: str | None
    table: str | None
    before: str | None
    after: str | None


MEMBERS = {
    SEQUENCE: "sequence",
    OPERATION: "operation",
    **dict.fromkeys(TIMES, "time"),
    TABLE: "table",
    BEFORE: "before",
    AFTER: "after",
}
"""Which metadata column is which member."""


Forms = tuple[tuple[str, bool], ...]
"""The names of an object in order, and whether a value is a string (or null)."""


def forms_of(row: Row) -> Forms:
    """The form of an object, so that the next one of the same form is read the known-table way."""
    return tuple((name, bytes(raw)[:1] in b'"n') for name, raw in row.items())


class TableReader:
    """Reads the rows of one table.

    Args:
        schema: the table; the source type of a column is its DataHub type, None where nothing
            tells it.
        zone: the zone of wall clocks that came as TIMESTAMP.
    """

    def __init__(self, schema: TableSchema, zone: Zone) -> None:
        _ = schema.key_fields, schema.Image  # refuse what cannot be a table
        self.schema = schema
        self.readers = [
            c.source_type and reader(c.source_type, c.type, zone) for c in schema.columns
        ]

    def image(self, row: Row) -> Any:
        """The image of a row, column by column; columns that are not there are absent.

        Raises:
            Refusal: names the column that is wrong.
        """
        values: list[Any] = []
        for column, read in zip(self.schema.columns, self.readers, strict=True):
            raw = row.get(column.name)
            if raw is None:
                values.append(UNSET)
                continue
            try:
                text = text_of(raw, column.source_type or "STRING")
                values.append(text if text is None or not read else read(text))
            except Refusal as refusal:
                sentence = f"column {shown(column.name)}: {refusal.sentence}"
                raise Refusal(refusal.kind, sentence) from None
        return self.schema.Image(*values)

    def statements(self, present: frozenset[str]) -> tuple[list[str], dict[str, Any]]:
        """Statements that turn the local variables v0, v1, … into `image`, and what they call."""
        steps: dict[int, Step] = {}
        values = []
        for i, (column, read) in enumerate(zip(self.schema.columns, self.readers, strict=True)):
            if column.name not in present:
                values.append("UNSET")
                continue
            values.append(f"v{i}")
            if column.source_type is None:
                steps[i] = _NOT_KNOWN
            else:
                steps[i] = step_of(read or None, column.source_type, column.type, "{v} is not None")
        lines, called = statements(steps, "v")
        helpers = {"Image": self.schema.Image, **USED_BY_STEPS, **called}
        return [*lines, f"image = Image({', '.join(values)})"], helpers


class Fast(NamedTuple):
    """The known-table way to read records of one form.

    Attributes:
        reader: the table.
        time_kind: the DataHub type of the time of the change.
        decode: from the bytes of a record to a struct that says all of it, None if none does.
        read: from such a struct to its metadata and its image; raises ValueError or a Refusal.
    """

    reader: TableReader
    time_kind: str | None
    decode: Callable[[bytes], Any]
    read: Callable[[Any], tuple[Metadata, Any]]


_METADATA = "Metadata(sequence, operation, time, table, before, after)"


def fast_object(table: TableReader, forms: Forms, time_kind: str | None) -> Fast:
    """The known-table way for objects that have these names, in this order."""
    fields = {name: f"m{i}" for i, (name, _) in enumerate(forms)}
    kinds = {name: str | None if quoted else Raw for name, quoted in forms}
    wire = strict(kinds, attributes=fields)
    lines, scope = _assignments(table, forms, [f"w.m{i}" for i in range(len(forms))])
    read = function("read(w)", [*lines, f"return {_METADATA}, image"], scope)
    return Fast(table, time_kind, KnownMessage(wire), read)


class ServiceRecord(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A record as the service gives it. `Sequence` counts in the shard and is not the change's."""

    Data: list[str | None]
    Attributes: dict[str, str] | UnsetType | None = UNSET
    SystemTime: int | UnsetType = UNSET
    Sequence: int | UnsetType = UNSET
    NextCursor: str | UnsetType = UNSET
    Cursor: str | UnsetType = UNSET
    PartitionKey: str | UnsetType | None = UNSET
    HashKey: str | UnsetType | None = UNSET
    ShardId: str | UnsetType | None = UNSET
    BatchIndex: int | UnsetType = UNSET


decode_record = KnownMessage(ServiceRecord)


def fast_record(table: TableReader, fields: tuple[Field, ...], time_kind: str | None) -> Fast:
    """The known-table way for records whose `Data` holds the fields of a topic in order."""
    parts = [f"d{i}" for i in range(len(fields))]
    lines, scope = _assignments(table, tuple((field.name, True) for field in fields), parts)
    unpack = [f"{', '.join(parts)}, = w.Data"]
    read = function("read(w)", [*unpack, *lines, f"return {_METADATA}, image"], scope)
    return Fast(table, time_kind, decode_record, read)


def _assignments(
    table: TableReader, forms: Forms, parts: list[str]
) -> tuple[list[str], dict[str, Any]]:
    """Statements that give the parts of a record their names; see `TableReader.statements`."""
    lines = [f"{member} = None" for member in dict.fromkeys(MEMBERS.values())]
    for (name, quoted), part in zip(forms, parts, strict=True):
        local = MEMBERS.get(name) or f"v{table.schema.index[name]}"
        lines.append(f"{local} = {part}" if quoted else f'{local} = str({part}, "ascii")')
        if not quoted:
            lines += [
                f'if {local} == "null": {local} = None',
                f"elif {local}[0] == '\"': raise ValueError",
            ]
    image, scope = table.statements(frozenset(name for name, _ in forms))
    return [*lines, *image], {**scope, "Metadata": Metadata}


class TableReaders(Memory):
    """Finds what reads the rows of a table.

    A column's type is that of the topic's schema; `tables:` of the migration goes before it. Where
    the topic has no schema, a declared column has the DataHub type that such a value is written
    as, and one that nobody declared is what JSON says it is.

    Args:
        rules: declared keys and types.
        zone: the zone of wall clocks that came as TIMESTAMP.
    """

    def __init__(self, rules: TableRules, zone: Zone) -> None:
        super().__init__()
        self.rules = rules
        self.zone = zone
        self._readers: Bounded[TableSchema, TableReader] = Bounded()

    def of_fields(self, name: TableName, fields: tuple[Field, ...], row: Row) -> TableReader:
        """The reader of a table whose topic has a schema.

        Raises:
            Refusal: the row has a column that the schema has not.
        """
        self.rules.admit(len(fields), *name)
        rule = self.rules.find(*name)
        columns = {
            field.name: Column(
                field.name, rule.columns.get(field.name) or LOGICAL[field.type], field.type
            )
            for field in fields
            if field.name not in METADATA
        }
        strange = row.keys() - columns.keys()
        if strange:
            message = f"column {shown(min(strange))} of the row is not in the topic's schema"
            raise Refusal("schema", message)
        return self._reader(name, columns, rule)

    def of_row(self, name: TableName, row: Row) -> TableReader:
        """The reader of a table whose topic has no schema: as this row and earlier ones say.

        `keep` its schema when the row is taken.

        Raises:
            Refusal: a value is none of a column.
        """
        self.rules.admit(len(row), *name)
        rule = self.rules.find(*name)
        columns = self.known(name)
        for column, raw in row.items():
            columns[column] = _column(column, raw, rule, columns.get(column))
        return self._reader(name, columns, rule)

    def _reader(self, name: TableName, columns: dict[str, Column], rule: TableRule) -> TableReader:
        schema = intern_schema(*name, tuple(columns.values()), rule.key, DIALECT)
        found = self._readers.get(schema)
        if found is None:
            found = self._readers[schema] = TableReader(schema, self.zone)
        return found


def _column(name: str, raw: Raw, rule: TableRule, known: Column | None) -> Column:
    declared = rule.columns.get(name)
    if declared is not None:
        return Column(name, declared, type_for(declared))
    logical = kind_of(raw)
    if logical == UNKNOWN and known is not None:
        return known
    if logical not in (*_INFERRED, UNKNOWN):
        raise Refusal("value", f"column {shown(name)}: no type takes a JSON object or array")
    return Column(name, logical, _INFERRED.get(logical))
