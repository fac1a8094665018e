"""Ids that had to be made are counted batch by batch, and partitions of earlier batches count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.order_sources import Event, canal, maxwell
from waybill.cli.status import stage_status
from waybill.convert.stage import run_convert
from waybill.lake import Lake
from waybill.merge.stage import run_merge
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import Options, StageContext
from waybill.validate.stage import run_validate

pytestmark = pytest.mark.spark

COLUMNS = {"id": "int64", "v": "string"}
TABLES = {"shop.t": {"key": ["id"], "columns": COLUMNS}}


def line(spark, spec, messages):
    """Runs a batch of a file of so many messages: each file is a partition of its own."""
    lake, numbers = Lake.open(spark, spec), iter(range(1, 100))

    def batch(name: str, count: int):
        context = StageContext(spark, lake, spec, name, Options())
        rows = [{"id": next(numbers), "v": "x"} for _ in range(count)]
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
    assert json.loads(json.dumps(second.to_json_safe()))["made_ids"]["oms-default"]


def test_ids_from_the_sources_order(spark, migration, tmp_path: Path) -> None:
    publish = targets(tmp_path, "datahub-blob", "oms-default", "maxwell")
    batch = line(spark, migration(envelope="maxwell", publish=publish, tables=TABLES), maxwell)
    assert batch("b1", 2).made_ids["datahub-blob"] == {"across_partitions": 2}
    # The window of 64 bits has no room for file, offset and position.
    assert batch("b2", 2).made_ids == {
        "datahub-blob": {"across_partitions": 2},
        "oms-default": {"within_partition": 2},
    }


def test_other_digits_hold_no_batch_that_was_written_before(
    spark, migration, tmp_path: Path
) -> None:
    """What was converted is judged by the settings that it was converted with."""
    (publish,) = targets(tmp_path, "datahub-blob")

    def spec(*digits: int):
        goes = {**publish, "settings": {"sequence_digits": digits}}
        return migration(envelope="maxwell", publish=[goes], tables=TABLES)

    wide, narrow = spec(10, 19, 19), spec(12, 4, 4)
    line(spark, wide, maxwell)("b1", 3)
    line(spark, narrow, maxwell)("b2", 3)
    lake = Lake.open(spark, wide)
    sent = lake.read(lake.log("outbox")).where("outcome = 'ok'").collect()
    ids = {len(str(json.loads(row.value)["payload"]["sequenceId"])) for row in sent}
    assert len(ids) == 2
    context = StageContext(spark, lake, narrow, "b2", Options())
    run_merge(narrow, context)
    assert run_validate(narrow, context).details["outcome"] == "passed"
    # So it is where all messages of a batch have the ids of other settings.
    line(spark, narrow, maxwell)("b3", 3)
    context = StageContext(spark, lake, wide, "b3", Options())
    run_merge(wide, context)
    assert run_validate(wide, context).details["outcome"] == "passed"
