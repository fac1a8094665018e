"""Changes that were read in bulk, as rows of `changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from waybill.bulk import kernels
from waybill.bulk.arena import Value
from waybill.bulk.assembly import Filled, Packed, array_of, packed
from waybill.bulk.column_codecs import same
from waybill.lake_columns import CHANGES, MESSAGE_PLACE
from waybill.order import AFTER, CHANGE, FULL_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from waybill.bulk.arena import Mask, Places, Texts
    from waybill.bulk.block import Messages
    from waybill.bulk.rows import Columns, Rows
    from waybill.records import TableSchema

_json = msgspec.json.Encoder().encode
_BACKSLASH = ord("\\")


def storable(rows: Rows) -> Mask:
    """Which changes can be rows of `changes` without exact conversion."""
    good = rows.offsets >= 0
    for part in rows.sequence or ():
        good &= part >= 0
    if rows.transaction is not None:
        escaped = np.empty(len(rows), np.bool_)
        kernels.holds(rows.arena.data, *rows.transaction, _BACKSLASH, escaped)
        good &= ~escaped
    return good


def changes_of(
    found: list[Rows], messages: pa.RecordBatch, batch_id: str
) -> tuple[pa.Table, Places]:
    """Rows of `changes`, and for each the number of its message.

    Args:
        found: whole changes, all `storable`.
        messages: the messages that they came with.
        batch_id: the batch that brings them.
    """
    tables = [_table(rows, batch_id) for rows in found]
    places = np.concatenate([rows.places for rows in found])
    return _placed(pa.concat_tables(tables), messages, places), places


def skipped_of(
    block: Messages, places: Places, messages: pa.RecordBatch, batch_id: str, why: str
) -> pa.Table:
    """Rows of `changes` for messages that are no changes and are left out on purpose.

    Args:
        block: the messages.
        places: the numbers of those that are skipped; their offsets are from 0 on.
        messages: all of them.
        batch_id: the batch that brings them.
        why: the reason, see `records.skipped`.
    """
    one = {
        "operation": "other",
        "outcome": "skipped",
        "reason_kind": why,
        "index": 0,
        "batch": batch_id,
    }
    orders = _orders(block, places, (), CHANGE, AFTER)
    return _placed(_filled_up(len(places), one, {"order_key": orders}), messages, places)


def _placed(rows: pa.Table, messages: pa.RecordBatch, places: Places) -> pa.Table:
    """Rows without their topic, partition and offset, with those of their messages."""
    numbers: Any = pa.array(places)
    for name in MESSAGE_PLACE:
        column = messages.column(name).take(numbers)
        rows = rows.append_column(CHANGES.field(name), column)
    return rows.select(CHANGES.names)


def _table(rows: Rows, batch_id: str) -> pa.Table:
    schema, size = rows.schema, len(rows)
    image = rows.before if rows.after is None else rows.after
    one: dict[str, Any] = {
        "operation": rows.operation,
        "outcome": "ok",
        "index": 0,
        "batch": batch_id,
    }
    key = old_key = None
    if schema.key and image is not None:
        keys = [image[place] for place in schema.key_places]
        key = _object(rows, schema.key, keys)
        old_key = _old_keys(rows, keys, schema.key)
    named = {
        "database": tables_of(rows, lambda schema: schema.database),
        "schema": tables_of(rows, lambda schema: schema.schema),
        "table": tables_of(rows, lambda schema: schema.table),
        "schema_id": tables_of(rows, lambda schema: schema.id),
        "key": key,
        "old_key": old_key,
        "before": _image(rows, rows.before),
        "after": _image(rows, rows.after),
        "order_key": _order_keys(rows),
        "source_time": None
        if rows.source_time is None
        else pa.array(rows.source_time).cast(CHANGES.field("source_time").type),
        "transaction": None if rows.transaction is None else _texts(rows, rows.transaction),
        "extra": _extra(rows),
    }
    return _filled_up(size, one, named)


def _filled_up(size: int, one: dict[str, Any], named: dict[str, pa.Array | None]) -> pa.Table:  # type: ignore[type-arg]
    """Rows of `changes` without their topic, partition and offset.

    Args:
        size: how many.
        one: by column what is the same in all rows.
        named: by column the values of the rows; columns that are not there are null.
    """
    columns, fields = [], []
    for field in CHANGES:
        if field.name in MESSAGE_PLACE:
            continue
        if field.name in one:
            array = pa.repeat(pa.scalar(one[field.name], field.type), size)
        elif (array := named.get(field.name)) is None:
            array = pa.nulls(size, field.type)
        columns.append(array)
        fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def tables_of(rows: Rows, what: Callable[[TableSchema], str | None]) -> pa.Array:  # type: ignore[type-arg]
    """What is stated of the table of each of some changes."""
    if rows.tables is None:
        return pa.repeat(pa.scalar(what(rows.schema), pa.string()), len(rows))
    present, numbers = np.unique(rows.tables.numbers, return_inverse=True)
    schemas = rows.tables.schemas
    texts = [what(schemas[number]) for number in present.tolist()]
    encoded = array_of([None if text is None else text.encode() for text in texts]).cast(
        pa.string()
    )
    places: Any = pa.array(numbers)
    return encoded.take(places)


def _filled(rows: Rows, parts: list[bytes | Value]) -> pa.Array:  # type: ignore[type-arg]
    """Texts made of parts that are the same for all rows and of values."""
    text, cuts = bytearray(), [0]
    values: list[Value] = []
    for part in parts:
        if isinstance(part, bytes):
            text += part
        else:
            cuts.append(len(text))
            values.append(part)
    cuts.append(len(text))
    texts = Filled(rows.arena, len(rows), bytes(text), cuts, values)
    return packed([texts]).array(pa.string())


def _object(rows: Rows, names: tuple[str, ...], columns: list[Texts | None] | Columns) -> pa.Array:  # type: ignore[type-arg]
    """JSON objects of texts by name; columns that are not there are left out."""
    parts: list[bytes | Value] = []
    mark = b"{"
    for name, texts in zip(names, columns, strict=True):
        if texts is not None:
            parts += [mark + _json(name) + b":", Value(texts, True)]
            mark = b","
    return _filled(rows, [*parts, b"}" if parts else b"{}"])


def _image(rows: Rows, columns: Columns | None) -> pa.Array | None:  # type: ignore[type-arg]
    return None if columns is None else _object(rows, rows.schema.names, columns)


def _old_keys(rows: Rows, keys: list[Texts | None], names: tuple[str, ...]) -> pa.Array | None:  # type: ignore[type-arg]
    """The keys that rows had before, where those are others."""
    if rows.moved_from is not None:
        return _object(rows, names, list(rows.moved_from))
    if rows.before is None or rows.after is None:
        return None
    was = [rows.before[place] for place in rows.schema.key_places]
    if any(texts is None for texts in was):
        return None
    moved = np.zeros(len(rows), np.bool_)
    for old, new in zip(was, keys, strict=True):
        if old is not None and new is not None:
            moved |= ~same(rows.arena, old, new)
    if not moved.any():
        return None
    found = _object(rows, names, was)
    kept: Any = pa.compute.if_else(pa.array(moved), found, pa.scalar(None, pa.string()))
    return kept  # type: ignore[no-any-return]


def _texts(rows: Rows, texts: Texts) -> pa.Array:  # type: ignore[type-arg]
    return _filled(rows, [Value(texts, False)])


def _extra(rows: Rows) -> pa.Array | None:  # type: ignore[type-arg]
    return None if rows.extra is None else _filled(rows, list(rows.extra.parts))


def _order_keys(rows: Rows) -> pa.Array:  # type: ignore[type-arg]
    sequence = rows.sequence or ()
    # Without a sequence id nothing but the position decides.
    rank = rows.rank if sequence else AFTER
    return _orders(rows.block, rows.places, sequence, FULL_ROW if rows.full_row else CHANGE, rank)


def _orders(
    block: Messages, places: Places, sequence: Sequence[Places], kind: str, rank: int
) -> pa.Array:  # type: ignore[type-arg]
    """Order keys of messages that hold one change each."""
    parts = np.empty((len(sequence), len(places)), np.int64)
    for i, part in enumerate(sequence):
        parts[i] = part
    out, offsets = kernels.order_keys(
        parts, ord(kind), rank, block.partitions[places], block.offsets[places]
    )
    return Packed(out, offsets).array(pa.string())
