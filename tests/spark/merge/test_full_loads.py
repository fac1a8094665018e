"""Tables that start from a dump, and full reloads: through all stages."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waybill import jobs
from waybill.cli import tables
from waybill.errors import ConfigurationError, SourceError
from waybill.lake import Lake

pytestmark = pytest.mark.spark

TABLES = {"shop.orders": {"key": ["id"], "columns": {"id": "bigint", "amount": "decimal(20,2)"}}}


def oms(sequence: int, kind: str, before: dict | None, after: dict | None) -> bytes:
    return json.dumps(
        {
            "prevStruct": before,
            "postStruct": after,
            "allMetaData": {
                "record_primary_key": "id",
                "storeDataSequence": sequence,
                "table_name": "orders",
                "db": "shop",
                "dbType": "OB_MYSQL",
                "timestamp": str(1_700_000_000 + sequence),
            },
            "recordType": kind,
        }
    ).encode()


def image(number: int, amount: float) -> dict:
    return {"id": number, "amount": amount}


def test_a_dump_increments_and_a_reload(
    spark, migration, tmp_path: Path, monkeypatch, capsys
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(
        oms(10, "UPDATE", image(2, 2.05), image(2, 2.25))
        + b"\n"
        + oms(11, "DELETE", image(3, 3.05), None)
    )
    dump = tmp_path / "orders.csv"
    dump.write_text("id,amount\n1,1.10\n2,2.00\n3,3.00\nx,4.00\n")
    out = str(tmp_path / "out")
    fields = {
        "envelope": "oms-default",
        "tables": TABLES,
        "publish": [{"envelope": "canal", "files": {"path": out}}],
        "quality": {"max_refused_share": 1},
    }
    spec = migration(**fields, full={"shop.orders": {"path": str(dump)}})
    first = jobs.run_migration(spec, batch="b1", spark=spark)
    assert [line[2:] for line in tombstones(Lake.open(spark, spec))] == [("delete", "b1")]
    assert [(r.stage, r.rows_in) for r in first.stages][:3] == [
        ("snapshot", 6),
        ("convert", 6),
        ("merge", 5),
    ]
    assert first.stage("convert").refused == {"value": 1}
    assert rows(spec, spark) == [("1", "1.10"), ("2", "2.25")]
    os.utime(dump, (1, 1))  # the same content at another time is the same dump
    again = jobs.run_migration(spec, batch="b2", spark=spark)
    assert again.stage("snapshot").rows_in == 0

    more = oms(15, "INSERT", None, image(9, 9.05)) + b"\n"
    late = oms(30, "UPDATE", image(2, 2.25), image(2, 2.35))
    (tmp_path / "in" / "b.jsonl").write_bytes(more + late)
    anew = tmp_path / "anew"
    anew.mkdir()
    amounts = pa.array([2, 7], pa.decimal128(20, 2))
    pq.write_table(pa.table({"id": [2, 7], "amount": amounts}), anew / "part-0.parquet")
    reload = migration(**fields, full={"shop.orders": {"path": str(anew), "as_of": 20}})
    third = jobs.run_migration(reload, batch="b3", spark=spark)
    # 1 and 9 are gone from the source, 2 was changed after the dump.
    assert rows(reload, spark) == [("2", "2.35"), ("7", "7.00")]
    assert third.stage("merge").rows_in == 5
    # What went is told: in the report, in the table, and for its key. (9 never was in the table.)
    assert third.stage("merge").details["shop.orders"]["gone by reload"] == 1
    lake = Lake.open(spark, reload)
    assert tombstones(lake) == [('{"id":"1"}', None, "reload", "b3")]
    monkeypatch.setattr("waybill.cli.tables.look_into", lambda spec: nullcontext(lake))
    file = tmp_path / "reload.yaml"
    file.write_text(reload.model_dump_json(exclude_defaults=True))
    begin = "full:shop.orders@20/0/0/0"
    assert history_of(file, "1", capsys) == [
        ("read", "b1", f"void: older than the full reload {begin}"),
        ("truncate", "b3", "took the row away: the full reload does not have it"),
    ]
    assert history_of(file, "2", capsys)[1:] == [
        ("update", "b1", f"void: older than the full reload {begin}"),
        ("truncate", "b3", "the row was replaced by the full reload's"),
        ("read", "b3", "superseded: shop/1/1/0 is newer"),
        ("update", "b3", "won, it is the newest: this is the row"),
    ]
    assert [line[0] for line in history_of(file, "7", capsys)] == ["read"]
    # What is older than the reload stays away when it comes late.
    (tmp_path / "in" / "c.jsonl").write_bytes(oms(19, "INSERT", None, image(5, 5.05)))
    jobs.run_migration(reload, batch="b4", spark=spark)
    assert rows(reload, spark) == [("2", "2.35"), ("7", "7.00")]
    assert [row["id"] for row in jobs.read_table(spec, as_of="b1", spark=spark)] == ["1", "2"]


def tombstones(lake: Lake) -> list[tuple]:
    """Key, image, why the row went, and the batch that took it."""
    table = lake.merged("shop.orders")
    found = lake.read(table, lake.head(table)).where("_waybill_deleted")
    names = ("_waybill_key", "_waybill_image", "_waybill_gone", "_waybill_batch")
    return [tuple(row) for row in found.select(*names).collect()]


def history_of(file: Path, key: str, capsys) -> list[tuple]:
    """What `waybill changes --key` says of a row."""
    capsys.readouterr()
    tables.changes_command(file, tables.ChangeFilter(None, key, 100), as_json=True)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(line["operation"], line["batch"], line["outcome"]) for line in found]


def rows(spec, spark):
    return [tuple(row.values()) for row in jobs.read_table(spec, spark=spark)]


def test_dumps_that_cannot_be_loaded(spark, migration, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    bad = tmp_path / "bad.csv"
    bad.write_text("id,n\n1\n")
    spec = migration(full={"shop.orders": {"path": str(bad)}}, tables=TABLES)
    with pytest.raises(SourceError, match=r"bad\.csv cannot be read as CSV"):
        jobs.run_stage("snapshot", spec, "b1", spark)
    spec = migration(full={"shop.orders": {"path": str(bad), "as_of": 7}}, tables=TABLES)
    with pytest.raises(ConfigurationError, match="the messages of canal have no sequence id"):
        jobs.run_stage("convert", spec, "b1", spark)


def binlog(table: str, pos: int, op: str, row: dict | None) -> bytes:
    """A message of Debezium without schema."""
    source = {"connector": "mysql", "name": "s", "db": "shop", "table": table}
    source |= {"file": "mysql-bin.000012", "pos": pos, "row": 0, "ts_ms": 1_700_000_000_000}
    return json.dumps({"before": None, "after": row, "source": source, "op": op}).encode()


@pytest.mark.parametrize("late", [False, True])
def test_a_dump_has_the_truncate_up_to_which_it_is_complete(spark, migration, tmp_path, late):
    """Its rows stay, in tables with a key and without, whichever comes first."""
    names = ("orders", "lines")
    log = [
        binlog(name, pos, op, row)
        for name in names
        for pos, op, row in (
            (100, "c", {"id": 1, "n": 1}),
            (200, "t", None),
            (300, "c", {"id": 3, "n": 3}),
        )
    ]
    dump = tmp_path / "dump.jsonl"
    dump.write_text('{"id": 2, "n": 2}\n{"id": 4, "n": 4}\n')
    columns = {"id": "int32", "n": "int32"}
    fields = {
        "envelope": "debezium-json",
        "tables": {
            "shop.orders": {"key": ["id"], "columns": columns},
            "shop.lines": {"key": [], "columns": columns},
        },
    }
    load = {"path": str(dump), "as_of": [12, 200, 0]}
    full = {"full": {f"shop.{name}": load for name in names}}
    (tmp_path / "in").mkdir()
    if not late:
        (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(log))
        jobs.run_migration(migration(**fields), batch="b1", spark=spark)
    spec = migration(**fields, **full)
    jobs.run_migration(spec, batch="b2", spark=spark)
    if late:
        (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(log))
        jobs.run_migration(spec, batch="b3", spark=spark)
    for name in names:
        found = jobs.read_table(spec, f"shop.{name}", spark=spark)
        assert sorted(row["id"] for row in found) == ["2", "3", "4"]
