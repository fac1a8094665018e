"""Tables of the same columns: they differ in their names, which are values of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from waybill.bulk import kernels
from waybill.bulk.arena import BEHIND, Texts
from waybill.bulk.value_kinds import NULL_SIZE
from waybill.caches import LIMIT, MOST_COLUMNS

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Mask, Places
    from waybill.bulk.block import Scanned
    from waybill.records import TableSchema

Name = Callable[["TableSchema"], "str | None"]
"""A name of a table, as a message tells it; None for null."""

UNKNOWN, OTHER = -1, -2
"""Numbers of names: of a table that is not known yet, and of one that has other columns."""
_MOST_TRIES = 20
_FEWEST_PLACES = 64
_json = msgspec.json.Encoder().encode


class Schemas:
    """Schemas by number, and their names as JSON."""

    def __init__(self) -> None:
        self._all: list[TableSchema] = []
        self._numbers: dict[TableSchema, int] = {}
        self._named: dict[Name, _Named] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, number: int) -> TableSchema:
        return self._all[number]

    def number(self, schema: TableSchema) -> int:
        """The number of a schema, given when it is first asked for."""
        number = self._numbers.get(schema)
        if number is None:
            number = self._numbers[schema] = len(self._all)
            self._all.append(schema)
        return number

    def texts(self, arena: Arena, name: Name) -> Texts:
        """A name of each of the schemas, in their order, as texts in an arena."""
        named = self._named.get(name)
        if named is None or len(named.lengths) < len(self._all):
            named = self._named[name] = _Named.of([name(schema) for schema in self._all])
        return Texts(named.starts + arena.add(named.data), named.lengths)


def json_name(name: str | None) -> bytes | None:
    """A name as JSON, without quotes; None for null."""
    return None if name is None else _json(name)[1:-1]


class _Named(NamedTuple):
    """Names as JSON, one behind the other."""

    data: bytes
    starts: Places
    lengths: Places

    @staticmethod
    def of(names: list[str | None]) -> _Named:
        texts = list(map(json_name, names))
        lengths = np.array([NULL_SIZE if text is None else len(text) for text in texts], np.int64)
        starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
        return _Named(b"".join(text for text in texts if text is not None), starts, lengths)


class Tables(NamedTuple):
    """Which table each of some changes is of.

    Attributes:
        schemas: the tables, which differ in nothing but their names.
        numbers: the number of each change's table among them.
    """

    schemas: Schemas
    numbers: Places

    def take(self, rows: Places | Mask) -> Tables:
        """Those of some changes."""
        return Tables(self.schemas, self.numbers[rows])

    def of(self, row: int) -> TableSchema:
        """The table of a change."""
        return self.schemas[int(self.numbers[row])]

    def present(self) -> list[int]:
        """The numbers of the tables that there are changes of."""
        return np.flatnonzero(np.bincount(self.numbers)).tolist()

    def firsts(self) -> list[int]:
        """The first change of each table."""
        found: list[int] = np.unique(self.numbers, return_index=True)[1].tolist()
        return found

    def within(self, others: Schemas) -> Places:
        """The numbers that the same tables have among others."""
        numbers = np.zeros(len(self.schemas), np.int64)
        for number in self.present():
            numbers[number] = others.number(self.schemas[number])
        return numbers[self.numbers]


class NamedTables:
    """Tables of the same columns by the names that messages tell.

    Args:
        structure: what all of the tables have in common (`TableSchema.unnamed`).
    """

    def __init__(self, structure: TableSchema) -> None:
        self.structure = structure
        self._most = min(LIMIT, MOST_COLUMNS // max(1, len(structure.columns)))
        self._known: dict[tuple[bytes, ...], int] = {}
        self._tries: dict[tuple[bytes, ...], int] = {}
        self._place()

    @property
    def full(self) -> bool:
        """Whether no more tables can be distinguished."""
        return len(self._known) + len(self._tries) >= self._most

    def find(self, texts: Scanned, rows: Places, slots: Places) -> Places:
        """The number of the schema of each of some messages, or `UNKNOWN`, or `OTHER`."""
        found = np.empty(len(rows), np.int64)
        kernels.find_names(
            *(texts.arena.data, texts.starts, texts.stops, rows, slots),
            *(self._text, self._cuts, self._table, found),
        )
        return self._numbers[found]  # -1 is the last one

    def firsts(self, texts: Scanned, rows: Places, slots: Places) -> dict[tuple[bytes, ...], int]:
        """The first of some messages that tells each of their names."""
        found: dict[tuple[bytes, ...], int] = {}
        data, places = texts.arena.data, slots.tolist()
        starts, stops = texts.starts[rows][:, slots], texts.stops[rows][:, slots]
        for row, begins, ends in zip(rows.tolist(), starts.tolist(), stops.tolist(), strict=True):
            names = tuple(data[begins[i] : ends[i]].tobytes() for i in range(len(places)))
            found.setdefault(names, row)
        return found

    def is_other(self, names: tuple[bytes, ...]) -> bool:
        """Whether names are known to be of another kind of table."""
        return self._known.get(names) == OTHER

    def failed(self, names: tuple[bytes, ...]) -> bool:
        """Note a message in vain; whether it was the last one that is looked at."""
        self._tries[names] = self._tries.get(names, 0) + 1
        return self._tries[names] >= _MOST_TRIES

    def forget(self, number: int) -> None:
        """Know a table no more: it may have other columns by now."""
        self._known = {names: one for names, one in self._known.items() if one != number}
        self._place()

    def add(self, numbers: dict[tuple[bytes, ...], int]) -> None:
        """Tell the numbers of the schemas of some names, or `OTHER`; what has one keeps it."""
        if numbers:
            self._known = {**numbers, **self._known}
            for names in numbers:
                self._tries.pop(names, None)
            self._place()

    def _place(self) -> None:
        """Put all names where `kernels.find_names` looks for them."""
        self._numbers = np.array([*self._known.values(), UNKNOWN], np.int64)
        sizes = [len(name) for names in self._known for name in names]
        ends = np.cumsum([0, *sizes], dtype=np.int64)
        count = len(self._known)
        width = len(sizes) // max(1, count)
        self._cuts = np.empty((count, width + 1), np.int64)
        self._cuts[:, :width] = ends[:-1].reshape(count, width)
        self._cuts[:, width] = ends[width::width] if count else 0
        held = b"".join(name for names in self._known for name in names)
        self._text = np.frombuffer(held + BEHIND, np.uint8)
        places = _FEWEST_PLACES
        while places < 2 * count:
            places *= 2
        self._table = np.full(places, -1, np.int64)
        kernels.place_names(self._text, self._cuts, self._table)
