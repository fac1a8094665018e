"""OceanBase OMS, serialization method SharePlex: changed columns beside the row as it was.

Source of the rules: OceanBase documentation "Data formats", section "SharePlex-compatible JSON
message format", and its samples. `data` holds the whole row of an insert or delete and the changed
columns of an update (a null there is a change to null); `key` holds the row before an update, so
that the row after it is `key` overlaid by `data`.

A message names neither types nor key columns: `rowid` has the key's values alone, which have to be
those of the row (see `row_ids`). `scn` orders the changes, and `idx` those of one transaction
that share it. Messages tell no zone of their times, no full rows, and nothing but rows.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.envelopes.memory.remembering import FastRemembering
from waybill.envelopes.oms.clocks import Micros
from waybill.envelopes.oms.lobs import untouchable
from waybill.envelopes.oms.row_ids import check_row_id
from waybill.envelopes.oms.shareplex.encoder import (
    only_key,
)
from waybill.envelopes.oms.styles import style_of
from waybill.envelopes.oms.tables import database_of
from waybill.envelopes.sequence.settings import settled
from waybill.envelopes.stated_keys import is_compared
from waybill.errors import Refusal
from waybill.records import Change
from waybill.sequence_layout import optional
from waybill.values.generated import function, overlay
from waybill.values.json_rows import Readers, RowReader, row_of
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.row_functions import picked
from waybill.values.temporal import utc_from_wall, zone_named
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.oms.shareplex.settings import OmsShareplexReadSettings
    from waybill.records import Message
    from waybill.tables import TableName, TableRules

OPERATIONS = {"ins": "insert", "upd": "update", "del": "delete"}
"""`meta.op` and the operation that it says."""

_TEXT = str | None | UnsetType
META: dict[str, Any] = {
    "posttime": _TEXT,
    "size": int | None | UnsetType,
    "time": _TEXT,
    "idx": _TEXT,
    "seq": int | str | None | UnsetType,
    "rowid": _TEXT,
    "trans": _TEXT,
    "scn": int | str | None | UnsetType,
}
"""Fields of `meta` besides `op` and `table`."""
_CARRIED = ("posttime", "size", "idx", "seq", "rowid")
_ORDER = ("posttime", "op", "size", "time", "idx", "seq", "table", "rowid", "trans", "scn")
_SCN = re.compile(r"[0-9]{1,1000}")
IDX = re.compile(r"([0-9]{1,18})(?:/[0-9]{1,18})?")
"""`meta.idx`: the place in the transaction, and how many it has."""
_NULL = Raw(b"null")
_ORIGIN: Any = Literal[tuple(OPERATIONS)]

_Meta: type[Any] = msgspec.defstruct(
    "Meta",
    [("op", str), ("table", str), *[(name, kind, UNSET) for name, kind in META.items()]],
    gc=False,
)
_Carried = msgspec.defstruct("Carried", [(n, Any, UNSET) for n in (*_CARRIED, "table")], gc=False)
_carried_of = picked(_Carried, _CARRIED, "table")


class _Message(msgspec.Struct, gc=False):
    """A message of which nothing is known yet."""

    data: Raw
    meta: Raw
    key: Raw = _NULL


_json = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Message).decode
_decode_meta = msgspec.json.Decoder(_Meta).decode


class OmsShareplexDecoder(FastRemembering["_TableDecoder"]):
    """Reads messages of the SharePlex format.

    Args:
        settings: notation, time zone, and whether names have a tenant.
        rules: declared keys and column types.
    """

    def __init__(self, settings: OmsShareplexReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.rules = rules
        self.tenants = settings.tenants
        self.tenant = settings.tenant if settings.tenants else None
        self.lobs = settings.lobs == "unchanged"
        self.in_messages = settings.sequence_ids == "in_messages"
        self.zone = zone_named(settings.timezone)
        self.times = Micros(utc_from_wall(self.zone), "meta.time")
        self.style = style_of(settings.version)
        self.memory = self._readers = Readers(rules, self.style, sparse=True)
        super().__init__()

    def _hint(self, value: bytes) -> bytes:
        """A quote inside a string is escaped, so this is a name, if maybe that of a column."""
        at = value.find(b'"table":"', max(value.find(b'"meta":{'), 0)) + 9
        return value[at : value.find(b'"', at)]

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        return [self._single(message, value)]

    def _single(self, message: Message, value: bytes) -> Change:
        check_json(value)
        try:
            parsed = _decode(value)
            meta = _decode_meta(parsed.meta)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        operation = OPERATIONS.get(meta.op)
        if operation is None:
            raise Refusal("operation", f"SharePlex has no op {meta.op[:40]!r}")
        name = self._name(meta.table)
        data = row_of(parsed.data, "data")
        old = None if parsed.key == _NULL else row_of(parsed.key, "key")
        if not data and not old:
            raise Refusal("shape", f"op {meta.op} without a row")
        if operation != "update" and old:
            raise Refusal("shape", f"op {meta.op} with a row in key, which only updates have")
        reader = self._readers.find(name, (data, old or {}), None)
        image = reader.image(data)
        before = None if old is None or operation != "update" else reader.image(old)
        hint = _json(meta.table)[1:-1]
        table = known = self._tables.get(hint)
        if table is None or table.reader is not reader:
            table = _TableDecoder(meta.table, reader, self)
        change = table.change(message, meta, operation, image, before)
        self._readers.keep(reader.schema)
        if table is not known:
            if reader.repeats():
                self._remember(hint, table)
            else:
                self._forget(hint)
        return change

    def _name(self, text: str) -> TableName:
        """Database and table, without a tenant that is left out."""
        parts = text.split(".", 2 if self.tenants else 1)
        if not all(parts) or (len(parts) < 2 and self.tenants):
            raise Refusal("shape", f"meta.table is {text[:60]!r} and not database.table")
        database = ".".join(parts[:-1]) or None
        return database_of(database, "OCEANBASE", self.tenant), None, parts[-1]


class _TableDecoder:
    """A table whose columns are known, and the known-table way to read its messages."""

    def __init__(self, name: str, reader: RowReader, decoder: OmsShareplexDecoder) -> None:
        self.name = name
        self.reader, self.schema = reader, reader.schema
        self.tenants = decoder.tenants
        self.times = decoder.times
        self.in_messages = decoder.in_messages
        self.overlay = overlay(len(reader.schema.columns), {})
        self.only_key = only_key(reader.schema)
        self.stated_key = bool(reader.schema.key) and is_compared(reader.schema)
        self.forget = _forget(untouchable(reader.schema) if decoder.lobs else ())

    @cached_property
    def decode(self) -> KnownMessage:
        """Reads a message whose fields and columns are all known."""
        kinds = META | {"op": _ORIGIN, "table": Literal[self.name]}
        meta = strict({name: kinds[name] for name in _ORDER})
        row: Any = self.reader.wire
        return KnownMessage(strict({"data": row, "meta": meta, "key": row | UnsetType | None}))

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The change of a message of this table; None if it has to be read exactly.

        Raises:
            ValueError: it is another message (`JSON_ERRORS`), or a value is bad.
            Refusal: a value is bad.
        """
        parsed = self.decode(value)
        if parsed is None:
            return None
        meta, reader = parsed.meta, self.reader
        operation = OPERATIONS[meta.op]
        image, before = reader.read(parsed.data), None
        if parsed.key is not UNSET and parsed.key is not None:
            if operation != "update":
                return None
            before = reader.read(parsed.key)
        if image == reader.empty and before in (None, reader.empty):
            return None
        return [self.change(message, meta, operation, image, before)]

    def change(
        self, message: Message, meta: Any, operation: str, image: Any, before: Any
    ) -> Change:
        """The change of a row, whose columns in `data` are `image`.

        Raises:
            Refusal: an update tells neither the row before nor what it changed, or the key that
                is stated beside the row is another one.
        """
        after = image
        if operation == "update" and before is None and self.only_key(image):
            raise Refusal("shape", "op upd without key, whose data has nothing but the key")
        if before is not None:
            self.forget(image, before)
            self.overlay(image, before)
        elif operation == "delete":
            before, after = image, None
        if self.stated_key and meta.rowid:
            check_row_id(self.schema, (after, before), meta.rowid, meta.table)
        time = meta.time
        change = Change(
            operation,
            self.reader.schema,
            message,
            before=before,
            after=after,
            sequence=_sequence(meta),
            source_time=self.times[time] if time else None,
            transaction=meta.trans or None,
            extra=b'{"shareplex":%b}'
            % _json(_carried_of(meta, meta.table if self.tenants else UNSET)),
        )
        return settled(change, "meta.scn", self.in_messages)


def _forget(lobs: tuple[int, ...]) -> Callable[[Any, Any], None]:
    """A function that leaves out of the row before what OMS writes as null and does not know."""
    lines = [f"if data.f{i} is UNSET and before.f{i} is None: before.f{i} = UNSET" for i in lobs]
    return function("forget(data, before)", lines, {})


def _sequence(meta: Any) -> tuple[int, ...] | None:
    """The sequence of a change; None where it has no `scn`, which only increments have.

    Without `idx` it has a 0 in its place (see `sequence_layout.optional`).

    Raises:
        Refusal: kind `shape`, when it is no number.
    """
    idx = meta.idx
    match = None
    if idx is not UNSET and idx is not None:
        match = IDX.fullmatch(idx)
        if match is None:
            raise Refusal("shape", f"meta.idx is {idx[:40]!r} and not a place such as 1/10")
    scn = meta.scn
    if scn is UNSET or scn is None or scn in ("", "null"):
        return None
    text = str(scn)
    if _SCN.fullmatch(text) is None:
        raise Refusal("shape", f"meta.scn is {text[:40]!r} and not digits, 1000 at most")
    return optional(int(text)) if match is None else (int(text), int(match[1]))
