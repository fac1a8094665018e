"""Writes messages of OMS SharePlex; what came from SharePlex is carried on as it was.

`data` holds the whole row of an insert or delete and what an update changed, `key` the row before
an update. What the canonical change does not hold follows fixed rules, so that a rerun writes the
same bytes: `posttime` is the time of the change, `scn` is made from the position where the source
has no sequence of one number, `rowid` is the table's name and the values of its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.oms.clocks import SecondTexts
from waybill.envelopes.oms.lobs import WrittenLobs
from waybill.envelopes.oms.styles import style_of
from waybill.envelopes.oms.type_names import in_notation
from waybill.envelopes.oms.writers import keep_changed
from waybill.envelopes.sequence.written import OMS_DIGITS, WrittenSequence
from waybill.envelopes.stated_keys import SEPARATOR
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.sequence_layout import OWN
from waybill.values.generated import function
from waybill.values.json_rows import RowWriter
from waybill.values.temporal import zone_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.oms.shareplex.settings import OmsShareplexWriteSettings
    from waybill.records import Change, TableSchema

_OPS = {"insert": "ins", "upsert": "ins", "read": "ins", "update": "upd", "delete": "del"}
_LOST = {"begin": "transactions", "commit": "transactions", "rollback": "transactions"}
_OURS = b'{"shareplex":'

_json = msgspec.json.Encoder().encode


class Carried(msgspec.Struct, gc=False):
    """Fields of `meta` that a SharePlex target carries on."""

    posttime: Any = UNSET
    size: Any = UNSET
    idx: Any = UNSET
    seq: Any = UNSET
    rowid: Any = UNSET
    table: Any = UNSET


class _Extra(msgspec.Struct, gc=False):
    shareplex: Carried


class _Meta(msgspec.Struct, gc=False):
    """`meta` in the order of the document's samples."""

    posttime: Any
    op: str
    size: Any
    time: Any
    idx: Any
    seq: Any
    table: str
    rowid: Any
    trans: Any
    scn: Any


class _Message(msgspec.Struct, gc=False):
    data: Any
    meta: _Meta
    key: Any = UNSET


_NOTHING = Carried()
_decode_extra = msgspec.json.Decoder(_Extra).decode


class OmsShareplexEncoder:
    """Writes messages of the SharePlex format.

    Args:
        settings: notation of values, and the zone of times.
    """

    def __init__(self, settings: OmsShareplexWriteSettings) -> None:
        self.settings = settings
        self.times = SecondTexts(zone_named(settings.timezone))
        self.ids = WrittenSequence(settings, OMS_DIGITS)
        self._tables: Bounded[TableSchema, ShareplexTable] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The message of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in OMS.
        """
        count_kind(change, losses)
        change = self.ids.packed.as_own_message(change, losses)
        op = _OPS.get(change.operation)
        if op is None:
            losses.append(_LOST.get(change.operation, change.operation))
            return []
        return [self.table(change.schema).message(change, op, losses)]

    def table(self, schema: TableSchema) -> ShareplexTable:
        """What writes the messages of a table.

        Raises:
            Refusal: kind `encoding`, when its name has no notation in SharePlex.
        """
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = ShareplexTable(schema, self)
        return table


class ShareplexTable:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema, encoder: OmsShareplexEncoder) -> None:
        settings = encoder.settings
        if (schema.database or "").count(".") > settings.tenants or (
            not schema.database and "." in (schema.table or "")
        ):
            name = schema.qualified_name
            sentence = f"{name!r} cannot be distinguished from another name of two parts"
            raise Refusal(
                "encoding", f"{sentence}; set tenants: true where it begins with a tenant"
            )
        self.schema, earlier = schema, settings.version == "earlier"
        self.style = style_of(settings.version, settings.trailing_zeros)
        self.rows = RowWriter(in_notation(schema, earlier), self.style)
        self.lobs = WrittenLobs(schema, settings, None, whole=True)
        self.ids = encoder.ids
        self.times = encoder.times
        size = len(schema.columns)
        self.keep_changed = keep_changed(size)
        self.only_key = only_key(schema)
        self.covered = _covered(size)
        self.name = ".".join(part for part in (schema.database, schema.table) if part)
        self.buffer = bytearray()
        self.into = msgspec.json.Encoder().encode_into

    def message(self, change: Change, op: str, losses: list[str]) -> Encoded:
        """The message of a row."""
        rows, before, after = self.rows, change.before, change.after
        image = before if op == "del" else after
        if image is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        old = None
        lost: set[str] = set()
        if op == "upd":
            old, image = self.lobs.as_null(rows.moved(change, before), image, lost)
        key: Any = UNSET
        if op == "upd" and old is None and self.only_key(image):
            raise Refusal("encoding", "an update that holds nothing but its key has no place here")
        if old is None:
            data = rows.wire(image)
        else:
            key, data = rows.wires(old, image)
        shown_key = rows.key_of(data)
        if old is not None:
            self.keep_changed(data, image, old)
            if self.covered(image, old):
                lost.add("unchanged_columns")
            losses += sorted(lost)
        message_key = rows.message_key(image)
        if rows.types_lost(image, old):
            losses.append("types")
        meta = self._meta(change, op, shown_key, losses)
        self.into(_Message(data, meta, key), self.buffer)
        return Encoded(message_key, bytes(self.buffer))

    def named(self, stated: Any) -> str:
        """The table's name in messages: the stated one if that names a tenant too."""
        whole = stated.__class__ is str and stated.endswith(f".{self.name}")
        return stated if whole else self.name

    def _meta(self, change: Change, op: str, key: Any, losses: list[str]) -> _Meta:
        carried = _NOTHING
        time: Any = UNSET
        if change.extra is not None and change.extra.startswith(_OURS):
            carried = _decode_extra(change.extra).shareplex
        if change.source_time is not None:
            second, rest = divmod(change.source_time, 1_000_000)
            time, exact = self.times[second]
            if rest or not exact:
                losses.append("source_time")
        posttime = carried.posttime
        if carried is _NOTHING:
            posttime = time
        if change.operation == "read" and not change.full_row:
            losses.append("full_rows")
        if self.schema.key:
            losses.append("key_columns")
        if self.schema.schema is not None:
            losses.append("schema_name")
        name = self.named(carried.table)
        return _Meta(
            posttime,
            op,
            carried.size,
            time,
            carried.idx,
            carried.seq,
            name,
            f"{name}-{SEPARATOR.join(map(shown, key))}" if key else carried.rowid,
            UNSET if change.transaction is None else change.transaction,
            _scn(change, carried, self.ids, losses),
        )


def shown(value: Any) -> str:
    """A value of a key as it stands in its JSON."""
    if value.__class__ is Raw:
        return str(value, "ascii")
    return "" if value is None else str(value)


def _scn(change: Change, carried: Carried, ids: WrittenSequence, losses: list[str]) -> Any:
    """The sequence: the source's one number; of SharePlex's two the first, `idx` has the other."""
    sequence = change.sequence
    if change.full_row:
        if sequence is not None:
            losses.append("sequence_id")
        return UNSET
    if carried is not _NOTHING:
        if sequence is None:
            return UNSET
        placed = carried.idx.__class__ is str
        if sequence[1:] == ((int(carried.idx.partition("/")[0]),) if placed else OWN):
            return str(sequence[0])
    return str(ids.of(change, losses))


def only_key(schema: TableSchema) -> Callable[[Any], bool]:
    """A function that tells whether an image has no column beside those of the key.

    Without a known key it cannot be determined.
    """
    key = schema.key_places if schema.key else ()
    others = [f"image.f{i} is UNSET" for i in range(len(schema.columns)) if i not in key]
    condition = " and ".join(others) or "True"
    return function("only_key(image)", [f"return {condition}" if key else "return False"], {})


def _covered(columns: int) -> Any:
    """A function that tells whether an image lacks a column that another one has."""
    test = " or ".join(f"(image.f{i} is UNSET and other.f{i} is not UNSET)" for i in range(columns))
    return function("covered(image, other)", [f"return {test or False}"], {})
