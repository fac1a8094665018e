"""Whether a row that differs is a difference, or only on its way.

The proof: a state L of the lake is fixed first, and a view V of the database is taken after it.
Nothing is in L that is not in V. Later the lake has a state M that covers V: everything that was
committed before V is in it. If the lake's row is the same in L and M, no change of the row came
between them, so it is what it was at V as well, and must be the database's row of V. If it is not,
it differs for good, however much the database is written to meanwhile.

A row that did change between L and M is looked at again, with M as the next L. What could not be
decided in time is kept, with what the proof needs: the next verification decides it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.merge.position import STAGE, position_of
from waybill.merge.table_states import snapshot_at
from waybill.report import BEGAN
from waybill.spec.durations import seconds_of
from waybill.verify.comparing import LakeRow, lake_rows
from waybill.verify.newest import shown_value
from waybill.verify.pace import Pace
from waybill.verify.plan import Canonical, CanonicalRows, digest, image_of

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.spec.migration import Migration
    from waybill.verify.database import Database
    from waybill.verify.plan import Compared

MISSING_IN_LAKE = "missing in the lake"
MISSING_IN_DATABASE = "missing in the database"
DIFFERS = "differs"

POLL = 2.0
"""Seconds between two looks for a new batch."""


class LakeState(NamedTuple):
    """A state of a merged table.

    Attributes:
        snapshot: of the merged table, None where it has none.
        batch: the newest batch that is visible in it.
        own: the newest batch that wrote the table, by its stamp.
        truncated: order of the newest TRUNCATE of the table.
        reached: source time up to which the table is complete, microseconds since 1970.
        read_from: when that batch looked what its source holds, seconds since 1970 by the clock of
            its machine; None where nobody can tell any more.
        changes: snapshot of `changes` up to which everything is merged.
        waits: whether changes before that wait for the end of a transaction, for another half, or
            with the table.
        held: the batch since which the table waits for a decision, None if it does not. What came
            since is not in the state, whatever batches do.
    """

    snapshot: int | None
    batch: str | None
    own: str | None
    truncated: str
    reached: int | None
    read_from: float | None
    changes: int | None
    waits: bool
    held: str | None = None

    @property
    def wait(self) -> str:
        """A sentence on the table's wait for a decision; empty if it does not wait."""
        if self.held is None:
            return ""
        return (
            f"the table waits for a decision since batch {self.held}, so what differs since then "
            "is decided only after it continues (`waybill status` says why it waits)"
        )


class Pending(NamedTuple):
    """A row that differed and could not be decided about.

    Attributes:
        database: mark of the database's row.
        lake: mark of the lake's row.
        clock: the database's clock at the view, microseconds since 1970.
        wall: this machine's clock at the same time, seconds since 1970.
    """

    database: str
    lake: str
    clock: int
    wall: float


class Difference(NamedTuple):
    """A row that differs.

    Attributes:
        at: what it is kept under, see `Compared.place_of`.
        key: its key as the lake has it, by the names of its columns: with values of masked columns,
            which only the history of the row is found by.
        what: `MISSING_IN_LAKE`, `MISSING_IN_DATABASE` or `DIFFERS`.
        columns: the columns that differ, each with the database's and the lake's text; of a row
            that one side lacks none, because all of them do.
        times: how often each side has it, where the table has no key.
        seen: what the next verification needs to say so again at once.
    """

    at: str
    key: dict[str, str | None]
    what: str
    columns: dict[str, tuple[str | None, str | None]]
    times: tuple[int, int]
    seen: Pending


class BothSides(NamedTuple):
    """Both sides of some rows.

    Attributes:
        state: of the lake, fixed before the database was read.
        ours: the lake's rows and tombstones by their keys.
        clock: the database's clock at the view, microseconds since 1970.
        wall: this machine's clock at the same time, seconds since 1970.
        rows: the database's rows by their keys, each with how many rows are like it.
        newest: the newest state of the lake, which is `state` unless an earlier one was asked for.
        now: the lake's rows and tombstones then.
    """

    state: LakeState
    ours: dict[str, LakeRow]
    clock: int
    wall: float
    rows: dict[str, tuple[Canonical | None, int]]
    newest: LakeState
    now: dict[str, LakeRow]

    def theirs(self, key: str) -> tuple[Canonical | None, int]:
        """The database's row, and how many are like it."""
        return self.rows.get(key, (None, 0))


class DecidedKeys(NamedTuple):
    """What became of the keys that a comparison found.

    Attributes:
        differences: those that differ for good.
        pending: those that nobody can tell yet, by what they are kept under.
        equal: how many are equal after all.
    """

    differences: list[Difference]
    pending: dict[str, Pending]
    equal: int


def lake_state(lake: Lake, spec: Migration, table: Compared, batch: str | None = None) -> LakeState:
    """The visible state of a merged table, or that after a batch.

    Raises:
        ConfigurationError: upkeep has expired it.
    """
    merges = lake.log("merges")
    newest = lake.last(merges, STAGE) if batch is None else lake.find(merges, STAGE, batch)
    position = position_of(lake, batch)
    known = position.state.table(table.name)
    snapshot = lake.head(table.lake) if batch is None else snapshot_at(lake, table.lake, batch)
    commits = lake.between(table.lake, None, snapshot) if snapshot is not None else iter(())
    own = next((c.batch for c in commits if c.stage == STAGE), None)
    read_from = None
    held = position.state.held.get(table.name)
    if newest is not None and held is None:
        archived = lake.find(lake.log("archive"), "snapshot", newest.batch)
        if archived is not None:
            read_from = archived.report["details"].get(BEGAN)
    return LakeState(
        snapshot,
        None if newest is None else newest.batch,
        own,
        known.truncated,
        position.state.watermark(table.name).time,
        read_from,
        position.changes,
        bool(position.state.open or position.state.halves or held),
        None if held is None else held.batch,
    )


def covers(state: LakeState, spec: Migration, clock: int, wall: float) -> str | None:
    """Why a state holds everything that was committed before a view; None where it may not.

    Args:
        state: of the lake.
        spec: the migration.
        clock: the database's clock at the view.
        wall: this machine's clock at the same time.
    """
    # What came with a later time was committed after the view, and behind all that was before it.
    if state.reached is not None and state.reached > clock:
        return "time"
    lag = None if spec.verify is None else spec.verify.lag
    if lag is not None and state.read_from is not None:
        return "lag" if state.read_from > wall + seconds_of(lag) else None
    return None


class Deciding:
    """Decides about keys of one table.

    Args:
        lake: the lake.
        spec: the migration.
        table: the table.
        database: an open session.
        deadline: until when to wait for batches, by `time.monotonic`.
        progress: says a line about the work.
        fixed: the state that was asked for; the newest one where it is None.
    """

    def __init__(
        self,
        lake: Lake,
        spec: Migration,
        table: Compared,
        database: Database,
        deadline: float,
        progress: Callable[..., Any],
        fixed: LakeState | None = None,
    ) -> None:
        self._lake, self._spec, self._table = lake, spec, table
        self._database = database
        self._deadline = deadline
        self._progress = progress
        self._fixed = fixed
        self._texts = CanonicalRows(table)

    def decide(self, keys: Collection[str], before: Mapping[str, Pending]) -> DecidedKeys:
        """Say which of these keys differ.

        Args:
            keys: as `CanonicalRows.key` writes them.
            before: what earlier verifications left undecided, by what it is kept under.
        """
        differences: list[Difference] = []
        left, pending, equal = list(keys), dict[str, Pending](), 0
        while left:
            look = self._look(left)
            pending = {}
            for key in left:
                if _same(look.theirs(key), look.ours.get(key)):
                    equal += 1
                elif self._known(key, look, before):
                    seen = self._pending(key, look, before)
                    differences.append(self._difference(key, look, look.ours.get(key), seen))
                else:
                    pending[key] = self._pending(key, look, before)
            later = self._covering(look, len(pending)) if pending else None
            if later is None:
                break
            left = []
            now = lake_rows(self._lake, self._table, later.snapshot, frozenset(pending))
            for key in list(pending):
                own = now.get(key)
                if _same(look.theirs(key), own):
                    equal += 1
                elif self._lake_mark(own, later) == self._lake_mark(look.ours.get(key), look.state):
                    differences.append(self._difference(key, look, own, pending[key]))
                elif self._fixed is not None:
                    # It changed since the batch that was asked for.
                    continue
                else:
                    left.append(key)
                del pending[key]
        kept = {self._table.place_of(key): mark for key, mark in pending.items()}
        return DecidedKeys(differences, kept, equal)

    def _look(self, keys: Collection[str]) -> BothSides:
        state = self._fixed or lake_state(self._lake, self._spec, self._table)
        ours = lake_rows(self._lake, self._table, state.snapshot, frozenset(keys))
        newest, now = state, ours
        if self._fixed is not None:
            newest = lake_state(self._lake, self._spec, self._table)
            now = lake_rows(self._lake, self._table, newest.snapshot, frozenset(keys))
        view = self._database.begin()
        rows = self._rows_of_database(keys)
        return BothSides(state, ours, view.clock, time.time(), rows, newest, now)

    def _mark(self, key: str, look: BothSides) -> Pending:
        lake = self._lake_mark(look.ours.get(key), look.state)
        return Pending(_mark(look.theirs(key)), lake, look.clock, look.wall)

    def _pending(self, key: str, look: BothSides, before: Mapping[str, Pending]) -> Pending:
        """What is kept of a row: its first look counts, because more is known of it since then."""
        was, mark = before.get(self._table.place_of(key)), self._mark(key, look)
        same = was is not None and (was.database, was.lake) == (mark.database, mark.lake)
        return was if same and was is not None else mark

    def _known(self, key: str, look: BothSides, before: Mapping[str, Pending]) -> bool:
        """Whether an earlier verification saw the row as it is, and the lake covers that one."""
        mark = self._pending(key, look, before)
        if mark is not before.get(self._table.place_of(key)):
            return False
        same = self._lake_mark(look.now.get(key), look.newest) == mark.lake
        return same and covers(look.newest, self._spec, mark.clock, mark.wall) is not None

    def _covering(self, look: BothSides, count: int) -> LakeState | None:
        """The first visible state that covers a look; None where none came in time."""
        reported = False
        while True:
            state = lake_state(self._lake, self._spec, self._table)
            if covers(state, self._spec, look.clock, look.wall) is not None:
                return state
            if state.held is not None or time.monotonic() >= self._deadline:
                # No batch covers a table that waits, and other tables need the time.
                return None
            if not reported:
                self._progress(
                    "%s: %d rows differ, waiting for a batch that shows whether their changes are "
                    "on their way",
                    *(self._table.label, count),
                )
                reported = True
            time.sleep(min(POLL, max(0.0, self._deadline - time.monotonic())))

    def _rows_of_database(self, keys: Collection[str]) -> dict[str, tuple[Canonical | None, int]]:
        assert self._table.source is not None, "only tables that are there are looked into"
        wanted = frozenset(keys)
        found: dict[str, tuple[Canonical | None, int]] = {}
        assert self._spec.verify is not None, "it names the database"
        pace = Pace(self._spec.verify.rows_per_second)
        for texts in self._looked_up([json.loads(key) for key in keys]):
            pace.row()
            row = self._texts.of_database(texts)
            if row is None:
                continue
            key = self._texts.key(row)
            if key not in wanted:
                # Where the database compares without case, it finds a neighbour as well.
                continue
            found[key] = (row, found.get(key, (None, 0))[1] + 1)
        return found

    def _looked_up(self, keys: list[list[str | None]]) -> Any:
        source = self._table.source
        assert source is not None, "only tables that are there are looked into"
        columns = self._table.read
        if self._table.is_looked_up:
            # No row of a table with a key has null in it.
            plain = [[text or "" for text in key] for key in keys if None not in key]
            return self._database.looked_up(source, columns, self._table.key, plain)
        pieces = self._database.pieces(source, (), 1)
        return (row for piece in pieces for row in self._database.rows(columns, piece))

    def _lake_mark(self, row: LakeRow | None, state: LakeState) -> str:
        """What changes whenever a change of the row has come to the lake."""
        if not self._table.keyed:
            # Rows that are equal come and go without a trace: only a table at rest tells.
            return f"{state.own}"
        if row is None:
            return f"-/{state.truncated}"
        return f"{row.order}/{digest(row.row).hex()}/{state.truncated}"

    def _key_in_lake(self, key: str, own: LakeRow | None) -> dict[str, str | None]:
        """A key as the lake has it, by which the row's history is found."""
        if own is not None and own.key is not None:
            return image_of(own.key)
        return self._table.key_in_lake(json.loads(key))

    def _difference(
        self, key: str, look: BothSides, own: LakeRow | None, seen: Pending
    ) -> Difference:
        row, at = look.theirs(key), self._table.place_of(key)
        in_lake = self._key_in_lake(key, own)
        theirs, ours = row[0], None if own is None else own.row
        if theirs is None or ours is None:
            what = MISSING_IN_LAKE if theirs is not None else MISSING_IN_DATABASE
            times = (row[1], 0 if ours is None else _count(own))
            return Difference(at, in_lake, what, {}, times, seen)
        columns = {
            name: (shown_value(one, mask is None), shown_value(other, mask is None))
            for name, mask, one, other in zip(
                *(self._table.names, self._table.masks, theirs, ours), strict=True
            )
            if one != other
        }
        return Difference(at, in_lake, DIFFERS, columns, (row[1], _count(own)), seen)


def _count(own: LakeRow | None) -> int:
    return 0 if own is None else own.times


def _same(row: tuple[Canonical | None, int], own: LakeRow | None) -> bool:
    theirs, ours = row[0], None if own is None else own.row
    if theirs is None or ours is None:
        return theirs is None and ours is None
    return theirs == ours and own is not None and row[1] == own.times


def _mark(row: tuple[Canonical | None, int]) -> str:
    return f"{row[1]}/{digest(row[0]).hex()}"
