"""Finds the values of Avro messages whose schemas are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from waybill.avro.columns import value_encoder_of
from waybill.avro.programs import Program
from waybill.bulk.block import LARGEST, Scanned, Scanner
from waybill.bulk.kernels import avro_scanning as kernels

if TYPE_CHECKING:
    from waybill.avro.schema import Node
    from waybill.bulk.arena import Places
    from waybill.bulk.block import Path, ValueEncoder

MOST_PROGRAMS = 2000
"""So many schemas are known at a time."""

Framing = Callable[[Scanned], "tuple[Places, Places]"]
"""The schema of each text as a number, -1 for none, and where its Avro data begins."""


def confluent(texts: Scanned) -> tuple[Places, Places]:
    """Confluent's framing: a byte 0 and four bytes of schema id."""
    names, starts = np.empty(texts.size, np.int64), np.empty(texts.size, np.int64)
    kernels.confluent(texts.arena.data, texts.begins, texts.ends, names, starts)
    return names, starts


def single(value: bytes) -> Scanned:
    """One text alone."""
    return Scanned(value, np.array([0]), np.array([len(value)]))


class AvroScanner(Scanner):
    """Finds values by the programs of their schemas.

    The bytes before the Avro data must tell the schema, as those between values are all that a form
    is compared by.

    Args:
        find: the schema of a number that the framing gave; None where there is none, or none that
            can be used.
        framing: tells the schema of each text.
    """

    def __init__(self, find: Callable[[int], Node | None], framing: Framing = confluent) -> None:
        self._find, self._framing = find, framing
        self._programs: dict[int, Program | None] = {}
        self._entries: dict[int, int] = {}
        self._steps = np.empty(0, np.int32)
        self._width = 1

    def scan(self, texts: Scanned) -> None:
        """See `Scanner.scan`."""
        if texts.arena.size > LARGEST:
            texts.room(1)
            return
        names, starts = self._framing(texts)
        if texts.apart is not None:
            names[texts.apart] = -1
        entries = self._entries_of(names)
        texts.room(self._width)
        kernels.scan(
            *(texts.arena.data, starts, texts.ends, entries, self._steps),
            *(self._width, texts.starts, texts.stops, texts.kinds, texts.counts, texts.forms),
        )

    def paths(self, value: bytes) -> list[Path]:
        """See `Scanner.paths`."""
        return [path for path, _ in self.places(value)]

    def value_encoders(self, value: bytes) -> list[ValueEncoder | None]:
        """See `Scanner.value_encoders`."""
        return [value_encoder_of(node) for _, node in self.places(value)]

    def places(self, value: bytes) -> list[tuple[Path, Node]]:
        """The path and the type of each value of a text; see `Program.places`.

        Raises:
            ValueError: it has no program.
        """
        names, starts = self._framing(single(value))
        program = self._programs.get(int(names[0]))
        if program is None:
            raise ValueError("the schema has no program")
        return program.places(value, int(starts[0]))

    def _learn(self, found: list[int]) -> None:
        """Make the programs of schemas that are met first."""
        fresh = [name for name in found if name >= 0 and name not in self._programs]
        if not fresh:
            return
        if len(self._programs) + len(fresh) > MOST_PROGRAMS:
            self._programs.clear()
            self._entries.clear()
            self._steps = np.empty(0, np.int32)
            fresh = [name for name in found if name >= 0][:MOST_PROGRAMS]
        parts = [self._steps]
        size = len(self._steps)
        for name in fresh:
            program = self._made(name)
            self._programs[name] = program
            if program is not None:
                self._entries[name] = size
                size += len(program.steps)
                parts.append(program.steps)
                self._width = max(self._width, program.width)
        self._steps = np.concatenate(parts)

    def _made(self, name: int) -> Program | None:
        node = self._find(name)
        if node is None:
            return None
        try:
            return Program(node)
        except ValueError:
            return None

    def _entries_of(self, names: Places) -> Places:
        """Where the program of each text begins; -1 where it has none."""
        if not len(names) or (names == names[0]).all():
            found, places = names[:1], np.zeros(len(names), np.int64)
        else:
            found, places = np.unique(names, return_inverse=True)
        self._learn(found.tolist())
        entries = np.array([self._entries.get(name, -1) for name in found.tolist()], np.int64)
        return entries[places]
