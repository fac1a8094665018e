"""What verifications found, as the lake keeps it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import ConflictError
from waybill.lake.stage_commit import land
from waybill.lake_columns import VERIFICATIONS
from waybill.report import StageReport
from waybill.verify.deciding import Pending
from waybill.verify.newest import NAME, VERIFIED, label_of, shown_value

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.lake.history import History
    from waybill.verify.deciding import Difference
    from waybill.verify.newest import Outcome

STAGE = "verify"
"""Stamp of the commits."""
KEPT = 1_000
"""Differences of a table that are kept; of more only their number is."""
COUNT = ""
"""The key under which an undecided number of rows is kept; no row has it."""
TRIES = 5
"""How often a result is recorded again where another verification or the upkeep was faster."""

_OF_KEYS = ("by_key", "one_text")
"""What a reload of keys is to know of a result, and whoever proposes one."""

TABLES_OF_A_COMMIT = 20
SECONDS_OF_A_COMMIT = 60.0
"""Results are recorded when so many tables or so many seconds have come together, so that a
verification of hundreds of small tables makes few commits, and one that is killed loses little."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(micros: int) -> str:
    """Microseconds since 1970 as ISO 8601."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


class TableResult(NamedTuple):
    """What a verification found about one table.

    Attributes:
        table: its name in the lake.
        method: what was compared: `counts`, `changed` or `full`.
        in_database: rows that were read or counted in the database.
        in_lake: those of the lake; of a table that could not be verified as its records say, about.
        differing: keys that differ for good, however many are among `differences`.
        undecided: keys that differed and may be on their way.
        batch: the newest batch that was compared.
        position: of the database's log when it was read, if the user may know.
        read_at: the database's clock then, ISO 8601 in UTC; empty if the table was not read.
        complete_up_to: source time up to which the lake's table was complete by then.
        sentence: what a person should know beside the figures.
        differences: the first of them.
        pending: the undecided ones, by their keys.
        changes: snapshot of `changes` that the next verification of what changed goes on from; None
            where not all that changed was compared.
        shard: the source table, where it is one of several that become the same table.
        outcome: whether it was compared; if not, `sentence` says why.
        transient: whether it was not verified because of what may pass.
        shown: the columns whose values are shown, see `Compared.shown`.
        by_key: whether rows that differ can be rebuilt individually, as their keys are known.
        one_text: whether messages write a key as it is kept here of a row that the lake lacks.
    """

    table: str
    method: str
    in_database: int
    in_lake: int
    differing: int
    undecided: int
    batch: str | None
    position: str | None
    read_at: str
    complete_up_to: str | None
    sentence: str
    differences: list[Difference]
    pending: dict[str, Pending]
    changes: int | None
    shard: str | None = None
    outcome: Outcome = VERIFIED
    transient: bool = False
    shown: frozenset[str] | None = None
    by_key: bool = True
    one_text: bool = True

    @property
    def label(self) -> str:
        """See `Compared.label`."""
        return label_of(self.table, self.shard)

    @property
    def figures(self) -> dict[str, Any]:
        """Without the rows themselves."""
        left = ("differences", "pending", "changes", "shown", *_OF_KEYS)
        return {name: value for name, value in self._asdict().items() if name not in left}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for other programs."""
        return {
            **self.figures,
            "differences": [difference_dict(found, self.shown) for found in self.differences],
        }


def values_shown(
    values: Mapping[str, str | None], shown: frozenset[str] | None
) -> dict[str, str | None]:
    """Values by columns, as people see them.

    Args:
        values: as the lake has them.
        shown: see `Compared.shown`.
    """
    return {
        name: shown_value(text, shown is None or name in shown) for name, text in values.items()
    }


def difference_dict(found: Difference, shown: frozenset[str] | None) -> dict[str, Any]:
    """A difference as plain data, without masked values.

    Args:
        found: the difference.
        shown: see `Compared.shown`.
    """
    columns = {
        name: {"database": theirs, "lake": ours} for name, (theirs, ours) in found.columns.items()
    }
    return {
        "key": values_shown(found.key, shown),
        "what": found.what,
        "columns": columns,
        "times": {"database": found.times[0], "lake": found.times[1]},
    }


class Recording:
    """Keeps what a verification finds, several tables at a time.

    Args:
        lake: the lake.
        verification: its id.
        clock: seconds that never run backwards.
    """

    def __init__(
        self, lake: Lake, verification: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lake, self._verification, self._clock = lake, verification, clock
        self._waiting: list[TableResult] = []
        self._tables = 0
        self._kept_at = clock()

    def add(self, results: Sequence[TableResult]) -> None:
        """Take what was found about one table, and record it with others if it is time.

        Args:
            results: that of rows, that of their number, or both.

        Raises:
            ConflictError: see `finish`.
        """
        self._waiting += results
        self._tables += bool(results)
        is_late = self._clock() - self._kept_at >= SECONDS_OF_A_COMMIT
        if self._tables >= TABLES_OF_A_COMMIT or is_late:
            self.finish()

    def finish(self) -> None:
        """Record what waits.

        Raises:
            ConflictError: others recorded something first each time; what waited was not kept.
        """
        waiting, self._waiting, self._tables = self._waiting, [], 0
        if waiting:
            _record_patiently(self._lake, self._verification, waiting)
        self._kept_at = self._clock()


def _record_patiently(lake: Lake, verification: str, results: Sequence[TableResult]) -> None:
    for left in reversed(range(TRIES)):
        try:
            _record(lake, verification, results)
        except ConflictError:
            if not left:
                raise
        else:
            return


def _record(lake: Lake, verification: str, results: Sequence[TableResult]) -> None:
    started = time.monotonic()
    now = datetime.now(UTC)
    rows: list[tuple[Any, ...]] = []
    report = StageReport(STAGE, verification)
    goes_on: dict[str, int] = {}
    for result in results:
        table = result.label
        of_keys = {name: getattr(result, name) for name in _OF_KEYS}
        body = _json({**result.figures, **of_keys})
        rows.append((verification, now, "table", table, None, result.method, body))
        for found in result.differences[:KEPT]:
            body = _json({**difference_dict(found, result.shown), "seen": found.seen._asdict()})
            rows.append((verification, now, "difference", table, found.at, found.what, body))
        for key, pending in result.pending.items():
            rows.append((verification, now, "undecided", table, key, "", _json(pending._asdict())))
        if result.changes is not None:
            goes_on[table] = result.changes
        if result.outcome == VERIFIED:
            # Of others the next verification goes on from the one before this.
            what = {"differing": result.differing, "undecided": result.undecided}
            known = report.details.get(table, {})
            report.details[table] = {"method": result.method, **what, **known}
            report.details[table]["counted"] = result.method == "counts"
    name = lake.ensure(lake.log(NAME), VERIFICATIONS, ("kind",))
    # Of all tables, every commit would repeat what the others of the verification have.
    report.cursor = {"changes": goes_on}
    branch = lake.branch(name, STAGE, verification, False)
    branch.append_rows(rows, VERIFICATIONS)
    land(branch, report, NAME, started)


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def verified_up_to(lake: History, table: str) -> int | None:
    """Snapshot of `changes` up to which a table was verified; None if it never was."""
    name = lake.log(NAME)
    if not lake.exists(name):
        return None
    # Lakes of before have one commit that tells it of all tables.
    known = (c.cursor["changes"].get(table) for c in lake.commits(name) if c.stage == STAGE)
    return next((found for found in known if found is not None), None)


def left_open(lake: History, table: str, counts: bool = False) -> dict[str, Pending]:
    """What the last verification of a table found or could not decide about, by keys.

    Args:
        lake: the lake.
        table: its name in the lake.
        counts: of numbers of rows, and not of rows.
    """
    name = lake.log(NAME)
    if not lake.exists(name):
        return {}
    last = _last_of(lake, name, table, counts)
    if last is None:
        return {}
    wanted = {"kind": ["difference", "undecided"], "verification": [last], "table": [table]}
    rows = lake.scan(name, ["kind", "key", "body"], wanted)
    bodies = {
        row["key"]: (row["kind"], json.loads(row["body"]))
        for row in rows
        # One verification may have compared rows and their number.
        if (row["key"] == COUNT) == counts
    }
    return {
        key: Pending(**(body["seen"] if kind == "difference" else body))
        for key, (kind, body) in bodies.items()
    }


def _last_of(lake: History, name: str, table: str, counts: bool) -> str | None:
    for commit in lake.commits(name):
        found = commit.report["details"].get(table)
        if found is None:
            continue
        of_counts = found["method"] == "counts"
        if (of_counts or found.get("counted", False)) if counts else not of_counts:
            return commit.batch
    return None
