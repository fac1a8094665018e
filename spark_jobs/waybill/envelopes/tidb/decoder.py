"""TiCDC's Canal-JSON with the TiDB extension: Canal's FlatMessage with one row, and `_tidb`.

Sources of the rules: TiDB documentation, "TiCDC Canal-JSON Protocol", and its sections "TiDB
extension field" and "WATERMARK Event"; pingcap/tiflow, canal_json_message.go and
canal_json_row_event_encoder.go (the fields of `_tidb`); TiDB documentation, "Split update events"
(an update of a primary or unique key is a DELETE and an INSERT of one commit).

`commitTs` is the timestamp of the transaction (TSO: milliseconds since 1970 in front of 18 bits of
a counter), and all its rows have it. A transaction leaves one change of each row, or a DELETE and
an INSERT of it where an update was split, so `commitTs` and the row's place behind such a DELETE
are the sequence id, in whatever order messages arrive or are sent again.

An UPDATE of the key that was not split (`output-raw-change-event`, or versions that split none) is
read as that DELETE and INSERT. TiCDC does not keep the order in which a transaction moved its rows,
so the key that one row left and another one took is read right by the two steps alone.

An INSERT whose `_tidb` has no `commitTs` is a full row: TiCDC sends none, and Waybill writes it so.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Raw, structs

from waybill.envelopes.canal.tables import CanalTable, extra_json
from waybill.envelopes.canal.text_rows import CanalDecoder, FlatMessage
from waybill.envelopes.tidb.values import TidbSqlTypes, type_held
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, Column
from waybill.values.mysql_types import logical_type
from waybill.values.values import JSON_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.canal.sql_types import SqlTypes
    from waybill.envelopes.canal.tables import Shape
    from waybill.records import Message
    from waybill.types import LogicalType

WATERMARK = "TIDB_WATERMARK"
"""Type of the messages that say up to which commit all changes were sent."""

Tso = Annotated[int, Meta(ge=0)]
"""A timestamp of TiDB: milliseconds since 1970, and 18 bits of a counter."""
LARGEST = 2**64 - 1
"""The largest one."""

_NULL = Raw(b"null")
_MADE = {"commitTs", "watermarkTs"}
_json = msgspec.json.Encoder().encode


class _Commit(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`_tidb` of a row, as nearly all messages have it."""

    commitTs: Tso


class _Extension(msgspec.Struct, gc=False):
    """`_tidb` of any message."""

    commitTs: Tso | None = None
    watermarkTs: Tso | None = None
    onlyHandleKey: bool = False
    claimCheckLocation: str | None = None


class TidbMessage(FlatMessage, kw_only=True, gc=False, rename={"tidb": "_tidb"}):
    """A message of which nothing is known yet."""

    type: str = ""
    tidb: Raw = _NULL


_decode_extension = msgspec.json.Decoder(_Extension).decode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode


def step_of(operation: str) -> int:
    """The place of a change among those of its row that one commit may have."""
    return 0 if operation == "delete" else 1


def placed(change: Change, commit: int) -> list[Change]:
    """A change of a row with its place in a commit, or the two of an update of the key.

    Raises:
        Refusal: a key column is not in the row.
    """
    if change.operation == "update" and change.old_key_image() is not None:
        gone = structs.replace(change, operation="delete", after=None)
        come = structs.replace(change, operation="insert", before=None, index=1)
        return [*placed(gone, commit), *placed(come, commit)]
    change.sequence = commit, step_of(change.operation)
    return [change]


class TidbTable(CanalTable):
    """A table as messages of one shape describe it."""

    own_fields: ClassVar[frozenset[str]] = frozenset({"_tidb"})
    sql_types: ClassVar[type[SqlTypes]] = TidbSqlTypes

    def _column(self, name: str, declared: LogicalType | None, text: str | None) -> Column:
        """See `CanalTable._column`; types without sizes are those of what messages hold."""
        held = type_held(text, declared)
        return Column(name, declared or logical_type(held), held)

    def _kinds(self, shape: Shape) -> dict[str, Any]:
        """See `CanalTable._kinds`; the types of the columns stand in any order."""
        named = [(f"f{i}", text) for i, text in enumerate(shape.types) if text is not None]
        stated = [(field, Literal[text]) for field, text in named]
        rename = {f"f{i}": name for i, name in enumerate(shape.names)}
        types = msgspec.defstruct(
            "Types", stated, rename=rename, forbid_unknown_fields=True, gc=False
        )
        self.mysql = types(*[text for _, text in named])
        return {**super()._kinds(shape), "_tidb": _Commit, "mysqlType": types}

    def _changes(
        self, message: Message, flat: Any, operation: str, stated: list[bytes]
    ) -> list[Change]:
        """See `CanalTable._changes`; their place in the order is that of the commit."""
        (change,) = super()._changes(message, flat, operation, stated)
        number = flat._tidb.commitTs
        if number > LARGEST:
            raise ValueError("what TiCDC does not write is read exactly, which says what is wrong")
        change.extra = _carried(change.extra, number)
        return placed(change, number)


class TidbDecoder(CanalDecoder):
    """Reads messages of TiCDC with the TiDB extension.

    Args:
        settings: time zone of the TiCDC server.
        rules: declared keys and column types, which go before what the message says.
    """

    flat: ClassVar[Callable[[bytes], Any]] = staticmethod(msgspec.json.Decoder(TidbMessage).decode)
    tool = "TiCDC"
    table_class: ClassVar[type[CanalTable]] = TidbTable

    def _columns(self, types: dict[str, str | None], rows: list[list[str]]) -> list[str]:
        """The columns in the order of the rows, which is the table's.

        Those of `mysqlType` stand in another order in every message: it is a map of Go.
        """
        return list(dict.fromkeys([*chain.from_iterable(rows), *types]))

    def _stated(self, raw: Raw, types: dict[str, str | None]) -> bytes:
        """See `CanalDecoder._stated`."""
        return bytes(raw) if raw == _NULL else _json(dict(sorted(types.items())))

    def _rows(self, message: Message, flat: Any, value: bytes) -> list[Change]:
        """The change of the one row of a message, or the two of an update of its key.

        Raises:
            Refusal: the message, its place or its row is bad.
        """
        extension, more = _extension(flat)
        if not flat.table:
            raise Refusal("shape", "a message with a row names no table")
        if flat.data is not None and len(flat.data) > 1:
            raise Refusal("shape", f"{len(flat.data)} rows in data; TiCDC writes one in a message")
        (change,) = super()._rows(message, flat, value)
        if change.outcome != "ok":
            return [change]
        change.extra = _carried(change.extra, extension.commitTs, more)
        if extension.commitTs is not None:
            return placed(change, extension.commitTs)
        if change.operation != "insert":
            raise _unplaced(f"{flat.type} whose _tidb has no commitTs")
        change.operation, change.full_row = "read", True
        return [change]

    def _event(self, message: Message, flat: Any) -> Change:
        """The change of a message without rows.

        Raises:
            Refusal: it is none of TiCDC, or says what it cannot say.
        """
        extension, more = _extension(flat)
        if flat.type == WATERMARK:
            if extension.watermarkTs is None:
                raise Refusal("shape", f"{WATERMARK} whose _tidb has no watermarkTs")
            return Change(
                "heartbeat",
                NO_TABLE,
                message,
                source_time=None if flat.es is None else flat.es * 1000,
                extra=_carried(extra_json(flat.id, flat.ts), None, {**more, **_mark(extension)}),
            )
        change = super()._event(message, flat)
        if change.outcome == "ok":
            change.sequence = None if extension.commitTs is None else (extension.commitTs, 0)
            change.extra = _carried(change.extra, extension.commitTs, more, unnumbered=True)
        return change


def _too_large(number: int) -> Refusal:
    return Refusal("shape", f"commitTs is {number}, which is more than 64 bits hold")


def _mark(extension: _Extension) -> dict[str, Raw]:
    return {"watermarkTs": Raw(_json(extension.watermarkTs))}


def _unplaced(what: str, kind: str = "sequence") -> Refusal:
    return Refusal(
        kind,
        f"{what} cannot be ordered: create the changefeed with enable-tidb-extension=true, or read "
        "the topic with envelope canal, by its positions",
    )


def _extension(flat: Any) -> tuple[_Extension, dict[str, Raw]]:
    """What `_tidb` says, and its fields that are only carried on.

    Raises:
        Refusal: it is missing or has another shape; or the message does not hold its row.
    """
    if flat.tidb == _NULL:
        raise _unplaced(f"{flat.type[:40]!r} without _tidb", "shape")
    try:
        extension = _decode_extension(flat.tidb)
        more = _decode_names(flat.tidb)
    except JSON_ERRORS as error:
        raise Refusal("shape", f"_tidb has the wrong shape: {error}") from None
    if extension.claimCheckLocation is not None:
        raise Refusal(
            "shape",
            f"the row is not in the message but in {extension.claimCheckLocation[:200]!r}: set "
            "large-message-handle-option of the changefeed to none and raise max-message-bytes",
        )
    if extension.onlyHandleKey:
        raise Refusal(
            "shape",
            "the message was too large and holds the handle key alone: set "
            "large-message-handle-option of the changefeed to none and raise max-message-bytes",
        )
    if extension.commitTs is not None and extension.commitTs > LARGEST:
        raise _too_large(extension.commitTs)
    return extension, {name: raw for name, raw in more.items() if name not in _MADE}


def _carried(
    extra: bytes | None,
    commit: int | None,
    more: dict[str, Raw] | None = None,
    unnumbered: bool = False,
) -> bytes:
    """What only a target of the family can carry on: that of Canal, `commitTs` and the rest.

    Args:
        extra: that of Canal.
        commit: `commitTs`.
        more: the other fields of `_tidb`.
        unnumbered: whether to tell of an event that it came without `commitTs`.
    """
    inner = b"" if extra is None else extra[len(b'{"canal":{') : -2]
    parts = [inner] if inner else []
    if commit is not None:
        parts.append(b'"commitTs":%d' % commit)
    elif unnumbered:
        parts.insert(0, b'"commitTs":null')  # see `sequence.written.came_without`
    if more:
        parts.append(b'"tidb":%b' % _json(more))
    return b'{"canal":{%b}}' % b",".join(parts)
