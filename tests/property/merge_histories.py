"""Histories of one table, made by a small imaginary database that knows its own final rows.

The database applies every statement to its rows and writes it down as a change log would: whole
or partial images, deletes, key changes in two notations, rows that swap their keys in a transaction
whose changes have an id each, TRUNCATE, a column added with a default, the table dropped and made
again without that column, values that the merged table cannot hold; statements without a sequence
id, and columns that get other names, if asked for. What its rows are in the end is the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from waybill.merge.rules import STATEMENTS, Change
from waybill.order import order_key

COLUMNS = ("id", "n", "t", "tier")
DEFAULTS = ("basic", "gold", "free")
"""What the added column gives to rows that are there: the first time, and each time after."""

NAMES = ("n", "t", "tier", "u", "v")
"""What its columns may be called, where it gives them other names."""

MISFIT = "x"
"""A value that no integer column holds."""

Choose = Callable[[int], int]
"""Gives a number from 0 to below n: hypothesis draws it, or a seeded generator."""


def misfit(image) -> str | None:
    """What the merged table's columns say to an image: `n` is an integer."""
    n = image.get("n")
    return None if n is None or n.lstrip("-").isdigit() else f"n cannot hold {n!r}"


def key_text(number: int) -> str:
    return f'{{"id":"{number}"}}'


@dataclass
class Source:
    """The imaginary database and its log."""

    choose: Choose
    keys: int = 4
    partial: bool = True
    statements: bool = True
    unnumbered: bool = False
    """Statements have no sequence id."""
    partitions: int = 2
    wanders: bool = False
    """Changes of a key stand in any partition, as far as they have ids."""
    renames: bool = False
    """Columns get other names."""
    moves: bool = True
    """Rows get other keys, by changes of their key or by swaps."""
    misfits: bool = True
    """Some updates have a value that the merged table cannot hold."""
    bad_moves: bool = True
    """Some changes of a key have a value that the merged table cannot hold."""
    rows: dict[int, dict[str, str | None]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    sequence: int = 0
    values: int = 0
    altered: bool = False
    tables: int = 0
    names: dict[str, str] = field(default_factory=dict)
    """What the columns are called now that were called otherwise at first."""
    called: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Orders of statements, with what the columns were called from then on."""

    def snapshot(self) -> None:
        """Some rows that are there before the log begins."""
        for number in range(self.choose(self.keys + 1)):
            self.rows[number] = self._whole(number)
            self._log("read", number, self.rows[number], full_row=True)

    def run(self, steps: int) -> None:
        actions = [self.insert, self.update, self.update, self.delete]
        actions += [self.move] * self.moves + [self.bad_update] * self.misfits
        actions += [self.swap] * self.moves
        if self.statements:
            actions += [self.truncate, self.alter, self.drop_table]
        if self.renames:
            actions += [self.rename, self.rename]
        for _ in range(steps):
            self.sequence += 1 + self.choose(3) * 499
            actions[self.choose(len(actions))]()

    def _value(self) -> str | None:
        self.values += 1
        return None if self.choose(6) == 0 else str(self.values)

    def _whole(self, number: int) -> dict[str, str | None]:
        row = {"id": str(number), "n": self._value(), "t": self._value()}
        return {**row, "tier": self._value()} if self.altered else row

    def _some(self, image: dict[str, str | None]) -> dict[str, str | None]:
        """An image without some of the columns that are not the key."""
        if not self.partial or self.choose(2):
            return dict(image)
        return {k: v for k, v in image.items() if k == "id" or self.choose(2)}

    def _log(
        self,
        operation: str,
        number: int,
        image=None,
        old=None,
        full_row=False,
        index=0,
        before=None,
        transaction=None,
    ):
        # A key's messages go to one partition, as a topic partitioned by key has them.
        partition, offset = number % self.partitions, len(self.changes)
        alone = full_row or (self.unnumbered and operation in STATEMENTS)
        if self.wanders and not alone:
            partition = self.choose(self.partitions)
        sequence = None if alone else (self.sequence,)
        order = order_key(sequence, 1, partition, offset, index, full_row)
        self.changes.append(
            Change(
                order,
                operation,
                key_text(number),
                image if image is None or operation == "rename" else self._called(image),
                None if old is None else key_text(old),
                ("t", partition, offset, index),
                None if before is None else self._called(before),
                transaction,
            )
        )

    def _called(self, row: dict[str, str | None]) -> dict[str, str | None]:
        """A row with the names that columns have now."""
        return {self.names.get(name, name): text for name, text in row.items()}

    def insert(self) -> None:
        free = [n for n in range(self.keys) if n not in self.rows]
        if free:
            number = free[self.choose(len(free))]
            self.rows[number] = self._whole(number)
            self._log("insert", number, self.rows[number])

    def update(self) -> None:
        if self.rows:
            number = sorted(self.rows)[self.choose(len(self.rows))]
            shown = self._some(self.rows[number])
            for name in shown:
                if name != "id" and self.choose(2):
                    shown[name] = self._value()
            self.rows[number].update(shown)
            self._log(("update", "upsert")[self.choose(2)], number, shown)

    def delete(self) -> None:
        if self.rows:
            number = sorted(self.rows)[self.choose(len(self.rows))]
            del self.rows[number]
            self._log("delete", number)

    def move(self) -> None:
        free = [n for n in range(self.keys) if n not in self.rows]
        if self.rows and free:
            old = sorted(self.rows)[self.choose(len(self.rows))]
            new = free[self.choose(len(free))]
            row = {**self.rows[old], "id": str(new)}
            notation, bad = self.choose(2), self.choose(8) == 0 and self.bad_moves
            image = self._some(row)
            if bad and not notation:
                self._log("update", new, {**image, "n": MISFIT}, old)
                return
            del self.rows[old]
            self.rows[new] = row
            if notation:
                self._log("delete", old)
            self._log("insert" if notation else "update", new, image, old, index=notation)

    def swap(self) -> None:
        """Two rows exchange their keys, one after the other in one transaction."""
        if len(self.rows) < 2 or self.choose(2):
            return
        one = sorted(self.rows)[self.choose(len(self.rows))]
        other = next(number for number in sorted(self.rows) if number != one)
        rows = {one: self.rows[one], other: self.rows[other]}
        if {**rows[one], "id": ""} == {**rows[other], "id": ""}:
            # Nobody could tell such rows apart.
            return
        transaction = f"x{len(self.changes)}"
        for old, new in ((one, other), (other, one)):
            row = {**rows[old], "id": str(new)}
            self.rows[new] = row
            more = {"before": rows[old], "transaction": transaction}
            self._log("update", new, self._some(row), old, **more)
            self.sequence += 1

    def bad_update(self) -> None:
        if self.rows:
            number = sorted(self.rows)[self.choose(len(self.rows))]
            shown = self._some(self.rows[number])
            if "t" in shown and self.choose(2):
                # A value that nobody else brings: a replay has to bring it once `n` is wider.
                shown["t"] = self._value()
            self._log("update", number, {**shown, "n": MISFIT})

    def truncate(self) -> None:
        if self.choose(3) == 0:
            self.rows.clear()
            self._log("truncate", 0)

    def alter(self) -> None:
        if not self.altered and self.choose(2):
            default = DEFAULTS[self.tables % len(DEFAULTS)]
            self.altered = True
            self.rows = {n: {**row, "tier": default} for n, row in self.rows.items()}
            self._log("column", 0, {"tier": default})

    def rename(self) -> None:
        """A column gets a name that none has, or two exchange theirs."""
        there = ["n", "t", *(["tier"] if self.altered else [])]
        was = {name: self.names.get(name, name) for name in ("n", "t", "tier")}
        names = dict(was)
        if self.choose(3) == 0:
            one, other = there[self.choose(len(there))], there[self.choose(len(there))]
            names[one], names[other] = was[other], was[one]
        else:
            free = [name for name in NAMES if name not in was.values()]
            names[there[self.choose(len(there))]] = free[self.choose(len(free))]
        told = {was[name]: names[name] for name in was if names[name] != was[name]}
        if told:
            self.names = names
            self._log("rename", 0, told)
            self.called.append((self.changes[-1].order, names))

    def names_at(self, order: str) -> dict[str, str]:
        """What the columns are called in a change."""
        return next((names for at, names in reversed(self.called) if at < order), {})

    def drop_table(self) -> None:
        """The table is made again as it was at first; its DROP counts as TRUNCATE."""
        if self.altered and self.choose(2) == 0:
            self.altered = False
            self.tables += 1
            self.rows.clear()
            self._log("truncate", 0)

    @property
    def truth(self) -> dict[str, dict[str, str | None]]:
        return {key_text(number): self._called(row) for number, row in self.rows.items()}


def again(change: Change, offset: int) -> Change:
    """The same change delivered once more, at a later offset of its partition."""
    kind, parts, rank, _position = change.order.split("/")
    topic, partition, _offset, index = change.place
    tail = order_key(None, 1, partition, offset, index).rsplit("/", 1)[1]
    return change._replace(
        order="/".join([kind, parts, rank, tail]), place=(topic, partition, offset, index)
    )


def history(choose: Choose, steps: int, **settings) -> Source:
    """One history: rows of before, then changes."""
    source = Source(choose, **settings)
    source.snapshot()
    source.run(steps)
    return source


def delivered(
    choose: Choose, changes: list[Change], shuffle: bool = True, twice: bool = True
) -> list[list[Change]]:
    """The changes in batches: some twice, in any order, split anywhere.

    So one that was damaged and is mended comes late, at the place that it always had.
    """
    sent = list(changes)
    for offset in range(1000, 1000 + choose(4) * twice):
        if changes:
            sent.append(again(changes[choose(len(changes))], offset))
    if shuffle:
        for i in range(len(sent) - 1, 0, -1):
            j = choose(i + 1)
            sent[i], sent[j] = sent[j], sent[i]
    batches: list[list[Change]] = [[]]
    for change in sent:
        if choose(4) == 0:
            batches.append([])
        batches[-1].append(change)
    return batches
