"""Histories of several tables whose changes stand in transactions, and what of them may show.

A small database runs several transactions beside each other. Each operation has an id of its own;
rows are locked by the transaction that touched them, so what one of them wrote is changed by
another only after it ended. The log is delivered in batches: rows may be late, the begins and ends
may be read later than the rows, and a stretch of the log may come once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from waybill.merge.rules import Change
from waybill.order import order_key

Choose = Callable[[int], int]
Image = dict[str, str | None]


@dataclass(eq=False)
class Transaction:
    """One transaction.

    Attributes:
        name: what its begin is called.
        placed: whether each event names its own place behind the name, as PostgreSQL does.
        counts: whether its end says how many rows it had.
        changes: what it did, with the table of each.
        undo: takes it back.
        kept: whether it was committed; None while it runs.
    """

    name: str
    placed: bool
    counts: bool
    changes: list[tuple[str, Change]] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    kept: bool | None = None

    def id_at(self, sequence: int) -> str:
        """What an event at a place is called."""
        return f"{self.name}:{sequence}" if self.placed else self.name


@dataclass(frozen=True, eq=False)
class Sent:
    """One message: a change of a table, or the begin or end of a transaction."""

    operation: str
    change: Change
    table: str = ""
    transaction: Transaction | None = None
    extra: str | None = None


class Sessions:
    """The database and its log.

    Args:
        choose: gives a number from 0 to below n.
        prefix: tells its tables, transactions and ids from those of other histories.
        placed: see `Transaction`.
        rollbacks: whether transactions are rolled back.
    """

    def __init__(
        self, choose: Choose, prefix: int, placed: bool = False, rollbacks: bool = False
    ) -> None:
        self.choose, self.prefix, self.placed, self.rollbacks = choose, prefix, placed, rollbacks
        # Names are used again long after the log has told of their end.
        self.reuses = placed and choose(2) == 0
        self.keyed = [f"a{prefix}", f"b{prefix}"]
        self.bag = f"heap{prefix}"
        self.sequence = self.begun = 0
        self.rows: dict[str, dict[int, Image]] = {t: {} for t in (*self.keyed, self.bag)}
        self.locks: dict[tuple[str, int | None], Transaction] = {}
        self.running: list[Transaction] = []
        self.sent: list[Sent] = []
        self.made = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.sequence += 1 + self.choose(2)
            what = self.choose(8)
            if what == 0 and len(self.running) < 3:
                self._begin()
            elif what == 1 and self.running:
                self._end(self.running[self.choose(len(self.running))])
            else:
                running = [*self.running, *self.running, None]
                self._statement(running[self.choose(len(running))])

    def end_all(self) -> None:
        """Every transaction ends."""
        for transaction in list(self.running):
            self.sequence += 1
            self._end(transaction)

    def _begin(self) -> None:
        # A number is used again once its transaction has ended.
        used = {t.name for t in self.running}
        name = f"x{self.prefix}-{self.begun}"
        if self.placed:
            names = [str(1000 * (self.prefix + 1) + n) for n in range(self.begun + 1)]
            name = next(n for n in names if n not in used) if self.reuses else names[-1]
        self.begun += 1
        made = Transaction(name, self.placed, self.choose(2) == 0)
        self.running.append(made)
        self._tell("begin", made)

    def _end(self, transaction: Transaction) -> None:
        transaction.kept = not (self.rollbacks and self.choose(3) == 0)
        self.running.remove(transaction)
        self.locks = {at: t for at, t in self.locks.items() if t is not transaction}
        if not transaction.kept:
            for undo in reversed(transaction.undo):
                undo()
        extra = None
        if transaction.kept and transaction.counts:
            end = {"status": "END", "id": transaction.name}
            extra = json.dumps({"debezium_message": {**end, **counts_of(transaction)}})
        self._tell("commit" if transaction.kept else "rollback", transaction, extra)

    def _tell(self, operation: str, transaction: Transaction, extra: str | None = None) -> None:
        change = Change(self._order(), operation, place=self._place())
        change = change._replace(transaction=transaction.id_at(self.sequence))
        self.sent.append(Sent(operation, change, "", transaction, extra))

    def _order(self) -> str:
        return order_key((self._id(),), 1, 0, self._id(), 0)

    def _id(self) -> int:
        return self.prefix * 100_000 + self.sequence

    def _place(self) -> tuple[str, int, int, int]:
        return ("t", 0, self._id(), 0)

    def _is_free(self, table: str, key: int | None, transaction: Transaction | None) -> bool:
        owners = {self.locks.get((table, key)), self.locks.get((table, None))}
        if key is None:
            owners |= {t for (name, _), t in self.locks.items() if name == table}
        return owners <= {None, transaction}

    def _statement(self, transaction: Transaction | None) -> None:
        table = [*self.keyed, self.bag][self.choose(3)]
        rows = self.rows[table]
        if self.choose(25) == 0 and self._is_free(table, None, transaction):
            self._change(table, None, transaction, "truncate", None, None)
            return
        key = self.choose(4)
        if not self._is_free(table, key, transaction):
            return
        self.made += 1
        new: Image = {"id": str(key), "n": str(self.made), "t": f"t{self.made}"}
        if table == self.bag:
            new = {"n": str(self.choose(2)), "t": None}
        old = rows.get(key)
        if table != self.bag and old is not None and self.choose(4) == 0:
            self._to_another_key(table, key, transaction)
        elif old is None:
            self._change(table, key, transaction, "insert", None, new)
        elif self.choose(3) == 0:
            self._change(table, key, transaction, "delete", old, None)
        else:
            shown = new
            if table != self.bag and self.choose(2):
                shown = {"id": new["id"], "n": new["n"]}
            self._change(table, key, transaction, "update", old, shown)

    def _to_another_key(self, table: str, key: int, transaction: Transaction | None) -> None:
        """A row gets another key, or changes places with another row, which takes two steps."""
        rows, other = self.rows[table], self.choose(4)
        if other == key or not self._is_free(table, other, transaction):
            return
        mine, theirs = rows[key], rows.get(other)
        if theirs is None:
            moved = {"id": str(other), "n": mine["n"], "t": mine["t"]}
            if self.choose(2):
                del moved["t"]
            self._change(table, other, transaction, "update", mine, moved, key)
        elif transaction is not None:
            self._change(table, other, transaction, "update", mine, {**mine, "id": str(other)}, key)
            self.sequence += 1
            back = {**theirs, "id": str(key)}
            self._change(table, key, transaction, "update", theirs, back, other, theirs)

    def _change(
        self,
        table: str,
        key: int | None,
        transaction: Transaction | None,
        operation: str,
        before: Image | None,
        after: Image | None,
        old: int | None = None,
        crossed: Image | None = None,
    ) -> None:
        """Do something and write it down.

        Args:
            table: the table.
            key: of the row after the change; None for all rows.
            transaction: whose it is.
            operation: what is done.
            before: the row before.
            after: the row after.
            old: the key before, if it was another one.
            crossed: the row before, where another one has taken its key by now.
        """
        rows = self.rows[table]
        was = dict(rows)
        if key is None:
            rows.clear()
        elif after is None:
            del rows[key]
        else:
            rows[key] = {**(before or {}), **after}
            if old is not None and crossed is None:
                rows.pop(old)
        in_bag = table == self.bag
        change = Change(
            self._order(),
            operation,
            "" if in_bag or key is None else f'{{"id":"{key}"}}',
            after,
            None if old is None else f'{{"id":"{old}"}}',
            self._place(),
            before if in_bag or old is not None else None,
            None if transaction is None else transaction.id_at(self.sequence),
        )
        if transaction is not None:
            transaction.changes.append((table, change))
            touched = {key} if old is None else {key, old}
            self.locks.update(((table, one), transaction) for one in touched)
            keys = set(was) if key is None else touched
            transaction.undo.append(lambda: _restore(rows, keys, was))
        self.sent.append(Sent(operation, change, table, transaction))


def _restore(rows: dict[int, Image], keys: set[Any], was: dict[int, Image]) -> None:
    for key in keys:
        rows.pop(key, None)
        if key in was:
            rows[key] = was[key]


def counts_of(transaction: Transaction) -> dict[str, Any]:
    """How many rows a transaction had, table by table, as Debezium tells it."""
    tables = [f"shop.{table}" for table, _ in transaction.changes]
    counted = [{"data_collection": t, "event_count": tables.count(t)} for t in sorted(set(tables))]
    return {"event_count": len(tables), "data_collections": counted}


def delivered(
    choose: Choose, source: Sessions, batches: int, lagging: bool = True, damaged: bool = False
) -> list[list[Sent]]:
    """The log in batches: some rows late, the begins and ends too, rows and a stretch once more.

    Args:
        choose: gives a number from 0 to below n.
        source: the database.
        batches: how many there are.
        lagging: whether begins may be read later than rows of transactions that are rolled back:
            a row of one that is not known to run is taken for one of a source that tells of no
            transactions, and shows.
        damaged: whether messages are damaged, begins and ends of transactions and rows inside of
            them among these: they come in any later batch, which is a replay then.
    """
    found: list[list[Sent]] = [[] for _ in range(batches)]
    cuts = sorted(choose(batches) for _ in source.sent)
    # The topic of the begins and ends may lag behind.
    lag = 0 if source.reuses or (source.rollbacks and not lagging) else choose(2)
    for cut, one in zip(cuts, source.sent, strict=True):
        at = cut
        if one.operation in EVENTS:
            at += lag
        elif (one.transaction is None or one.transaction.kept) and choose(3) == 0:
            at += choose(3)
        if damaged and choose(5) == 0:
            at += choose(batches)
        found[min(at, batches - 1)].append(one)
        if one.operation not in EVENTS and choose(6) == 0:
            # A row comes once more, while its transaction runs or behind its end.
            found[min(at + choose(batches), batches - 1)].append(again(one))
    if not source.reuses:
        for _ in range(choose(3)):
            _repeat(choose, source, found)
    return found


def _repeat(choose: Choose, source: Sessions, found: list[list[Sent]]) -> None:
    """Send a stretch of the log once more, in one batch or two, behind all that it is about.

    What began in it ends in it, as a connector goes on that has been started again.
    """
    begin, section = choose(len(source.sent)), []
    open_: set[Transaction] = set()
    for one in source.sent[begin:]:
        if len(section) > 2 + choose(6) and not open_:
            break
        section.append(one)
        if one.transaction is not None and one.operation in EVENTS:
            (open_.add if one.operation == "begin" else open_.discard)(one.transaction)
    about = {one.transaction for one in section} - {None}
    mine = [n for n, batch in enumerate(found) for one in batch if _is_about(one, section, about)]
    rest = len(found) - 1 - max(mine, default=0)
    kept = [again(one) for one in section if one.transaction is None or one.transaction.kept]
    if rest > 0:
        first, at = choose(len(kept) + 1), len(found) - 1 - choose(rest)
        found[at] += kept[:first]
        found[min(at + choose(2), len(found) - 1)] += kept[first:]


def _is_about(one: Sent, section: list[Sent], about: set[Transaction | None]) -> bool:
    return one in section or one.transaction in about


def again(one: Sent) -> Sent:
    """The same message once more, at a later offset."""
    change = one.change
    topic, partition, offset, index = change.place
    head, _ = change.order.rsplit("/", 1)
    tail = order_key(None, 1, partition, offset + AGAIN, index).rsplit("/", 1)[1]
    place = (topic, partition, offset + AGAIN, index)
    change = change._replace(order=f"{head}/{tail}", place=place)
    return Sent(one.operation, change, one.table, one.transaction, one.extra)


AGAIN = 10_000_000
"""How much further a message stands that comes once more."""

EVENTS = ("begin", "commit", "rollback")


def visible(batches: list[list[Sent]]) -> list[list[tuple[str, Change]]]:
    """The changes that each batch adds to what shows.

    A change shows at once if neither the begin nor the rollback of its transaction has come by
    then, and stays; else from the batch on that its transaction ended in, if that was committed. An
    end that tells how many rows there are waits for them.
    """
    begun, ended = _bounds(batches)
    never = len(batches)
    found: list[list[tuple[str, Change]]] = [[] for _ in batches]
    for number, batch in enumerate(batches):
        for one in batch:
            at, transaction = number, one.transaction
            if transaction is not None and begun.get(transaction, never) <= number:
                at = max(number, ended.get(transaction, never) if transaction.kept else never)
            if at < never and one.operation not in EVENTS:
                name = None if transaction is None else transaction.name
                found[at].append((one.table, one.change._replace(transaction=name)))
    return found


def _bounds(batches: list[list[Sent]]) -> tuple[dict[Transaction, int], dict[Transaction, int]]:
    """The batches in which transactions were announced, and in which they had ended."""
    begun: dict[Transaction, int] = {}
    ended: dict[Transaction, int] = {}
    came: dict[str, int] = {}
    for number, batch in enumerate(batches):
        for one in batch:
            if one.operation not in EVENTS:
                came.setdefault(head(one.change), number)
            elif one.transaction is not None:
                if one.operation != "commit":
                    # A rollback tells of it too, where its begin was damaged and is read later.
                    begun.setdefault(one.transaction, number)
                if one.operation != "begin":
                    ended.setdefault(one.transaction, number)
    for transaction, number in ended.items():
        if transaction.counts and transaction.kept:
            rows = [came.get(head(change), len(batches)) for _, change in transaction.changes]
            ended[transaction] = max([number, *rows])
    return begun, ended


def head(change: Change) -> str:
    """What all deliveries of a change share."""
    return change.order.rsplit("/", 1)[0]
