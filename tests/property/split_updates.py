"""Histories whose updates are two messages, cut into files and batches in every way there is.

The messages are those of the tiny envelope of `tests/spark`. A key change sends its halves to two
partitions, because each goes where its own key belongs; so one may come long before the other,
and either one first. What else a source does stands between them: TRUNCATE, a column that is added,
dropped or renamed, so that the halves have other columns, all rows sent anew, messages that are
damaged until they are mended. `interrupted_history` has statements without ids between halves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from waybill.merge.rules import Change, Values, bag, fold, placed
from waybill.order import order_key

Choose = Callable[[int], int]

LOST = 8
"""One half of every so many updates never comes."""

DEFAULT = "basic"
"""What an added column gives to the rows that are there, where its statement says so."""

ADDED = "w"
"""The column that statements add and drop."""

Row = dict[str, str | None]


class Done(NamedTuple):
    """What the source did, and the numbers of the messages that tell of it."""

    change: Change
    carried_by: tuple[int, ...]


@dataclass
class SplitHistory:
    """A small table, what it sent, and what follows of what came.

    Attributes:
        table: its name.
        first: tells it from others of the same table.
        key: its key columns; none where it has no key.
        messages: in the order of the source.
        done: what they tell.
        lost: numbers of messages that never come.
        left: the rows in the end, where they are known.
    """

    table: str
    first: int
    key: tuple[str, ...] = ("id",)
    messages: list[dict[str, Any]] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    left: list[Row] = field(default_factory=list)

    def changes(self, came: Collection[int]) -> list[Change]:
        """What has come whole, given the numbers of the messages that came."""
        return [change for change, carried_by in self.done if set(carried_by) <= set(came)]

    def rows(self, changes: list[Change]) -> Counter[Any]:
        """The rows after changes; of a table without key each as often as it is there."""
        return rows_of(changes, bool(self.key))

    def waiting(self, came: Collection[int]) -> set[tuple[str, int]]:
        """Half and sequence id of each half whose partner has not come."""
        return {
            (self.messages[number]["half"], self.messages[number]["seq"])
            for _, carried_by in self.done
            for number in set(carried_by) & set(came)
            if len(carried_by) == 2 and not set(carried_by) <= set(came)
        }

    def key_of(self, row: Row | None) -> str | None:
        """The text of a row's key; empty where the table has none."""
        if row is None:
            return None
        return f'{{"id":"{row["id"]}"}}' if self.key else ""


def rows_of(changes: list[Change], keyed: bool) -> Counter[Any]:
    """The rows that changes leave, each as often as it is there, without its nulls."""
    if not keyed:
        return bag(changes)
    rows = fold({}, placed(changes)).values()
    return Counter(plain(row.image or {}) for row in rows if row.live)


def plain(row: Values) -> frozenset[tuple[str, str]]:
    """A row without its nulls."""
    return frozenset((name, text) for name, text in row.items() if text is not None)


def split_history(
    choose: Choose,
    steps: int,
    first: int = 0,
    keys: int = 4,
    table: str = "t",
    statements: bool = False,
    keyed: bool = True,
    anew: bool = False,
) -> SplitHistory:
    """What a table of few rows goes through.

    Args:
        choose: gives a number from 0 to below n.
        steps: how many statements.
        first: lowest key and, times a thousand, lowest sequence id.
        keys: how many keys there are.
        table: its name.
        statements: whether there are TRUNCATE and DDL, which reach all rows of the table.
        keyed: whether it has a key.
        anew: whether a column is renamed and all rows are sent once more, as full rows: a lake
            stops at the one, and needs a key for the other.
    """
    made = SplitHistory(table, first, ("id",) if keyed else ())
    source = _Source(choose, made, keys)
    again = choose(steps) if anew and keyed else None
    for step in range(steps):
        if step == again:
            source.read_anew()
        if anew and choose(8) == 0:
            source.rename()
        source.step(statements)
    return made


def interrupted_history(choose: Choose, steps: int) -> SplitHistory:
    """Updates between whose halves a statement without a sequence id stands.

    Such a statement comes after what is before it in its partition, so the messages have to be
    delivered in their order. An update stands where its row after does.
    """
    made = SplitHistory("t", 0)
    source = _Source(choose, made, 4)
    for _ in range(steps):
        source.sequence += 2
        if source.rows and choose(3) == 0:
            source.interrupt()
        else:
            source.step(statements=False)
    made.left = source.rows
    return made


class _Source:
    """The database: its rows, and the columns that they have."""

    def __init__(self, choose: Choose, made: SplitHistory, keys: int) -> None:
        self.choose, self.made, self.keys = choose, made, keys
        self.sequence = made.first * 1000
        self.columns = ["id", "v"]
        self.rows: list[Row] = []

    def step(self, statements: bool) -> None:
        self.sequence += 2
        if statements and self.choose(4) == 0:
            (self.truncate, self.alter, self.alter)[self.choose(3)]()
        elif self.choose(3) == 0 or not self.rows:
            self.insert()
        elif self.choose(5) == 0:
            row = self.rows.pop(self.choose(len(self.rows)))
            self._log("delete", before=row)
        else:
            self.update(self.rows[self.choose(len(self.rows))])

    def _free(self) -> list[int]:
        """Keys that no row has; without key, all numbers."""
        taken = {row["id"] for row in self.rows} if self.made.key else set()
        every = range(self.made.first, self.made.first + self.keys)
        return [number for number in every if str(number) not in taken]

    def _row(self, number: int) -> Row:
        value = self.sequence if self.made.key else self.choose(2)
        row: Row = {"id": str(number), self.columns[1]: str(value)}
        for name in self.columns[2:]:
            row[name] = (None, f"{name}{self.choose(2)}")[self.choose(2)]
        return row

    def insert(self) -> None:
        if free := self._free():
            self.rows.append(self._row(free[self.choose(len(free))]))
            self._log("insert", after=self.rows[-1])

    def update(self, old: Row, before: Row | None = None) -> None:
        """One row becomes another; `before` is how the log tells of it, if not as it is."""
        free = self._free()
        moves = free and self.choose(2)
        new = self._row(free[self.choose(len(free))] if moves else int(old["id"] or 0))
        self.rows[next(i for i, row in enumerate(self.rows) if row is old)] = new
        self._log("update", old if before is None else before, new)

    def truncate(self) -> None:
        self.rows.clear()
        self._log("truncate")

    def alter(self) -> None:
        if ADDED in self.columns:
            self._drop()
        else:
            self._add()

    def _add(self) -> None:
        default = DEFAULT if self.choose(2) else None
        self.columns.append(ADDED)
        kind = "VARCHAR(40)" if default is None else f"VARCHAR(40) NOT NULL DEFAULT '{default}'"
        self._log("ddl", sql=f"ADD COLUMN {ADDED} {kind}", default=default)
        for row in self.rows:
            row[ADDED] = default
        if self.rows and default is None and self.choose(2):
            # The row before still has the columns of before.
            self.sequence += 2
            old = self.rows[self.choose(len(self.rows))]
            self.update(old, {name: text for name, text in old.items() if name != ADDED})

    def _drop(self) -> None:
        """Of rows without key a column goes only where no row but the one of an update has it.

        The source would name no other by what the lake keeps of it.
        """
        telling = [row for row in self.rows if row[ADDED] is not None]
        if not self.made.key and len(telling) > 1:
            return
        self.columns.remove(ADDED)
        self._log("ddl", sql=f"DROP COLUMN {ADDED}")
        whole = [dict(row) for row in self.rows]
        for row in self.rows:
            del row[ADDED]
        chosen = [at for at, row in enumerate(whole) if row[ADDED] is not None]
        if chosen and (not self.made.key or self.choose(2)):
            self.sequence += 2
            self.update(self.rows[chosen[0]], whole[chosen[0]])

    def read_anew(self) -> None:
        """All rows as they are, sent as full rows: they are below whatever tells of their keys."""
        for row in self.rows:
            self.sequence += 2
            self._log("read", after=row)

    def rename(self) -> None:
        """A column gets another name, perhaps between the halves of an update.

        As with a dropped column, of rows without key only where no other row has it.
        """
        if not self.rows or not (self.made.key or len(self.rows) == 1):
            return
        name = self.columns[1]
        new = "u" if name == "v" else "v"
        whole = [dict(row) for row in self.rows]
        self.columns[1] = new
        self.sequence += 2
        self._log("ddl", sql=f"RENAME COLUMN {name} TO {new}")
        for row in self.rows:
            row[new] = row.pop(name)
        self.sequence += 2
        self.update(self.rows[0], whole[0])

    def interrupt(self) -> None:
        """An update whose row before stands in front of a TRUNCATE or a new column, both no ids."""
        old = self.rows[self.choose(len(self.rows))]
        adds = ADDED not in self.columns and self.choose(2)
        whole = dict(old)
        if adds:
            self.columns.append(ADDED)
            for row in self.rows:
                row[ADDED] = DEFAULT
        else:
            # The update puts its row there again.
            self.rows = [old]
        before = len(self.made.messages)
        self.update(old, whole)
        update = self.made.done.pop()
        lost = {number for number in update.carried_by if number in self.made.lost}
        sql = f"ADD COLUMN {ADDED} VARCHAR(40) NOT NULL DEFAULT '{DEFAULT}'"
        event = {"op": "truncate", "row": None} if not adds else {"op": "ddl"}
        event |= {"sql": f"ALTER TABLE shop.{self.made.table} {sql}"} if adds else {}
        about = {"table": self.made.table, "key": list(self.made.key), "first": self.made.first}
        self.made.messages.insert(before + 1, {**about, **event, "n": before + 1})
        self.made.messages[-1]["n"] = before + 2
        self.made.lost -= lost
        self.made.lost |= {before if number == before else before + 2 for number in lost}
        place = ("t", 0, before + 1, 0)
        order = order_key(None, 1, *place[1:])
        image = {ADDED: DEFAULT} if adds else None
        self.made.done.append(
            Done(
                Change(order, "column" if adds else "truncate", image=image, place=place),
                (before + 1,),
            )
        )
        change = update.change._replace(place=("t", 0, before + 2, 0))
        self.made.done.append(Done(change, (before, before + 2)))

    def _in_some_order(self, row: Row | None) -> Row:
        columns = list((row or {}).items())
        return dict(columns[::-1] if self.choose(4) == 0 else columns)

    def _log(
        self,
        operation: str,
        before: Row | None = None,
        after: Row | None = None,
        sql: str | None = None,
        default: str | None = None,
    ) -> None:
        made, sequence = self.made, self.sequence
        about = {"op": operation, "table": made.table, "key": list(made.key)}
        about |= {"full": True} if operation == "read" else {"seq": sequence}
        about |= {"first": made.first}
        images = [None if row is None else dict(row) for row in (before, after)]
        parts: list[dict[str, Any]] = [{"row": images[1] or images[0]}]
        if operation == "update":
            parts = [
                {"half": half, "row": self._in_some_order(row)}
                for half, row in zip(HALVES, images, strict=True)
            ]
        elif sql is not None:
            parts = [{"sql": f"ALTER TABLE shop.{made.table} {sql}"}]
        numbers = []
        for part in parts:
            numbers.append(len(made.messages))
            made.messages.append({**about, **part, "n": numbers[-1]})
        lost = self.choose(2 * LOST)
        if operation == "update" and lost < 2:
            made.lost.add(numbers[lost])
        place = ("t", 0, numbers[-1], 0)
        full = operation == "read"
        order = order_key(None if full else (sequence,), 1, *place[1:], full_row=full)
        if default is not None:
            change = Change(order, "column", image={ADDED: default}, place=place)
        elif sql == f"DROP COLUMN {ADDED}":
            change = Change(order, "drop", image={ADDED: None}, place=place)
        elif sql is not None:
            return
        else:
            old, new = (made.key_of(row) for row in images)
            moved = old if None not in (old, new) and old != new else None
            change = Change(order, operation, new or old or "", images[1], moved, place, images[0])
        made.done.append(Done(change, tuple(numbers)))


HALVES = ("before", "after")


def cut(
    choose: Choose,
    histories: list[SplitHistory],
    batches: int,
    files: int,
    damaged: bool = False,
) -> list[list[list[dict[str, Any]]]]:
    """The messages of several histories in batches of files: in any order, some of them twice.

    Args:
        choose: gives a number from 0 to below n.
        histories: what happened.
        batches: how many there are.
        files: of each batch.
        damaged: whether some are damaged, each wherever it comes.
    """
    found: list[list[list[dict[str, Any]]]] = [[[] for _ in range(files)] for _ in range(batches)]
    for history in histories:
        sent = [m for m in history.messages if m["n"] not in history.lost]
        if damaged:
            sent = [{**message, "damaged": True} if choose(5) == 0 else message for message in sent]
        again = sent[:]
        if sent:
            sent += [sent[choose(len(sent))] for _ in range(choose(6))]
        for i in range(len(sent) - 1, 0, -1):
            j = choose(i + 1)
            sent[i], sent[j] = sent[j], sent[i]
        for message in sent:
            found[choose(batches)][choose(files)].append(message)
        for _ in range(choose(3)):
            # A producer that begins anew sends a stretch once more.
            begin = choose(len(again) + 1)
            found[choose(batches)][choose(files)] += again[begin : begin + 2 + choose(6)]
    return found


def came(
    history: SplitHistory, batches: list[list[list[dict[str, Any]]]], mended: bool = False
) -> set[int]:
    """Numbers of a history's messages in batches; with `mended` also those that are damaged."""
    return {
        message["n"]
        for tasks in batches
        for task in tasks
        for message in task
        if (message["table"], message["first"]) == (history.table, history.first)
        and (mended or "damaged" not in message)
    }
