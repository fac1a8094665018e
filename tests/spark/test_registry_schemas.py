"""Schemas that a registry sent stay in the lake, for the day when the registry is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contract.probes import ROW, change
from tests.schema_registry import SchemaRegistry, schema_registry
from waybill.convert.stage import run_convert
from waybill.envelopes import registry as envelopes
from waybill.lake import Lake
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import StageContext

pytestmark = pytest.mark.spark


def messages(url: str) -> list[tuple[bytes | None, bytes | None]]:
    """An insert, framed with ids of the registry."""
    envelope = envelopes.get("ibmcdc-avro")
    encoder = envelope.encoder(envelope.encode_settings(registry=url, topic="shop"))
    return [(m.key, m.value) for m in encoder.encode(change("insert", after=ROW), [])]


def put(folder: Path, name: str, found: list[tuple[bytes | None, bytes | None]]) -> None:
    keys, values = zip(*found, strict=True)
    table = pa.table(
        {
            "topic": ["shop"] * len(found),
            "partition": pa.array([0] * len(found), pa.int32()),
            "offset": pa.array(range(100 * len(name), 100 * len(name) + len(found)), pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    pq.write_table(table, folder / f"{name}.parquet")


def as_sent(server: SchemaRegistry) -> set[tuple[str, str]]:
    return {(str(number), entry["schema"]) for number, entry in server.schemas.items()}


def test_the_lake_knows_what_the_registry_sent(spark, migration, tmp_path: Path) -> None:
    with schema_registry() as server:
        settings = {"registry": server.url}
        spec = migration(envelope="ibmcdc-avro", layout="parquet", settings=settings)
        lake = Lake.open(spark, spec)

        def batch(name: str):
            context = StageContext(lake.spark, lake, spec, name)
            run_snapshot(spec, context)
            return run_convert(spec, context)

        def kept() -> list[tuple[str, str]]:
            return [(r.id, r.schema) for r in lake.read(lake.log("schemas")).collect()]

        put(tmp_path / "in", "a", messages(server.url))
        assert batch("b1").rows_out == 1
        assert set(kept()) == as_sent(server)
        assert kept()
        put(tmp_path / "in", "aa", messages(server.url))
        assert batch("b2").rows_out == 1
        assert len(kept()) == len(as_sent(server)), "nothing is kept twice"

        # Ids that the registry never had, so that no worker can remember them.
        key, value = messages(server.url)[0]
        moved = {n: n + 7000 for n in server.schemas}
        rows = [
            (server.url, str(moved[n]), entry["schema"], [], "b2")
            for n, entry in server.schemas.items()
        ]
        table = lake.log("schemas")
        branch = lake.branch(table, "schemas", "by hand")
        branch.append(lake.spark.createDataFrame(rows, lake.read(table).schema))
        branch.fast_forward()
        server.broken = True
        strange = tuple(
            None
            if part is None
            else b"\0" + (7000 + int.from_bytes(part[1:5])).to_bytes(4) + part[5:]
            for part in (key, value)
        )
        put(tmp_path / "in", "aaa", [strange])
        report = batch("b3")
        assert (report.rows_out, report.refused) == (1, {}), json.dumps(report.to_dict())
