"""What a topic takes in the lake, table by table, for each byte of its messages.

`python -m bench.storage LINES` brings a file of Canal messages through all five stages and prints
one JSON object: bytes of the topic, and bytes of the data files of every table of the lake.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.measures import print_figures
from bench.topics import DECLARED

TARGET = "debezium-json"


def measure(lines: str, scratch: Path) -> dict[str, Any]:
    """Bytes by table."""
    from waybill.jobs import run_migration
    from waybill.lake import Lake
    from waybill.lake.session import start_session
    from waybill.spec.migration import Migration

    topic = Path(lines)
    source = scratch / "in"
    source.mkdir()
    (source / topic.name).symlink_to(topic)
    spec = Migration.model_validate(
        {
            "name": "storage",
            "source": {"files": {"path": str(source)}, "envelope": "canal"},
            "tables": DECLARED,
            "lake": {"warehouse": str(scratch / "lake")},
            "publish": [{"envelope": TARGET, "files": {"path": str(scratch / "out")}}],
            "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
        }
    )
    spark = start_session(spec, "bench")
    run_migration(spec, batch="b1", spark=spark)
    lake = Lake.open(spark, spec)
    files = "sum(file_size_in_bytes) AS bytes, sum(record_count) AS rows"
    tables = {}
    for space, names in lake.tables().items():
        for name in names:
            found = lake.spark.sql(f"SELECT {files} FROM lake.{space}.{name}.files").collect()[0]
            tables[f"{space}.{name}"] = [found.bytes or 0, found.rows or 0]
    spark.stop()
    sent = sum(file.stat().st_size for file in (scratch / "out").rglob("*") if file.is_file())
    return {"topic": topic.stat().st_size, "tables": tables, "published": sent}


def table_of(figures: dict[str, Any]) -> Table:
    """The figures as a table."""
    topic = figures["topic"]
    title = f"A topic of Canal of {topic / 1e6:,.0f} MB to Debezium, in the lake"
    table = Table(title=title)
    for name in ("table", "rows", "MB", "bytes per byte of the topic"):
        table.add_column(name, justify="left" if name == "table" else "right")
    for name, (size, rows) in sorted(figures["tables"].items(), key=lambda one: -one[1][0]):
        table.add_row(name, f"{rows:,}", f"{size / 1e6:,.1f}", f"{size / topic:.3f}")
    whole = sum(size for size, _ in figures["tables"].values())
    table.add_row("all of them", "", f"{whole / 1e6:,.1f}", f"{whole / topic:.3f}")
    sent = figures["published"]
    table.add_row("published files", "", f"{sent / 1e6:,.1f}", f"{sent / topic:.3f}")
    return table


if __name__ == "__main__":
    print_figures(measure, sys.argv[1])
