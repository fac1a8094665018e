"""What the bench has beside Waybill, written by hand in Spark SQL, comes to the same rows."""

from __future__ import annotations

import json

import pytest

from bench import by_hand
from bench.goals.growth import HAND, _spread
from bench.merging import SHAPES, merged, put, show
from bench.topics import DECLARED, canal, changes
from waybill.jobs import run_stage
from waybill.lake import Lake

pytestmark = pytest.mark.spark


def test_a_topic_by_hand_has_the_rows_and_messages_of_the_stages(spark, migration, tmp_path):
    spec = migration(tables=DECLARED, order={"ambiguous": "partition"}, topic="bench")
    lines = [line for change in changes(400, 40) for line in canal(*change)]
    file = tmp_path / "in" / "a.jsonl"
    file.write_bytes(b"\n".join(lines))
    for stage in ("snapshot", "convert", "merge"):
        run_stage(stage, spec, "b1", spark)
    lake = Lake.open(spark, spec)
    show(lake, "b1")
    messages = by_hand.canal_messages(lake.spark.read.text(str(file)))
    by_hand.merge_messages(lake.spark, messages, "orders")
    names = ["id", "name", "comment", "amount", "placed_at", "flag"]
    ours = lake.spark.table(lake.merged("bench.orders")).where("NOT _waybill_deleted")
    theirs = lake.spark.table("lake.hand.orders").select(names)
    assert sorted(map(str, ours.select(names).collect())) == sorted(map(str, theirs.collect()))
    assert theirs.count() > 20

    by_hand.canal_to_debezium(messages, tmp_path / "hand")
    told = [json.loads(row[0]) for row in spark.read.text(str(tmp_path / "hand")).collect()]
    names = ("id", "name", "comment", "amount", "flag")

    def image(row, get):
        return None if row is None else tuple(get(row, name) for name in names)

    expected = [
        (kind, image(before, getattr), image(after, getattr))
        for _, before, after in changes(400, 40)
        for kind in ("d" if after is None else "u" if before else "c",)
    ]
    found = [
        (row["op"], image(row["before"], dict.get), image(row["after"], dict.get)) for row in told
    ]
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_changes_by_hand_leave_the_rows_that_the_merge_leaves(spark, migration):
    spec = migration()
    lake = Lake.open(spark, spec)
    columns = SHAPES["plain"]
    put(lake, "load", columns, _spread(lake.spark, 200, 200, 0, "load"))
    merged(lake, spec, "load")
    table = lake.merged("bench.rows")
    by_hand.copied(lake.spark, table, "rows", HAND)
    for turn in (1, 2):
        put(lake, f"b{turn}", columns, _spread(lake.spark, 100, 200, turn, f"b{turn}"))
        merged(lake, spec, f"b{turn}")
        log = lake.spark.table(lake.log("changes"))
        log = log.where(f"batch = 'b{turn}' AND outcome = 'ok'")
        by_hand.merge_changes(lake.spark, log, "rows", HAND)
    names = [*HAND, "_waybill_order"]
    ours = lake.spark.table(table).where("NOT _waybill_deleted").select(names).collect()
    theirs = lake.spark.table("lake.hand.rows").select([*HAND, "o"]).collect()
    assert sorted(map(tuple, ours)) == sorted(map(tuple, theirs))
    assert len(theirs) > 200
