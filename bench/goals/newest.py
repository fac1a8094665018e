"""The newest row of every key of a topic, in a new table: Waybill, Spark SQL by hand, DuckDB.

Waybill and Spark SQL read what the archive has, or a file of Parquet with the same columns, DuckDB
the lines. Waybill keeps the log and tombstones, the others do not.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from bench import by_hand
from bench.baselines import duckdb_newest
from bench.cpu import cost
from bench.goals.session import Plan, live_rows, spec_of
from bench.merging import show


def newest_rows(plan: Plan, scratch: Path) -> dict[str, Any]:
    """Processor seconds of the three ways, of the turns that count."""
    from waybill.jobs import run_stage
    from waybill.lake import Lake
    from waybill.lake.session import start_session

    parquet = str(Path(plan.twice).with_suffix(".parquet"))
    spark = start_session(spec_of("first", scratch), "bench")
    used: dict[str, float] = defaultdict(float)
    for turn in range(plan.turns):
        spec = spec_of(f"turn{turn}", scratch, plan.twice)
        run_stage("snapshot", spec, "b1", spark)
        lake = Lake.open(spark, spec)
        session = lake.spark
        table = f"orders_{turn}"

        def stages(spec: Any = spec) -> None:
            for stage in ("convert", "merge"):
                run_stage(stage, spec, "b1", spark)

        def sql(session: Any = session, table: str = table) -> None:
            text = session.read.parquet(f"file://{parquet}").selectExpr("cast(value AS string)")
            by_hand.merge_messages(session, by_hand.canal_messages(text), table)

        def duckdb() -> None:
            duckdb_newest(Path(plan.twice), scratch / "newest.parquet")

        for name, work in (("stages", stages), ("sql", sql), ("duckdb", duckdb)):
            taken = cost(work)
            used[name] += taken if turn else 0
        show(lake, "b1")
        rows = session.table(f"lake.hand.{table}").count()
        there = live_rows(session, lake.merged("bench.orders"))
        found = session.read.parquet(f"file://{scratch / 'newest.parquet'}").count()
        assert rows == there == found, f"{there} rows, {rows} by hand, {found} by DuckDB"
    spark.stop()
    return {
        "G2": {"one": used["stages"], "other": used["sql"]},
        "G11": {"one": used["stages"], "other": used["duckdb"]},
        "counted": plan.turns - 1,
    }
