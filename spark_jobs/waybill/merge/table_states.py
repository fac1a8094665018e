"""Which state of a merged table is asked for; read from the lake's metadata, with Spark or without.

A table is shown as it is, as it was after a batch or at a time, or as the batch that waits for the
gate would make it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.merge.position import (
    STAGE,
    held_merge,
    needed_held,
    position_after,
    position_of,
    waiting_merges,
)
from waybill.spec.durations import moment_of
from waybill.suggestions import unknown

if TYPE_CHECKING:
    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.spec.migration import Migration


class MergedTableState(NamedTuple):
    """A merged table as somebody wants to see it.

    Attributes:
        table: full name; None where the source table had none by then.
        columns: the source's columns that are known of it.
        snapshot: which one, with its tombstones; None where the table has no rows yet.
    """

    table: str | None
    columns: tuple[str, ...]
    snapshot: int | None = None


def table_state(
    lake: History,
    spec: Migration,
    table: str | None,
    as_of: str | None = None,
    held: bool = False,
) -> MergedTableState:
    """The state that is asked for.

    Args:
        lake: the lake.
        spec: the migration, which the commands that help are about.
        table: the source table's name; may be left out where there is only one.
        as_of: a batch, or a time (ISO 8601, UTC where it says nothing else).
        held: as the batch that waits for the gate would make it.

    Raises:
        ConfigurationError: there is no such table, or there are several and none is named; or
            there is no such batch, or none was visible at that time, or upkeep has expired what it
            made; or none waits for the gate.
    """
    if held and as_of is not None:
        message = "as_of (--as-of) names a table of before and held (--held) one to come: name one"
        raise ConfigurationError(message, code=Code.OPTION)
    # No table has to be named to hear that nothing is held.
    merge = needed_held(lake) if held else None
    tables = lake.merged_tables()
    name = _chosen(spec, table, list(tables))
    full = tables[name]
    if merge is not None:
        columns = tuple(position_after(lake, merge).state.table(name).names)
        return MergedTableState(full, columns, _held_snapshot(lake, merge, full) or lake.head(full))
    batch = None if as_of is None else _batch_of(lake, spec, as_of)
    columns = tuple(position_of(lake, batch).state.table(name).names)
    if batch is None:
        return MergedTableState(full, columns, lake.head(full))
    snapshot = snapshot_at(lake, full, batch)
    return MergedTableState(None if snapshot is None else full, columns, snapshot)


def _chosen(spec: Migration, table: str | None, known: list[str]) -> str:
    if not known:
        again = spec.command("run", "FILE")
        message = f"migration {spec.name} has no merged table yet: run it first, `{again}`"
        raise ConfigurationError(message, code=Code.OPTION)
    if table is None:
        if len(known) == 1:
            return known[0]
        message = f"the migration has {len(known)} tables: name one of {', '.join(known)}"
        raise ConfigurationError(message, code=Code.OPTION)
    if table not in known:
        raise ConfigurationError(unknown("table", table, known), code=Code.OPTION)
    return table


def _held_snapshot(lake: History, merge: Commit, table: str) -> int | None:
    """What a merge that waits has made of a table; None where it left it, or shows it already."""
    name: str | None = merge.cursor["branches"].get(table)
    there = {info.name: info.head for info in lake.waiting(table, STAGE, merge.batch)}
    return None if name is None else there.get(name)


def _batch_of(lake: History, spec: Migration, as_of: str) -> str:
    """The batch that `as_of` names or whose tables were there at that time."""
    batches = [commit.batch for commit in lake.commits(lake.log("merges"))]
    if as_of in batches:
        return as_of
    held = held_merge(lake)
    if held is not None and held.batch == as_of:
        shown = spec.command("table", "FILE", "--held")
        message = f"batch {as_of} waits for the gate: `{shown}` shows what it would make of a table"
        raise ConfigurationError(message, code=Code.OPTION)
    try:
        moment = moment_of(as_of)
    except ValueError:
        raise ConfigurationError(unknown("batch", as_of, batches), code=Code.OPTION) from None
    found = _batch_at(lake, int(moment.timestamp() * 1000))
    if found is None:
        command = spec.command("status", "FILE")
        message = f"no batch had passed the gate by {as_of}; `{command}` shows what there is"
        raise ConfigurationError(message, code=Code.OPTION)
    return found


def _batch_at(lake: History, moment_ms: int) -> str | None:
    """The batch whose tables people saw at a time, in milliseconds since 1970."""
    shown = (c for c in lake.commits(lake.log("runs")) if c.stage == "validate")
    seen = next((c.batch for c in shown if c.time_ms <= moment_ms), None)
    batches = {c.batch for c in lake.commits(lake.log("merges")) if c.stage == STAGE}
    return seen if seen in batches else None


def snapshot_at(lake: History, table: str, batch: str) -> int | None:
    """Snapshot of a merged table after a visible batch; None if it had none by then.

    Raises:
        ConfigurationError: upkeep has expired it.
    """
    batches = [c.batch for c in lake.commits(lake.log("merges")) if c.stage == STAGE]
    # Batches of before may be forgotten in the record and stand in the table all the same.
    later = {*batches[: batches.index(batch)]}
    later |= {commit.batch for commit in waiting_merges(lake) if commit.batch not in batches}
    own = (c for c in lake.commits(table) if c.stage == STAGE and c.batch not in later)
    found = next((commit.snapshot for commit in own), None)
    if found is None and lake.known_since(table):
        message = (
            f"upkeep has expired what {table} was after batch {batch}: name a later batch or "
            "time, and keep snapshots for longer from now on (upkeep.snapshots)"
        )
        raise ConfigurationError(message, code=Code.SNAPSHOT_EXPIRED)
    return found
