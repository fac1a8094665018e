"""The Spark merge equals the rules, for any split, order and duplication.

Starting Spark jobs costs more than the rows in them, so many histories share a table: each has keys
of its own. TRUNCATE and DDL reach a whole table, so histories with those have a table of their own.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.property.merge_histories import COLUMNS, delivered, history, misfit
from tests.spark.merge.merge_lake import (
    change_row,
    let_pass,
    merge,
    put,
    refused_by_gate,
    rows_of,
    schema,
)
from tests.spark.seeds import SEEDS
from waybill.lake.snapshot_ranges import LONGEST
from waybill.merge import multi_change_keys, writing
from waybill.merge.rules import WHOLE, Change, Table
from waybill.merge.upsert import merging
from waybill.merge.upsert.merging import Plain
from waybill.order import order_key

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

TYPES = {"id": "int64", "n": "int32", "t": "string"}
MANY = writing.MANY
LATE = "t"
EVERY = len(SEEDS) > 1 or "WAYBILL_NIGHTLY" in os.environ
"""Whether all tables of a seed go through Spark, and not only those that show most."""
BATCHES = 3 if EVERY else 2
AT_NIGHT = ("shop.many", "shop.own_wandering", "shop.sparse")
ADDED = "tier"
"""The column that statements of histories add with a default."""


def far(choose, steps: int, **settings: Any):
    """A history whose keys have no partition of their own."""
    return history(choose, steps, partitions=5, wanders=True, **settings)


def versions(name: str):
    """The table before and after its column was added."""
    old = schema(name, TYPES, ("id",))
    return old, schema(name, {**TYPES, ADDED: "string"}, ("id",))


def renamed(change, prefix: int):
    """The change with keys that no other history has."""

    def key(text):
        return None if text is None else text.replace('"id":"', f'"id":"{prefix}')

    def image(row):
        return {**row, "id": f"{prefix}{row['id']}"} if row is not None and "id" in row else row

    transaction = change.transaction
    topic, partition, offset, index = change.place
    return change._replace(
        key=key(change.key),
        old_key=key(change.old_key),
        image=image(change.image),
        before=image(change.before),
        transaction=None if transaction is None else f"{prefix}-{transaction}",
        place=(topic, partition, prefix * 10_000 + offset, index),
    )


def shown(name: str, change):
    """The table as a change shows it whose envelope tells no columns but those of its image."""
    names = {"id"} if change.operation == "column" else {"id", *(change.image or {})}
    kinds = {**TYPES, ADDED: "string"}
    return schema(name, {c: kind for c, kind in kinds.items() if c in names}, ("id",))


def without(change, column: str):
    """The change of an envelope that leaves the column out."""
    image = {name: text for name, text in change.image.items() if name != column}
    return change._replace(image=image)


def deal(choose, histories, late: str | None = None, count: int = 3):
    """Batches for all histories of one table, each split and shuffled on its own.

    Args:
        choose: gives a number from 0 to below n.
        histories: the sources.
        late: a column that no image of the first batch has; a statement may tell of it there.
        count: how many batches.
    """
    batches = [[] for _ in range(count)]
    for number, source in enumerate(histories):
        placed = []
        found = delivered(
            choose, source.changes, shuffle=choose(4) > 0, twice=not source.unnumbered
        )
        cuts = sorted(choose(count) for _ in found)
        for cut, part in zip(cuts, found, strict=True):
            for change in part:
                shows = change.operation != "column" and late in (change.image or {})
                early = cut > 0 or late is None or not shows
                if not early and late == ADDED and change.operation not in WHOLE:
                    change, early = without(change, late), True
                at = cut if early else 1 + choose(count - 1)
                placed.append((at, renamed(change, 1000 + number)))
        for at, change in in_turn(placed):
            batches[at].append(change)
    return batches


in_batches = partial(deal, count=BATCHES)


def in_turn(placed):
    """Batches and changes, with the statements that add a column in their own order.

    They stand in one partition, so none comes before an older one.
    """
    others = [(at, change) for at, change in placed if change.operation != "column"]
    turns = sorted(at for at, change in placed if change.operation == "column")
    added = [change for _, change in placed if change.operation == "column"]
    return [*others, *zip(turns, sorted(added, key=lambda c: c.order), strict=True)]


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_equals_the_rules(lake: Lake, migration, monkeypatch, seed: int) -> None:
    """Each seed is 124 histories, by day 33; in every other one, few keys start anew as many do.

    In every other batch, tables count as large. Every other seed leaves texts out of images.
    """
    monkeypatch.setattr(multi_change_keys, "FEW", 0 if seed % 2 else multi_change_keys.FEW)
    choose = random.Random(seed).randrange
    dealt = {
        "shop.many": in_batches(choose, [history(choose, 25, statements=False) for _ in range(30)]),
        # By ids alone: the changes of a key stand in any of five partitions.
        "shop.wandering": in_batches(
            choose, [far(choose, 25, statements=False) for _ in range(30)]
        ),
        "shop.own": in_batches(choose, [history(choose, 30)]),
        "shop.own_wandering": in_batches(choose, [far(choose, 30)]),
        # Statements of which none has a sequence id, in one of two partitions.
        "shop.own_unnumbered": in_batches(choose, [history(choose, 40, keys=8, unnumbered=True)]),
        "shop.sparse": in_batches(
            choose, [history(choose, 25, statements=False) for _ in range(60)], LATE
        ),
        # Statements tell of a column that images show later, or never.
        "shop.sparse_own": in_batches(choose, [history(choose, 100, keys=20)], ADDED),
    }
    if not EVERY:
        dealt = {name: batches for name, batches in dealt.items() if name not in AT_NIGHT}
    tables = {name: Table(COLUMNS if "own" in name else COLUMNS[:3], misfit) for name in dealt}
    spec = migration(text_images="all" if seed % 2 else "needed")
    for number in range(BATCHES):
        monkeypatch.setattr(writing, "MANY", 0 if (seed + number) % 2 else MANY)
        batch = f"b{number}"
        rows, schemas, counts = [], [], []
        for name, batches in dealt.items():
            if "sparse" in name:
                own = [shown(name, change) for change in batches[number]]
                schemas += list({table.id: table for table in own}.values())
                rows += map(change_row, batches[number], own)
                counts.append(tables[name].apply(batches[number]))
                continue
            old, new = versions(name)
            schemas += [old, new] if "own" in name else [old]
            added = [c.order for part in batches for c in part if c.operation == "column"]
            for change in batches[number]:
                is_new = bool(added) and change.order >= min(added)
                rows.append(change_row(change, new if is_new else old))
            counts.append(tables[name].apply(batches[number]))
        put(lake, batch, rows, schemas)
        report = merge(lake, spec, batch)
        assert refused_by_gate(lake, batch) == [], f"{batch} of seed {seed}"
        let_pass(lake, batch)
        check_rows(lake, tables, f"{batch} of seed {seed}")
        check_counts(report, counts)
        check_refused(lake, batch, report)


def plain(choose, **settings: Any):
    """A history of which no batch does more than put whole rows at their keys, or delete them."""
    return history(choose, 25, moves=False, partial=False, statements=False, **settings)


def emptied(batches):
    """The batches, behind one that only empties the table: in the middle of what comes later."""
    first, second, *others = batches
    change = Change(order_key((6_000,), 1, 0, 0, 0), "truncate", place=("t", 0, 0, 0))
    return [[change], [*first, *second], *others]


def misfits_last(batches):
    """The batches, with what does not fit in the last: Spark takes long to settle its keys."""
    fitting = [[c for c in batch if not misfit(c.image or {})] for batch in batches]
    fitting[-1] += [c for batch in batches for c in batch if misfit(c.image or {})]
    return fitting


def misfits_of(batch) -> int:
    """How many keys a batch brings whose newest change does not fit."""
    newest = {}
    for change in sorted(batch, key=lambda change: change.order):
        newest[change.key] = change
    return sum(misfit(change.image or {}) is not None for change in newest.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_plain_tables_that_tasks_merge_equal_the_rules(
    lake: Lake, migration, monkeypatch, seed: int
) -> None:
    """Each seed is 60 histories, whose tables are plain in every batch.

    Only keys of which the newest change does not fit may take the way through Spark. In every other
    batch tables are merged without tasks, as few rows are; in every other seed changes without a
    sequence id stand in several partitions.
    """
    monkeypatch.setattr(Plain, "buckets", lambda *_: 3)
    without_tasks, written_here = [], merging._written_here
    monkeypatch.setattr(
        merging, "_written_here", lambda *a: without_tasks.append(batch) or written_here(*a)
    )
    choose = random.Random(2000 + seed).randrange
    far = seed % 2 == 0

    def dealt_plain(count: int, misfits: bool = False):
        places = {"partitions": 5 if far else 1, "wanders": far}
        return in_batches(choose, [plain(choose, misfits=misfits, **places) for _ in range(count)])

    odd = dealt_plain(10, misfits=True)
    dealt = {
        "shop.plain": dealt_plain(30),
        "shop.misfits": odd if EVERY else misfits_last(odd),
        "shop.emptied": emptied(dealt_plain(20)),
    }
    tables = {name: Table(COLUMNS[:3], misfit) for name in dealt}
    order = {"ambiguous": "partition" if far else "fail"}
    spec = migration(order=order, text_images="all" if far else "needed")
    for number in range(BATCHES):
        batch, few = f"b{number}", (seed + number) % 2
        rows, schemas, counts = [], [], []
        for name, batches in dealt.items():
            schemas.append(schema(name, TYPES, ("id",)))
            rows += [change_row(change, schemas[-1]) for change in batches[number]]
            counts.append(tables[name].apply(batches[number]))
        put(lake, batch, rows, schemas, {LONGEST: {"changes": 1_000} if few else {}})
        report = merge(lake, spec, batch)
        let_pass(lake, batch)
        assert without_tasks.count(batch) == few
        for name, batches in dealt.items():
            account = report.details[name]
            assert "merged by Spark" not in account, f"{name} in {batch} of seed {seed}"
            assert account.get("keys merged by Spark", 0) == misfits_of(batches[number])
        check_counts(report, counts)
        check_refused(lake, batch, report)
        if EVERY or number == BATCHES - 1:
            check_rows(lake, tables, f"{batch} of seed {seed}")


def in_time(batches, source):
    """The batches, with no change before a statement that gave its columns their names."""
    came = {}
    for at, batch in enumerate(batches):
        for change in batch:
            if change.operation == "rename":
                came.setdefault(change.order.split("/")[1], at)
    found = [[] for _ in batches]
    for at, batch in enumerate(batches):
        for change in batch:
            below = [order for order, _ in source.called if order < change.order]
            first = max((came[order.split("/")[1]] for order in below), default=0)
            found[max(at, first)].append(change)
    return found


def named(name: str, source, change):
    """The table as it was when a change was made."""
    called = source.names_at(change.order)
    is_new = any(c.operation == "column" and c.order <= change.order for c in source.changes)
    there = {**TYPES, ADDED: "string"} if is_new else TYPES
    return schema(name, {called.get(c, c): kind for c, kind in there.items()}, ("id",))


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_equals_the_rules_where_columns_get_other_names(
    lake: Lake, migration, monkeypatch, seed: int
) -> None:
    """Statements come no later than what has their names; all else is split and shuffled."""
    monkeypatch.setattr(multi_change_keys, "FEW", 0 if seed % 2 else multi_change_keys.FEW)
    choose = random.Random(1000 + seed).randrange
    sources = {f"shop.named_{i}": history(choose, 40, keys=8, renames=True) for i in range(3)}
    for source in sources.values():
        # Full rows of another partition do not tell what swapped names mean, and wait.
        source.changes = [change for change in source.changes if change.operation != "read"]
    dealt = {name: in_time(in_batches(choose, [one]), one) for name, one in sources.items()}
    decided = [{"tables": "*", "rename": "map", "stops": "migration"}]
    spec = migration(schema_changes=decided, text_images="needed" if seed % 2 else "all")
    tables = {}
    for name, source in sources.items():
        n = source.names.get("n", "n")
        names = [source.names.get(column, column) for column in COLUMNS]
        tables[name] = Table(names, lambda image, n=n: misfit({"n": image.get(n)}))
    for number in range(BATCHES):
        rows, schemas = [], {}
        for name, batches in dealt.items():
            for change in batches[number]:
                own = named(name, sources[name], change)
                schemas[own.id] = own
                rows.append(change_row(change, own))
            tables[name].apply(batches[number])
        batch = f"b{number}"
        put(lake, batch, rows, list(schemas.values()))
        merge(lake, spec, batch)
        assert refused_by_gate(lake, batch) == [], f"{batch} of seed {seed}"
        let_pass(lake, batch)
    check_rows(lake, tables, f"the batches of seed {seed}")


def check_rows(lake: Lake, tables, when: str) -> None:
    """Rows and tombstones are those of the rules."""
    for name, table in tables.items():
        wanted = {
            key: (row.order, dict(row.image or {}) if row.live else None)
            for key, row in table.rows.items()
        }
        assert rows_of(lake, name, dead=True) == wanted, f"{name} after {when}"


def check_counts(report, counts) -> None:
    """The account of a batch is that of the rules."""
    assert report.rows_in - report.skipped.get("ddl", 0) == sum(c.came for c in counts)
    assert sum(report.extra_in.values()) == sum(c.second for c in counts)
    assert report.rows_out == sum(c.out for c in counts)
    assert report.superseded == sum(c.superseded for c in counts)
    assert sum(report.refused.values()) == sum(c.refused for c in counts)


def check_refused(lake: Lake, batch: str, report) -> None:
    """What was refused is kept with its reason."""
    kept = lake.read(lake.log("merges")).where(f"kind = 'refused' AND batch = '{batch}'")
    found = kept.collect()
    assert len(found) == sum(report.refused.values())
    assert all("n is int in the lake and cannot hold 'x'" in row.reason for row in found)
