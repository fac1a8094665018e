"""Finds the values of Databus's events whose schemas are known, one event of a row a message.

The numbers before a row are values of their own, and so are the checksums and lengths, which decide
nothing more once they are right. All else before the row is what messages of the same shape share.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from waybill.avro.scanner import AvroScanner, single
from waybill.bulk import column_codecs
from waybill.bulk.arena import BEHIND
from waybill.bulk.block import LARGEST
from waybill.bulk.column_codecs import WHOLE, kinds, written
from waybill.envelopes.databus.json.usual_rows import usual_row
from waybill.envelopes.databus.kernels import binary_scanning as kernels
from waybill.envelopes.databus.kernels import json_scanning as json_kernels
from waybill.envelopes.databus.kernels.binary_scanning import (
    BIG_KIND,
    BYTE_KEY,
    LITTLE,
    LITTLE_KIND,
    SECOND,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.avro.schema import Node
    from waybill.bulk.arena import Arena, Places, Texts
    from waybill.bulk.block import Path, Scanned, ValueEncoder
    from waybill.bulk.column_codecs import Convert


class Head(NamedTuple):
    """The values before the row of an event, by their numbers.

    Attributes:
        sequence: the number of the window.
        nanos: the time.
        physical: the physical partition.
        logical: the logical partition.
        key: the key, a number or bytes.
        free: checksums and lengths.
        kinds: the kind of all of them, as bits.
        digits: makes digits of numbers; None if that is what they are.
        micros: makes digits of microseconds of times, see `kernels.micros`.
        byte_key: whether the key is bytes.
    """

    sequence: int
    nanos: int
    physical: int
    logical: int
    key: int
    free: tuple[int, ...]
    kinds: int
    digits: Convert | None
    micros: Callable[[int], Convert]
    byte_key: bool = False

    @property
    def size(self) -> int:
        """How many there are."""
        return 1 + max(self.key, self.nanos, *self.free)


class EventScanner(AvroScanner):
    """Finds the values of messages that are one event of a row each.

    Args:
        find: the schema of a number that `number_of` or `version_number` gives; None where there is
            none, or none that can be used.
        versions: whether schemas are named by the source and their version.
    """

    def __init__(self, find: Callable[[int], Node | None], versions: bool) -> None:
        super().__init__(find, self._named)
        self._versions = versions

    @abstractmethod
    def head(self, value: bytes) -> Head:
        """The values before the row of a text that was scanned.

        Raises:
            ValueError: it is no event of a row.
        """

    @abstractmethod
    def _named(self, texts: Scanned) -> tuple[Places, Places]:
        """The number of the schema of each text that was scanned, and where its row begins."""

    def number(self, value: bytes) -> int:
        """The number of the schema of a text that was scanned."""
        return int(self._named(single(value))[0][0])

    def paths(self, value: bytes) -> list[Path]:
        """See `Scanner.paths`; no path of a row begins with a number."""
        before: list[Path] = [(slot,) for slot in range(self.head(value).size)]
        return before + super().paths(value)

    def value_encoders(self, value: bytes) -> list[ValueEncoder | None]:
        """See `Scanner.value_encoders`; an event holds checksums of its values, too."""
        raise ValueError("events are not made of values")


def number_of(digest: bytes) -> int:
    """The number of a schema by its MD5 or CRC-32."""
    return int.from_bytes(digest[:8], "big") & (1 << 63) - 1


def version_number(source: int, version: int) -> int:
    """The number of a schema by its source and version."""
    return source << 16 | version & 0xFFFF


# Binary events


class _Events(NamedTuple):
    """What `kernels.events` tells of each message."""

    shapes: Places
    names: Places
    rows: Places
    seeds: Places


class BinaryScanner(EventScanner):
    """Finds the values of binary events."""

    def scan(self, texts: Scanned) -> None:
        """See `Scanner.scan`."""
        if texts.arena.size > LARGEST:
            texts.room(1)
            return
        found = self._events(texts)
        if texts.apart is not None:
            found.names[texts.apart] = -1
        entries = self._entries_of(found.names)
        width = kernels.HEAD + self._width
        texts.room(width)
        kernels.scan(
            *(texts.arena.data, texts.begins, texts.ends),
            *(found.shapes, found.rows, found.seeds, entries, self._steps, width),
            *(texts.starts, texts.stops, texts.kinds, texts.counts, texts.forms),
        )

    def head(self, value: bytes) -> Head:
        """See `EventScanner.head`."""
        shape = int(self._events(single(value)).shapes[0])
        if shape < 0:
            raise ValueError("it is no event of a row")
        return _head(shape)

    def _named(self, texts: Scanned) -> tuple[Places, Places]:
        found = self._events(texts)
        return found.names, found.rows

    def _events(self, texts: Scanned) -> _Events:
        shapes, names, rows = np.empty((3, texts.size), np.int64)
        found = _Events(shapes, names, rows, np.empty(texts.size, np.uint64))
        kernels.events(texts.arena.data, texts.begins, texts.ends, self._versions, *found)
        return found


@cache
def _head(shape: int) -> Head:
    little = bool(shape & LITTLE)
    kind = kinds(LITTLE_KIND if little else BIG_KIND)
    head = kind, _digits(little), _micros_of(little), bool(shape & BYTE_KEY)
    if not shape & SECOND:
        return Head(1, 4, 2, 3, 6, (0, 5), *head)
    if shape & BYTE_KEY:
        return Head(3, 1, 2, 2, 5, (0, 4, 6), *head)
    return Head(3, 1, 2, 2, 4, (0, 5), *head)


@cache
def _digits(little: bool) -> Convert:
    """Numbers of a few bytes in plain digits."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        values = np.empty_like(texts.starts)
        kernels.numbers(arena.data, *texts, little, values)
        if len(values) and (values == values[0]).all() and (texts.lengths > 0).all():
            return arena.constant(b"%d" % values[0], len(values))
        return written(arena, values, texts.lengths.copy())

    return convert


@cache
def _micros_of(little: bool) -> Callable[[int], Convert]:
    """Makes digits of microseconds of times of eight bytes."""

    @cache
    def micros(wanted: int) -> Convert:
        def convert(arena: Arena, texts: Texts) -> Texts:
            values, lengths = np.empty_like(texts.starts), texts.lengths.copy()
            kernels.numbers(arena.data, texts.starts, lengths, little, values)
            kernels.micros(values, lengths, wanted)
            return written(arena, values, lengths)

        return convert

    return micros


# Events in JSON


class JsonScanner(EventScanner):
    """Finds the values of usual rows in JSON.

    The texts are written again behind the others, with the bytes of the row in place of its Base64
    and nothing after them.
    """

    def scan(self, texts: Scanned) -> None:
        """See `Scanner.scan`."""
        begins = texts.begins if texts.apart is None else np.where(texts.apart, -1, texts.begins)
        size, arena = texts.size, texts.arena
        more = int((texts.ends - texts.begins).sum())
        if arena.size + more > LARGEST:
            texts.room(1)
            return
        names, rows, firsts, lasts = np.empty((4, size), np.int64)
        seeds, cuts = np.empty(size, np.uint64), np.empty((size, 2 * json_kernels.HEAD), np.int32)
        at = arena.room(more + len(BEHIND))
        arena.size = json_kernels.rewritten(
            *(arena.data, begins, texts.ends, self._versions, at),
            *(names, rows, seeds, cuts, firsts, lasts),
        )
        entries = self._entries_of(names)
        width = json_kernels.HEAD + self._width
        texts.room(width)
        json_kernels.scan(
            *(arena.data, firsts, lasts, cuts, rows, seeds, entries, self._steps, width),
            *(texts.starts, texts.stops, texts.kinds, texts.counts, texts.forms),
        )
        found = texts.counts >= 0
        texts.begins = np.where(found, firsts, texts.begins)
        texts.ends = np.where(found, lasts, texts.ends)

    def head(self, value: bytes) -> Head:
        """See `EventScanner.head`."""
        return _JSON_HEAD

    def _named(self, texts: Scanned) -> tuple[Places, Places]:
        names, rows = np.empty((2, texts.size), np.int64)
        for number in range(texts.size):
            before, mark, _ = texts.bytes_of(number).partition(_MARK)
            event = usual_row(before + mark + b'"}', 0)
            if event is None:
                raise ValueError("it is no event of a row")
            names[number] = (
                version_number(event.source, int.from_bytes(event.digest[:2], "big"))
                if self._versions
                else number_of(event.digest)
            )
            rows[number] = texts.begins[number] + len(before) + len(mark)
        return names, rows


_MARK = b'"value":"'


@cache
def _json_micros(wanted: int) -> Convert:
    """Digits of nanoseconds as digits of microseconds."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        values, _, lengths = column_codecs.numbers(arena, texts)
        kernels.micros(values, lengths, wanted)
        return written(arena, values, lengths)

    return convert


_JSON_HEAD = Head(1, 4, 3, 2, 0, (), WHOLE, None, _json_micros)
