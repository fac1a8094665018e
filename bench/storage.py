"""What a topic takes in the lake, table by table, for each byte of its messages.

`python -m bench.storage '["LINES", "all"]'` brings a file of Canal messages through all five
stages, with a setting of `lake.text_images`, and prints one JSON object: bytes of the topic, bytes
of the data files of every table of the lake, and what the text images take of those of merged
tables.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.measures import print_figures
from bench.topics import DECLARED
from waybill.merge.columns import IMAGE

TARGET = "debezium-json"


def measure(given: list[str], scratch: Path) -> dict[str, Any]:
    """Bytes by table; given are a file of messages and what the lake keeps of text images."""
    lines, text_images = given
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
            "lake": {"warehouse": str(scratch / "lake"), "text_images": text_images},
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
    texts = {}
    for full in lake.merged_tables().values():
        paths = [row[0] for row in lake.spark.sql(f"SELECT file_path FROM {full}.files").collect()]
        texts[full.removeprefix("lake.")] = bytes_of(paths, IMAGE)
    spark.stop()
    sent = sum(file.stat().st_size for file in (scratch / "out").rglob("*") if file.is_file())
    size = topic.stat().st_size
    found = {"topic": size, "tables": tables, "texts": texts, "published": sent}
    return {**found, "text_images": text_images}


def bytes_of(paths: list[str], column: str) -> int:
    """Bytes that a column takes in data files."""
    import pyarrow.parquet as pq

    found = 0
    for path in paths:
        metadata = pq.read_metadata(path.removeprefix("file:"))
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
        found += sum(c.total_compressed_size for c in chunks if c.path_in_schema == column)
    return found


def table_of(figures: dict[str, Any]) -> Table:
    """The figures as a table."""
    topic = figures["topic"]
    title = f"A topic of Canal of {topic / 1e6:,.0f} MB to Debezium, in the lake"
    title += f", text images: {figures['text_images']}"
    table = Table(title=title)
    for name in ("table", "rows", "MB", "bytes per byte of the topic"):
        table.add_column(name, justify="left" if name == "table" else "right")
    for name, (size, rows) in sorted(figures["tables"].items(), key=lambda one: -one[1][0]):
        table.add_row(name, f"{rows:,}", f"{size / 1e6:,.1f}", f"{size / topic:.3f}")
        if texts := figures["texts"].get(name):
            shown = f"{texts / 1e6:,.1f}", f"{texts / topic:.3f}"
            table.add_row(f"of which {IMAGE}", "", *shown)
    whole = sum(size for size, _ in figures["tables"].values())
    table.add_row("all of them", "", f"{whole / 1e6:,.1f}", f"{whole / topic:.3f}")
    sent = figures["published"]
    table.add_row("published files", "", f"{sent / 1e6:,.1f}", f"{sent / topic:.3f}")
    return table


if __name__ == "__main__":
    print_figures(measure, sys.argv[1])
