"""Parts of files, without Spark: what is in them depends on the messages alone."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest

from waybill.errors import Code, ConfigurationError
from waybill.lake_columns import OUTBOX, columns_of
from waybill.publish.part_files import ROW_GROUP, PartWriter

COLUMNS = ("topic", "partition", "offset", "index", "timestamp", "key", "value", "headers")


@pytest.fixture(scope="module")
def rows() -> pa.RecordBatch:
    """More than a row group holds."""
    count = ROW_GROUP + 20_000
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    values = {
        "topic": ["shop"] * count,
        "partition": [0] * count,
        "offset": list(range(count)),
        "index": [0] * count,
        "timestamp": [moment] * count,
        "key": [b"%d" % i for i in range(count)],
        "value": [None if i % 7 == 0 else b"%0200d" % i for i in range(count)],
        "headers": [None if i % 2 else [{"key": "k", "value": b"v"}] for i in range(count)],
    }
    return pa.RecordBatch.from_pydict(values, schema=columns_of(OUTBOX, *COLUMNS))


@pytest.mark.parametrize("layout", ["lines", "parquet"])
def test_a_part_is_the_same_however_its_rows_arrive(rows, tmp_path, layout):
    """They come in batches whose size follows the longest message of all that is sent."""

    def written(name: str, *cuts: int):
        ends = pairwise((0, *cuts, rows.num_rows))
        slices = [rows.slice(start, end - start) for start, end in ends]
        return PartWriter(str(tmp_path / name), layout, "m", keep=True).write_part(0, iter(slices))

    whole = written("whole")
    assert whole.messages + whole.tombstones == rows.num_rows
    assert written("pieces", *range(7_000, rows.num_rows, 7_000)) == whole
    assert written("other", 1, ROW_GROUP - 1, ROW_GROUP, ROW_GROUP + 5) == whole


def test_a_value_with_a_line_feed_stops_its_part_and_names_the_change(rows, tmp_path):
    """Left out it would be lost: its row of the outbox is sent for good."""
    values = rows.column("value").to_pylist()
    values[30_000] = b'{"a":\n1}'
    place = rows.schema.get_field_index("value")
    broken = rows.set_column(place, "value", pa.array(values, pa.binary()))

    def write(layout: str, keep: bool = True):
        slices = [broken.slice(start, 7_000) for start in range(0, broken.num_rows, 7_000)]
        return PartWriter(str(tmp_path), layout, "m", keep).write_part(0, iter(slices))

    with pytest.raises(ConfigurationError, match="change shop/0/30000/0 has a line feed") as error:
        write("lines")
    assert error.value.code is Code.LINE_FEED
    assert str(tmp_path) in error.value.sentence
    assert "layout: parquet" in error.value.sentence
    assert [*tmp_path.iterdir()] == []
    # What a manifest lists is other messages, and `put_manifest` says so.
    assert write("lines", keep=False).messages == 60_000
    assert [*tmp_path.iterdir()] == []
    assert write("parquet").messages == rows.num_rows
