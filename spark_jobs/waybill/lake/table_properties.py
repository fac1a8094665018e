"""Properties of the lake's tables, as Iceberg keeps them."""

from __future__ import annotations

from waybill.lake.data_files import ROW_GROUP_BYTES

QUALIFIED = "waybill.table"
"""Table property: the source table's name."""

TABLE_PROPERTIES = {
    "format-version": "2",
    # Tasks write what they have; without these two every write would be shuffled or sorted.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.compression-codec": "gzip",
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}
"""Iceberg properties of every table."""

LOG_PROPERTIES = {"write.parquet.row-group-size-bytes": str(ROW_GROUP_BYTES)}
"""Beside these for tables of messages, where Spark writes them."""
