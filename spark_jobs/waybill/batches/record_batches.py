"""Rows as record batches of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """A record batch of rows; texts may be UTF-8 bytes."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = []
    for values, field in zip(columns, schema, strict=True):
        if pa.types.is_string(field.type):
            # JSON texts come as UTF-8 bytes; the view spares decoding and encoding them again.
            arrays.append(_text_array(values))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _text_array(values: Sequence[Any]) -> pa.Array[Any]:
    try:
        return pa.array(values, pa.binary()).view(pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.array([v.decode() if isinstance(v, bytes) else v for v in values], pa.string())
