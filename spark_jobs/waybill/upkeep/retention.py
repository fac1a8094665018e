"""Deletes messages of the archive, of `changes` and of the outbox older than `retention` says.

Only batches that were published go, and of these nothing that was refused and may be tried again.
Of `changes` more stays: all that the merge may look back for (`waybill.upkeep.old_changes`).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.errors import ConflictError
from waybill.lake.changed_properties import change_properties
from waybill.lake.names import literal
from waybill.lake.table_properties import deletion_marks
from waybill.lake.upkeep import BUSY, MEANWHILE, STAGE, clear_away
from waybill.lake_columns import BATCHES, BEFORE_BATCH, CHANGE_PLACE, MESSAGE_PLACE
from waybill.report import STAGES
from waybill.upkeep.old_changes import ROW_PLACE, OldChanges, is_read, why_all_stay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from waybill.lake import Branch, Commit, Lake
    from waybill.spec.migration import Migration

SNAPSHOT, CONVERT, _, VALIDATE, PUBLISH = STAGES

AT_ONCE = 150
"""Batches of one statement. Iceberg compares the bounds of files with no more than 200 values."""

CHANGES = "changes"

FEW_REFUSED = 1000
"""Of a batch with more refused messages all are kept."""


class Log(NamedTuple):
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
        Log("archive", SNAPSHOT, MESSAGE_PLACE, CHANGES),
        Log(CHANGES, CONVERT, MESSAGE_PLACE, CHANGES),
        Log("outbox", CONVERT, ("target", *CHANGE_PLACE), "outbox"),
    )
}
"""The tables whose messages may go."""


def delete_messages(
    spec: Migration, lake: Lake, name: str, oldest_ms: int
) -> tuple[int, str | None]:
    """Delete the messages of the batches that were published and judged before a time.

    Args:
        spec: the migration.
        lake: its lake.
        name: `archive`, `changes` or `outbox`.
        oldest_ms: milliseconds since 1970.

    Returns:
        How many there were, and why they were left, if they were.
    """
    log, table = LOGS[name], lake.log(name)
    published = lake.last(lake.log("published"), PUBLISH)
    if published is None or not lake.exists(table) or lake.head(table) is None:
        return 0, None
    return delete_batches(spec, lake, log, _ages(lake, log, published), oldest_ms)


def delete_batches(
    spec: Migration, lake: Lake, log: Log, ages: dict[str, int], oldest_ms: int
) -> tuple[int, str | None]:
    """Delete the messages of the batches that ended before a time.

    Args:
        spec: the migration.
        lake: its lake.
        log: which messages.
        ages: when the batches ended that were published, in milliseconds since 1970.
        oldest_ms: the time, as well.

    Returns:
        As `delete_messages`.
    """
    if not any(time_ms < oldest_ms for time_ms in ages.values()):
        return 0, None
    table, of_changes = lake.log(log.name), log.name == CHANGES
    if of_changes and (why := why_all_stay(spec, lake)):
        return 0, why
    clear_away(lake, table)
    if lake.waiting(table, log.stage) or (of_changes and is_read(lake)):
        return 0, BUSY
    branch, cut = lake.branch(table, STAGE, "retention"), dict[str, str]()
    try:
        present = {row.batch for row in branch.read().select("batch").distinct().collect()}
        times = {batch: _time_of(batch, ages) for batch in present}
        going = sorted(batch for batch, time in times.items() if time and time < oldest_ms)
        if of_changes:
            count, cut = _delete_changes(OldChanges(spec, lake, branch), branch, going)
        else:
            count = sum(_delete(lake, log, branch, some) for some in _several(going))
        if count:
            # First: an archive must not look whole that is not. If this run ends here, or another
            # one has moved the table, the next upkeep deletes what is said to be gone. What another
            # upkeep has said meanwhile stays, whichever of the two moves the table.
            change_properties(lake, table, lambda there: deletion_marks(there, oldest_ms, cut))
            if of_changes and is_read(lake):
                return 0, MEANWHILE
            # A catalog behind REST takes properties without comparing what they rest on.
            now = lake.properties(table)
            if not deletion_marks(now, oldest_ms, cut).items() <= now.items():
                return 0, MEANWHILE
            branch.fast_forward(alone=True)
        return count, None
    except ConflictError:
        return 0, MEANWHILE
    finally:
        branch.drop()


def _ages(lake: Lake, log: Log, published: Commit) -> dict[str, int]:
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
    end = published.cursor["outbox"] if log.name == "outbox" else cursor.get(log.name)
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


def _delete(lake: Lake, log: Log, branch: Branch, batches: list[str]) -> int:
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


def _delete_changes(
    old: OldChanges, branch: Branch, batches: list[str]
) -> tuple[int, dict[str, str]]:
    """Delete the changes of batches on a branch that nobody needs.

    Returns:
        How many they were, and the source tables of whose rows they were, each with the highest
        order of a change that hides some.
    """
    batches = sorted(set(batches) - old.needed_batches())
    if not batches:
        return 0, {}
    rows = old.unneeded(batches).persist()
    try:
        # All of them are looked for before one goes.
        found = rows.groupBy("batch", "qualified").agg(F.max("newest").alias("newest")).collect()
        going = sorted({row.batch for row in found})
        cut: dict[str, str] = {}
        for row in found:
            if row.qualified is not None:
                cut[row.qualified] = max(row.newest, cut.get(row.qualified, ""))
        return sum(_delete_rows(branch, rows, some) for some in _several(going)), cut
    finally:
        rows.unpersist()


def _delete_rows(branch: Branch, rows: DataFrame, batches: list[str]) -> int:
    """Delete rows of batches, each known by its outcome and place; returns how many they were."""
    view = f"retention_{secrets.token_hex(8)}"
    rows.where(F.col("batch").isin(batches)).createOrReplaceTempView(view)
    same = " AND ".join(f"t.`{name}` = s.`{name}`" for name in ROW_PLACE)
    try:
        # Files without these batches are not read.
        done = branch.sql(
            f"MERGE INTO {{branch}} AS t USING {view} AS s ON t.{_among(batches)} AND {same} "
            "WHEN MATCHED THEN DELETE"
        )
    finally:
        rows.sparkSession.catalog.dropTempView(view)
    return int(done.get("spark.merge-into.num-target-rows-deleted", 0))


def _refused(lake: Lake, log: Log, branch: Branch) -> DataFrame:
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
