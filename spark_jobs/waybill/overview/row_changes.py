"""Changes as the lake has them: in the order of the merge, of a row with what became of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.lake.history import Chosen, in_order
from waybill.lake.replaced_changes import replaced_in
from waybill.lake_columns import TABLE_PARTS, dotted_name
from waybill.merge.position import order_of, position_after, position_of
from waybill.merge.renamings import above, present_key
from waybill.order import FULL_ROW

if TYPE_CHECKING:
    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.merge.explain import Merged
    from waybill.merge.renamings import Renamings

Asked = dict[str, list[str | int]]
"""The values that rows have in some columns."""

FIELDS = (
    *("batch", "topic", "partition", "offset", "index", "operation", "database", "schema"),
    *("table", "key", "old_key", "before", "after", "order_key", "source_time", "transaction"),
    "ddl_text",
)
"""What is shown of a change."""
ESCAPE = "\\"
"""JSON has a text as it is, in quotes, where there is none of these."""
HALF = re.compile("[\ud800-\udfff]")
READ = tuple(name for name in FIELDS if name != "order_key")


class RowChanges(NamedTuple):
    """Changes of a row.

    Attributes:
        rows: in the order of the merge.
        more: whether there are older ones.
        since: retention has deleted changes of batches that ended before this time; None where
            all are there.
    """

    rows: list[dict[str, Any]]
    more: bool
    since: str | None = None


def ask_for(table: str | None) -> Asked:
    """What rows of `changes` are asked for that are changes of a table; of all where it is None."""
    asked: Asked = {"outcome": ["ok"]}
    if table is not None:
        # A name with dots may be of a table whose own name has some.
        parts = table.split(".")
        asked["table"] = [".".join(parts[i:]) for i in range(len(parts))]
    return asked


def changes_of_row(
    lake: History,
    table: str | None,
    key: str,
    limit: int,
    by_time: bool,
    merge: Commit | None = None,
) -> RowChanges:
    """The changes of a row, whichever batch brought them, with what became of each.

    Of a table that a reload has rebuilt, these are the changes as it was made of them.

    Args:
        lake: the lake.
        table: of the row; every table's rows of that key where it is None.
        key: a JSON object of its columns, or the value of its only column.
        limit: at most so many, the newest, beside the TRUNCATEs that took the row away.
        by_time: whether source times decide (`order.ambiguous: source_time`).
        merge: one that the gate holds, or one of before: then what it would make, or had made, of
            them.

    Raises:
        ConfigurationError: the key looks like JSON and is none.
    """
    has_key = key_test(key, () if table is None else position_of(lake).state.table(table).renamed)
    counts = _counting(lake, merge)

    def accepts(row: dict[str, Any]) -> bool:
        if (table is not None and written_name(row) != table) or not counts(row):
            return False
        return row["operation"] == "truncate" or has_key(row)

    likely = _likely(key)
    chosen = Chosen((*TABLE_PARTS, "batch", "operation", "key", "old_key"), accepts, likely)
    rows = lake.scan(lake.log("changes"), (*READ, "order_key"), ask_for(table), None, chosen)
    ordered = _with_truncates((with_order(row, by_time) for row in rows), has_key)
    truncates: list[dict[str, Any]] = []
    own = (row for row in ordered if not _put_aside(row, truncates))
    found = _newest(nlargest(limit + 1, own, key=_by_order_key), truncates, limit)
    return found._replace(rows=_explained(lake, found.rows, merge), since=lake.changes_since(table))


def _likely(key: str) -> Callable[[Any], Any]:
    """A mask of the changes that may be of a key, and of TRUNCATEs; see `Chosen`."""
    written = _as_written(key)

    def likely(table: Any) -> Any:
        # Its types know nothing of single values beside columns.
        import pyarrow.compute as pc

        compute: Any = pc
        mask = compute.fill_null(compute.equal(table.column("operation"), "truncate"), False)
        for name in ("key", "old_key"):
            texts = table.column(name)
            found = compute.match_substring(texts, ESCAPE)
            # A key of no columns is in every text.
            whole: Any = compute.is_valid(texts)
            for one in written:
                whole = compute.and_(whole, compute.match_substring(texts, one))
            mask = compute.or_(mask, compute.fill_null(compute.or_(found, whole), False))
        return mask

    return likely


def _put_aside(row: dict[str, Any], truncates: list[dict[str, Any]]) -> bool:
    """Whether a change is a TRUNCATE, which is kept: a limit is for changes of the row."""
    if row["operation"] != "truncate":
        return False
    truncates.append(row)
    return True


def with_order(row: dict[str, Any], by_source_time: bool) -> dict[str, Any]:
    """A row of `changes` with the order that the merge gives it, as what is shown of a change."""
    order = order_of(row["order_key"], row["source_time"], by_source_time)
    return {name: order if name == "order_key" else row[name] for name in FIELDS}


def by_order(row: dict[str, Any]) -> tuple[Any, ...]:
    """What changes are sorted by; what is missing goes first."""
    return in_order(row[name] for name in (*TABLE_PARTS, "order_key"))


def changes_of_rows(
    lake: History, table: str, keys: Sequence[dict[str, str | None]], limit: int, by_time: bool
) -> list[RowChanges]:
    """The changes of several rows of a table as `changes_of_row` gives them, in one look.

    Args:
        lake: the lake.
        table: the table.
        keys: of the rows: columns and the texts that images have.
        limit: at most so many of each row, the newest, beside the TRUNCATEs that took it away.
        by_time: whether source times decide (`order.ambiguous: source_time`).

    Returns:
        Those of each key, in the order of the keys.
    """
    if not keys:
        return []
    from waybill.merge.change_facts import merged_facts

    renamed = position_of(lake).state.table(table).renamed
    places = {frozenset(key.items()): place for place, key in enumerate(keys)}

    def touched(row: dict[str, Any]) -> set[int]:
        """The places of the keys that a change is about."""
        texts = (row[name] for name in ("key", "old_key") if row[name] is not None)
        named = (one for text in texts for one in keys_at(text, row.get("order_key"), renamed))
        found = (places.get(frozenset(json.loads(one).items())) for one in named)
        return {place for place in found if place is not None}

    counts = _counting(lake, None)

    def accepts(row: dict[str, Any]) -> bool:
        if written_name(row) != table or not counts(row):
            return False
        return row["operation"] == "truncate" or bool(touched(row))

    chosen = Chosen((*TABLE_PARTS, "batch", "operation", "key", "old_key"), accepts)
    log = lake.scan(lake.log("changes"), (*READ, "order_key"), ask_for(table), None, chosen)
    truncates: list[dict[str, Any]] = []
    of_key: list[list[dict[str, Any]]] = [[] for _ in keys]
    for row in (with_order(row, by_time) for row in log):
        if _put_aside(row, truncates):
            continue
        for place in touched(row):
            own = of_key[place]
            own.append(row)
            if len(own) > 2 * limit + 1:
                # No more is kept of a row that changes all the time.
                own[:] = nlargest(limit + 1, own, key=_by_order_key)
    ends = [_newest(own, truncates, limit) if own else RowChanges([], False) for own in of_key]
    every: dict[str, dict[Any, dict[str, Any]]] = {}
    for row in (row for end in ends for row in end.rows):
        log_place = tuple(row[name] for name in ("topic", "partition", "offset", "index"))
        every.setdefault(qualified_name(row) or row["topic"], {})[log_place] = row
    facts = {name: merged_facts(lake, name, [*rows.values()]) for name, rows in every.items()}
    since = lake.changes_since(table)
    # One change may be of two rows, and a TRUNCATE of all: each has its own sentence on it.
    return [
        end._replace(
            rows=_with_outcomes([dict(row) for row in end.rows], lambda name, _: facts[name]),
            since=since,
        )
        for end in ends
    ]


def deleted_sentence(since: str) -> str:
    """What is said of changes that are not there any more.

    Args:
        since: see `RowChanges`.
    """
    return f"retention has deleted changes of batches that ended before {since}"


def _counting(lake: History, merge: Commit | None) -> Callable[[dict[str, Any]], bool]:
    """Whether a row of `changes` is one of those that its table is made of.

    Not one that a reload has brought once more, nor what a reload has brought that no merge has
    taken yet.
    """
    replaced = replaced_in(lake, None)
    if not replaced:
        return lambda row: True
    position = position_of(lake) if merge is None else position_after(lake, merge)
    later = lake.between(lake.log("changes"), position.changes, None)
    unmerged = {commit.batch for commit in later}
    tables, keys = set[tuple[Any, ...]](), set[tuple[Any, ...]]()
    for one in replaced:
        place = (*one[:3], one.by if one.by in unmerged else one.batch)
        if one.key is None:
            tables.add(place)
        elif one.by in unmerged or not one.is_mark:
            keys.add((*place, one.key))

    def counts(row: dict[str, Any]) -> bool:
        place = (*(row[name] for name in TABLE_PARTS), row["batch"])
        return place not in tables and (*place, row["key"]) not in keys

    return counts


def _newest(own: list[dict[str, Any]], truncates: list[dict[str, Any]], limit: int) -> RowChanges:
    """The newest changes of a row, and the TRUNCATEs among them, without what became of them."""
    newest = nlargest(limit + 1, own, key=_by_order_key)
    found = newest[:limit]
    if more := len(newest) > limit:
        oldest = _by_order_key(found[-1]) if found else ()
        truncates = [row for row in truncates if _by_order_key(row) > oldest]
    return RowChanges(sorted([*found, *truncates], key=by_order), more)


def _by_order_key(row: dict[str, Any]) -> tuple[Any, ...]:
    return in_order([row["order_key"]])


def _explained(
    lake: History, rows: list[dict[str, Any]], merge: Commit | None
) -> list[dict[str, Any]]:
    """The changes of a row with what the merge made of each; see `_with_outcomes`."""
    from waybill.merge.change_facts import merged_facts

    return _with_outcomes(rows, lambda name, own: merged_facts(lake, name, own, merge))


def _with_outcomes(
    rows: list[dict[str, Any]], facts_of: Callable[[str, list[dict[str, Any]]], Merged]
) -> list[dict[str, Any]]:
    """The changes of a row with what the merge made of each, under `outcome`.

    TRUNCATEs that took no row away are left out.

    Args:
        rows: of the log.
        facts_of: what the merge knows of a table and of some rows of its log.
    """
    from waybill.merge.change_facts import changes_of, place_of
    from waybill.merge.explain import explain

    by_table: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_table.setdefault(qualified_name(row) or row["topic"], []).append(row)
    for name, own in by_table.items():
        facts = facts_of(name, own)
        changes = changes_of(own, facts.renamed)
        # The key that was asked for is the one that all of them touch.
        row_changes = [change for change in changes.values() if change.operation != "truncate"]
        keys = [{change.key, change.old_key} for change in row_changes]
        if not keys:
            # A limit may leave nothing of a table but its TRUNCATEs.
            continue
        for key in set.intersection(*keys) - {None, ""} or set.union(*keys) - {None, ""}:
            sentences = explain(key or "", changes.values(), facts)
            for row in own:
                if place_of(row) in sentences:
                    row.setdefault("outcome", sentences[place_of(row)])
    return [row for row in rows if row["operation"] != "truncate" or "outcome" in row]


def qualified_name(row: dict[str, Any]) -> str:
    """A table's name of the parts that have a name."""
    return ".".join(row[part] for part in TABLE_PARTS if row[part])


def written_name(row: dict[str, Any]) -> str:
    """A table's name as people write it; parts that are there and empty count."""
    return dotted_name(row[part] for part in TABLE_PARTS)


def key_as_text(key: str) -> dict[str, str | None]:
    """The columns of a key as text images hold them: numbers with every digit that was given.

    Raises:
        ValueError: it is not a JSON object.
    """
    data = json.loads(key, parse_float=str, parse_int=str, parse_constant=str)
    words = {True: "true", False: "false", None: None}
    return {
        name: words[value] if value is None or isinstance(value, bool) else str(value)
        for name, value in data.items()
    }


def _columns_of(key: str) -> dict[str, str | None] | None:
    """The columns of a key that is a JSON object, None where it is the value of its only column.

    Raises:
        ConfigurationError: it looks like JSON and is none.
    """
    if not key.lstrip().startswith("{"):
        return None
    try:
        return key_as_text(key)
    except ValueError as error:
        message = f"--key {key} is not JSON: {error}"
        raise ConfigurationError(message, code=Code.OPTION) from error


def _as_written(key: str) -> list[str]:
    """What the JSON text of a key has in it, unless it has an `ESCAPE`."""
    wanted = _columns_of(key)
    values: Iterable[str | None] = [key] if wanted is None else wanted.values()

    def written(value: str | None) -> str:
        if value is None:
            return "null"
        # Half a character cannot be written but by an escape.
        return ESCAPE if HALF.search(value) else f'"{value}"'

    return [written(value) for value in values]


def key_test(key: str, renamed: Renamings = ()) -> Callable[[dict[str, Any]], bool]:
    """Whether a row is of a key: a JSON object of its columns, or the value of its only column.

    Args:
        key: the key, with the names that its columns have now.
        renamed: what statements renamed in the table. A row has the names of its `order_key`; one
            without it, and a full row, may have those of any time.

    Raises:
        ConfigurationError: it looks like JSON and is none.
    """
    wanted = _columns_of(key)
    written = _as_written(key)

    def matches(text: str | None, order: str | None) -> bool:
        if text is None or not (ESCAPE in text or all(one in text for one in written)):
            return False
        if wanted is None:
            return [*json.loads(text).values()] == [key]
        return any(json.loads(one) == wanted for one in keys_at(text, order, renamed))

    return lambda row: any(matches(row[name], row.get("order_key")) for name in ("key", "old_key"))


def keys_at(text: str, order: str | None, renamed: Renamings) -> Iterator[str]:
    """A key as it may be called now.

    Args:
        text: the key image.
        order: of its change; None where that is not known.
        renamed: what statements renamed in its table.
    """
    if order is None or order.startswith(f"{FULL_ROW}/"):
        every = [renamed[i:] for i in range(len(renamed) + 1)]
    else:
        every = [above(renamed, order)]
    for names in every:
        yield present_key(text, names) if names else text


def _with_truncates(
    rows: Iterable[dict[str, Any]], has_key: Callable[[dict[str, Any]], bool]
) -> Iterator[dict[str, Any]]:
    """Changes of a key, and with them the TRUNCATEs of their tables, of full reloads too."""
    tables: set[str] = set()
    truncates: list[dict[str, Any]] = []
    for row in rows:
        if has_key(row):
            tables.add(written_name(row))
            yield row
        elif row["operation"] == "truncate":
            truncates.append(row)
    for row in truncates:
        if written_name(row) in tables - {""}:
            yield row
