"""Texts and bytes that stand in columns of Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from waybill.bulk.arena import Bytes, Places


def texts_of(column: Any) -> tuple[Bytes, Places, Places]:
    """The bytes of a column of texts or binary, and where each begins and ends."""
    if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
        width: Any = np.int64
    else:
        width = np.int32
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    places = places.astype(np.int64)
    if not len(places):
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    first, last = int(places[0]), int(places[-1])
    found = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[first:last]
    return found, places[:-1] - first, places[1:] - first
