"""What stands in columns of Arrow, as arrays of numpy.

Arrow makes these itself with the help of pandas only, which takes as long to load as all that is
compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from waybill.bulk.arena import Bytes, Mask, Places


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


def nulls_of(column: Any) -> Mask:
    """Which values of a column are null."""
    bits, first = column.buffers()[0], column.offset
    if bits is None:
        return np.zeros(len(column), np.bool_)
    there = np.unpackbits(
        np.frombuffer(bits, np.uint8), count=first + len(column), bitorder="little"
    )
    found: Mask = there[first:] == 0
    return found


def integers_of(column: Any) -> Places:
    """The values of a column of integers without nulls."""
    if column.null_count:
        raise ValueError("a null is no integer")
    kind = np.dtype(f"i{column.type.bit_width // 8}")
    held = np.frombuffer(column.buffers()[1], kind) if len(column) else np.empty(0, kind)
    return held[column.offset : column.offset + len(column)].astype(np.int64)
