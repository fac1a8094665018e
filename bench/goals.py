"""What the line is to cost, as ratios of processor time that one run measures on both sides.

`python -m bench.goals NAME '{"lines": …}'` measures one ratio, in a session that a small batch has
warmed up, both sides in turn, and prints its figures as JSON. Ratios mean the same on any machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from bench.cpu import cpu_seconds
from bench.measures import print_figures
from bench.merging import SHAPES, changes, merged, schema_of
from bench.topics import DECLARED, canal
from bench.topics import changes as written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.topics import Topic
    from waybill.lake import Lake
    from waybill.spec.migration import Migration

TURNS = 3
"""How often both sides are measured; the first time warms up."""

WARM = 20_000
"""Messages of the batch that warms the stages up."""

SMALL, TIMES = 100_000, 16
"""Rows of the small table, and how many times as many the large one has."""

INCREMENT = 10_000
"""Changes of a batch into one of them."""


MANY, EACH = 40, 500
"""Tables of a batch that touches many, and changes of each of them."""

FEW, FEW_TURNS = 100, 8
"""Messages of a small batch, and how many of them are run; the last half counts."""


class Goal(NamedTuple):
    """A ratio that is to be reached, or seconds.

    Attributes:
        what: what is measured, and beside what.
        most: what the ratio may be.
        measure: gives the processor seconds of both sides, `one` and `other`; or the `seconds` of
            a clock.
    """

    what: str
    most: float
    measure: Callable[[dict[str, Any], Path], dict[str, Any]]


def spec_of(name: str, scratch: Path, path: str = "nowhere", **more: Any) -> Migration:
    """A migration from a file of a Canal topic, whose lake stands in `scratch`."""
    from waybill.spec.migration import Migration

    return Migration.model_validate(
        {
            "name": name,
            "source": {"files": {"path": path, "topic": "bench"}, "envelope": "canal"},
            "tables": DECLARED,
            "lake": {"warehouse": str(scratch / "lake")},
            "order": {"ambiguous": "partition"},
            "spark": {
                "spark.master": "local[2]",
                "spark.local.dir": str(scratch),
                "spark.driver.memory": "4g",
            },
            **more,
        }
    )


def validate_to_convert(given: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """The gate beside the conversion that it judges, one target, from the same session."""
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session

    few = scratch / "few.jsonl"
    with Path(given["lines"]).open("rb") as source:
        few.write_bytes(b"".join(line for line, _ in zip(source, range(WARM), strict=False)))

    def spec(name: str, path: str) -> Migration:
        files = {"path": str(scratch / "out" / name)}
        return spec_of(name, scratch, path, publish=[{"envelope": "debezium-json", "files": files}])

    spark = start_session(spec("warm", str(few)), "bench")
    used = {"convert": 0.0, "validate": 0.0}
    turns = [("warm", str(few)), *((f"turn{i}", given["lines"]) for i in range(TURNS))]
    for turn, (name, path) in enumerate(turns):
        for stage in ("snapshot", "convert", "merge", "validate"):
            before = cpu_seconds()
            run_stage(stage, spec(name, path), "b1", spark)
            if stage in used and turn > 1:
                used[stage] += cpu_seconds() - before
    spark.stop()
    return {"one": used["validate"], "other": used["convert"]}


def gate_of_larger_table(_: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """The gate of the same batch, into tables of two sizes."""
    from waybill.jobs import run_stage
    from waybill.lake import Lake
    from waybill.lake.session import start_session
    from waybill.merge.stage import run_merge
    from waybill.stage_context import StageContext

    # Changes are put into the log without a word about where they came from, which is reported.
    make = partial(spec_of, scratch=scratch, quality={"on_failure": "report"})
    spark = start_session(make("small"), "bench")
    sizes = {"small": SMALL, "large": SMALL * TIMES}
    specs = {name: make(name) for name in sizes}
    lakes = {name: Lake.open(spark, spec) for name, spec in specs.items()}
    for name, size in sizes.items():
        _put(lakes[name], "load", _rows(lakes[name].spark, size, size, 0), size)
        merged(lakes[name], specs[name], "load")
    used = dict.fromkeys(sizes, 0.0)
    for turn in range(1, TURNS + 2):
        for name, size in sizes.items():
            lake, spec, batch = lakes[name], specs[name], f"b{turn}"
            _put(lake, batch, _rows(lake.spark, INCREMENT, size, turn), INCREMENT)
            run_merge(spec, StageContext(lake.spark, lake, spec, batch))
            before = cpu_seconds()
            run_stage("validate", spec, batch, spark)
            if turn > 1:
                used[name] += cpu_seconds() - before
    spark.stop()
    return {"one": used["large"], "other": used["small"]}


def _rows(spark: SparkSession, count: int, size: int, turn: int) -> DataFrame:
    """Changes of keys all over a table; those of turn 0 bring every key once."""
    from pyspark.sql import functions as F

    key = F.col("id") if turn == 0 else F.abs(F.hash("id", F.lit(turn))) % size
    rows = spark.range(0, count, 1, 2).select(F.col("id").alias("n"), key.alias("id"))
    return changes(
        spark,
        SHAPES["plain"],
        rows.withColumn("gone", F.lit(False)),
        10**9 * (turn + 1),
        f"b{turn}",
    )


def _put(lake: Lake, batch: str, rows: DataFrame, count: int) -> None:
    """Commit changes as convert does."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from waybill.lake_columns import CHANGES as LAYOUT
    from waybill.lake_columns import OUTBOX
    from waybill.report import StageReport

    schema = schema_of(SHAPES["plain"])
    table = lake.ensure(lake.log("changes"), LAYOUT, ("outcome",))
    lake.ensure(lake.log("outbox"), OUTBOX, ("target", "outcome"))
    branch = lake.branch(table, "convert", batch)
    row = {**dict.fromkeys(LAYOUT.names), "topic": "bench", "outcome": "schema"}
    row |= {"schema_id": schema.id, "extra": schema.to_json().decode(), "operation": "other"}
    branch.append(lake.spark.createDataFrame([tuple(row.values())], from_arrow_schema(LAYOUT)))
    branch.append(rows)
    report = StageReport("convert", batch, rows_in=count, rows_out=count)
    branch.commit({"archive": {"after": None, "upto": None}}, report.to_dict(), batch, "convert")
    branch.fast_forward()


def many_tables(_: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Merge and gate of changes to many tables, beside as many changes to one; tables are new."""
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session

    spark = start_session(spec_of("first", scratch), "bench")
    used = {"many": 0.0, "one": 0.0}
    for turn in range(TURNS + 1):
        for name, tables in (("many", MANY), ("one", 1)):
            path = scratch / f"{name}{turn}.jsonl"
            path.write_bytes(b"".join(_interleaved(tables, MANY * EACH // tables, turn)))
            names = {f"bench.{_table(i)}": DECLARED["bench.orders"] for i in range(tables)}
            spec = spec_of(f"{name}{turn}", scratch, str(path), tables=names)
            for stage in ("snapshot", "convert", "merge", "validate"):
                before = cpu_seconds()
                run_stage(stage, spec, "b1", spark)
                if turn and stage in ("merge", "validate"):
                    used[name] += cpu_seconds() - before
    spark.stop()
    return {"one": used["many"], "other": used["one"]}


def small_batch(_: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Seconds of the clock that a small batch takes through five stages of a warm session."""
    from waybill.jobs import run_migration
    from waybill.lake.session import start_session

    folder = scratch / "few"
    folder.mkdir()
    targets = [{"envelope": "debezium-json", "files": {"path": str(scratch / "out")}}]
    spec = spec_of("few", scratch, str(folder), publish=targets)
    spark = start_session(spec, "bench")
    taken = []
    for turn in range(FEW_TURNS):
        (folder / f"{turn:03d}.jsonl").write_bytes(b"".join(_interleaved(1, FEW, turn)))
        before = time.monotonic()
        run_migration(spec, batch=f"b{turn:03d}", spark=spark)
        taken.append(time.monotonic() - before)
    spark.stop()
    return {"seconds": median(taken[FEW_TURNS // 2 :])}


def _table(number: int) -> str:
    return f"orders_{number:03d}"


def _interleaved(tables: int, each: int, turn: int) -> Iterator[bytes]:
    """Lines of a topic of several tables, whose changes take turns."""
    streams = [written(each, max(10, each // 10), 1000 * turn + i) for i in range(tables)]
    for several in zip(*streams, strict=True):
        for i, (number, before, after) in enumerate(several):
            for line in canal(number, before, after):
                named = f'"table":"{_table(i)}"'.encode()
                yield line.replace(b'"table":"orders"', named) + b"\n"


GOALS: dict[str, Goal] = {
    "G4": Goal("validate : convert", 0.5, validate_to_convert),
    "G5": Goal(f"merge and gate, {MANY} tables : one of as many changes", 1.5, many_tables),
    "G8": Goal(f"the gate, its table {TIMES} times as large : as it is", 1.2, gate_of_larger_table),
    "G9": Goal(f"seconds of {FEW} messages through all stages, warm", 3.0, small_batch),
}
"""By name; every goal is measured in a process of its own."""


def reached(topic: Topic, folder: Path, measured: Callable[..., Any]) -> Table:
    """Every goal as a row of a table; beside it `goals.json`, with name, value, goal and met.

    Args:
        topic: of Canal messages.
        folder: where the file goes.
        measured: what a measure of a module prints, see `bench.__main__.in_its_own_process`.
    """
    table = Table(
        title=f"Goals, most of them ratios of processor seconds, {topic.messages:,} Canal messages"
    )
    for title in ("goal", "what", "seconds", "value", "at most", "met"):
        table.add_column(title, justify="left" if title in ("goal", "what") else "right")
    found = []
    for name, goal in GOALS.items():
        figures = measured(name, "goals", name, {"lines": str(topic.lines)})
        if figures is None:
            continue
        alone = figures.get("seconds")
        value = figures["one"] / figures["other"] if alone is None else alone
        met = value <= goal.most
        found.append({"name": name, "value": round(value, 3), "goal": goal.most, "met": met})
        seconds = "" if alone is not None else f"{figures['one']:.1f} : {figures['other']:.1f}"
        shown = (f"{value:.2f}", f"{goal.most:.2f}", "yes" if met else "no")
        table.add_row(name, goal.what, seconds, *shown)
    (folder / "goals.json").write_text(json.dumps(found, indent=1) + "\n")
    return table


if __name__ == "__main__":
    print_figures(GOALS[sys.argv[1]].measure, sys.argv[2])
