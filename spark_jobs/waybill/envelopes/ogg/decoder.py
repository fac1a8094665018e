"""GoldenGate's JSON formatter: one operation a message, images before and after.

Sources of the rules: Oracle GoldenGate for Big Data, "Using the Pluggable Formatters" (JSON
Operation formatter), and the ogg-json format of Apache Flink. A column that is left out is missing
and not null; an image before may be empty or hold the key alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.envelopes.memory.remembering import FastRemembering
from waybill.envelopes.ogg.values import Clock, name_of, read_style, sequence_of, text_of
from waybill.envelopes.unnamed_tables import named_by
from waybill.errors import Refusal
from waybill.records import Change, intern_schema
from waybill.values.json_rows import Readers, Row, RowReader, row_of
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.row_functions import picked
from waybill.values.temporal import zone_named
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.ogg.settings import OggReadSettings
    from waybill.records import Message, TableSchema
    from waybill.tables import TableRules

ROWS = {"I": "insert", "U": "update", "D": "delete"}
"""`op_type` of operations that carry a row."""

_TEXT = str | None | UnsetType
_CARRIED: dict[str, Any] = {
    "op_ts": _TEXT,
    "current_ts": _TEXT,
    "pos": _TEXT,
    "tokens": dict[str, str] | None | UnsetType,
}
"""Fields that a GoldenGate target carries on as they are."""

_Carried = msgspec.defstruct("Carried", [(n, Any, UNSET) for n in _CARRIED], gc=False)
_carried_of = picked(_Carried, _CARRIED)
_KEY = list[str] | None | UnsetType
_ORIGIN: Any = Literal[tuple(ROWS)]
_NULL = Raw(b"null")


class _Message(msgspec.Struct, gc=False):
    """A message of which nothing is known yet."""

    table: str
    op_type: str
    op_ts: str | None = None
    current_ts: str | None = None
    pos: str | None = None
    tokens: dict[str, str] | None = None
    primary_keys: list[str] | None = None
    priamry_keys: list[str] | None = None
    before: Raw = _NULL
    after: Raw = _NULL


_TAKEN = {"table", "op_type", "primary_keys", "before", "after"}
_json = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Message).decode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode


class OggDecoder(FastRemembering["_TableDecoder"]):
    """Reads GoldenGate's JSON.

    Args:
        settings: time zone of op_ts.
        rules: declared keys and column types.
    """

    def __init__(self, settings: OggReadSettings, rules: TableRules) -> None:
        self.settings, self.rules = settings, rules
        self.clock = Clock(zone_named(settings.timezone))
        self.memory = self._readers = Readers(rules, read_style(settings), sparse=True)
        super().__init__()

    def _hint(self, value: bytes) -> bytes:
        at = value.find(b'"table":"') + 9
        return value[at : value.find(b'"', at)]

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        return [self._single(message, value)]

    def _single(self, message: Message, value: bytes) -> Change:
        check_json(value)
        try:
            top = _decode_names(value)
            if "table" not in top and "op_type" in top:
                top = self._named(message, top)
                value = _json(top)
            parsed = _decode(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        name, keys = name_of(parsed.table), _key_of(parsed)
        truncate = parsed.op_type == "T"
        known = [n for n in _CARRIED if n in top]
        # A TRUNCATE has no row whose table could tell its key.
        taken = _TAKEN - {"primary_keys"} if truncate else _TAKEN
        others = [n for n in top if n not in taken and n not in _CARRIED]
        extra = b'{"ogg":%b}' % _json({n: _compact(top[n]) for n in (*known, *others)})
        if truncate:
            _refuse_rows(parsed, "which it cannot have", "before", "after")
            schema = intern_schema(*name)
            return _change(message, self.clock, schema, parsed, ("truncate", None, None, extra))
        operation = ROWS.get(parsed.op_type)
        if operation is None:
            raise Refusal("operation", f"GoldenGate has no op_type {parsed.op_type[:40]!r}")
        before, after = _images(parsed, operation)
        rows = (after or {}, before or {})
        reader = self._readers.find(name, rows, None if keys is None else tuple(keys))
        old, new = (None if row is None else reader.image(row) for row in (before, after))
        row = (operation, old, new, extra)
        change = _change(message, self.clock, reader.schema, parsed, row)
        self._readers.keep(reader.schema)
        if parsed.primary_keys is not None or keys is None:
            self._learn(parsed, reader)
        return change

    def _named(self, message: Message, top: dict[str, Raw]) -> dict[str, Raw]:
        """A message that names no table, with the table that the settings name.

        Raises:
            Refusal: they name none.
        """
        database, table = named_by(self.settings.table, message.topic, "an operation")
        name = text_of(database, None, table)
        return {"table": Raw(_json(name)), **top}

    def _learn(self, parsed: _Message, reader: RowReader) -> None:
        """Use the known-table way for next messages of this table, once a second one is like it."""
        hint = _json(parsed.table)[1:-1]
        known = self._tables.get(hint)
        if known is not None and known.reader is reader and known.key == parsed.primary_keys:
            return
        if reader.repeats():
            self._remember(
                hint, _TableDecoder(parsed.table, parsed.primary_keys, reader, self.clock)
            )
        else:
            self._forget(hint)


class _TableDecoder:
    """The known-table way: messages whose fields and columns are all known."""

    def __init__(self, name: str, key: list[str] | None, reader: RowReader, clock: Clock) -> None:
        self.key = key
        self.reader, self.schema = reader, reader.schema
        self.clock = clock
        row: Any = reader.wire | UnsetType | None
        members = {"table": Literal[name], "op_type": _ORIGIN, **_CARRIED}
        tokens = members.pop("tokens")
        members |= {"primary_keys": _KEY, "tokens": tokens, "before": row, "after": row}
        self.decode = KnownMessage(strict(members))

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The change of a message of this table; None if it has to be read exactly."""
        parsed = self.decode(value)
        if parsed is None or _given(parsed.primary_keys) != self.key:
            return None
        operation = ROWS[parsed.op_type]
        before, after, reader = parsed.before or None, parsed.after or None, self.reader
        old = new = None
        if operation == "update" and before is not None and after is not None:
            old, new = reader.reads(before, after)
        elif operation == "delete" and before is not None and after is None:
            old = reader.read(before)
        elif operation != "delete" and after is not None and before is None:
            new = reader.read(after)
        else:
            return None
        if reader.empty in (old, new):
            return None
        extra = b'{"ogg":%b}' % _json(_carried_of(parsed))
        row = (operation, old, new, extra)
        return [_change(message, self.clock, reader.schema, parsed, row)]


def _given(key: Any) -> list[str] | None:
    return None if key is UNSET else key


def _compact(raw: Raw) -> Raw:
    """A value without the blanks between its tokens, as the known-table way carries it on."""
    return Raw(msgspec.json.format(raw, indent=-1))


def _row(raw: Raw, what: str) -> Row | None:
    """The columns of an image; None where there is none, or an empty one."""
    return None if raw == _NULL else row_of(raw, what) or None


def _images(parsed: _Message, operation: str) -> tuple[Row | None, Row | None]:
    """The columns before and after a change.

    Raises:
        Refusal: kind `shape`, when the row is missing, or there is one where none belongs: nobody
            would see it.
    """
    before, after = _row(parsed.before, "before"), _row(parsed.after, "after")
    if (before if operation == "delete" else after) is None:
        side = "before" if operation == "delete" else "after"
        sentence = f"op_type {parsed.op_type} without a row in {side}; of the JSON formatters "
        raise Refusal("shape", f"{sentence}only the one of operations (format json) is read")
    if operation == "insert":
        _refuse_rows(parsed, "which only updates and deletes have", "before")
    elif operation == "delete":
        _refuse_rows(parsed, "which only inserts and updates have", "after")
    return before, after


def _refuse_rows(parsed: _Message, why: str, *names: str) -> None:
    """Refuse rows where none belong."""
    for name in names:
        if _row(getattr(parsed, name), name) is not None:
            raise Refusal("shape", f"op_type {parsed.op_type} with a row in {name}, {why}")


def _key_of(parsed: _Message) -> list[str] | None:
    """The key columns, which older messages name under a misspelt name.

    Raises:
        Refusal: kind `shape`, when both names tell different keys, or a column stands twice.
    """
    key, misspelt = parsed.primary_keys, parsed.priamry_keys
    if key is None:
        key = misspelt
    elif misspelt is not None and misspelt != key:
        sentence = f"primary_keys is {_shown(key)} but priamry_keys {_shown(misspelt)}"
        raise Refusal("shape", sentence)
    if key is not None and len(set(key)) < len(key):
        name = "primary_keys" if parsed.primary_keys is not None else "priamry_keys"
        raise Refusal("shape", f"{name} is {_shown(key)}, which names a column twice")
    return key


def _shown(key: list[str]) -> str:
    return repr(key)[:60]


def _change(
    message: Message,
    clock: Clock,
    schema: TableSchema,
    parsed: Any,
    row: tuple[str, Any, Any, bytes],
) -> Change:
    operation, before, after, extra = row
    return Change(
        operation,
        schema,
        message,
        before=before,
        after=after,
        sequence=sequence_of(parsed.pos or None),
        source_time=clock.micros(parsed.op_ts or None),
        extra=extra,
    )
