"""Ids that had to be made are counted batch by batch, and partitions of earlier batches count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.order_sources import Event, canal, maxwell
from waybill.cli.status import stage_status
from waybill.convert.stage import run_convert
from waybill.lake import Lake
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import Options, StageContext

pytestmark = pytest.mark.spark

COLUMNS = {"id": "int64", "v": "string"}
TABLES = {"shop.t": {"key": ["id"], "columns": COLUMNS}}


def line(spark, spec, messages):
    """Runs a batch of a file of so many messages: each file is a partition of its own."""
    lake, told = Lake.open(spark, spec), iter(range(1, 100))

    def batch(name: str, count: int):
        context = StageContext(spark, lake, spec, name, Options())
        rows = [{"id": next(told), "v": "x"} for _ in range(count)]
        events = [Event(row["id"], "insert", None, row, 0) for row in rows]
        if events:
            values = [value for event in events for value in messages(event)]
            (Path(spec.source.files.path) / f"{name}.jsonl").write_bytes(b"\n".join(values))
            run_snapshot(spec, context)
        return run_convert(spec, context)

    return batch


def targets(folder: Path, *envelopes: str) -> list[dict]:
    return [
        {"envelope": name, "name": name, "files": {"path": str(folder / name)}}
        for name in envelopes
    ]


def test_ids_from_positions(spark, migration, tmp_path: Path) -> None:
    publish = targets(tmp_path, "datahub-tuple", "oms-default", "debezium-json")
    spec = migration(publish=publish, tables=TABLES)
    batch = line(spark, spec, canal)
    both = ("datahub-tuple", "oms-default")
    assert batch("b1", 3).made_ids == {name: {"across_partitions": 3} for name in both}
    empty = batch("b2", 0)
    assert (empty.rows_in, empty.made_ids) == (0, {})
    second = batch("b3", 40)
    assert second.made_ids == {name: {"within_partition": 40} for name in both}
    assert not second.losses.keys() - {"datahub-tuple", "oms-default", "debezium-json"}
    assert not any(name.startswith("made_id") for lost in second.losses.values() for name in lost)
    assert batch("b4", 1).made_ids == {name: {"within_partition": 1} for name in both}
    status = stage_status(Lake.open(spark, spec), "convert")
    assert status["made_ids"] == {name: {"within_partition": 1} for name in both}
    assert json.loads(json.dumps(second.told()))["made_ids"]["oms-default"]


def test_ids_from_the_sources_order(spark, migration, tmp_path: Path) -> None:
    publish = targets(tmp_path, "datahub-blob", "oms-default", "maxwell")
    batch = line(spark, migration(envelope="maxwell", publish=publish, tables=TABLES), maxwell)
    assert batch("b1", 2).made_ids["datahub-blob"] == {"across_partitions": 2}
    # The window of 64 bits has no room for file, offset and position.
    assert batch("b2", 2).made_ids == {
        "datahub-blob": {"across_partitions": 2},
        "oms-default": {"within_partition": 2},
    }
