"""The refused messages of a migration: which, by whom, why, and their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from waybill.lake.history import Chosen
from waybill.lake_columns import TABLE_PARTS, dotted_name
from waybill.merge.position import held_merge

if TYPE_CHECKING:
    from waybill.lake.history import History

Places = dict[str, list[Any]]
"""The values that rows have in some columns."""

PLACE = ("batch", "topic", "partition", "offset", "index")


def first_refusals(
    lake: History, asked: Places, limit: int, table: str | None = None
) -> list[dict[str, Any]]:
    """The refusals with the lowest places, each message once; see `refusals`."""
    wanted = limit
    while True:
        rows = nsmallest(wanted, refusals(lake, asked, wanted, table=table), key=_by_place)
        found = each_once(rows, lake)
        if len(found) >= limit or len(rows) < wanted:
            return found[:limit]
        # Full runs have brought the same messages again: others stand behind them.
        wanted *= 2


def each_once(rows: Iterable[dict[str, Any]], lake: History) -> list[dict[str, Any]]:
    """Refusals by place, of several batches the newest: a full run refuses a message again.

    Args:
        rows: what was refused.
        lake: tells which batch is newer.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    ages: dict[str, int] = {}
    for row in rows:
        place = _by_place(row)
        other = found.setdefault(place, row)
        if other is row or other["batch"] == row["batch"]:
            continue
        if not ages:
            ages = _ages(lake)
        if ages.get(row["batch"], len(ages)) < ages.get(other["batch"], len(ages)):
            found[place] = row
    return sorted(found.values(), key=_by_place)


def refusals(
    lake: History,
    asked: Places,
    limit: int | None = None,
    tried_again: bool = False,
    table: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Everything that was refused, by whom, why; also by a merge that the gate holds.

    Args:
        lake: its tables.
        asked: the values that rows have in columns that all of the tables have.
        limit: of each table so many with the lowest places are enough.
        tried_again: whether those that were taken once more since count, too.
        table: only what was refused of this source table; a message that could not be read names
            none.
    """
    why = ("reason_kind", "reason")

    def rows(
        log: str, columns: tuple[str, ...], where: Places, snapshot: int | None = None
    ) -> Iterable[dict[str, Any]]:
        names = [name for name in TABLE_PARTS if name in columns]
        of_table = None if table is None else Chosen(names, lambda row: _table(row) == table)
        if limit is None:
            return lake.scan(log, columns, where, snapshot, of_table)
        # Targets of one message are listed in the order of their names.
        by = [name for name in (*PLACE[1:], "target") if name in columns]
        return lake.first(log, columns, where, by, limit, snapshot, of_table)

    states = ["refused", "replayed"] if tried_again else ["refused"]
    outcome = {**asked, "outcome": states}
    changes, outbox, merges = lake.log("changes"), lake.log("outbox"), lake.log("merges")
    if lake.exists(changes):
        for row in rows(changes, (*PLACE, *why, *TABLE_PARTS), outcome):
            yield _shown(row, "convert")
    if lake.exists(outbox):
        for row in rows(outbox, (*PLACE, *why, "target", "table"), outcome):
            yield _shown(row, row["target"])
    if lake.exists(merges):
        kind, held = {**asked, "kind": states}, held_merge(lake)
        newest = None if held is None else held.snapshot
        for row in rows(merges, (*PLACE, *why, "table"), kind, newest):
            yield _shown(row, "merge")


def _table(row: dict[str, Any]) -> str | None:
    """The source table of a row: of its parts in `changes`, as one name in the other tables."""
    if "database" not in row:
        name: str | None = row["table"]
        return name
    return dotted_name(row[part] for part in TABLE_PARTS)


def _shown(row: dict[str, Any], by: str) -> dict[str, Any]:
    place = {name: row[name] for name in PLACE}
    why = {"kind": row["reason_kind"], "reason": row["reason"]}
    return {**place, "by": by, **why, "table": _table(row)}


def _ages(lake: History) -> dict[str, int]:
    """The batches that were decoded, from the newest on."""
    return {batch: age for age, batch in enumerate(lake.batches(lake.log("changes")))}


def _by_place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in (*PLACE[1:], "by"))


def message_at(
    lake: History, topic: str, partition: int, offset: int
) -> tuple[bytes | None, bytes | None] | None:
    """Key and value of a message as the archive has it; None where it has no such message."""
    archive = lake.log("archive")
    if not lake.exists(archive):
        return None
    place: Places = {"topic": [topic], "partition": [partition], "offset": [offset]}
    for row in lake.scan(archive, ("key", "value"), place):
        return row["key"], row["value"]
    return None


def history_at(lake: History, topic: str, partition: int, offset: int) -> list[dict[str, Any]]:
    """What became of a message, batch by batch, the oldest first.

    Returns:
        Rows as `refusals` gives them, and one without a reason for each batch that took the
        message.
    """
    place: Places = {"topic": [topic], "partition": [partition], "offset": [offset]}
    rows = list(refusals(lake, place, tried_again=True))
    changes = lake.log("changes")
    if lake.exists(changes):
        ok: Places = {**place, "outcome": ["ok"]}
        taken = lake.scan(changes, ("batch", "index"), ok)
        by_batch = Counter(row["batch"] for row in taken)
        rows += [{"batch": batch, "rows": count} for batch, count in by_batch.items()]
    ages = _ages(lake) if rows else {}
    return sorted(rows, key=lambda row: -ages.get(row["batch"], len(ages)))
