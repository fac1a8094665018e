"""Writes IBM CDC's Avro topics: the row and its key, or both rows with audit columns."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.avro.names import legal_fields
from waybill.avro.sinks import Sink, Stamp
from waybill.avro.writing import WRITE_ERRORS, Write, write_text
from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.ibmcdc.names import Place, record_name
from waybill.envelopes.ibmcdc.values.writing import column_writing
from waybill.envelopes.moved_rows import standing_alone
from waybill.errors import Refusal
from waybill.protocol import Encoded

if TYPE_CHECKING:
    from waybill.envelopes.ibmcdc.settings import IbmCdcWriteSettings
    from waybill.records import Change, TableSchema

ENTRY_TYPES = {"insert": "PT", "upsert": "PT", "read": "RR", "update": "UP", "delete": "DL"}
AUDIT = ("A_ENTTYP", "A_TIMSTAMP", "A_CCID")
"""The audit columns that are written."""

_EVENTS = {"begin": "transactions", "commit": "transactions", "rollback": "transactions"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock, compared with wall clocks only
_MANY = 20_000

Values = tuple[Any, ...]
"""The texts of a row in the order of the columns, None for null, UNSET for left out."""


class _Record:
    """Writes one shape of records.

    Args:
        stamp: the framing of their schema.
        steps: which value each field is, and how it is written.
    """

    def __init__(self, stamp: Stamp, steps: list[tuple[int, Write]]) -> None:
        self.stamp = stamp
        self.steps = steps

    def write(self, values: Values) -> bytes:
        out = bytearray(self.stamp.prefix)
        for i, write in self.steps:
            value = values[i]
            if value is None:
                out.append(2)
            else:
                out.append(0)
                write(out, value)
        return bytes(out)


class WriteTable:
    """What a table decides about writing its rows."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.writings = [column_writing(column, schema.dialect) for column in schema.columns]
        self.fields = tuple(legal_fields(schema.names))
        self.key = schema.key_places
        self.place = Place(schema.database, schema.schema, schema.table)
        self.records: dict[tuple[Any, ...], _Record] = {}

    def fields_of(self, columns: tuple[int, ...], prefix: str = "") -> list[dict[str, Any]]:
        """The Avro fields of columns."""
        return [
            {
                "name": f"{prefix}{self.fields[i]}",
                "type": [self.writings[i].type, "null"],
                "doc": "",
                "default": self.writings[i].default,
            }
            for i in columns
        ]

    def text_of(self, part: str, fields: list[dict[str, Any]]) -> tuple[str, str]:
        """Full name and text of the schema of a record."""
        name = record_name(part, self.place)
        schema = {"type": "record", **name, "fields": fields}
        return f"{name['namespace']}.{name['name']}", json.dumps(schema, ensure_ascii=False)


class IbmCdcEncoder:
    """Writes messages of the envelope `ibmcdc-avro`.

    Args:
        settings: the form, and where schemas go.
    """

    def __init__(self, settings: IbmCdcWriteSettings) -> None:
        self.audit = settings.form == "audit"
        self.sink = Sink(settings)
        self._tables: Bounded[TableSchema, WriteTable] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of one change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`; a value has no exact notation, or a part of the row that its
                message needs is missing.
        """
        count_kind(change, losses)
        if change.operation not in ENTRY_TYPES:
            losses.append(_EVENTS.get(change.operation, change.operation))
            return []
        if change.moved_from is not None:
            change = standing_alone(change, losses, counts_gaps=True)
        table = self._tables.get(change.schema)
        if table is None:
            table = self._tables[change.schema] = WriteTable(change.schema)
        image, which = (
            (change.before, "before")
            if change.operation == "delete"
            else (
                change.after,
                "after",
            )
        )
        if image is None:
            raise Refusal("encoding", f"a change ({change.operation}) without the row {which} it")
        if change.sequence is not None:
            losses.append("sequence_id")
        if change.operation == "update" and not table.key:
            _check_old_row(change)
        try:
            if self.audit:
                return self._audited(table, change, losses)
            return self._rows(table, change, losses)
        except Refusal as refusal:
            if refusal.kind == "encoding":
                raise
            raise Refusal("encoding", refusal.sentence) from None

    # Rows alone

    def _rows(self, table: WriteTable, change: Change, losses: list[str]) -> list[Encoded]:
        if change.source_time is not None:
            losses.append("source_time")
        if change.transaction is not None:
            losses.append("transactions")
        if not table.key:
            losses.append("key_columns")
        if change.operation == "delete":
            values = _values(change.before)
            columns = _present(values)
            if table.key and set(columns) - set(table.key):
                losses.append("before_image")
            return [self._message(table, table.key or columns, values, None)]
        if change.operation != "upsert":
            losses.append("full_rows" if change.operation == "read" else "operations")
        if change.before is not None:
            losses.append("before_image")
        values = _values(change.after)
        columns = _present(values)
        if len(columns) < len(values):
            losses.append("unchanged_columns")
        messages = []
        old = self._old_key(table, change)
        if old is not None:
            losses.append("key_change")
            messages.append(self._message(table, table.key or _present(old), old, None))
        row = self._record(table, "value", columns, ()), values
        return [*messages, self._message(table, table.key or columns, values, row)]

    def _old_key(self, table: WriteTable, change: Change) -> Values | None:
        """The row that a change of the key leaves behind, as far as its key."""
        if change.operation != "update":
            return None
        if not table.key:
            # All columns are the key, so every change of a row is one of the key.
            old = _values(change.before)
            return None if old == _values(change.after) else old
        key = change.old_key_image()
        if key is None:
            return None
        by_place = dict(zip(table.key, _values(key), strict=True))
        return tuple(by_place.get(i, UNSET) for i in range(len(table.fields)))

    def _message(
        self,
        table: WriteTable,
        key_columns: tuple[int, ...],
        values: Values,
        row: tuple[_Record, Values] | None,
    ) -> Encoded:
        """A message of a key and a row, or of a key alone."""
        if any(values[i] is UNSET for i in key_columns):
            raise Refusal("encoding", "a key column is not in the row, so there is no message key")
        if not key_columns:
            raise Refusal("encoding", "the row has no columns, so there is no message key")
        key = self._record(table, "key", key_columns, ())
        written = _written(table, key, values)
        if row is None:
            return Encoded(written, None, list(key.stamp.headers) or None)
        record, fields = row
        headers = [*key.stamp.headers, *record.stamp.headers]
        return Encoded(written, _written(table, record, fields), headers or None)

    def _record(
        self, table: WriteTable, part: str, columns: tuple[int, ...], before: tuple[int, ...]
    ) -> _Record:
        """The writer of records of these columns, made when they first occur."""
        shape = (part, columns, before)
        record = table.records.get(shape)
        if record is None:
            if len(table.records) >= _MANY:
                table.records.clear()
            record = table.records[shape] = self._made(table, part, columns, before)
        return record

    def _made(
        self, table: WriteTable, part: str, columns: tuple[int, ...], before: tuple[int, ...]
    ) -> _Record:
        fields = table.fields_of(columns)
        steps = [(i, table.writings[i].write) for i in columns]
        if part == "value" and self.audit:
            size = len(table.fields)
            audit = [
                {"name": n, "type": [{"type": "string"}, "null"], "doc": "", "default": ""}
                for n in AUDIT
            ]
            fields = [*audit, *fields, *table.fields_of(before, "B_")]
            head: list[tuple[int, Write]] = [(2 * size + n, write_text) for n in range(len(AUDIT))]
            steps = [*head, *steps, *((size + i, table.writings[i].write) for i in before)]
        name, text = table.text_of(part, fields)
        stamp = self.sink.key(name, text) if part == "key" else self.sink.value(name, text)
        return _Record(stamp, steps)

    # Both rows and audit columns

    def _audited(self, table: WriteTable, change: Change, losses: list[str]) -> list[Encoded]:
        self._check_names(table)
        size = len(table.fields)
        after: Values = (None,) * size
        if change.operation != "delete":
            after = _values(change.after)
        before = self._before(table, change)
        columns, olds = _present(after), _present(before)
        self._count(change, columns, before, losses)
        if not table.key:
            losses.append("key_columns")
        row = before if change.operation == "delete" else after
        time = _timestamp(change.source_time, losses)
        audit = (ENTRY_TYPES[change.operation], time, change.transaction or None)
        record = self._record(table, "value", columns, olds), (*after, *before, *audit)
        return [self._message(table, table.key or _present(row), row, record)]

    def _before(self, table: WriteTable, change: Change) -> Values:
        """The row before an update or delete, where it is stated."""
        if change.operation in ("update", "delete") and change.before is not None:
            return _values(change.before)
        return (UNSET,) * len(table.fields)

    def _count(
        self, change: Change, columns: tuple[int, ...], before: Values, losses: list[str]
    ) -> None:
        if change.operation == "read" and change.full_row:
            losses.append("full_rows")
        if change.transaction == "":
            losses.append("transactions")
        if len(columns) < len(before):
            losses.append("unchanged_columns")
        has_before = any(isinstance(value, str) for value in before)
        if (change.before is not None and not has_before) or set(_present(before)) - set(columns):
            # A reader takes columns that are all null for a row that is not stated, and does not
            # look for the old value of a column that has no new one.
            losses.append("before_image")

    def _check_names(self, table: WriteTable) -> None:
        for name in table.fields:
            if name.startswith(("A_", "B_")):
                sentence = f"column {name!r} looks like an audit column: write `form: rows`"
                raise Refusal("encoding", sentence)


def _values(image: Any) -> Values:
    values: Values = msgspec.structs.astuple(image)
    return values


def _check_old_row(change: Change) -> None:
    """An update of a table without key has to tell the row that it replaces.

    All columns are the message key then, so nothing else ties the new row to the old one, which
    would stay for ever.

    Raises:
        Refusal: it does not tell it, or leaves out columns that the row has now.
    """
    before = set() if change.before is None else set(_present(_values(change.before)))
    if change.before is None or not set(_present(_values(change.after))) <= before:
        sentence = "an update of a table without key needs the whole row before it: all columns "
        raise Refusal("encoding", f"{sentence}are the message key; declare a key under `tables`")


def _present(values: Values) -> tuple[int, ...]:
    return tuple([i for i, value in enumerate(values) if value is not UNSET])


def _written(table: WriteTable, record: _Record, values: Values) -> bytes:
    try:
        return record.write(values)
    except (*WRITE_ERRORS, Refusal) as error:
        raise _explained(table, record, values, error) from None


def _explained(table: WriteTable, record: _Record, values: Values, error: Exception) -> Refusal:
    """The refusal for a row that cannot be written; names the column."""
    size = len(table.fields)
    for i, write in record.steps:
        value = values[i]
        if value is None or i >= 2 * size:
            continue
        try:
            write(bytearray(), value)
        except (*WRITE_ERRORS, Refusal) as fault:
            reason = fault.sentence if isinstance(fault, Refusal) else str(fault)
            return Refusal("encoding", f"column {table.schema.names[i % size]!r}: {reason}")
    return Refusal("encoding", f"a row cannot be written: {error}")


def _timestamp(micros: int | None, losses: list[str]) -> str | None:
    """A time as audit columns have it, in UTC with six digits."""
    if micros is None:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        losses.append("source_time")
        return None
    return moment.isoformat(" ", "microseconds")
