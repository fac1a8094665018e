"""Images of rows as columns of texts, in bulk.

Images are JSON objects of texts and nulls as Waybill itself writes them, and those of a table
mostly have the same columns in the same order. What stands between the values is learnt from one
image, read exactly; where another has the same bytes there, its values are where compiled code
found them. All others are read exactly, row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from waybill.bulk import kernels
from waybill.bulk.arena import BEHIND
from waybill.bulk.arrow_texts import nulls_of, texts_of
from waybill.bulk.block import Scanned
from waybill.bulk.constant_bytes import Place, Skeleton, several_values
from waybill.bulk.kernels.avro_values import unescaped
from waybill.bulk.value_kinds import BAD, ESCAPED, NULL, NULL_SIZE, PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from waybill.bulk.arena import Mask, Places

AT_ONCE = 1 << 20
"""So many values are looked for together: so much fits into a processor's memory beside them."""

FEWEST = 8
"""Images of the same shape; of fewer each is read exactly."""

_MORE = 16
"""So many more columns than those that are looked for an image may have to be read with others."""

_TEXTS = 1 << PLAIN | 1 << ESCAPED | 1 << NULL
_LACKS = -9
"""The length of a value that its image leaves out."""

exact_image = msgspec.json.Decoder(dict[str, str | None]).decode
"""Reads one image."""


class ImageTexts(NamedTuple):
    """What images say.

    Attributes:
        columns: the texts of each column, null where there are none.
        lacking: which images leave out a column.
        others: which images have other columns besides.
    """

    columns: list[Any]
    lacking: Mask
    others: Mask


def text_columns(images: Any, names: Sequence[str]) -> ImageTexts:
    """Images as columns of texts.

    Args:
        images: an array of JSON objects of texts and nulls; null for a row that is no more.
        names: the columns.
    """
    parts: list[list[Any]] = []
    lacking, others = [np.zeros(0, np.bool_)], [np.zeros(0, np.bool_)]
    rows = max(FEWEST, AT_ONCE // max(1, len(names)))
    for first in range(0, len(images), rows):
        texts = _Images(images.slice(first, rows), names)
        parts.append(list(texts.columns()))
        lacking.append(texts.lacking)
        others.append(texts.others)
    if len(parts) == 1:
        return ImageTexts(parts[0], lacking[1], others[1])
    columns = [pa.concat_arrays(one) for one in zip(*parts, strict=True)]
    columns = columns or [pa.array([], pa.string()) for _ in names]
    return ImageTexts(columns, np.concatenate(lacking), np.concatenate(others))


class _Images:
    """Some images, with the places of their values by column and row."""

    def __init__(self, images: Any, names: Sequence[str]) -> None:
        data, begins, ends = texts_of(images)
        gone = nulls_of(images)
        self._names = names
        self._found = Scanned(data, np.where(gone, -1, begins), ends)
        self._starts = np.zeros((len(names), len(begins)), np.int64)
        self._lengths = np.full((len(names), len(begins)), NULL_SIZE, np.int64)
        self.others: Mask = np.zeros(len(begins), np.bool_)
        there = np.flatnonzero(~gone)
        for row in self._place_same_shape(there):
            self._read(int(row))
        self.lacking: Mask = (self._lengths == _LACKS).any(axis=0)

    def _place_same_shape(self, there: Places) -> Places:
        """Place the values of images of the same shape; which images are not."""
        found = self._found
        if len(there) < FEWEST or not self._names:
            return there
        first = exact_image(found.bytes_of(int(there[0])))
        width = max(len(first), len(self._names)) + _MORE
        found.room(width)
        kernels.scan(
            found.arena.data,
            *(found.begins, found.ends, width, found.starts, found.stops, found.kinds),
            *(found.counts, found.forms),
        )
        rest = np.zeros(found.size, np.bool_)
        rest[there] = True
        _, order, ends = kernels.grouped(found.forms, found.counts)
        for rows in np.split(order, ends[:-1]):
            if len(rows) >= FEWEST:
                rest[self._of_one_form(rows)] = False
        return np.flatnonzero(rest)

    def _of_one_form(self, rows: Places) -> Places:
        """Place the values of images that have the same form as the first; which do."""
        found = self._found
        first = Place(found, int(rows[0]))
        stated = list(exact_image(first.value))
        if len(stated) != len(first.kinds):
            return rows[:0]
        slots = [stated.index(name) if name in stated else -1 for name in self._names]
        if -1 in slots:
            return rows[:0]
        skeleton = Skeleton(first, [_TEXTS] * len(stated), range(len(stated)))
        rows = rows[skeleton.fits(found, rows)]
        self.others[rows] = len(stated) > len(self._names)
        self._starts[:, rows], self._lengths[:, rows] = several_values(found, rows, slots)
        written = found.kinds[rows] == ESCAPED
        for column, slot in enumerate(slots):
            self._unescape(column, rows[written[:, slot]])
        for row in rows[(self._lengths[:, rows] == BAD).any(axis=0)]:
            self._read(int(row))
        return rows

    def _unescape(self, column: int, rows: Places) -> None:
        """Have the texts of some rows as they are; those with rare escapes become `BAD`."""
        if not len(rows):
            return
        arena = self._found.arena
        starts, lengths = self._starts[column, rows], self._lengths[column, rows]
        at = arena.room(int(lengths.sum()))
        arena.size = unescaped(arena.data, starts, lengths, at)
        self._starts[column, rows], self._lengths[column, rows] = starts, lengths

    def _read(self, row: int) -> None:
        """Read an image exactly."""
        texts_by_name = exact_image(self._found.bytes_of(row))
        lacking = 0
        for column, name in enumerate(self._names):
            text = texts_by_name.get(name, msgspec.UNSET)
            if text is msgspec.UNSET:
                self._lengths[column, row] = _LACKS
                lacking += 1
            elif isinstance(text, str):
                self._put(column, row, text)
        self.others[row] = len(texts_by_name) > len(self._names) - lacking

    def _put(self, column: int, row: int, text: str) -> None:
        value = text.encode()
        self._starts[column, row] = self._found.arena.add(value)
        self._lengths[column, row] = len(value)

    def columns(self) -> Iterator[Any]:
        """The texts of each column."""
        data = self._found.arena.data
        for starts, lengths in zip(self._starts, self._lengths, strict=True):
            ends = np.zeros(len(lengths) + 1, np.int64)
            np.cumsum(np.maximum(lengths, 0), out=ends[1:])
            texts = np.empty(int(ends[-1]) + len(BEHIND), np.uint8)
            kernels.put(data, starts, lengths, texts, ends[:-1])
            parts: list[Any] = [np.packbits(lengths >= 0, bitorder="little"), ends.astype(np.int32)]
            buffers: list[Any] = [pa.py_buffer(part) for part in (*parts, texts)]
            yield pa.Array.from_buffers(pa.string(), len(lengths), buffers)
