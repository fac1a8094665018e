"""The rules of the merge: what the tables are, as a function of the changes.

This module is the specification. It is plain Python and slow on purpose; the Spark merge must
give the same tables and the same counts, whatever the batches, and calls `fold` itself for the
few keys that one aggregate cannot settle.

Every change has an order (`waybill.order`), plain text, compared byte by byte. The tables are what
comes out when all changes ever seen are taken once each, from the lowest order to the highest:

1. **Newest wins.** An image replaces the row of its key. So the highest order of a key decides,
   and it does not matter when, in which batch or how often a change arrives.
2. **Full rows are oldest.** Their order begins with a lower class than any change's, so they never
   overwrite a change, and a delete of the same key hides them.
3. **A delete leaves a tombstone**: the key and its order, without a row. An older change that
   arrives later finds it and loses; a newer one puts a row there again.
4. **A key change** (`old_key`) is two effects at one order: a tombstone for the old key, an image
   for the new one. Rows that swap their keys in one transaction meet on the way: where the row
   before a key change is not the row that the transaction put there, that row stays.
5. **TRUNCATE** takes away every row and every tombstone with a lower order, also those that
   arrive later. A full reload is a TRUNCATE with the rows of the dump behind it. (The lake keeps a
   marked tombstone of each row that a reload took away; to these rules it is not there.)
   One without a sequence id stands behind the newest of the changes before it in its partition that
   have one (`placed`), so its order rises when such a change comes late.
6. **Absent is not null.** A column that an update leaves out keeps the value that the row has
   just before; one that nobody ever gave is absent. An insert or a full row is whole: what it
   leaves out is absent. A row that moved to another key takes what it leaves out from the last
   row of its old key (PostgreSQL sends the large values of such a row only under the old key).
   This holds too for a column that nobody knew when the row was written: an older change that
   brings it later gives it to the row.
7. **A new column with a default** gives the default to every row with a lower order that lacks
   the column. Without a sequence id it stands where a TRUNCATE would.
8. **A table without key is a bag** (`bag`): it holds a row as often as images put it there less
   the times that rows before took it away. A change counts once, however often it comes. A dump
   has the changes up to its sequence id, that one included: they are taken away by the reload.
   What an update leaves out of the row after, that row has from the row before. Nobody knows which
   row a row before means that is not there or leaves out a column: such a change is refused.
   A dropped column tells no rows apart any more: changes below the statement are read without it.
9. **A renamed column is the same column** (`presented`, where the migration maps it): changes below
   the statement are read as if they had its new names. Without a sequence id it stands where a
   TRUNCATE would. Where its place leaves open what a name means, a person decides
   (`waybill.merge.renaming_columns`); these rules do not ask.
10. **A change that does not fit is as if it had not come**: an image with a value that its column
    cannot hold is refused, with both effects if it moves a key.

Counts of a batch: every effect (a key change has two) is `out` if it is the newest of its key
after the batch and was not there before, else `superseded`. Of the changes that do not fit, moves
and those of which a row would show anything (`showing`) are `refused`: a replay takes them up once
their columns can hold them. Those that newer changes hide are superseded like others. Statements
that add or rename a column are no effects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import NamedTuple

from waybill.full_load import TOPIC
from waybill.order import placed_after, sequence_of

Values = Mapping[str, str | None]
"""An image: exact text or null by column name; absent columns are not in it."""

STATEMENTS = frozenset({"truncate", "column", "drop", "rename"})
"""Operations of a whole table."""

SILENT = frozenset({"column", "drop", "rename"})
"""Those of them that no batch counts."""

WHOLE = frozenset({"insert", "read"})
"""Operations whose image is the whole row, so that nothing older shows through."""


class Change(NamedTuple):
    """One change of one table.

    Attributes:
        order: its place in the total order.
        operation: read, insert, update, upsert, delete, truncate, `column` (rule 7), `drop` (rule
            8), or `rename` (rule 9).
        key: text of the row's key; for statements empty.
        image: the row after the change; for `column` the new column with its default; for `drop`
            the column that is gone; for `rename` new names by the old ones.
        old_key: the key that the row had before, where the change gave it another.
        before: the row before the change, where it is needed: in a table without key, and of key
            changes.
        transaction: the source's transaction.
        place: where the change came from; names it in quarantine.
        columns: of a table without key: the columns that its message states, which a row before has
            to have. None of an update of two messages, each of which states columns of its own.
    """

    order: str
    operation: str
    key: str = ""
    image: Values | None = None
    old_key: str | None = None
    place: tuple[str, int, int, int] = ("", 0, 0, 0)
    before: Values | None = None
    transaction: str | None = None
    columns: frozenset[str] | None = None


class Row(NamedTuple):
    """The state of one key.

    Attributes:
        order: of the newest effect.
        image: the row; of a tombstone the row that it took away, if known.
        live: False for a tombstone.
        sources: None if the newest image alone decides the row, as far as the columns go that were
            known with it; else the keys whose history it depends on beside its own, so that an
            older change that arrives later is noticed.
        moved: the transaction that brought the row here from another key, if one did.
    """

    order: str
    image: Values | None
    live: bool = True
    sources: frozenset[str] | None = None
    moved: str | None = None


Rows = dict[str, Row]


def fold(rows: Rows, changes: Iterable[Change], columns: Iterable[str] = ()) -> Rows:
    """Take changes in their order into `rows` (all of them older than the changes of their key).

    Args:
        rows: rows and tombstones by key; changed in place.
        changes: in any order, each as often as it likes.
        columns: columns of the table; an update that lacks one of them leaves `sources` open.
    """
    known = frozenset(columns)
    for change in sorted(changes, key=lambda change: change.order):
        if change.operation == "truncate":
            rows.clear()
        elif change.operation == "column":
            _add_column(rows, change)
        elif change.operation in ("drop", "rename"):
            continue
        elif change.operation == "delete":
            rows[change.key] = _tombstone(rows.get(change.key), change)
        else:
            other = _is_another(rows, change)
            written = _written(rows, change, known, other)
            if change.old_key is not None:
                written = written._replace(moved=change.transaction)
                if not other:
                    rows[change.old_key] = _tombstone(rows.get(change.old_key), change)
            rows[change.key] = written
    return rows


def _is_another(rows: Rows, change: Change) -> bool:
    """Whether the row at the old key came there in the same transaction and is not this one."""
    row = None if change.old_key is None else rows.get(change.old_key)
    if row is None or not row.live or change.transaction is None or change.before is None:
        return False
    image = row.image or {}
    shared = {name: text for name, text in change.before.items() if name in image}
    return row.moved == change.transaction and any(image[name] != shared[name] for name in shared)


def _written(rows: Rows, change: Change, known: frozenset[str], other: bool) -> Row:
    image = change.image or {}
    if other:
        return Row(change.order, {**(change.before or {}), **image})
    if change.old_key is not None:
        base, source = rows.get(change.old_key), frozenset({change.old_key})
    elif change.operation in WHOLE:
        return Row(change.order, image)
    else:
        base, source = rows.get(change.key), frozenset()
        if base is not None and not base.live:
            base = None
    below: Values = {} if base is None or base.image is None else base.image
    if known.union(below) <= image.keys():
        return Row(change.order, image)
    inherited = base.sources if base is not None and base.sources else frozenset()
    return Row(change.order, {**below, **image}, sources=source | inherited)


def _tombstone(row: Row | None, change: Change) -> Row:
    if row is None:
        return Row(change.order, None, live=False)
    return Row(change.order, row.image, live=False, sources=row.sources)


def _add_column(rows: Rows, change: Change) -> None:
    for key, row in rows.items():
        if row.image is not None and row.order < change.order:
            rows[key] = row._replace(image={**(change.image or {}), **row.image})


def placed(changes: Iterable[Change]) -> list[Change]:
    """Changes with their orders: a statement without a sequence id stands behind what it follows.

    Args:
        changes: all changes of one table, as their messages order them.
    """
    every = list(changes)
    numbered = [change for change in every if sequence_of(change.order)]
    found = []
    for change in every:
        if change.operation in STATEMENTS and not sequence_of(change.order):
            topic, partition, offset, _ = change.place
            ahead = [
                other.order
                for other in numbered
                if other.place[:2] == (topic, partition) and other.place[2] < offset
            ]
            if newest := max(ahead, default=""):
                change = change._replace(order=placed_after(change.order, newest))
        found.append(change)
    return found


def presented(changes: Iterable[Change]) -> list[Change]:
    """Changes with the names that their columns have now: those that statements above them gave.

    Args:
        changes: all changes of one table, in their places (`placed`).
    """
    every = list(changes)
    renames = sorted(
        (change for change in every if change.operation == "rename"), key=lambda c: c.order
    )
    found = []
    for change in every:
        for rename in renames if change.operation != "rename" else ():
            if change.order < rename.order:
                change = _renamed(change, rename.image or {})
        found.append(change)
    return found


def _renamed(change: Change, names: Values) -> Change:
    def image(values: Values | None) -> Values | None:
        if values is None:
            return None
        return {names.get(name) or name: text for name, text in values.items()}

    def key(text: str) -> str:
        if not text.startswith("{"):
            return text
        return json.dumps(image(json.loads(text)), separators=(",", ":"), ensure_ascii=False)

    return change._replace(
        key=key(change.key),
        image=image(change.image),
        old_key=None if change.old_key is None else key(change.old_key),
        before=image(change.before),
        columns=change.columns and frozenset(names.get(name) or name for name in change.columns),
    )


def bag(changes: Iterable[Change]) -> Counter[frozenset[tuple[str, str | None]]]:
    """The rows of a table without key, each with how often it is there (below zero: is owed).

    A change is known by its sequence id and its images, or by its position if it has no sequence.
    A row that was read is known by its position: all rows of a snapshot or a reload may share one
    sequence id, and equal ones among them are several.
    """
    kept = {_identity(change): change for change in presented(placed(changes))}
    truncates = (change for change in kept.values() if change.operation == "truncate")
    truncate = max(truncates, key=lambda change: change.order, default=None)
    # Of two for one column the older gives its value first, and the newer finds it there.
    defaults = sorted(
        (change for change in kept.values() if change.operation == "column"),
        key=lambda change: change.order,
        reverse=True,
    )
    gone = [change for change in kept.values() if change.operation == "drop"]
    drops = {n: c.order for c in sorted(gone, key=lambda c: c.order) for n in c.image or ()}
    rows: Counter[frozenset[tuple[str, str | None]]] = Counter()
    for change in kept.values():
        if change.operation in STATEMENTS or _is_void(change, truncate) or not _is_stated(change):
            continue
        for image, n in ((_completed(change), 1), (_taken(change, drops), -1)):
            if image is not None:
                added = [(d.order, d.image or {}) for d in defaults if change.order < d.order]
                whole = {
                    name: text
                    for order, part in (*added, (change.order, image))
                    for name, text in part.items()
                    if order > drops.get(name, "")
                }
                rows[frozenset((k, v) for k, v in whole.items() if v is not None)] += n
    return Counter({row: n for row, n in rows.items() if n})


def _is_stated(change: Change) -> bool:
    """Whether a change of a table without key states the row that it takes away, if any."""
    if change.operation in WHOLE:
        return True
    return change.before is not None and (change.columns or frozenset()) <= change.before.keys()


def _completed(change: Change) -> Values | None:
    """The row after, with what an update leaves as it was."""
    if change.image is None or change.before is None or change.columns is None:
        return change.image
    return {**change.before, **change.image}


def _taken(change: Change, drops: Mapping[str, str]) -> Values | None:
    """The row before; of an update of two messages without what was dropped between them."""
    if change.before is None or change.columns is not None or change.operation in WHOLE:
        return change.before
    there = drops.keys() - (change.image or drops).keys()
    return {name: text for name, text in change.before.items() if name not in there}


def _is_void(change: Change, truncate: Change | None) -> bool:
    """Whether a TRUNCATE took a row of a table without key away, or a dump of before has it."""
    if truncate is None or change.order < truncate.order:
        return truncate is not None
    in_dump = truncate.place[0].startswith(TOPIC) and not change.place[0].startswith(TOPIC)
    return in_dump and sequence_of(change.order) == sequence_of(truncate.order)


def _identity(change: Change) -> tuple[Hashable, ...]:
    if change.operation == "read" or not sequence_of(change.order):
        return change.place
    images = (repr(sorted((image or {}).items())) for image in (change.before, change.image))
    return (*change.order.split("/")[:3], *images)


def showing(
    taken: Iterable[Change],
    misfits: Iterable[Change],
    columns: Iterable[str] = (),
    keys: Container[str] | None = None,
) -> list[Change]:
    """The changes that do not fit of which a row would show anything if they did.

    Newer changes hide the rest: an image the columns that it has, a whole one all of them, a delete
    the row, unless a move above it takes the row to another key. What is hidden stays so, whatever
    comes later, so nobody has to take it up again.

    Args:
        taken: the changes that fit.
        misfits: those that do not; none of them moves its row.
        columns: columns of the table.
        keys: keys whose rows are asked about; of others nothing shows. None for all.
    """
    known = frozenset(columns)
    every = [*((c, True) for c in taken), *((c, False) for c in misfits)]
    hidden = _Hidden(keys, (change for change, fits in every if fits))
    found = []
    for change, fits in sorted(every, key=lambda pair: pair[0].order, reverse=True):
        if change.operation == "truncate":
            break
        if fits:
            hidden.below(change)
        else:
            names = frozenset(change.image or {})
            brought = names | known if change.operation in WHOLE else names
            covered = hidden.of(change.key)
            if covered is not None and not brought <= covered:
                found.append(change)
    return found


class _Hidden:
    """Which columns of rows newer changes hide, from the newest change down; None stands for all.

    Args:
        keys: as for `showing`.
        changes: the changes that fit.
    """

    def __init__(self, keys: Container[str] | None, changes: Iterable[Change]) -> None:
        self.keys = keys
        self.live: dict[str, frozenset[str] | None] = {}
        self.dead: dict[str, frozenset[str] | None] = {}
        # Rows that swap their keys in one transaction: the one that is there may stay.
        self.arrivals = {(c.transaction, c.key) for c in changes if c.old_key and c.transaction}

    def of(self, key: str) -> frozenset[str] | None:
        """What is hidden of a row that stands at a key."""
        asked = self.keys is None or key in self.keys
        return self.live.get(key, frozenset() if asked else None)

    def below(self, change: Change) -> None:
        """Go down below a change."""
        key, old = change.key, change.old_key
        if change.operation in SILENT:
            return
        if change.operation == "delete":
            self.live[key] = self.dead.get(key)
            return
        above = self.of(key)
        covered = None if above is None else above | (change.image or {}).keys()
        self.dead[key] = None
        self.live[key] = None if old is not None or change.operation in WHOLE else covered
        if old is None:
            return
        # The move takes the row whether it is there still or was deleted just before.
        taken = _both(covered, self.dead.get(old))
        self.dead[old] = taken
        swaps = (change.transaction, old) in self.arrivals
        self.live[old] = _both(taken, self.of(old)) if swaps else taken


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The columns that are hidden in two ways a row may show."""
    if one is None or other is None:
        return one if other is None else other
    return one & other


def effects(change: Change) -> tuple[str, ...]:
    """The keys that a row change has an effect on."""
    return (change.key,) if change.old_key is None else (change.key, change.old_key)


class Counts(NamedTuple):
    """The account of one batch: `came + second == out + superseded + refused`."""

    came: int = 0
    second: int = 0
    out: int = 0
    superseded: int = 0
    refused: int = 0


Misfit = Callable[[Values], str | None]
"""Says why an image does not fit the table's columns, None if it fits."""


class Table:
    """A merged table as the rules define it: it keeps every change and starts over each time.

    Args:
        columns: its columns.
        misfit: what its columns cannot hold.

    Attributes:
        rows: rows and tombstones by key.
        truncated: order of the newest TRUNCATE.
        refused: what batches refused.
    """

    def __init__(self, columns: Iterable[str] = (), misfit: Misfit = lambda image: None) -> None:
        self.columns = tuple(columns)
        self.misfit = misfit
        self.rows: Rows = {}
        self.truncated = ""
        self.refused: list[Change] = []
        self._came: list[Change] = []

    def apply(self, changes: Iterable[Change]) -> Counts:
        """Take one batch."""
        batch = list(changes)
        before, truncated = self.rows, self.truncated
        self._came += batch
        every = presented(placed(self._came))
        taken = [change for change in every if self._fits(change)]
        self.rows = fold({}, taken, self.columns)
        came = every[len(every) - len(batch) :]
        good = [change for change in came if self._fits(change)]
        bad = [change for change in came if not self._fits(change)]
        orders = [change.order for change in every if change.operation == "truncate"]
        self.truncated = max(orders, default="")
        emptied = any(c.operation == "truncate" and c.order == self.truncated for c in good)
        refused = [change for change in bad if change.old_key is not None]
        refused += showing(taken, (c for c in bad if c.old_key is None), self.columns)
        self.refused += refused
        counted = [change for change in came if change.operation not in SILENT]
        second = sum(change.old_key is not None for change in good)
        out = self._out(good, before) + (emptied and self.truncated > truncated)
        superseded = len(counted) + second - out - len(refused)
        return Counts(len(counted), second, out, superseded, len(refused))

    def _fits(self, change: Change) -> bool:
        if change.image is None or change.operation in ("drop", "rename"):
            return True
        return not self.misfit(change.image)

    def _out(self, good: list[Change], before: Rows) -> int:
        touched = {
            (key, change.order)
            for change in good
            if change.operation not in STATEMENTS
            for key in effects(change)
        }
        return sum(
            key in self.rows
            and self.rows[key].order == order
            and (key not in before or before[key].order != order)
            for key, order in touched
        )

    def live(self) -> dict[str, Values]:
        """The rows that people see, by key."""
        return {key: row.image or {} for key, row in self.rows.items() if row.live}
