"""A decimal gets another scale: its table waits while others go on, then it is rewritten."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.line import Killed, kill
from waybill import jobs
from waybill.cli.status import merged_status
from waybill.errors import GateError
from waybill.lake import Lake
from waybill.merge.position import position_of
from waybill.merge.state import held_summary

PROJECT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark


def canal(number: int, table: str, type_: str, price: str, kind: str = "INSERT") -> bytes:
    row = {"id": str(number), "price": price}
    return json.dumps(
        {
            "database": "shop",
            "table": table,
            "type": kind,
            "isDdl": False,
            "es": 1700000000000 + number,
            "ts": 1700000000123,
            "id": number,
            "sql": "",
            "pkNames": ["id"],
            "mysqlType": {"id": "bigint", "price": type_},
            "sqlType": {"id": -5, "price": 3},
            "data": [row],
            "old": None,
        }
    ).encode()


def test_another_scale_from_messages_to_what_people_query(spark, migration, tmp_path: Path) -> None:
    def file(name: str, *messages: bytes) -> None:
        (tmp_path / "in" / name).write_bytes(b"\n".join(messages))

    target = [{"envelope": "canal", "files": {"path": str(tmp_path / "out")}}]
    spec = migration(publish=target)
    file(
        "a.jsonl",
        canal(1, "orders", "decimal(10,2)", "10.25"),
        canal(2, "orders", "decimal(10,2)", "99999999.99"),
        canal(3, "items", "decimal(10,2)", "1.00"),
    )
    jobs.run_migration(spec, spark=spark)
    file(
        "b.jsonl",
        canal(4, "orders", "decimal(15,4)", "0.1234"),
        canal(5, "items", "decimal(10,2)", "2.00"),
    )
    waybill = jobs.run_migration(spec, spark=spark)
    lake = Lake.open(spark, spec)
    held = held_summary(position_of(lake).state)["shop.orders"]
    assert (held["since"], held["changes"]) == (waybill.batch, 1)
    assert "set `retype: rewrite` for shop.orders" in held["why"]
    merged = next(report for report in waybill.stages if report.stage == "merge")
    assert merged.waiting == 1
    assert any("waits since batch" in text for text in merged.warnings)
    assert len(list(jobs.read_table(spec, "shop.items", spark=spark))) == 2
    assert len(list(jobs.read_table(spec, "shop.orders", spark=spark))) == 2
    decided = [{"tables": "shop.orders", "retype": "rewrite"}]
    spec = migration(publish=target, schema_changes=decided)
    waybill = jobs.run_migration(spec, spark=spark)
    assert [report.stage for report in waybill.stages] == list(jobs.STAGES)
    lake = Lake.open(spark, spec)
    assert held_summary(position_of(lake).state) == {}
    orders = lake.spark.read.table(lake.merged("shop.orders")).orderBy("id")
    assert dict(orders.dtypes)["price"] == "decimal(15,4)"
    assert [row.price for row in orders.collect()] == [
        Decimal("10.2500"),
        Decimal("99999999.9900"),
        Decimal("0.1234"),
    ]
    (change,) = merged_status(lake)["shop.orders"]["column changes"]
    assert (change["change"], change["batch"]) == ("retype", waybill.batch)
    assert events_in(lake) == [{"class": "retype", "table": "shop.orders", **kept(change)}]
    assert list(jobs.read_table(spec, "shop.orders", spark=spark))[2]["price"] == "0.1234"


EVENT = ("batch", "column", "before", "after", "effect", "statement")


def kept(event: dict[str, Any]) -> dict[str, str]:
    return {name: event[name] for name in EVENT}


def events_in(lake: Lake) -> list[dict[str, str]]:
    """Changes of columns in `runs`, as the query of the docs has them, oldest batch first."""
    page = (PROJECT / "docs/merge.md").read_text(encoding="utf-8")
    section = page[page.index("## Schema changes") :]
    query = re.search(r"```sql\n(.*?)```", section, re.DOTALL)[1]
    rows = lake.spark.sql(query.replace("lake.shop_log.runs", lake.log("runs"))).collect()
    return sorted((row.asDict() for row in rows), key=lambda row: (row["batch"], row["column"]))


def test_runs_has_every_change_of_columns_that_the_gate_let_through_once(
    spark, migration, tmp_path: Path, monkeypatch
) -> None:
    def run(batch: str, columns: dict[str, str], *, bad: int = 0, **fields: Any) -> Lake:
        """A batch with one row of these columns, and with messages that nobody can read."""
        row = {"id": batch[1:], **dict.fromkeys(columns, "7")}
        message = json.loads(canal(int(batch[1:]), "orders", "", ""))
        message["mysqlType"] = {"id": "bigint", **columns}
        message |= {"data": [row], "sqlType": dict.fromkeys(message["mysqlType"], 12)}
        lines = [json.dumps(message).encode(), *[b"{}"] * bad]
        spec = migration(quality={"max_refused_share": 0.6 if bad else 1})
        (tmp_path / "in" / f"{batch}.jsonl").write_bytes(b"\n".join(lines))
        jobs.run_migration(spec, batch=batch, spark=spark, **fields)
        return Lake.open(spark, spec)

    lake = run("b1", {"n": "int"})
    assert events_in(lake) == []
    many = {f"c{number:02}": "text" for number in range(25)}
    lake = run("b2", {"n": "bigint", **many})
    widened = {"class": "widen", "column": "n", "before": "int", "after": "bigint"}
    (event,) = (one for one in events_in(lake) if one["class"] == "widen")
    assert event == {**event, **widened, "batch": "b2", "effect": "it is widened to bigint"}
    # More than a report names.
    assert [one["column"] for one in events_in(lake)] == [*many, "n"]
    with pytest.raises(GateError):
        run("b3", {"n": "bigint", "late": "text"}, bad=3)
    assert len(events_in(lake)) == 26, "nobody sees the column"
    run("b4", {"n": "bigint"}, drop_held=True)
    assert [one["batch"] for one in events_in(lake)][26:] == ["b4"]
    # Ended between the tables and the verdict: the next run has the batch judged first.
    with monkeypatch.context() as patch:
        patch.setattr("waybill.validate.stage.record", kill)
        with pytest.raises(Killed):
            run("b5", {"n": "bigint", "shown": "text"})
    run("b6", {"n": "bigint", "last": "text"})
    run("b6", {"n": "bigint", "last": "text"})
    assert [(one["batch"], one["column"]) for one in events_in(lake)][27:] == [
        ("b5", "shown"),
        ("b6", "last"),
    ]
