"""Merging an increment into tables of several sizes: what a batch costs when the table grows.

`python -m bench.merging` prints one JSON object: seconds of the load and of each increment. The
changes are put into the log as convert leaves them, so that the merge alone is measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measures import PeakMemory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waybill.lake import Lake
    from waybill.records import TableSchema
    from waybill.spec.migration import Migration

CHANGES = 50_000
INCREMENTS = 4
"""The first warms Spark up."""
SHAPES = {"plain": 4, "wide": 320}
"""Columns beside the key."""


def schema_of(columns: int) -> TableSchema:
    """The table: a key, an amount, a time and texts."""
    from waybill.records import Column, intern_schema
    from waybill.types import parse_type

    types = ["bigint", "decimal(18,2)", "datetime", *["varchar(40)"] * (columns - 2)]
    found = [Column(f"c{i}", parse_type(text, "mysql")) for i, text in enumerate(types)]
    return intern_schema("bench", None, "rows", tuple(found), ("c0",), "mysql")


def changes(
    spark: SparkSession, columns: int, rows: DataFrame, first: int, batch: str
) -> DataFrame:
    """Rows of `changes`: `rows` has the key `id`, the number `n` of the change and `gone`."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    from waybill.lake_columns import CHANGES as LAYOUT

    schema = schema_of(columns)
    number = (F.lit(first) + F.col("n")).cast("string")
    texts = [
        F.concat(F.lit(f"text {i} of "), F.col("n").cast("string")) for i in range(columns - 2)
    ]
    values = [
        F.col("id").cast("string").alias("c0"),
        F.format_string("%d.%02d", F.col("n"), F.col("n") % 100).alias("c1"),
        F.lit("2026-01-02T03:04:05.678901").alias("c2"),
        *(text.alias(f"c{i + 3}") for i, text in enumerate(texts)),
    ]
    known: dict[str, Any] = {
        "topic": F.lit("bench"),
        "partition": F.lit(0),
        "offset": F.lit(first) + F.col("n"),
        "index": F.lit(0),
        "batch": F.lit(batch),
        "operation": F.when(F.col("gone"), "delete").otherwise("upsert"),
        "database": F.lit("bench"),
        "table": F.lit("rows"),
        "key": F.concat(F.lit('{"c0":"'), F.col("id").cast("string"), F.lit('"}')),
        "after": F.when(~F.col("gone"), F.to_json(F.struct(*values))),
        "order_key": F.concat(F.lit("1/210"), number, F.lit("/111/110:210"), number, F.lit(":110")),
        "schema_id": F.lit(schema.id),
        "outcome": F.lit("ok"),
    }
    fields = from_arrow_schema(LAYOUT).fields
    return rows.select(
        *(known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields)
    )


def put(lake: Lake, batch: str, columns: int, rows: DataFrame) -> None:
    """Commit changes as convert does."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from waybill.lake_columns import CHANGES as LAYOUT

    schema = schema_of(columns)
    table = lake.ensure(lake.log("changes"), LAYOUT, ("outcome",))
    branch = lake.branch(table, "convert", batch)
    row = {**dict.fromkeys(LAYOUT.names), "topic": "bench", "outcome": "schema"}
    row |= {"schema_id": schema.id, "extra": schema.to_json().decode(), "operation": "other"}
    branch.append(lake.spark.createDataFrame([tuple(row.values())], from_arrow_schema(LAYOUT)))
    branch.append(rows)
    branch.commit({}, {}, batch, "convert")
    branch.fast_forward()


def merged(lake: Lake, spec: Migration, batch: str) -> float:
    """Seconds of the merge; the gate's part is left out, what it would show is shown."""
    from waybill.merge.stage import run_merge
    from waybill.stage_context import StageContext

    start = time.monotonic()
    run_merge(spec, StageContext(lake.spark, lake, spec, batch, progress=lambda *words: None))
    seconds = time.monotonic() - start
    show(lake, batch)
    return seconds


def show(lake: Lake, batch: str) -> None:
    """Make visible what a batch has merged, as the gate does."""
    (record,) = lake.waiting(lake.log("merges"), "merge", batch)
    assert record.commit is not None
    for table, name in record.commit.cursor["branches"].items():
        lake.reopen(table, name).fast_forward()
    lake.reopen(lake.log("merges"), record.name).fast_forward()


def increments(
    base: int, shape: str, skewed: bool, scratch: Path, text_images: str = "all"
) -> dict[str, Any]:
    """Load a table and merge increments of random keys into it, one after the other."""
    from pyspark.sql import functions as F

    from waybill.lake import Lake
    from waybill.lake.session import start_session
    from waybill.spec.migration import Migration

    spec = Migration.model_validate(
        {
            "name": "bench",
            "source": {"files": {"path": "nowhere"}, "envelope": "canal"},
            "lake": {"warehouse": str(scratch / "lake"), "text_images": text_images},
            "spark": {
                "spark.master": "local[2]",
                "spark.local.dir": str(scratch),
                "spark.driver.memory": "6g",
            },
        }
    )
    spark = start_session(spec, "bench")
    lake, columns = Lake.open(spark, spec), SHAPES[shape]
    rows = lake.spark.range(0, base, 1, 8).withColumn("n", F.col("id"))
    put(
        lake,
        "load",
        columns,
        changes(spark, columns, rows.withColumn("gone", F.lit(False)), 10**9, "load"),
    )
    found: dict[str, Any] = {"load": merged(lake, spec, "load"), "increments": []}
    for turn in range(1, INCREMENTS + 1):
        spread = F.when(F.col("n") % 10 == 0, base + F.col("n")).otherwise(
            F.abs(F.hash("n", F.lit(turn))) % base
        )
        key = F.when((F.col("n") % 2 == 0) & F.lit(skewed), 7).otherwise(spread)
        new = lake.spark.range(0, CHANGES, 1, 2).select(F.col("id").alias("n"))
        new = new.select("n", key.alias("id"), (F.hash("n", F.lit(turn)) % 20 == 0).alias("gone"))
        batch = f"b{turn}"
        put(lake, batch, columns, changes(spark, columns, new, (turn + 1) * 10**9, batch))
        found["increments"].append(round(merged(lake, spec, batch), 2))
    spark.stop()
    return found


def main(document: str) -> None:
    """Run one measure and print its figures."""
    given = json.loads(document)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder, PeakMemory() as memory:
        figures = increments(**given, scratch=Path(folder))
    sys.stdout.write(json.dumps({**figures, "peak_mb": memory.peak}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
