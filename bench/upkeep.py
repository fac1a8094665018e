"""Reading a table that many small batches made, before and after upkeep, beside one big batch.

`python -m bench.upkeep '{"batches": 100, "changes": 200000}'` prints one JSON object: seconds of
reading every row (best of several), and of what files the table is made.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measures import PeakMemory
from bench.merging import SHAPES, changes, merged, put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waybill.lake import Lake
    from waybill.spec.migration import Migration

BATCHES, CHANGES = 100, 200_000
"""The batches bring so many changes together, to half as many keys."""
READS = 7


def spec_of(name: str, scratch: Path) -> Migration:
    """A migration whose lake stands in `scratch`."""
    from waybill.spec.migration import Migration

    return Migration.model_validate(
        {
            "name": name,
            "source": {"files": {"path": "nowhere"}, "envelope": "canal"},
            "lake": {"warehouse": str(scratch / "lake")},
            "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
        }
    )


def fill(spark: SparkSession, spec: Migration, batches: int, total: int) -> Lake:
    """Merge the same changes in so many batches."""
    from pyspark.sql import functions as F

    from waybill.lake import Lake

    lake, columns = Lake.open(spark, spec), SHAPES["plain"]
    size = total // batches
    for turn in range(batches):
        numbers = lake.spark.range(turn * size, (turn + 1) * size, 1, 2)
        new = numbers.select(
            F.col("id").alias("n"),
            (F.abs(F.hash("id")) % (total // 2)).alias("id"),
            (F.hash("id", F.lit(1)) % 20 == 0).alias("gone"),
        )
        batch = f"b{turn}"
        put(lake, batch, columns, changes(spark, columns, new, 10**9, batch))
        merged(lake, spec, batch)
    return lake


def read(lake: Lake) -> dict[str, Any]:
    """Seconds of reading the live rows, how many there are, and the table's files."""
    table = lake.merged("bench.rows")
    best, rows = float("inf"), 0
    for _ in range(READS):
        start = time.monotonic()
        rows = _every_value(lake.read(table))
        best = min(best, time.monotonic() - start)
    files = {
        kind: lake.spark.table(f"{table}.{kind}").count()
        for kind in ("data_files", "delete_files", "manifests")
    }
    return {"seconds": round(best, 3), "rows": rows, **files}


def _every_value(frame: DataFrame) -> int:
    """Read every value of the live rows."""
    from pyspark.sql import functions as F

    live = frame.where("NOT _waybill_deleted")
    whole = live.select(F.xxhash64(*live.columns).alias("hash"))
    row = whole.agg(F.count("*").alias("n"), F.bit_xor("hash")).first()
    return 0 if row is None else int(row.n)


def compared(batches: int, total: int, scratch: Path) -> dict[str, Any]:
    """Both tables in one session, read one after the other."""
    from waybill.lake.session import start_session
    from waybill.upkeep.run import run_upkeep

    small, big = spec_of("small", scratch), spec_of("big", scratch)
    spark = start_session(big, "bench")
    whole = fill(spark, big, 1, total)
    start = time.monotonic()
    parts = fill(spark, small, batches, total)
    found: dict[str, Any] = {"batches": batches, "filled": round(time.monotonic() - start)}
    found["before"] = read(parts)
    start = time.monotonic()
    run_upkeep(small, parts)
    found["upkeep"] = round(time.monotonic() - start)
    found["after"], found["one batch"] = read(parts), read(whole)
    spark.stop()
    return found


def main(document: str) -> None:
    """Run the measure and print its figures."""
    given = json.loads(document)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder, PeakMemory() as memory:
        figures = compared(
            given.get("batches", BATCHES), given.get("changes", CHANGES), Path(folder)
        )
    sys.stdout.write(json.dumps({**figures, "peak_mb": memory.peak}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
