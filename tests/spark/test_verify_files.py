"""What was published to files, compared with what was written to them."""

from __future__ import annotations

import pytest

from tests.unit.inprocess.test_converter import canal
from waybill.errors import DifferenceError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.verify.published import check_published, verify_published

pytestmark = pytest.mark.spark


def test_a_file_that_is_changed_or_gone_is_reported(spark, migration, tmp_path):
    publish = [
        {"envelope": name, "files": {"path": str(tmp_path / "out" / name), "layout": layout}}
        for name, layout in (("canal", "lines"), ("debezium-json", "parquet"))
    ]
    spec = migration(publish=publish)
    (tmp_path / "in/0.jsonl").write_bytes(b"".join(canal(i) + b"\n" for i in range(20)))
    run_migration(spec, spark=spark)
    lake = Lake.open(spark, spec)
    results = verify_published(spec, lake)
    assert [(r.target, r.parts, r.messages, r.differing) for r in results] == [
        ("canal", 1, 20, 0),
        ("debezium-json", 1, 20, 0),
    ]
    check_published(results)
    (lines,) = (tmp_path / "out/canal").glob("*/part-*")
    (columns,) = (tmp_path / "out/debezium-json").glob("*/part-*")
    lines.write_bytes(lines.read_bytes().replace(b'"1"', b'"2"', 1))
    columns.unlink()
    results = verify_published(spec, lake)
    assert [result.differing for result in results] == [1, 1]
    with pytest.raises(DifferenceError, match=f"canal: {lines} is gone or has other bytes"):
        check_published(results)
