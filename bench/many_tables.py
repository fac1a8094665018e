"""A topic of very many tables: what the batch costs that makes them, and one that touches some.

`python -m bench.many_tables '{"tables": 1000, "touched": 50}'` brings 20 changes of every table,
and then 20 of some, twice, through all five stages into files, and prints one JSON object: of each
batch and stage seconds of the clock and of the processor.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.cpu import cpu_seconds
from bench.goals.batches import interleaved, table_name
from bench.goals.session import published
from bench.measures import print_figures
from bench.topics import DECLARED

EACH = 20
"""Changes of each table in a batch."""
STAGES = ("snapshot", "convert", "merge", "validate", "publish")


def measure(given: dict[str, int], scratch: Path) -> dict[str, Any]:
    """Seconds of the clock and of the processor, of every stage of every batch."""
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session

    tables, touched = given["tables"], given["touched"]
    folder = scratch / "in"
    folder.mkdir()
    declared = {f"bench.{table_name(i)}": DECLARED["bench.orders"] for i in range(tables)}
    spec = published("tables", scratch, str(folder), tables=declared)
    spark = start_session(spec, "bench")
    batches = []
    for turn, several in enumerate((tables, touched, touched)):
        path = folder / f"{turn}.jsonl"
        path.write_bytes(b"".join(interleaved(several, EACH, turn)))
        stages = {}
        for stage in STAGES:
            before, start = cpu_seconds(), time.monotonic()
            run_stage(stage, spec, f"b{turn}", spark)
            stages[stage] = [time.monotonic() - start, cpu_seconds() - before]
        batches.append({"tables": several, "stages": stages})
    spark.stop()
    return {"tables": tables, "batches": batches}


def table_of(figures: dict[str, Any]) -> Table:
    """The figures, as `make bench` shows them."""
    table = Table(
        title=f"A topic of {figures['tables']:,} tables, {EACH} changes of each, local[2]"
    )
    for name in ("tables in the batch", *STAGES, "all of them", "processor s"):
        table.add_column(name, justify="right")
    for batch in figures["batches"]:
        seconds = [seconds for seconds, _ in batch["stages"].values()]
        used = sum(used for _, used in batch["stages"].values())
        shown = [f"{one:.1f}" for one in (*seconds, sum(seconds), used)]
        table.add_row(f"{batch['tables']:,}", *shown)
    return table


if __name__ == "__main__":
    print_figures(measure, sys.argv[1])
