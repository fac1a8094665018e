"""Transactions of any kind, cut anywhere: the tables show what has been committed by then."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.property.transaction_histories import EVENTS, Sent, Sessions, delivered, visible
from tests.spark.merge.merge_lake import (
    change_row,
    let_pass,
    merge,
    put,
    refused_by_gate,
    rows_of,
    schema,
)
from tests.spark.merge.test_merge_bags import stored
from tests.spark.seeds import SEEDS
from waybill.merge.rules import Change, Table, bag
from waybill.records import NO_TABLE

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

BATCHES = 3
TYPES = {"id": "int64", "n": "int64", "t": "string"}


def live(lake: Lake, table: str) -> dict[str, Any]:
    """The rows that people see, by key."""
    return {key: image for key, (_, image) in rows_of(lake, f"shop.{table}").items()}


def row_of(one: Sent, table: Any) -> dict[str, Any]:
    if one.operation in EVENTS:
        return change_row(one.change, NO_TABLE, schema_id=None, extra=one.extra)
    return change_row(one.change, table)


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_shows_what_was_committed(lake: Lake, migration, seed: int) -> None:
    choose = random.Random(seed).randrange
    # Those that name the place of each row, those that are rolled back, and those that are neither.
    sources = [Sessions(choose, n, placed=n == 0, rollbacks=n == 1) for n in range(3)]
    for source in sources:
        source.run(50)
    parts = [delivered(choose, source, BATCHES) for source in sources]
    shown = [visible(part) for part in parts]
    keyed = {t: schema(f"shop.{t}", TYPES, ("id",)) for s in sources for t in s.keyed}
    heaps = {s.bag: schema(f"shop.{s.bag}", {"n": "int64", "t": "string"}, ()) for s in sources}
    merged = {table: Table(TYPES) for table in keyed}
    counted: dict[str, list[Change]] = {table: [] for table in heaps}
    every, spec = {**keyed, **heaps}, migration()
    for number in range(BATCHES):
        rows = [row_of(one, every.get(one.table)) for part in parts for one in part[number]]
        put(lake, f"b{number}", rows, list(every.values()))
        merge(lake, spec, f"b{number}").reconcile()
        assert refused_by_gate(lake, f"b{number}") == []
        let_pass(lake, f"b{number}")
        fresh = [pair for found in shown for pair in found[number]]
        for table, rules in merged.items():
            rules.apply([change for name, change in fresh if name == table])
            assert live(lake, table) == rules.live(), f"{table} after batch {number} of seed {seed}"
        for table, changes in counted.items():
            changes += [change for name, change in fresh if name == table]
            wanted = bag(changes)
            assert stored(lake, f"shop.{table}", wanted) == wanted, (
                f"{table} after batch {number} of seed {seed}"
            )
