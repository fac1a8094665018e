"""What a batch costs when its table grows, has many columns, or is one of many."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench import by_hand
from bench.cpu import cost, cpu_seconds
from bench.goals.session import Plan, live_rows, spec_of
from bench.merging import SHAPES, changes, merged, put, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waybill.lake import Lake

LARGE, SMALL, INCREMENT = 8_000_000, 500_000, 50_000
"""Rows of two tables, and changes of a batch into each."""

HAND = {
    "c0": "bigint",
    "c1": "decimal(18,2)",
    "c2": "timestamp_ntz",
    "c3": "string",
    "c4": "string",
}
"""The columns of `bench.merging`'s plain table."""

GATED, TIMES, GATED_INCREMENT = 100_000, 16, 10_000
"""Rows of the small table that the gate looks at, how many times as many the large one has, and
changes of a batch into each."""


def increments(plan: Plan, scratch: Path) -> dict[str, Any]:
    """The merge of a batch into two tables, and by hand into a copy of the larger one."""
    from waybill.lake import Lake
    from waybill.lake.session import start_session

    make = partial(spec_of, scratch=scratch)
    sizes = {"small": plan.of(SMALL), "large": plan.of(LARGE)}
    count = plan.of(INCREMENT)
    spark = start_session(make("small"), "bench")
    specs = {name: make(name) for name in sizes}
    lakes = {name: Lake.open(spark, spec) for name, spec in specs.items()}
    columns = SHAPES["plain"]
    for name, size in sizes.items():
        put(lakes[name], "load", columns, _spread(lakes[name].spark, size, size, 0, "load"))
        merged(lakes[name], specs[name], "load")
    large = lakes["large"]
    table = large.merged("bench.rows")
    by_hand.copied(large.spark, table, "rows", HAND)
    used = dict.fromkeys((*sizes, "hand"), 0.0)
    for turn in range(1, plan.turns + 2):
        batch = f"b{turn}"
        for name, size in sizes.items():
            new = _spread(lakes[name].spark, count, size, turn, batch)
            put(lakes[name], batch, columns, new)
            taken = cost(partial(merged, lakes[name], specs[name], batch))
            used[name] += taken if turn > 1 else 0
        log = large.spark.table(large.log("changes"))
        log = log.where(f"batch = '{batch}' AND outcome = 'ok'")
        taken = cost(partial(by_hand.merge_changes, large.spark, log, "rows", HAND))
        used["hand"] += taken if turn > 1 else 0
    rows, there = large.spark.table("lake.hand.rows").count(), live_rows(large.spark, table)
    assert rows == there, f"{rows} rows by hand, {there} in the merged table"
    spark.stop()
    return {
        "G3a": {"one": used["large"], "other": used["hand"]},
        "G3b": {"one": used["large"], "other": used["small"]},
        "counted": plan.turns,
    }


def wide_table(plan: Plan, scratch: Path) -> dict[str, Any]:
    """Seconds of the merge of a batch into a table of very many columns."""
    from waybill.lake import Lake
    from waybill.lake.session import start_session

    spec, columns = spec_of("wide", scratch), SHAPES["wide"]
    spark = start_session(spec, "bench")
    lake = Lake.open(spark, spec)
    size, taken, used = plan.of(INCREMENT), [], []
    for turn in range(plan.turns + 2):
        batch = f"b{turn}"
        put(lake, batch, columns, _spread(lake.spark, size, size, turn, batch, columns))
        before, start = cpu_seconds(), time.monotonic()
        merged(lake, spec, batch)
        taken.append(time.monotonic() - start)
        used.append(cpu_seconds() - before)
    spark.stop()
    return {"G10": {"value": median(taken[2:]), "cpu": median(used[2:])}}


def gate_of_larger_table(plan: Plan, scratch: Path) -> dict[str, Any]:
    """The gate of the same batch, into tables of two sizes."""
    from waybill.jobs import run_stage
    from waybill.lake import Lake
    from waybill.lake.session import start_session
    from waybill.merge.stage import run_merge
    from waybill.stage_context import StageContext

    # Changes are put into the log without a word about where they came from, which is reported.
    make = partial(spec_of, scratch=scratch, quality={"on_failure": "report"})
    spark = start_session(make("small"), "bench")
    rows, count = plan.of(GATED), plan.of(GATED_INCREMENT)
    sizes = {"small": rows, "large": rows * TIMES}
    specs = {name: make(name) for name in sizes}
    lakes = {name: Lake.open(spark, spec) for name, spec in specs.items()}
    for name, size in sizes.items():
        _put_with_account(
            lakes[name], "load", _spread(lakes[name].spark, size, size, 0, "load"), size
        )
        merged(lakes[name], specs[name], "load")
    used = dict.fromkeys(sizes, 0.0)
    for turn in range(1, plan.turns + 2):
        for name, size in sizes.items():
            lake, spec, batch = lakes[name], specs[name], f"b{turn}"
            _put_with_account(lake, batch, _spread(lake.spark, count, size, turn, batch), count)
            run_merge(spec, StageContext(lake.spark, lake, spec, batch))
            taken = cost(partial(run_stage, "validate", spec, batch, spark))
            used[name] += taken if turn > 1 else 0
    spark.stop()
    return {"G8": {"one": used["large"], "other": used["small"]}, "counted": plan.turns}


def _spread(
    spark: SparkSession,
    count: int,
    size: int,
    turn: int,
    batch: str,
    columns: int = SHAPES["plain"],
) -> DataFrame:
    """Changes of keys all over a table of `size` rows; those of turn 0 bring every key once.

    Later, one of ten is a new row, and one of twenty a delete.
    """
    from pyspark.sql import functions as F

    number = F.col("id")
    there = F.abs(F.hash("id", F.lit(turn))) % size
    fresh = F.lit(size + turn * count) + number
    key = number if turn == 0 else F.when(number % 10 == 0, fresh).otherwise(there)
    gone = F.lit(False) if turn == 0 else F.hash("id", F.lit(turn)) % 20 == 0
    rows = spark.range(0, count, 1, 2 if turn else 8)
    rows = rows.select(number.alias("n"), key.alias("id"), gone.alias("gone"))
    return changes(spark, columns, rows, 10**9 * (turn + 1), batch)


def _put_with_account(lake: Lake, batch: str, rows: DataFrame, count: int) -> None:
    """Commit changes as convert does, with its account, for the gate to read."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from waybill.lake_columns import CHANGES as LAYOUT
    from waybill.lake_columns import OUTBOX
    from waybill.report import StageReport

    schema = schema_of(SHAPES["plain"])
    table = lake.ensure(lake.log("changes"), LAYOUT, ("outcome",))
    lake.ensure(lake.log("outbox"), OUTBOX, ("target", "outcome"))
    branch = lake.branch(table, "convert", batch)
    schema_row = {**dict.fromkeys(LAYOUT.names), "topic": "bench", "outcome": "schema"}
    schema_row |= {"schema_id": schema.id, "extra": schema.to_json().decode(), "operation": "other"}
    branch.append(
        lake.spark.createDataFrame([tuple(schema_row.values())], from_arrow_schema(LAYOUT))
    )
    branch.append(rows)
    report = StageReport("convert", batch, rows_in=count, rows_out=count)
    branch.commit({"archive": {"after": None, "upto": None}}, report.to_dict(), batch, "convert")
    branch.fast_forward()
