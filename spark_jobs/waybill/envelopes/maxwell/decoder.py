"""Maxwell's JSON: one row a message, values as JSON values, the changed columns in `old`.

Sources of the rules: zendesk/maxwell docs/docs/dataformat.md and bootstrapping.md, RowMap.java,
FieldNames.java, and a stream recorded from Maxwell 1.22.6.

A message of a known table takes the known-table way: one typed decode, and a look that it said
nothing else. Everything else takes the exact way, which remembers what it learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.maxwell.events import EVENTS, event
from waybill.envelopes.maxwell.messages import (
    KEY,
    ROWS,
    TAKEN,
    MaxwellTable,
    RowMessage,
    extra_of,
    given,
    key_texts,
    named_key,
    row_change,
)
from waybill.envelopes.maxwell.positions import Positions
from waybill.envelopes.maxwell.values import one_quote, style_of
from waybill.envelopes.memory.remembering import FastRemembering
from waybill.envelopes.stated_keys import check_stated_key, is_compared
from waybill.envelopes.unnamed_tables import named_by
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, skipped
from waybill.values.generated import overlay
from waybill.values.json_rows import Readers, Row, row_of
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.maxwell.settings import MaxwellReadSettings
    from waybill.records import Message
    from waybill.tables import TableRules

_json = msgspec.json.Encoder().encode
_decode_row = msgspec.json.Decoder(RowMessage).decode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_type = msgspec.json.Decoder(str).decode


class MaxwellDecoder(FastRemembering["MaxwellTable"]):
    """Reads Maxwell's messages.

    Args:
        settings: how Maxwell was configured.
        rules: declared keys and column types.
    """

    def __init__(self, settings: MaxwellReadSettings, rules: TableRules) -> None:
        self.settings, self.rules = settings, rules
        self.positions = Positions()
        self.style = style_of(settings)
        # Rows of a bootstrap come from queries and not from the binlog.
        self.binlog_style = self.style
        if settings.doubled_quotes:
            self.binlog_style = self.style._replace(enum=one_quote)
        self.memory = self._readers = Readers(rules, self.style)
        super().__init__()

    def _hint(self, value: bytes) -> tuple[bytes, bytes]:
        """Database and table, as they stand in a message."""
        names = []
        for name in (b'"database":"', b'"table":"'):
            at = value.find(name) + len(name)
            names.append(value[at : value.find(b'"', at)])
        return names[0], names[1]

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        return [self._single(message, value)]

    def _single(self, message: Message, value: bytes) -> Change:
        check_json(value)
        try:
            top = _decode_names(value)
            kind = _decode_type(top.get("type", Raw(b"null")))
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if kind in EVENTS:
            return event(message, value, kind, top, self.positions)
        if kind not in ROWS:
            raise Refusal("operation", f"Maxwell has no type {kind[:40]!r}")
        if "table" not in top:
            top = self._named(message, top)
            value = _json(top)
        try:
            parsed = _decode_row(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        others = {name: raw for name, raw in top.items() if name not in TAKEN and name != "old"}
        if self.settings.own_database and parsed.database == self.settings.own_database:
            return self._own(message, parsed, top)
        return self._row(message, kind, parsed, others)

    def _named(self, message: Message, top: dict[str, Raw]) -> dict[str, Raw]:
        """A message that names no table, with the table that the settings name.

        Raises:
            Refusal: they name none.
        """
        database, table = named_by(self.settings.table, message.topic, "a message with a row")
        return {"database": Raw(_json(database or "")), **top, "table": Raw(_json(table))}

    def _own(self, message: Message, parsed: Any, top: dict[str, Raw]) -> Change:
        """A row of a table of Maxwell itself."""
        if parsed.table != "heartbeats":
            return skipped(message, "Maxwell's own table")
        # A heartbeat has no transaction; its xid is carried on like what nobody knows.
        kept = {"type", "data", "xid", *KEY}
        others = {n: raw for n, raw in top.items() if n in kept or n not in TAKEN}
        time = given(parsed.ts)
        return Change(
            "heartbeat",
            NO_TABLE,
            message,
            sequence=self.positions.sequence(given(parsed.position)),
            source_time=None if time is None else time * 1_000_000,
            extra=extra_of(parsed, others),
        )

    def _row(self, message: Message, kind: str, parsed: Any, others: dict[str, Raw]) -> Change:
        operation = ROWS[kind]
        if not parsed.table:
            raise Refusal("shape", "a message with a row names no table")
        data, old = row_of(parsed.data, "data"), _old_of(parsed, kind, others)
        if not data:
            raise Refusal("shape", "a row without columns")
        name = (parsed.database or None, None, parsed.table)
        columns = _columns_of(parsed)
        key = named_key(message) if columns is None else tuple(columns)
        style = self.style if operation == "read" else self.binlog_style
        declared: tuple[str, ...] = ()
        if self.settings.missing_nulls:
            declared = self._readers.all_declared(name, (data, old), "missing_nulls")
        else:
            _refuse_changed(old, data)
        reader = self._readers.find(name, (data, old), key, style, declared)
        after, before = reader.image(data), None
        if self.settings.missing_nulls:
            reader.with_nulls(after)
        if operation == "update" and (old or parsed.old is UNSET or self.settings.missing_nulls):
            before = self._before(reader, old, after)
        stated_key, schema = key_texts(given(parsed.primary_key)), reader.schema
        if stated_key and columns == list(schema.key or ()) and is_compared(schema):
            check_stated_key(schema, (after, before), stated_key, "primary_key")
        row = (operation, before, after, extra_of(parsed, others))
        change = row_change(message, self.positions, reader.schema, parsed, row)
        self._readers.keep(reader.schema)
        self._learn(name, key, columns, reader)
        return change

    def _before(self, reader: Any, old: Row, after: Any) -> Any:
        """The row before an update: what changed as it was, the rest as it is.

        Where nulls are left out, a column that was null before is missing in `old` like one that
        did not change, so only the columns of `old` and the key are sure.
        """
        before = reader.image(old)
        if not self.settings.missing_nulls:
            overlay(len(reader.schema.columns), {})(before, after)
            return before
        for field in reader.schema.key_fields if reader.schema.key else ():
            if getattr(before, field) is UNSET:
                setattr(before, field, getattr(after, field))
        return before

    def _learn(self, name: Any, key: Any, columns: list[str] | None, reader: Any) -> None:
        """Use the known-table way for next messages of this table, once a second one is like it."""
        if self.settings.missing_nulls or (columns is None and key is not None):
            return
        hint = _json(name[0] or "")[1:-1], _json(name[2])[1:-1]
        pair = (
            self._readers.reader(reader.schema, self.binlog_style, reader.inferred),
            self._readers.reader(reader.schema, self.style, reader.inferred),
        )
        known = self._tables.get(hint)
        if known is not None and known.readers == pair and known.key == columns:
            return
        if not reader.repeats():
            self._forget(hint)
            return
        self._remember(hint, MaxwellTable(name[0] or "", name[2], columns, pair, self.positions))


def _old_of(parsed: Any, kind: str, others: dict[str, Raw]) -> Row:
    """The columns that an update changed, as they were; none for other types.

    Args:
        parsed: the message.
        kind: its type.
        others: what is carried on. An `old` that no update has is added to it: nothing reads it,
            and an update's would stand twice.

    Raises:
        Refusal: kind `shape`, when it is no object, or there are columns where none belong.
    """
    if parsed.old is UNSET:
        return {}
    # A null tells as little as an empty row.
    old = {} if parsed.old == Raw(b"null") else row_of(parsed.old, "old")
    if kind == "update":
        return old
    # Maxwell's deletes may have one beside the whole row, and of that nothing is lost.
    if old and kind != "delete":
        raise Refusal("shape", f"type {kind} with columns in old, which only updates have")
    others["old"] = parsed.old
    return {}


def _refuse_changed(old: Row, data: Row) -> None:
    """Refuse an update of columns of which it does not tell what they are now.

    Taken for unchanged, they would keep the value that they had before.
    """
    for name in old:
        if name not in data:
            sentence = f"column {name!r} is in old and not in data"
            raise Refusal(
                "shape", f"{sentence}; set missing_nulls where Maxwell runs with output_nulls=false"
            )


def _columns_of(parsed: Any) -> list[str] | None:
    """The key columns that a message names.

    Raises:
        Refusal: kind `shape`, when it names one twice.
    """
    columns: list[str] | None = given(parsed.primary_key_columns)
    if columns is not None and len(set(columns)) < len(columns):
        sentence = f"primary_key_columns is {repr(columns)[:60]}, which names a column twice"
        raise Refusal("shape", sentence)
    return columns
