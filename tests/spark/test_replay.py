"""What was refused, taken once more after the cause was mended: by each stage, exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.test_full_loads import oms
from tests.spark.test_jobs import canal
from waybill import jobs
from waybill.lake import Lake

pytestmark = pytest.mark.spark

COLUMNS = {"id": "bigint", "amount": "decimal(4,2)", "code": "string"}


def row(number: int, amount: float, code: object = "x") -> dict:
    return {"id": number, "amount": amount, "code": code}


def test_refused_by_decoder_encoder_and_column(spark, migration, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    messages = [
        oms(10, "INSERT", None, row(1, 1.25)),
        oms(11, "INSERT", None, row(2, 123.5)),  # too large as long as the type is decimal(4,2)
        oms(12, "UPDATE", row(1, 1.25), row(1, 200.5)),  # likewise
        oms(13, "UPDATE", row(1, 1.25), row(1, 3.5)),
        oms(14, "INSERT", None, row(4, 4.5, True)),  # no text, which the column is declared to be
        b"no message",
    ]
    (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(messages))
    out = tmp_path / "out"
    fields = {
        "envelope": "oms-default",
        "publish": [{"envelope": "canal", "files": {"path": str(out)}}],
        "quality": {"max_refused_share": 1},
    }
    tight = migration(**fields, tables={"shop.orders": {"key": ["id"], "columns": COLUMNS}})
    first = jobs.run_migration(tight, batch="b1", spark=spark)
    assert first.stage("convert").refused == {"shape": 1, "json": 1}
    assert first.stage("merge").refused == {"column": 1}
    assert table(tight, spark) == {"1": "3.5"}

    wide = {"id": "bigint", "amount": "decimal(20,2)"}
    mended = migration(**fields, tables={"shop.orders": {"key": ["id"], "columns": wide}})
    second = jobs.run_migration(mended, batch="b2", mode="replay", spark=spark)
    convert, merge = second.stage("convert"), second.stage("merge")
    assert second.stage("snapshot").rows_in == 0
    assert convert.extra_in["rows of refused messages"] == 2
    assert (convert.rows_out, convert.refused) == (1, {"json": 1})
    assert (merge.rows_in, merge.extra_in, merge.rows_out) == (1, {"refused changes": 1}, 2)
    assert table(mended, spark) == {"1": "3.5", "2": "123.5", "4": "4.5"}
    assert second.stage("publish").rows_out == 1
    third = jobs.run_migration(mended, batch="b3", mode="replay", spark=spark)
    assert third.stage("convert").refused == {"json": 1}
    assert third.stage("publish").rows_out == 0
    lake = Lake.open(spark, mended)
    assert lake.read(lake.log("changes")).where("outcome = 'refused'").count() == 1
    sent = [json.loads(line) for file in sorted(out.rglob("*.jsonl")) for line in file.open()]
    assert sorted(m["data"][0]["amount"] for m in sent) == ["1.25", "123.5", "200.5", "3.5", "4.5"]
    assert all(r.repeated for r in jobs.run_migration(mended, batch="b3", spark=spark).stages)


def table(spec, spark) -> dict:
    return {row["id"]: row["amount"] for row in jobs.read_table(spec, spark=spark)}


def test_refused_by_a_target(spark, migration, tmp_path: Path) -> None:
    """A value that the target's envelope has no word for, and another envelope in its place."""
    (tmp_path / "in").mkdir()
    value = {"id": "1", "f": "NaN"}
    types = {"id": "bigint", "f": "double"}
    message = json.loads(canal("INSERT", value))
    message |= {"mysqlType": types, "sqlType": {"id": -5, "f": 8}}
    (tmp_path / "in" / "a.jsonl").write_bytes(
        json.dumps(message).encode() + b"\n" + canal("INSERT", {"id": "2"}, table="others")
    )
    out = {"path": str(tmp_path / "out")}
    fields = {"quality": {"max_refused_share": 1}}
    oms_target = {"envelope": "oms-default", "name": "out", "files": out}
    spec = migration(**fields, publish=[oms_target])
    first = jobs.run_migration(spec, batch="b1", spark=spark)
    assert first.stage("convert").refused == {"encoding": 1}
    assert first.stage("publish").rows_out == 1
    mended = migration(**fields, publish=[{**oms_target, "envelope": "debezium-json"}])
    second = jobs.run_migration(mended, batch="b2", mode="replay", spark=spark)
    assert second.stage("convert").details["targets"]["out"]["messages"] == 1
    assert second.stage("publish").rows_out == 1
    third = jobs.run_migration(mended, batch="b3", mode="replay", spark=spark)
    assert third.stage("publish").rows_out == 0
