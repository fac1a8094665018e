"""Rows as record batches of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """A record batch of rows; texts may be UTF-8 bytes."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    kinds: list[Any] = schema.types
    arrays = []
    for values, kind in zip(columns, kinds, strict=True):
        if _are_null(values):
            # Most columns of most batches, which Arrow would look through value by value.
            arrays.append(pa.nulls(len(values), kind))
        elif pa.types.is_string(kind):
            # JSON texts come as UTF-8 bytes; the view spares decoding and encoding them again.
            arrays.append(_text_array(values))
        else:
            arrays.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _are_null(values: tuple[Any, ...]) -> bool:
    if not values:
        return True
    return values[0] is values[-1] is None and values.count(None) == len(values)


def _text_array(values: Sequence[Any]) -> pa.Array[Any]:
    try:
        return pa.array(values, pa.binary()).view(pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.array([v.decode() if isinstance(v, bytes) else v for v in values], pa.string())
