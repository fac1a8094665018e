"""Deletes messages of the archive and of the outbox that are older than `retention` says.

Only batches that were published go, and of these nothing that was refused and may be tried again.
What the merge may look back for is in `changes`, which stays whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.errors import ConflictError
from waybill.lake.names import literal
from waybill.lake.table_properties import KEPT_SINCE
from waybill.lake.upkeep import BUSY, MEANWHILE, STAGE, clear_away
from waybill.lake_columns import BATCHES, BEFORE_BATCH, CHANGE_PLACE, MESSAGE_PLACE
from waybill.report import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from waybill.lake import Branch, Commit, Lake

SNAPSHOT, CONVERT, _, VALIDATE, PUBLISH = STAGES

AT_ONCE = 150
"""Batches of one statement. Iceberg compares the bounds of files with no more than 200 values."""

FEW_REFUSED = 1000
"""Of a batch with more refused messages all are kept."""


class _Log(NamedTuple):
    """A table of messages.

    Attributes:
        name: its short name.
        stage: that writes it.
        place: what tells its messages apart.
        refused: where the refused ones are listed.
    """

    name: str
    stage: str
    place: tuple[str, ...]
    refused: str


LOGS = {
    log.name: log
    for log in (
        _Log("archive", SNAPSHOT, MESSAGE_PLACE, "changes"),
        _Log("outbox", CONVERT, ("target", *CHANGE_PLACE), "outbox"),
    )
}
"""The tables whose messages may go."""


def delete_messages(lake: Lake, name: str, oldest_ms: int) -> tuple[int, str | None]:
    """Delete the messages of the batches that were published and judged before a time.

    Args:
        lake: the lake.
        name: `archive` or `outbox`.
        oldest_ms: milliseconds since 1970.

    Returns:
        How many there were, and why they were left, if they were.
    """
    log = LOGS[name]
    table = lake.log(name)
    published = lake.last(lake.log("published"), PUBLISH)
    if published is None or not lake.exists(table) or lake.head(table) is None:
        return 0, None
    ages = _ages(lake, log, published)
    if not any(time_ms < oldest_ms for time_ms in ages.values()):
        return 0, None
    clear_away(lake, table)
    if lake.waiting(table, log.stage):
        return 0, BUSY
    branch = lake.branch(table, STAGE, "retention")
    try:
        present = {row.batch for row in branch.read().select("batch").distinct().collect()}
        times = {batch: _time_of(batch, ages) for batch in present}
        going = sorted(batch for batch, time in times.items() if time and time < oldest_ms)
        count = sum(_delete(lake, log, branch, some) for some in _several(going))
        if count:
            # First: an archive must not look whole that is not. If this run ends here, or another
            # one has moved the table, the next upkeep deletes what is said to be gone.
            lake.set_properties(table, {KEPT_SINCE: str(oldest_ms)})
            branch.fast_forward(alone=True)
        return count, None
    except ConflictError:
        return 0, MEANWHILE
    finally:
        branch.drop()


def _ages(lake: Lake, log: _Log, published: Commit) -> dict[str, int]:
    """When the batches ended whose messages were sent, in milliseconds since 1970.

    The gate's record has every batch that it judged, for ever. Those that it never judged, because
    the next one took their messages along, are in the table's own history while it lasts.
    """
    runs, upto = lake.log("runs"), published.cursor["runs"]
    judged = lake.scan(runs, ["batch", "time"], {"stage": [VALIDATE]}, upto)
    newest: dict[str, int] = {}
    for row in judged:
        time_ms = int(row["time"].timestamp() * 1000)
        newest[row["batch"]] = max(time_ms, newest.get(row["batch"], 0))
    commit = lake.find(runs, VALIDATE, published.batch)
    cursor: dict[str, Any] = {} if commit is None else commit.cursor
    end = published.cursor["outbox"] if log.name == "outbox" else cursor.get("archive")
    if end is not None:
        for one in lake.between(lake.log(log.name), None, end):
            # A target that began with every change got those of many batches in one commit.
            for batch in one.cursor.get(BATCHES, [one.batch]):
                newest.setdefault(batch, one.time_ms)
    return newest


def _time_of(batch: str, ages: dict[str, int]) -> int | None:
    """When a batch ended; None where nobody can tell.

    What a target began with ended with the batch that it stands before, whose name ends its own.
    """
    known = ages.get(batch)
    if known is None and batch.endswith(BEFORE_BATCH):
        own = batch.removesuffix(BEFORE_BATCH)
        known = next((t for b, t in ages.items() if own == b or own.endswith(f"-{b}")), None)
    return known


def _delete(lake: Lake, log: _Log, branch: Branch, batches: list[str]) -> int:
    """Delete the messages of some batches on a branch, and count them."""
    mine = branch.read().where(F.col("batch").isin(batches))
    refused = _refused(lake, log, branch)
    kept = mine.join(F.broadcast(refused), list(log.place), "left_semi")
    many = kept.groupBy("batch").count().where(F.col("count") > FEW_REFUSED).collect()
    if many:
        whole = {row.batch for row in many}
        batches = [batch for batch in batches if batch not in whole]
        mine = mine.where(F.col("batch").isin(batches))
        kept = kept.where(F.col("batch").isin(batches))
    places = kept.select("batch", *log.place).distinct().collect()
    with_refused = {row.batch for row in places}
    count = mine.count() - (kept.count() if places else 0)
    plain = [batch for batch in batches if batch not in with_refused]
    if plain:
        # Whole files of such batches go without being read.
        branch.sql(f"DELETE FROM {{branch}} WHERE {_among(plain)}")
    for batch in sorted(with_refused):
        own = (row.asDict() for row in places if row.batch == batch)
        stay = " OR ".join(_at(row, log.place) for row in own)
        branch.sql(f"DELETE FROM {{branch}} WHERE {_among([batch])} AND NOT ({stay})")
    return count


def _refused(lake: Lake, log: _Log, branch: Branch) -> DataFrame:
    """The places of messages that were refused, whatever became of them since.

    A target's message that was taken later stays as well: without it, it would count as refused.
    """
    rows = branch.read() if log.refused == log.name else lake.read(lake.log(log.refused))
    return rows.where("outcome = 'refused'").select(*log.place).distinct()


def _several(batches: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(batches), AT_ONCE):
        yield batches[start : start + AT_ONCE]


def _among(batches: Iterable[str]) -> str:
    return f"batch IN ({', '.join(map(literal, sorted(batches)))})"


def _at(row: dict[str, Any], place: tuple[str, ...]) -> str:
    condition = " AND ".join(f"`{name}` = {literal(row[name])}" for name in place)
    return f"({condition})"
