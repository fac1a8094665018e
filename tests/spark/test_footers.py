"""What Iceberg is told of data files, and what their readers are told, is what it always was."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waybill.errors import ReconciliationError
from waybill.lake.data_files import WrittenFile
from waybill.lake.footers import Footers

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

VALUES = {
    "number": (pa.int64(), [3, None, -(2**63)]),
    "ratio": (pa.float64(), [float("nan"), -0.0, 1.5]),
    "name": (pa.string(), ["ü" * 40, "", None]),
    "bytes": (pa.binary(), [b"\xff" * 20, b"\x00", b""]),
    "price": (pa.decimal128(30, 10), [Decimal("-0.0000000001"), None, Decimal("9e18")]),
    "moment": (pa.timestamp("us", "UTC"), [datetime(1969, 12, 31, 23, 59, tzinfo=UTC), None, None]),
    "nothing": (pa.string(), [None, None, None]),
    "texts": (pa.list_(pa.string()), [["a", None], [], None]),
}
SCHEMA = pa.schema({name: kind for name, (kind, _) in VALUES.items()})
PARTS = (
    *("recordCount", "columnSizes", "valueCounts", "nullValueCounts", "nanValueCounts"),
    *("lowerBounds", "upperBounds"),
)


@pytest.fixture
def table(lake: Lake) -> str:
    return lake.ensure(lake.log("things"), SCHEMA)


@pytest.fixture
def footers(lake: Lake) -> Footers:
    return Footers(lake._catalog.java, lake.spark.sparkContext._gateway)


@pytest.fixture
def written(tmp_path: Path) -> WrittenFile:
    fields = [
        field.with_metadata({"PARQUET:field_id": str(number)})
        for number, field in enumerate(SCHEMA, 1)
    ]
    columns = [pa.array(values, kind) for kind, values in VALUES.values()]
    path = tmp_path / "file.parquet"
    pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), path)
    return WrittenFile(str(path), path.stat().st_size, 3, (), [4])


@pytest.mark.parametrize("of_rows", [True, False])
def test_metrics_are_those_that_iceberg_itself_makes(
    lake: Lake, table: str, footers: Footers, written: WrittenFile, of_rows: bool
) -> None:
    loaded = lake._catalog.load("demo_log", "things")
    settings = lake._catalog.java("org.apache.iceberg.MetricsConfig")
    bounds = settings.forTable(loaded) if of_rows else settings.forPositionDelete()
    file = loaded.io().newInputFile(written.path)
    theirs = lake._catalog.java("org.apache.iceberg.parquet.ParquetUtil").fileMetrics(file, bounds)
    ours = footers.metrics(file, bounds)
    for part in PARTS:
        mine, other = getattr(ours, part)(), getattr(theirs, part)()
        assert mine == other if isinstance(mine, int) else mine.equals(other), part
    assert ours.recordCount() == 3
    assert len(ours.lowerBounds()) > 4


def test_a_file_with_other_rows_than_its_task_says_is_not_described(
    lake: Lake, table: str, footers: Footers, written: WrittenFile
) -> None:
    loaded = lake._catalog.load("demo_log", "things")
    (file,) = footers.described(loaded, [written])
    assert (file.recordCount(), file.fileSizeInBytes()) == (3, written.bytes)
    with pytest.raises(ReconciliationError, match="holds 3 rows and 4 were written; nothing was"):
        footers.described(loaded, [written._replace(rows=4)])


def test_files_on_a_disk_come_with_what_was_set_alone(lake: Lake, table: str) -> None:
    """Hadoop's defaults hold where nothing is set; a damaged page stays an error."""
    given = lake._catalog.load("demo_log", "things").io().getConf()
    assert given.get("parquet.page.verify-checksum.enabled") == "true"
    assert given.get("fs.s3a.vectored.read.min.seek.size") == "128K"  # Spark's own
    assert given.get("io.file.buffer.size") is None
    assert given.size() < 20
    assert lake.read(table).count() == 0
