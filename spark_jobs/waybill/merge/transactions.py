"""Transactions: changes wait for the commit of theirs, and one that was rolled back never shows.

Only transactions that a `begin` announced can be known to be open. Rows that name one and are
merged before their `begin` arrives are not called back. Rows of one that was rolled back never
show, however late they come again, until its name begins again.

What sources name their transactions by decides which rows belong to one, and what else ends it:

- PostgreSQL (Debezium): `txId:LSN`, where the LSN is that of the single operation, so the rows and
  the end of a transaction have other texts than its beginning. They share the txId, which is used
  again after 2^32 transactions; so a row belongs to the transaction between whose places it stands.
- MySQL and MariaDB (Debezium): a GTID, or `file=…,pos=…`. A binlog is serial, so the next begin, or
  a row of a later transaction, says that the one before has ended. A statement commits itself: it
  has a begin and no end. A transaction that was cut by a restart begins a second time.
- SQL Server and Db2 (Debezium): an LSN of three parts. The end comes with the next transaction.
- everything else: equal texts.

Sources of the first three kinds send what was committed, nothing else. So after the longest wait
theirs are merged as they are, with a warning; one of any other source might still be rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from waybill.counting import counted
from waybill.errors import Code, WaitingError
from waybill.spec.durations import seconds_of

if TYPE_CHECKING:
    from waybill.mapping.rules import Rules

EVENTS = ("begin", "commit", "rollback")
"""Operations that begin and end transactions."""

_PLACED = re.compile(r"([0-9]+):([0-9]+)")
_BINLOG = re.compile(
    r"file=.*,pos=[0-9]+"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:(?:\w+:)?[0-9]+"
    r"|[0-9]+-[0-9]+-[0-9]+"
)
_LSN = re.compile(r"[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}")

NAME_SQL = r"regexp_replace(transaction, '^([0-9]+):[0-9]+$', '$1')"
"""SQL of the name of a row's transaction: the same for all of its rows."""

PLACE_SQL = r"try_cast(regexp_extract(transaction, '^[0-9]+:([0-9]+)$', 1) AS decimal(38, 0))"
"""SQL of the place that the id of a row's transaction has, null where it has none."""


class Members(NamedTuple):
    """Which rows are those of a transaction.

    Attributes:
        name: of the transaction, as all of its rows have it.
        first: the lowest place of a row, None where rows have none.
        last: the highest one, None where it is not known.
    """

    name: str
    first: int | None = None
    last: int | None = None

    def have(self, transaction: str) -> bool:
        """Whether a row that names a transaction is one of them."""
        name, place = _parts(transaction)
        if name != self.name or self.first is None or place is None:
            return name == self.name
        return self.first <= place and (self.last is None or place <= self.last)


class Open(msgspec.Struct, frozen=True):
    """A transaction whose rows wait.

    Attributes:
        id: as its `begin` names it.
        after: snapshot of `changes` before the batch that brought its `begin`, None at the
            beginning; its rows come after it.
        since: when a merge met it first, seconds since 1970.
        order: order of its `begin`.
        time: source time of its `begin`, microseconds since 1970.
        end: how its `commit` names it, if that has come and rows are missing still.
        count: how many rows its `commit` announced.
    """

    id: str
    after: int | None
    since: int
    order: str = ""
    time: int | None = None
    end: str | None = None
    count: int | None = None

    @property
    def members(self) -> Members:
        """Its rows."""
        return _members(self.id, self.end)


class RolledBack(msgspec.Struct, frozen=True):
    """A transaction that was rolled back.

    Attributes:
        id: as its `begin` names it.
        end: how its `rollback` names it, where its `begin` was read.
        batches: those that brought rows of it which were not merged.
        again: whether its name has begun again, so that rows are those of another transaction.
    """

    id: str
    end: str | None = None
    batches: tuple[str, ...] = ()
    again: bool = False

    @property
    def members(self) -> Members:
        """Its rows."""
        return _members(self.id, self.end) if self.end is not None else Members(name_of(self.id))


class TransactionBoundary(NamedTuple):
    """A begin or end, and how many rows the end announces."""

    order: str
    operation: str
    transaction: str
    time: int | None = None
    rows: int | None = None


class Came(NamedTuple):
    """What has come of a transaction.

    Attributes:
        rows: how many rows.
        statement: whether one of them is a statement, which commits itself.
        followed: whether a row of a later transaction is there.
    """

    rows: int = 0
    statement: bool = False
    followed: bool = False


Ends = Callable[[tuple[Open, ...]], Iterable[TransactionBoundary]]
"""Tells the ends of transactions that earlier batches brought."""

Look = Callable[[tuple[Open, ...]], Mapping[str, Came]]
"""Tells what has come of transactions, by the id of each."""


class TransactionVerdict(NamedTuple):
    """What is to be done with the rows of transactions.

    Attributes:
        open: transactions whose rows wait.
        released: of earlier batches, committed since: their rows are merged now.
        dropped: of earlier batches, rolled back since: their rows never are.
        gone: transactions that were rolled back, in this batch or before.
        warnings: sentences about transactions that were merged as they are.
    """

    open: tuple[Open, ...] = ()
    released: tuple[Open, ...] = ()
    dropped: tuple[Open, ...] = ()
    gone: tuple[RolledBack, ...] = ()
    warnings: tuple[str, ...] = ()

    def not_merged(self, rows: Iterable[tuple[str, str]]) -> TransactionVerdict:
        """The verdict with the batches that brought rows of what was rolled back.

        Args:
            rows: the names of such transactions, with a batch each.
        """
        found: dict[str, set[str]] = {}
        for name, batch in rows:
            found.setdefault(name, set()).add(batch)
        gone = [
            t
            if t.again
            else msgspec.structs.replace(
                t, batches=tuple(sorted({*t.batches, *found.get(t.members.name, ())}))
            )
            for t in self.gone
        ]
        return self._replace(gone=tuple(gone))

    @property
    def rolled_back(self) -> frozenset[Members]:
        """Transactions of which rows of this batch are those of one that was rolled back."""
        return frozenset(transaction.members for transaction in self.gone if not transaction.again)

    @property
    def hidden(self) -> frozenset[Members]:
        """Transactions whose rows this merge does not take."""
        return self.rolled_back | {transaction.members for transaction in self.open}


def name_of(id_: str) -> str:
    """What all rows of a transaction have in common."""
    return _parts(id_)[0]


def _parts(id_: str) -> tuple[str, int | None]:
    match = _PLACED.fullmatch(id_)
    return (id_, None) if match is None else (match[1], int(match[2]))


def _members(id_: str, end: str | None) -> Members:
    name, first = _parts(id_)
    return Members(name, first, None if end is None else _parts(end)[1])


def is_serial(id_: str) -> bool:
    """Whether transactions of this source never overlap in the stream."""
    return _BINLOG.fullmatch(id_) is not None


def _sends_commits(id_: str) -> bool:
    """Whether the source sends a transaction's rows only when it has been committed."""
    return any(kind.fullmatch(id_) for kind in (_PLACED, _BINLOG, _LSN))


def judge(
    before: tuple[Open, ...],
    events: Iterable[TransactionBoundary],
    after: int | None,
    now: int,
    look: Look = lambda transactions: {},
    longest: str | None = None,
    gone: tuple[RolledBack, ...] = (),
    ends: Ends = lambda transactions: (),
) -> TransactionVerdict:
    """What a batch's begins and ends mean for the rows.

    Args:
        before: transactions that were open before the batch.
        events: in any order.
        after: snapshot of `changes` that the batch begins after.
        now: seconds since 1970.
        look: says what has come of transactions; is asked once.
        longest: how long a transaction may wait for its rows, or its end; None for ever.
        gone: transactions that were rolled back before the batch.
        ends: is asked of transactions that begin in this batch and do not end in it: a begin that
            was damaged is read behind its end.
    """
    course = _Course(before, after, now, gone)
    for event in sorted(events):
        course.take(event)
    began = {t.id for t in before}
    fresh = tuple(t for t in course.running.values() if t.id not in began)
    for event in sorted(ends(fresh) if fresh else ()):
        running = course.running.get(name_of(event.transaction))
        if running is not None and running in fresh and event.order > running.order:
            course.take(event)
    asked = tuple(
        [t for t in course.running.values() if is_serial(t.id)]
        + [t for t in course.committed if t.count]
    )
    came = look(asked) if asked else {}
    for transaction in list(course.running.values()):
        found = came.get(transaction.id, Came())
        if is_serial(transaction.id) and (found.statement or found.followed):
            course.end(transaction, "commit")
    missing = [t for t in course.committed if t.count and came.get(t.id, Came()).rows < t.count]
    waiting = (*course.running.values(), *missing)
    late = [t for t in waiting if _is_late(t, longest, now) and _sends_commits(t.id)]
    open_ = tuple(t for t in waiting if t not in late)
    done = [*course.committed, *(t for t in late if t.end is None)]
    return TransactionVerdict(
        open_,
        tuple(t for t in done if t.id in began and t not in open_),
        tuple(t for t in before if t.id in course.dropped),
        tuple(course.gone),
        tuple(_let_go(t, came.get(t.id, Came()).rows, longest or "") for t in late),
    )


class _Course:
    """The course of transactions, event by event.

    Attributes:
        running: those that have not ended, by name.
        committed: those that were committed.
        dropped: ids of those that were rolled back in this batch.
        gone: those that were rolled back, in this batch or before.
    """

    def __init__(
        self, before: tuple[Open, ...], after: int | None, now: int, gone: tuple[RolledBack, ...]
    ) -> None:
        self.after, self.now = after, now
        self.before = {transaction.id for transaction in before}
        self.running = {name_of(t.id): t for t in before if t.end is None}
        self.committed = [t for t in before if t.end is not None]
        self.dropped: set[str] = set()
        self.gone = list(gone)
        self._ended = {t.id for t in self.committed} | {t.id for t in self.gone}

    def take(self, event: TransactionBoundary) -> None:
        name, place = _parts(event.transaction)
        running = self.running.get(name)
        if event.operation == "begin":
            if is_serial(event.transaction):
                for other in [t for t in self.running.values() if is_serial(t.id)]:
                    if other is not running:
                        self.end(other, "commit")
            if running is None:
                self._begin(event, place)
        elif running is not None:
            self.end(running, event.operation, event)
        elif event.operation == "rollback":
            # Of one that names places, rows behind its end are those of a later one.
            first = event.transaction if place is None else f"{name}:0"
            self._drop(RolledBack(first, None if place is None else event.transaction))

    def _begin(self, event: TransactionBoundary, place: int | None) -> None:
        made = Open(event.transaction, self.after, self.now, event.order, event.time)
        if place is None and made.id in self._ended:
            # A name that is used again: rows of the first use look like those of this.
            earlier = [t for t in self.committed if t.id == made.id and t.id in self.before]
            self.committed = [t for t in self.committed if t.id != made.id]
            self.dropped.discard(made.id)
            self.gone = [
                msgspec.structs.replace(t, again=True) if t.id == made.id else t
                for t in self.gone
                # One of this batch has no rows of its own.
                if t.id != made.id or t.batches
            ]
            if earlier:
                made = msgspec.structs.replace(earlier[0], end=None, count=None)
        self.running[name_of(made.id)] = made

    def end(
        self, transaction: Open, operation: str, event: TransactionBoundary | None = None
    ) -> None:
        del self.running[name_of(transaction.id)]
        if event is not None:
            transaction = msgspec.structs.replace(
                transaction, end=event.transaction, count=event.rows
            )
        if operation == "commit":
            self._ended.add(transaction.id)
            self.committed.append(transaction)
        else:
            self._drop(RolledBack(transaction.id, transaction.end))

    def _drop(self, transaction: RolledBack) -> None:
        self._ended.add(transaction.id)
        self.dropped.add(transaction.id)
        if not any(t.id == transaction.id and not t.again for t in self.gone):
            self.gone.append(transaction)


def _is_late(transaction: Open, longest: str | None, now: int) -> bool:
    return longest is not None and now - transaction.since > seconds_of(longest)


def _let_go(transaction: Open, rows: int, longest: str) -> str:
    if transaction.end is None:
        what = "its end has not come"
    else:
        what = (
            f"its end announced {counted(transaction.count or 0, 'row')} and "
            f"{counted(rows, 'has', 'have')} come"
        )
    return (
        f"transaction {transaction.id}: {what} within transactions.longest_wait ({longest}); its "
        "rows are merged, because its source sends committed changes only"
    )


def check_wait(open_: tuple[Open, ...], longest: str, now: int) -> None:
    """Stop where a transaction has been open for too long.

    Raises:
        WaitingError: names the oldest one and what to do.
    """
    late = [transaction for transaction in open_ if _is_late(transaction, longest, now)]
    if late:
        oldest = min(late, key=lambda transaction: transaction.since)
        hours = (now - oldest.since) / 3600
        others = f", and {counted(len(late) - 1, 'other')} with it" if late[1:] else ""
        message = (
            f"transaction {oldest.id} has been open for {hours:.1f} hours, longer than "
            f"transactions.longest_wait ({longest}){others}: find out at the source whether it "
            "ended, then set a longer wait, or transactions.hold: false to merge its changes"
        )
        raise WaitingError(message, code=Code.TRANSACTION_OVERDUE)


class _Counted(msgspec.Struct):
    data_collection: str = ""
    event_count: int | str | None = None


class _End(msgspec.Struct):
    event_count: int | str | None = None
    data_collections: list[_Counted] | None = None


class _Message(msgspec.Struct):
    debezium_message: _End | None = None


def source_names(tables: Iterable[str], mapped: Mapping[str, str], chosen: Rules) -> set[str]:
    """What the source calls the tables that the migration reads.

    Args:
        tables: the tables that the merge knows, as the migration calls them.
        mapped: what it calls mapped tables, by the source's names.
        chosen: which tables it selects now; rows of others no longer come.
    """
    theirs = set(mapped.values())
    every = {*mapped, *(table for table in tables if table not in theirs)}
    return {name for name in every if chosen.chooses(name)}


def announced(extra: str | None, tables: Iterable[str]) -> int | None:
    """How many rows of some tables the end of a transaction says that it had.

    Rows of tables that the migration has not read are not waited for: it may never read them.

    Args:
        extra: of the `commit`; Debezium's message is in it (Debezium documentation, "Transaction
            metadata": `event_count`, and the same for each of `data_collections`).
        tables: qualified names of the tables that the migration reads, as the source calls them.
    """
    if extra is None:
        return None
    try:
        message = msgspec.json.decode(extra, type=_Message).debezium_message
    except msgspec.ValidationError:
        return None
    if message is None:
        return None
    if message.data_collections is None:
        return _number(message.event_count)
    known = [f".{table}" for table in tables]
    return sum(
        _number(counted.event_count) or 0
        for counted in message.data_collections
        if any(table.endswith(f".{counted.data_collection}") for table in known)
    )


def _number(value: int | str | None) -> int | None:
    """A count, which some versions of Debezium's documentation show as a text."""
    return int(value) if isinstance(value, int) or (value and value.isdecimal()) else None
