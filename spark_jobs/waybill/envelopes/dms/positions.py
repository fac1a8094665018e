"""The numbers of many stream positions; `notation.order_of` says what positions are."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.arena import Texts
from waybill.bulk.column_codecs import numbers, written
from waybill.bulk.kernels import positions as kernels
from waybill.bulk.value_kinds import BAD

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Places
    from waybill.bulk.column_codecs import Convert

LONGEST = 400
"""Bytes of a position; longer ones are read on their own."""
_LOW = 2**32 - 1


class Numbers:
    """The numbers of positions that are numbers, found together for all that ask for one.

    Args:
        file: whether a binlog's file stands in front.
        count: how many numbers there are.
    """

    def __init__(self, file: bool, count: int) -> None:
        self._file, self._count = file, count
        self._last: tuple[weakref.ref[Arena], Places, Places, Places] | None = None

    def at(self, wanted: int) -> Convert:
        """One of the numbers."""

        def convert(arena: Arena, texts: Texts) -> Texts:
            begins, sizes = self._found(arena, texts)
            return Texts(begins[wanted], sizes[wanted])

        return convert

    def _found(self, arena: Arena, texts: Texts) -> tuple[Places, Places]:
        if self._last is not None:
            known, starts, begins, sizes = self._last
            if known() is arena and np.array_equal(starts, texts.starts):
                return begins, sizes
        begins = np.empty((self._count, len(texts.starts)), np.int64)
        sizes = np.empty_like(begins)
        kernels.numbers_of(arena.data, *texts, self._file, LONGEST, begins, sizes)
        self._last = weakref.ref(arena), texts.starts, begins, sizes
        return begins, sizes


def log_number_at(count: int, wanted: int) -> Convert:
    """One of the numbers of PostgreSQL's positions."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        lengths, values = texts.lengths.copy(), np.empty_like(texts.starts)
        kernels.one_of_log(arena.data, texts.starts, lengths, count, wanted, LONGEST, values)
        return written(arena, values, lengths)

    return convert


def file_of(arena: Arena, texts: Texts) -> Texts:
    """The file of positions of a binlog that hold more than numbers."""
    starts, lengths = texts.starts.copy(), texts.lengths.copy()
    kernels.file_alone(arena.data, starts, lengths, LONGEST)
    return Texts(starts, lengths)


def place_of(arena: Arena, texts: Texts) -> Texts:
    """The place in the binlog that a transaction's id holds."""
    values, _, lengths = numbers(arena, texts)
    lengths[(lengths >= 0) & (values < 0)] = BAD
    return written(arena, values & _LOW, lengths)


def without_zeros(arena: Arena, texts: Texts) -> Texts:
    """Digits without zeros in front; what holds anything else is found when they are read."""
    starts, lengths = texts.starts.copy(), texts.lengths.copy()
    kernels.without_zeros(arena.data, starts, lengths)
    return Texts(starts, lengths)
