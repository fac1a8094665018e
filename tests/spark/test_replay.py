"""What was refused, taken once more after the cause was mended: by each stage, exactly once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.merge.test_full_loads import oms
from tests.spark.test_jobs import canal
from waybill import jobs
from waybill.errors import GateError
from waybill.lake import Lake
from waybill.overview.refusals import each_once, refusals
from waybill.validate import stage as validate
from waybill.validate.rereading import Reread

pytestmark = pytest.mark.spark

COLUMNS = {"id": "bigint", "amount": "decimal(4,2)", "code": "string"}


def row(number: int, amount: float, code: object = "x") -> dict:
    return {"id": number, "amount": amount, "code": code}


def test_a_replay_may_come_before_everything(spark, migration, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(oms(10, "INSERT", None, row(1, 1.25)))
    spec = migration(envelope="oms-default", tables={"shop.orders": {"key": ["id"]}})
    first = jobs.run_migration(spec, batch="b1", mode="replay", spark=spark)
    assert first.stage("publish").rows_out == 0
    jobs.run_migration(spec, batch="b2", spark=spark)
    assert table(spec, spark) == {"1": "1.25"}


def test_refused_by_the_decoder(spark, migration, tmp_path: Path) -> None:
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
    assert first.stage("convert").refused == {"shape": 1, "json": 1, "value": 2}
    assert table(tight, spark) == {"1": "3.5"}

    wide = {"id": "bigint", "amount": "decimal(20,2)"}
    mended = migration(**fields, tables={"shop.orders": {"key": ["id"], "columns": wide}})
    second = jobs.run_migration(mended, batch="b2", mode="replay", spark=spark)
    convert, merge = second.stage("convert"), second.stage("merge")
    assert second.stage("snapshot").rows_in == 0
    assert convert.extra_in["rows of refused messages"] == 4
    assert (convert.rows_out, convert.refused) == (3, {"json": 1})
    assert merge.rows_in == 3
    assert table(mended, spark) == {"1": "3.5", "2": "123.5", "4": "4.5"}
    assert second.stage("publish").rows_out == 3
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


def test_refused_by_a_target(spark, migration, tmp_path: Path, monkeypatch) -> None:
    """A value that the target's envelope has no word for, and another envelope in its place.

    The replay brings no change, so no topic has any; its messages are judged all the same.
    """
    (tmp_path / "in").mkdir()
    value = {"id": "1", "f": "NaN"}
    types = {"id": "bigint", "f": "double"}
    message = json.loads(canal("INSERT", value))
    message |= {"mysqlType": types, "sqlType": {"id": -5, "f": 8}}
    (tmp_path / "in" / "a.jsonl").write_bytes(
        json.dumps(message).encode() + b"\n" + canal("INSERT", {"id": "2"}, table="others")
    )
    out = {"path": str(tmp_path / "out")}
    fields = {"quality": {"max_refused_share": 1}, "topic": None}
    oms_target = {"envelope": "oms-default", "name": "out", "files": out}
    spec = migration(**fields, publish=[oms_target])
    first = jobs.run_migration(spec, batch="b1", spark=spark)
    assert first.stage("convert").refused == {"encoding": 1}
    assert first.stage("publish").rows_out == 1
    mended = migration(**fields, publish=[{**oms_target, "envelope": "debezium-json"}])
    jobs.run_migration(mended, batch="b2", mode="replay", until="merge", spark=spark)
    wrong = Reread(Counter({"in": 1}), different=Counter({"in": 1}))
    with monkeypatch.context() as patch:
        patch.setattr(validate, "_reread", lambda *_: wrong)
        with pytest.raises(GateError, match="decodes to the change"):
            jobs.run_stage("validate", mended, "b2", spark)
    second = jobs.run_migration(mended, batch="b2", mode="replay", spark=spark)
    assert second.stage("convert").details["targets"]["out"]["messages"] == 1
    assert second.stage("publish").rows_out == 1
    third = jobs.run_migration(mended, batch="b3", mode="replay", spark=spark)
    assert third.stage("publish").rows_out == 0


def written(spec, spark, offset: int) -> list[str]:
    """The batches that wrote the message of an offset for a target, in the order of their ids."""
    lake = Lake.open(spark, spec)
    rows = lake.read(lake.log("outbox")).where(f"outcome = 'ok' AND offset = {offset}")
    return sorted(row.batch for row in rows.collect())


@pytest.mark.parametrize("mended_before", [True, False], ids=["mended, full", "full, mended"])
def test_refused_by_the_decoder_and_brought_again(
    spark, migration, tmp_path: Path, mended_before: bool
) -> None:
    """A full run brings the message once more at its place; it is sent once all the same."""
    out = tmp_path / "out"
    fields = {
        "envelope": "oms-default",
        "publish": [{"envelope": "canal", "files": {"path": str(out)}}],
        "quality": {"max_refused_share": 1},
    }
    tight, wide = (
        migration(**fields, tables={"shop.orders": {"key": ["id"], "columns": columns}})
        for columns in ({"code": "string"}, {})
    )
    file = tmp_path / "in" / "a.jsonl"
    start = oms(10, "INSERT", None, row(1, 1.25)) + b"\n"
    file.write_bytes(start + oms(11, "INSERT", None, row(2, 123.5, True)))
    first = jobs.run_migration(tight, batch="z1", spark=spark)
    assert first.stage("convert").refused == {"shape": 1}
    # Where the source says something else at the place by now, that is what counts.
    file.write_bytes(start + oms(11, "INSERT", None, row(2, 124.5, True)))
    spec = wide if mended_before else tight
    full = jobs.run_migration(spec, batch="m2", mode="full", spark=spark)
    assert full.stage("convert").rows_out == 1 + mended_before
    listed = each_once(refusals(Lake.open(spark, spec), {}), Lake.open(spark, spec))
    newest = "z1" if mended_before else "m2"
    assert [(row["offset"], row["batch"]) for row in listed] == [(1, newest)]

    replay = jobs.run_migration(wide, batch="a3", mode="replay", spark=spark)
    assert replay.stage("convert").rows_out == replay.stage("publish").rows_out == 1 - mended_before
    assert written(wide, spark, 0) == ["m2", "z1"]
    assert written(wide, spark, 1) == ["m2" if mended_before else "a3"]
    assert table(wide, spark) == {"1": "1.25", "2": "124.5"}
    lake = Lake.open(spark, wide)
    assert lake.read(lake.log("changes")).where("outcome = 'refused'").isEmpty()
    sent = b"".join(part.read_bytes() for part in out.rglob("*.jsonl"))
    assert (sent.count(b"123.5"), sent.count(b"124.5")) == (0, 1)


@pytest.mark.parametrize("mended_before", [True, False], ids=["mended, full", "full, mended"])
def test_refused_by_a_target_and_brought_again(
    spark, migration, tmp_path: Path, mended_before: bool
) -> None:
    (tmp_path / "in").mkdir()
    message = json.loads(canal("INSERT", {"id": "1", "f": "NaN", "v": "first"}))
    types = {"id": "bigint", "f": "double", "v": "varchar(20)"}
    message |= {"mysqlType": types, "sqlType": {"id": -5, "f": 8, "v": 12}}
    text = json.dumps(message)
    (tmp_path / "in" / "a.jsonl").write_text(text)
    out = tmp_path / "out"
    target = {"envelope": "oms-default", "name": "out", "files": {"path": str(out)}}
    fields = {"quality": {"max_refused_share": 1}}
    spec = migration(**fields, publish=[target])
    mended = migration(**fields, publish=[{**target, "envelope": "debezium-json"}])
    first = jobs.run_migration(spec, batch="z1", spark=spark)
    assert first.stage("convert").refused == {"encoding": 1}
    # Where the source says something else at the place by now, that is what counts.
    (tmp_path / "in" / "a.jsonl").write_text(text.replace("first", "again"))
    between = mended if mended_before else spec
    full = jobs.run_migration(between, batch="m2", mode="full", spark=spark)
    assert full.stage("publish").rows_out == int(mended_before)

    replay = jobs.run_migration(mended, batch="a3", mode="replay", spark=spark)
    assert replay.stage("convert").details["targets"]["out"] == {
        "changes": 1,
        "messages": 1 - mended_before,
        "extra_in": {},
        "refused": {},
        "skipped": {"written without the replay": 1} if mended_before else {},
    }
    assert replay.stage("validate").details["outcome"] == "passed"
    assert replay.stage("publish").rows_out == 1 - mended_before
    assert written(mended, spark, 0) == ["m2" if mended_before else "a3"]
    sent = b"".join(part.read_bytes() for part in out.rglob("*.jsonl"))
    assert (sent.count(b'"first"'), sent.count(b'"again"')) == (0, 1)
    lake = Lake.open(spark, mended)
    assert lake.read(lake.log("outbox")).where("outcome = 'refused'").isEmpty()


def test_a_replay_that_also_takes_what_a_killed_full_run_left(
    spark, migration, tmp_path: Path
) -> None:
    """What the batch decodes and encodes anyway is not taken twice, and what it refuses stays."""
    (tmp_path / "in").mkdir()
    message = json.loads(canal("INSERT", {"id": "1", "f": "NaN"}))
    message |= {"mysqlType": {"id": "bigint", "f": "double"}, "sqlType": {"id": -5, "f": 8}}
    lines = [json.dumps(message).encode(), b"no message", canal("INSERT", {"id": "2"}, table="b")]
    (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(lines))
    target = {"envelope": "oms-default", "name": "out", "files": {"path": str(tmp_path / "out")}}
    fields = {"quality": {"max_refused_share": 1}}
    jobs.run_migration(migration(**fields, publish=[target]), batch="b1", spark=spark)
    mended = migration(**fields, publish=[{**target, "envelope": "debezium-json"}])
    jobs.run_migration(mended, until="snapshot", batch="b2", mode="full", spark=spark)

    replay = jobs.run_migration(mended, batch="b3", mode="replay", spark=spark)
    convert = replay.stage("convert")
    assert (convert.rows_in, convert.rows_out, convert.refused) == (3, 2, {"json": 1})
    account = convert.details["targets"]["out"]
    assert (account["changes"], account["messages"]) == (3, 2)
    assert account["skipped"] == {"written without the replay": 1}
    assert [written(mended, spark, offset) for offset in (0, 2)] == [["b3"], ["b1", "b3"]]
    lake = Lake.open(spark, mended)
    refused = lake.read(lake.log("changes")).where("outcome = 'refused'").collect()
    assert [(row.batch, row.offset) for row in refused] == [("b3", 1)]


def test_a_message_that_is_refused_as_a_whole_stays_in_quarantine(
    spark, migration, tmp_path: Path
) -> None:
    """Also where one of its rows was taken before, which is not taken again."""
    (tmp_path / "in").mkdir()
    good, bad = {"id": "1", "title": "a"}, {"id": "2", "title": True}
    (tmp_path / "in" / "a.jsonl").write_bytes(canal("INSERT", good, bad))
    spec = migration()
    wrong = migration(envelope="oms-default")
    refused = []
    for batch, given in (("b1", spec), ("b2", wrong), ("b3", spec)):
        mode = "incremental" if batch == "b1" else "replay"
        jobs.run_migration(given, until="convert", batch=batch, mode=mode, spark=spark)
        lake = Lake.open(spark, spec)
        rows = lake.read(lake.log("changes"))
        refused += [
            (row.batch, row["index"]) for row in rows.where("outcome = 'refused'").collect()
        ]
    assert refused == [("b1", 1), ("b2", 0), ("b3", 1)]
    assert rows.where("outcome = 'ok'").count() == 1
