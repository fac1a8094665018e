"""Keys that one aggregate cannot settle: all changes of such a key are folded by the rules.

A key comes here when its newest image leaves out a column or holds a value that does not fit.
Rows are brought together by key in one shuffle and folded one key at a time, so memory is bounded
by one row, not by the number of keys.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waybill.merge.exact_casts import misfit
from waybill.merge.rules import Change, Rows, fold, showing
from waybill.merge.spark_rows import Stored, in_order, read_image, row_of, statements, stored_of
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from waybill.merge.state import TableState

COLUMNS = (
    "key",
    "stored",
    "order",
    "live",
    "image",
    "whole",
    "sources",
    "topic",
    "partition",
    "offset",
    "index",
)
"""What `Chains` reads: stored rows (`stored` is true) and effects, sorted by key, stored first."""

_FIELDS: list[pa.Field[pa.DataType]] = [
    pa.field("kind", pa.string()),
    pa.field("key", pa.string()),
    pa.field("order", pa.string()),
    pa.field("live", pa.bool_()),
    pa.field("image", pa.string()),
    pa.field("sources", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("index", pa.int32()),
    pa.field("reason", pa.string()),
]
RESULT = pa.schema(_FIELDS)
"""What it gives: `row`, the state of a key that changed; `refused`, a change that does not fit."""

RESULT_DDL = (
    "kind string, key string, `order` string, live boolean, image string, sources string, "
    "topic string, `partition` int, offset bigint, `index` int, reason string"
)


class Chains:
    """Folds keys of one table inside a task.

    Args:
        state: the table's columns, defaults and TRUNCATE.
    """

    def __init__(self, state: TableState) -> None:
        self.state = state
        self.names = state.known_names
        self.statements = statements(state)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `RESULT` for batches with `COLUMNS`, sorted by key."""
        rows = (
            row
            for batch in batches
            for row in zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)
        )
        held: list[tuple[Any, ...]] = []
        for _key, group in groupby(rows, key=itemgetter(0)):
            held += self.settle(list(group))
            if len(held) >= 5000:
                yield _batch(held)
                held = []
        yield _batch(held)

    def settle(self, rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The results of one key."""
        state: Rows = {}
        newest = self.state.truncated
        key = rows[0][0]
        if rows[0][1]:
            _, _, order, live, image, _, sources, *_ = rows[0]
            state[key] = row_of(Stored(key, order, live, image, sources))
            newest = max(newest, order)
            rows = rows[1:]
        before = state.get(key)
        timely = [row for row in rows if row[2] > newest]
        taken, misfits = self._fold(state, key, timely)
        after = state.get(key)
        if (
            after is not None
            and after is not before
            and (before is None or after.order > before.order)
        ):
            stored = stored_of(key, after)
            yield ("row", *stored, None, None, None, None, None)
        if misfits:
            shown = {change.order for change in showing(taken, misfits, self.names)}
            for row in timely:
                if row[2] in shown:
                    reason = misfit(read_image(row[4]) or {}, self.state.columns)
                    yield ("refused", key, row[2], True, row[4], None, *row[7:11], reason)

    def _fold(
        self, state: Rows, key: str, rows: list[tuple[Any, ...]]
    ) -> tuple[list[Change], list[Change]]:
        """Take rows into the state; gives those that fit as changes, and those that do not."""
        misfits = []
        taken: list[tuple[Change, str | None]] = [(change, None) for change in self.statements]
        for row in rows:
            _, _, order, live, text, whole, sources, *_ = row
            image = read_image(text)
            operation = "delete" if not live else "insert" if whole else "update"
            change = Change(order, operation, key, image)
            if image is not None and misfit(image, self.state.columns):
                misfits.append(change)
            else:
                taken.append((change, sources))
        by_order = {change.order: sources for change, sources in taken if sources is not None}
        for change in in_order(change for change, _ in taken):
            fold(state, [change], self.names)
            if change.order in by_order:
                # The image of a row that moved was completed from its old key before.
                stored = Stored(key, change.order, True, "{}", by_order[change.order])
                state[key] = state[key]._replace(sources=row_of(stored).sources)
        return [change for change, _ in taken], misfits


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [[] for _ in RESULT]
    arrays = [pa.array(list(v), f.type) for v, f in zip(columns, RESULT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RESULT)


def fold_chains(effects: DataFrame, stored: DataFrame, state: TableState) -> DataFrame:
    """The results of keys, from all their effects and what the table holds of them.

    Args:
        effects: effects of the keys, with all columns of `merge.row_effects.effects`.
        stored: their rows: key, order, live, image, sources.
        state: the table.
    """
    both = effects.selectExpr("1 AS turn", *(f"`{c}`" for c in COLUMNS if c != "stored"))
    missing = {
        "whole": "boolean",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "index": "int",
    }
    base = stored.selectExpr(
        "0 AS turn",
        *("key", "`order`", "live", "image", "sources"),
        *(f"cast(null AS {type_}) AS `{name}`" for name, type_ in missing.items()),
    )
    rows = both.unionByName(base).repartition("key").sortWithinPartitions("key", "turn")
    return rows.selectExpr(
        *(f"`{c}`" if c != "stored" else "turn = 0 AS stored" for c in COLUMNS)
    ).mapInArrow(light(Chains(state)), RESULT_DDL)
