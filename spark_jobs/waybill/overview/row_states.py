"""A row as a merged table has it, now or as of a batch, beside the changes that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import ConfigurationError
from waybill.merge.explain import NOT_MERGED
from waybill.merge.position import STAGE, position_of
from waybill.merge.table_rows import rows_of_keys
from waybill.merge.table_states import table_state
from waybill.overview.row_changes import changes_of_row, key_test, keys_at, qualified_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake.history import History
    from waybill.merge.table_rows import KeptRow
    from waybill.spec.migration import Migration


class RowHistory(NamedTuple):
    """What became of a row.

    Attributes:
        changes: every change of it, in the order of the merge, as `changes_of_row` gives them.
        rows: what the table has of the key; nothing where it has no such row and remembers none.
        table: whose rows these are; empty where changes are of several tables, or of none.
        problem: why the state that was asked for cannot be determined; empty where it can.
        as_of_now: whether what is said of the changes is as of now, because the batch that was
            asked about is not known (any more).
        more: whether there are older changes.
        since: see `RowChanges`.
    """

    changes: list[dict[str, Any]]
    rows: Sequence[KeptRow] = ()
    table: str = ""
    problem: str = ""
    as_of_now: bool = False
    more: bool = False
    since: str | None = None


def row_history(
    lake: History, spec: Migration, table: str | None, key: str, limit: int, as_of: str = ""
) -> RowHistory:
    """The changes of a row, and the row.

    Args:
        lake: the lake.
        spec: the migration.
        table: of the row; every table's rows of that key where it is None.
        key: see `changes_of_row`.
        limit: at most so many changes, the newest.
        as_of: a batch after which the row is meant; as it is now where it is empty.

    Raises:
        ConfigurationError: the key looks like JSON and is none.
    """
    by_time = spec.order.ambiguous == "source_time"
    merges = lake.log("merges")
    merge = lake.find(merges, STAGE, as_of) if as_of and lake.exists(merges) else None
    changes, more, since = changes_of_row(lake, table, key, limit, by_time, merge)
    names = {qualified_name(row) for row in changes if row["operation"] != "truncate"}
    unknown = bool(as_of) and merge is None
    if len(names) != 1:
        return RowHistory(changes, as_of_now=unknown, more=more, since=since)
    (name,) = names
    renamed = position_of(lake).state.table(name).renamed
    has_key = key_test(key, renamed)
    # Its columns may have been called otherwise by then.
    then = renamed if merge is None else position_of(lake, merge.batch).state.table(name).renamed
    keys = {
        called
        for row in changes
        for text in (row["key"], row["old_key"])
        if text is not None and has_key({**row, "key": text, "old_key": None})
        for called in keys_at(text, None if unknown else row["order_key"], then)
    }
    try:
        state = table_state(lake, spec, name, as_of or None)
    except ConfigurationError as error:
        return RowHistory(changes, [], name, error.sentence, unknown, more, since)
    return RowHistory(changes, rows_of_keys(lake, state, keys), name, "", unknown, more, since)


def came_later(change: dict[str, Any]) -> bool:
    """Whether a change came after the batch that is asked about."""
    return bool(change.get("outcome") == NOT_MERGED)
