"""Histories of a table without key, made by an imaginary database that knows its own rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from waybill.merge.rules import STATEMENTS, Change
from waybill.order import AFTER, LOAD, LOADED, order_key

Choose = Callable[[int], int]
DEFAULT = "basic"
RELOAD = "full:shop.heap"
"""Topic of the rows of a full reload."""


@dataclass
class Heap:
    """The table and its log; few values, so that equal rows are common."""

    choose: Choose
    sequenced: bool = True
    rows: list[dict[str, str | None]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    altered: bool = False
    parts: bool = True
    """Whether updates leave out what stays, and whether some rows before lack a column."""

    def run(self, steps: int) -> None:
        # A snapshot's rows stand before the log, or all at the place in it where it was taken.
        place = 50 if self.sequenced and self.choose(2) else None
        for _ in range(self.choose(4)):
            self.rows.append(self._row())
            self._log("read", self.rows[-1], full_row=place is None, number=place)
        actions = [self.insert, self.insert, self.update, self.delete, self.truncate]
        actions += [self.alter, self.drop]
        actions += [self.leave_out, *([self.reload] if self.sequenced else [])]
        for _ in range(steps):
            actions[self.choose(len(actions))]()

    def _row(self) -> dict[str, str | None]:
        row = {"a": str(self.choose(2)), "b": (None, 'x"é', "y")[self.choose(3)]}
        return {**row, "tier": DEFAULT} if self.altered else row

    def _log(
        self, operation, image=None, before=None, full_row=False, number=None, topic="t"
    ) -> None:
        offset = len(self.changes)
        number = 100 + offset if number is None else number
        sequence = None if full_row or not self.sequenced else (number,)
        rank = AFTER if topic != RELOAD else LOAD if operation == "truncate" else LOADED
        # Where there are ids, a change may stand in any partition.
        partition = 0 if sequence is None or topic == RELOAD else self.choose(4)
        order = order_key(sequence, rank, partition, offset, 0, full_row)
        place = (topic, partition, offset, 0)
        stated = frozenset((*self.columns,)) if operation not in STATEMENTS else None
        self.changes.append(
            Change(order, operation, "", image, None, place, before, columns=stated)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """What a message states."""
        return ("a", "b", "tier") if self.altered else ("a", "b")

    def insert(self) -> None:
        self.rows.append(self._row())
        self._log("insert", self.rows[-1])

    def update(self) -> None:
        if self.rows:
            at = self.choose(len(self.rows))
            before, self.rows[at] = self.rows[at], self._row()
            after = dict(self.rows[at])
            for name in self.columns if self.parts else ():
                if after[name] == before[name] and self.choose(2):
                    del after[name]
            self._log("update", after, before)

    def delete(self) -> None:
        if self.rows:
            self._log("delete", None, self.rows.pop(self.choose(len(self.rows))))

    def leave_out(self) -> None:
        """A change whose row before lacks a column, or is not there: nobody knows what it means."""
        if self.rows and self.parts and self.choose(3) == 0:
            row = self.rows[self.choose(len(self.rows))]
            names = self.columns[: self.choose(len(self.columns))]
            before = {name: row[name] for name in names} or None
            after = (None, self._row())[self.choose(2)]
            self._log("delete" if after is None else "update", after, before)

    def truncate(self) -> None:
        if self.choose(4) == 0:
            self.rows.clear()
            self._log("truncate")

    def reload(self) -> None:
        """A full reload: a TRUNCATE and the rows of a dump, all at one place in the log.

        The dump is complete up to an id of its own, or up to that of the newest change.
        """
        if self.choose(3) == 0:
            of_change = self.changes and self.changes[-1].place[0] != RELOAD and self.choose(2)
            number = 100 + len(self.changes) - bool(of_change)
            self.rows = [self._row() for _ in range(self.choose(4))]
            self._log("truncate", number=number, topic=RELOAD)
            for row in self.rows:
                self._log("read", row, number=number, topic=RELOAD)

    def alter(self) -> None:
        if not self.altered and self.choose(3) == 0:
            self.altered = True
            self.rows = [{**row, "tier": DEFAULT} for row in self.rows]
            self._log("column", {"tier": DEFAULT})

    def drop(self) -> None:
        """The column goes, with its values; it may be added again."""
        if self.altered and self.choose(2):
            self.altered = False
            self.rows = [{name: row[name] for name in self.columns} for row in self.rows]
            self._log("drop", {"tier": None})

    @property
    def truth(self) -> Counter:
        return Counter(plain(row) for row in self.rows)


def plain(row) -> frozenset:
    """A row without its nulls."""
    return frozenset((name, text) for name, text in row.items() if text is not None)


def again(change: Change, offset: int) -> Change:
    """The same change once more at another offset."""
    head, _position = change.order.rsplit("/", 1)
    tail = order_key(None, 1, 0, offset, 0).rsplit("/", 1)[1]
    return change._replace(order=f"{head}/{tail}", place=("t", 0, offset, 0))


def dealt(choose: Choose, source: Heap, batches: int) -> list[list[Change]]:
    """The changes in batches, in any order where they have a sequence, some of them twice."""
    sent = list(source.changes)
    if source.sequenced:
        for offset in range(1000, 1000 + choose(4)):
            change = source.changes[choose(len(source.changes))] if source.changes else None
            # Files of a reload are read once; a snapshot's row that comes again counts again.
            if change is not None and change.operation != "read" and change.place[0] != RELOAD:
                sent.append(again(change, offset))
        for i in range(len(sent) - 1, 0, -1):
            j = choose(i + 1)
            sent[i], sent[j] = sent[j], sent[i]
    found: list[list[Change]] = [[] for _ in range(batches)]
    cuts = sorted(choose(batches) for _ in sent)
    for cut, change in zip(cuts, sent, strict=True):
        found[cut].append(change)
    return found
