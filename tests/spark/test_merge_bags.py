"""Tables without key: the Spark merge equals the rule, for any split, order and duplication."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from tests.property.bag_histories import Heap, dealt, plain
from tests.spark.merge_lake import change_row, let_pass, merge, put, schema
from tests.spark.seeds import SEEDS
from waybill.jobs import read_table
from waybill.merge.rules import bag

pytestmark = pytest.mark.spark

TYPES = {"a": "int32", "b": "string"}
BATCHES = 3
MANY = 3


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_equals_the_rule(lake, migration, spark, seed):
    choose = random.Random(seed).randrange
    histories = {}
    for number in range(MANY):
        source = Heap(choose, sequenced=number != 0)
        source.run(16)
        histories[f"shop.heap{number}"] = source
    parts = {name: dealt(choose, source, BATCHES) for name, source in histories.items()}
    spec, seen = migration(), {name: [] for name in histories}
    for number in range(BATCHES):
        rows, schemas = [], []
        for name, source in histories.items():
            old, new = schema(name, TYPES, ()), schema(name, {**TYPES, "tier": "string"}, ())
            schemas += [old, new] if source.altered else [old]
            for change in parts[name][number]:
                told = change.image or change.before or {}
                rows.append(change_row(change, new if "tier" in told else old))
            seen[name] += parts[name][number]
        put(lake, f"b{number}", rows, schemas)
        report = merge(lake, spec, f"b{number}")
        let_pass(lake, f"b{number}")
        report.reconcile()
        for name, changes in seen.items():
            wanted = bag(changes)
            assert stored(lake, name) == wanted, f"{name} after batch {number} of seed {seed}"
            if any(n > 0 for n in wanted.values()):
                got = Counter(plain(row) for row in read_table(spec, name, spark=spark))
                assert got == +wanted


def stored(lake, name) -> Counter:
    """How often each row is there; what is owed is below zero."""
    table = lake.merged_tables().get(name)
    if table is None:
        return Counter()
    owed: Counter = Counter()
    columns = [c for c in lake.read(table).columns if not c.startswith("_waybill")]
    for row in lake.read(table).collect():
        if row["_waybill_deleted"]:
            assert all(row[column] is None for column in columns)
            owed[plain(json.loads(row["_waybill_image"]))] -= 1
            continue
        values = {c: None if row[c] is None else str(row[c]) for c in columns}
        owed[plain(values)] += 1
    return owed
