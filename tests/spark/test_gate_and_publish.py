"""The gate and what it lets be published, over real batches in a real lake."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tests.unit.inprocess.test_converter import canal, history
from waybill.errors import ConfigurationError, GateError
from waybill.jobs import run_migration, run_stage
from waybill.lake import Lake
from waybill.publish.files import Sender
from waybill.spec.endpoints import FilesTarget
from waybill.stage_context import StageContext
from waybill.validate.results import read_page, read_result

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

pytestmark = pytest.mark.spark

TARGETS = ("canal", "debezium-json")


def part_of(sender: Sender, number: int = 0, suffix: str = "jsonl") -> str:
    return f"part-{number:05d}-{sender.mark}.{suffix}"


@pytest.fixture
def begin(spark, migration, tmp_path):
    """Starts a migration over the given messages and runs it up to a stage."""

    def starter(messages: list[bytes], until: str = "merge", batch: str = "b1", **fields):
        publish = [
            {"envelope": name, "files": {"path": str(tmp_path / "out" / name)}} for name in TARGETS
        ]
        spec = migration(**{"publish": publish, **fields})
        (tmp_path / "in/0.jsonl").write_bytes(b"".join(m + b"\n" for m in messages))
        run_migration(spec, until=until, batch=batch, spark=spark)
        return spec

    return starter


def orders(count: int) -> list[bytes]:
    """Inserts of many rows, updates of some, deletes of a few."""
    rows = [canal(i) for i in range(count)]
    rows += [canal(i, "UPDATE") for i in range(0, count, 2)]
    return rows + [canal(i, "DELETE") for i in range(0, count, 5)]


def context(spark, spec, batch: str = "b1") -> StageContext:
    lake = Lake.open(spark, spec)
    return StageContext(lake.spark, lake, spec, batch)


def tables(spark, spec) -> dict[str, int]:
    """Visible live rows of each merged table."""
    lake = Lake.open(spark, spec)
    return {name: lake.read(table).count() for name, table in lake.merged_tables().items()}


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def failed(spec, batch: str = "b1") -> set[str]:
    """Columns of the profiles that a batch failed on."""
    result = read_result(spec, batch)
    return {c["arguments"]["column"] for c in result["checks"] if not c["success"]}


def test_a_batch_passes_and_is_published_once(spark, begin, tmp_path):
    spec = begin(orders(20))
    assert tables(spark, spec) == {"shop.orders": 0}
    assert not (tmp_path / "out").exists()
    with pytest.raises(GateError, match="has not passed the quality gate"):
        run_stage("publish", spec, "b1", spark)

    judged = run_stage("validate", spec, "b1", spark)
    assert judged.details["outcome"] == "passed"
    assert tables(spark, spec) == {"shop.orders": 16}
    assert failed(spec) == set()
    assert "Passed" in read_page(spec, "b1")
    profiles = read_result(spec, "b1")["profiles"]
    assert profiles["tables"] == [
        {
            "table": "shop.orders",
            "rows": 16,
            "tombstones": 4,
            "written": 20,
            "duplicate_keys": 0,
            "null_keys": 0,
            "tombstones_as_rows": 0,
        }
    ]
    assert profiles["changes"][0]["outbox_changes"] == 2 * 34
    again = run_stage("validate", spec, "b1", spark)
    assert again.repeated
    assert again.details == judged.details

    sent = run_stage("publish", spec, "b1", spark)
    assert sent.rows_out == 2 * 34
    assert sent.skipped == {"a null value cannot be a line": 4}
    published = files_below(tmp_path / "out")
    assert len(published) == 4
    for name in TARGETS:
        manifest = json.loads(published[f"{name}/b1/manifest.json"])
        (part,) = manifest["parts"]
        content = published[f"{name}/b1/{part['file']}"]
        assert part["sha256"] == hashlib.sha256(content).hexdigest()
        assert (part["bytes"], part["messages"]) == (len(content), content.count(b"\n"))
        assert (part["first"], part["last"]) == ("shop/0/0/0", "shop/0/33/0")
    ids = [
        json.loads(line)["data"][0]["id"]
        for line in published[f"canal/b1/{part_of(Sender('demo', 'canal', ''))}"].splitlines()
    ]
    assert ids == [str(i) for i in (*range(20), *range(0, 20, 2), *range(0, 20, 5))]
    record = Lake.open(spark, spec).read("lake.demo_log.published").collect()
    assert sorted(row.target for row in record) == sorted(TARGETS)
    assert sum(row.messages for row in record) == 2 * 34

    assert run_stage("publish", spec, "b1", spark).repeated
    assert files_below(tmp_path / "out") == published


def test_too_many_refused_messages_hold_the_batch_until_the_limit_is_raised(spark, begin, tmp_path):
    spec = begin([*orders(5), b"{", b"{"])
    with pytest.raises(GateError, match=r"The share of refused messages .* \(found shop: 0\.1"):
        run_stage("validate", spec, "b1", spark)
    assert failed(spec) == {"refused_share"}
    assert tables(spark, spec) == {"shop.orders": 0}
    assert not (tmp_path / "out").exists()
    with pytest.raises(GateError):
        run_stage("publish", spec, "b1", spark)
    lake = Lake.open(spark, spec)
    assert [row.outcome for row in lake.read(lake.log("runs")).collect()] == ["failed"]

    spec.quality.max_refused_share = 0.5
    assert run_stage("validate", spec, "b1", spark).details["outcome"] == "passed"
    assert tables(spark, spec) == {"shop.orders": 4}


def test_a_message_that_says_something_else_is_found(spark, begin):
    """One digit of one message is changed in the outbox, and one message is cut."""
    spec = begin(orders(10))
    tamper(
        spark,
        spec,
        F.when(
            (F.col("offset") == 3) & (F.col("target") == "canal"),
            F.encode(
                F.replace(F.decode("value", "UTF-8"), F.lit("0.10000"), F.lit("0.10001")), "UTF-8"
            ),
        )
        .when(
            (F.col("offset") == 4) & (F.col("target") == "debezium-json"),
            F.expr("substring(value, 1, 30)"),
        )
        .otherwise(F.col("value")),
    )
    with pytest.raises(GateError):
        run_stage("validate", spec, "b1", spark)
    assert {"outbox_different", "outbox_undecodable"} <= failed(spec)
    found = {d["change"]: d["what"] for d in read_result(spec, "b1")["differences"]}
    assert "in column 'total' instead of" in found["shop/0/3/0"]
    assert "cannot be read again" in found["shop/0/4/0"]

    spec.quality.on_failure = "report"
    report = run_stage("validate", spec, "b1", spark)
    assert report.details["outcome"] == "reported"
    assert any("critical: Every message" in warning for warning in report.warnings)
    assert tables(spark, spec) == {"shop.orders": 8}


def tamper(spark, spec, value) -> None:
    """Write the outbox anew with another value."""
    lake = Lake.open(spark, spec)
    outbox = lake.log("outbox")
    done = lake.find(outbox, "convert", "b1")
    rows = lake.read(outbox).withColumn("value", value).collect()
    schema = lake.read(outbox).schema
    branch = lake.branch(outbox, "tamper", "b1")
    branch.sql("DELETE FROM {branch} WHERE true")
    branch.append(lake.spark.createDataFrame(rows, schema))
    branch.commit(done.cursor, done.report, "b1", "convert")
    branch.fast_forward()


def test_a_key_that_stands_twice_is_found_before_it_is_visible(spark, begin):
    spec = begin(orders(10))
    lake = Lake.open(spark, spec)
    table = lake.merged_tables()["shop.orders"]
    (info,) = lake.waiting(table, "merge", "b1")
    branch = lake.reopen(table, info.name)
    branch.append(branch.read().where("_waybill_deleted").limit(1))
    shown = branch.read().where("NOT _waybill_deleted").limit(1)
    branch.append(
        shown.withColumn("_waybill_key", F.lit('{"id":null}')).withColumn(
            "_waybill_image", F.lit(None).cast("string")
        )
    )
    with pytest.raises(GateError, match="Every key is unique in its table"):
        run_stage("validate", spec, "b1", spark)
    assert failed(spec) == {"duplicate_keys", "null_keys", "tombstones_as_rows"}
    assert tables(spark, spec) == {"shop.orders": 0}


def test_a_sequence_that_runs_backwards_is_a_warning(spark, begin, tmp_path):
    from waybill.inprocess.job import ConvertJob
    from waybill.inprocess.run import convert_file

    given = tmp_path / "given.jsonl"
    given.write_bytes(
        b"".join(canal(7, "UPDATE", es=1700000000000 + i, id=i) + b"\n" for i in range(4))
    )
    convert_file(ConvertJob("canal", "datahub-blob", str(given), str(tmp_path / "blob.jsonl")))
    messages = (tmp_path / "blob.jsonl").read_bytes().splitlines()
    late = messages[4:] + messages[:4]
    spec = begin(late, "validate", envelope="datahub-blob", publish=[])
    assert failed(spec) == {"sequence_backwards"}
    assert tables(spark, spec) == {"shop.orders": 1}


def test_a_killed_gate_is_taken_up(spark, begin):
    """Killed after one table was made visible: the next run judges and shows the rest."""
    spec = begin([*orders(4), *(canal(i, table="notes") for i in range(3))])
    lake = Lake.open(spark, spec)
    table = lake.merged_tables()["shop.notes"]
    (info,) = lake.waiting(table, "merge", "b1")
    lake.reopen(table, info.name).fast_forward()
    assert run_stage("validate", spec, "b1", spark).details["outcome"] == "passed"
    assert tables(spark, spec) == {"shop.notes": 3, "shop.orders": 3}


def test_suites_of_a_migration_run_too(spark, begin, tmp_path):
    suite = tmp_path / "suite.json"
    expectation = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "rows", "min_value": 1000},
        "severity": "critical",
        "description": "A thousand rows.",
    }
    content = {"name": "mine", "meta": {"profile": "tables"}, "expectations": [expectation]}
    suite.write_text(json.dumps(content))
    spec = begin(orders(5), quality={"suites": ["tables", str(suite)]})
    with pytest.raises(GateError, match="A thousand rows"):
        run_stage("validate", spec, "b1", spark)
    content["expectations"].append({"type": "expect_what_nobody_knows", "kwargs": {}})
    suite.write_text(json.dumps(content))
    with pytest.raises(ConfigurationError, match=r"expect_what_nobody_knows|cannot be loaded"):
        run_stage("validate", spec, "b1", spark)


def test_what_a_batch_left_behind_goes_with_the_next(spark, begin, tmp_path):
    """A batch that stopped after convert is judged, shown and sent with the one after it."""
    spec = begin(history(3), "convert", "b1")
    (tmp_path / "in/1.jsonl").write_bytes(b"".join(canal(i) + b"\n" for i in range(10, 14)))
    waybill = run_migration(spec, batch="b2", spark=spark)
    assert waybill.stage("merge").rows_in == 7
    assert waybill.stage("publish").rows_out == 14
    assert waybill.stage("validate").details["outcome"] == "passed"


def test_what_a_killed_publish_has_sent_the_next_batch_does_not_send_again(
    spark, begin, tmp_path, monkeypatch
):
    """Killed between the last manifest and the record in the lake; then it is run again."""

    def killed(*_):
        raise KeyboardInterrupt

    spec = begin(orders(5), "validate", "b1")
    with monkeypatch.context() as patch:
        patch.setattr("waybill.publish.stage.land", killed)
        with pytest.raises(KeyboardInterrupt):
            run_stage("publish", spec, "b1", spark)
    before = files_below(tmp_path / "out")
    assert {name.split("/")[1] for name in before} == {"b1"}

    (tmp_path / "in/1.jsonl").write_bytes(b"".join(canal(i) + b"\n" for i in range(10, 14)))
    report = run_migration(spec, batch="b2", spark=spark).stage("publish")
    assert report.rows_out == 2 * (9 + 4)
    after = files_below(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    lines = {
        (name.split("/")[1], target): content.count(b"\n")
        for name, content in after.items()
        for target in TARGETS
        if name.startswith(f"{target}/") and name.endswith(".jsonl")
    }
    assert lines == {("b1", t): 9 for t in TARGETS} | {("b2", t): 4 for t in TARGETS}
    lake = Lake.open(spark, spec)
    rows = lake.read(lake.log("published")).where("target = 'canal'").orderBy("part").collect()
    assert [(row.batch, row.part, Path(row.place).parent.name) for row in rows] == [
        ("b2", 0, "b1"),
        ("b2", 1, "b2"),
    ]

    late = run_stage("publish", spec, "b1", spark)
    assert (late.rows_out, late.repeated) == (0, False)
    assert files_below(tmp_path / "out") == after
    (tmp_path / "in/2.jsonl").write_bytes(canal(20) + b"\n")
    assert run_migration(spec, batch="b3", spark=spark).stage("publish").rows_out == 2


def test_the_cursor_does_not_go_back_to_a_batch_that_comes_late(spark, begin, tmp_path):
    """Neither that of publish, nor that of a gate that was killed before it could record."""
    spec = begin(orders(5), publish=[], quality={"on_failure": "report"})
    lake = Lake.open(spark, spec)
    ((merge, record),) = lake.held(lake.log("merges"), "merge", "b1")
    for table, name in merge.cursor["branches"].items():
        lake.reopen(table, name).fast_forward()
    record.fast_forward()
    (tmp_path / "in/1.jsonl").write_bytes(canal(10) + b"\n")
    run_migration(spec, batch="b2", spark=spark)

    def cursor(table: str, stage: str) -> dict[str, int]:
        last = lake.last(lake.log(table), stage).cursor
        return {name: last.get(name) for name in ("archive", "changes", "outbox")}

    judged, published = cursor("runs", "validate"), cursor("published", "publish")
    late = run_stage("validate", spec, "b1", spark)
    assert (late.details["outcome"], late.warnings) == ("passed", [])
    assert run_stage("publish", spec, "b1", spark).rows_out == 0
    assert cursor("runs", "validate") == judged
    assert cursor("published", "publish") == published
    (tmp_path / "in/2.jsonl").write_bytes(canal(11) + b"\n")
    waybill = run_migration(spec, batch="b3", spark=spark)
    assert waybill.stage("validate").details["outcome"] == "passed"


def test_a_batch_without_messages_is_on_record_and_puts_no_file(spark, migration, tmp_path):
    """Also the first one; the next batch with messages is sent whole."""
    publish = [{"envelope": n, "files": {"path": str(tmp_path / "out" / n)}} for n in TARGETS]
    spec = migration(publish=publish)
    nothing = {name: {"messages": 0, "parts": 0, "bytes": 0, "manifests": []} for name in TARGETS}
    (tmp_path / "in/0.jsonl").write_bytes(b"")
    assert run_migration(spec, batch="b1", spark=spark).stage("publish").details == nothing
    (tmp_path / "in/1.jsonl").write_bytes(canal(1) + b"\n")
    assert run_migration(spec, batch="b2", spark=spark).stage("publish").rows_out == 2
    before = files_below(tmp_path / "out")
    assert run_migration(spec, batch="b3", spark=spark).stage("publish").details == nothing
    assert files_below(tmp_path / "out") == before
    assert {name.split("/")[1] for name in before} == {"b2"}
    lake = Lake.open(spark, spec)
    recorded = [(c.batch, c.report["rows_out"]) for c in lake.commits(lake.log("published"))]
    assert recorded == [("b3", 0), ("b2", 2), ("b1", 0)]


def test_messages_that_the_gate_cannot_read_are_not_let_through(spark, begin):
    """Their target was taken out before the gate, and could be back before publishing."""
    spec = begin(orders(3))
    for left in ([spec.publish[1]], []):
        less = spec.model_copy(update={"publish": left})
        with pytest.raises(ConfigurationError, match=r"^WB-6001: messages wait for the target 'ca"):
            run_stage("validate", less, "b1", spark)
    assert tables(spark, spec) == {"shop.orders": 0}
    dropped = {"publish": [spec.publish[1]], "dropped_targets": ["canal"]}
    run_stage("validate", spec.model_copy(update=dropped), "b1", spark)
    assert tables(spark, spec) == {"shop.orders": 2}


def test_messages_of_a_target_that_is_gone_are_not_passed_over(spark, begin, tmp_path):
    """Renamed between the gate and publishing; then dropped on purpose, by name."""
    spec = begin(orders(5), "validate", "b1")

    def renamed(path: str, **more) -> Migration:
        files = FilesTarget(path=str(tmp_path / "out" / path))
        target = spec.publish[0].model_copy(update={"name": "canal2", "files": files})
        return spec.model_copy(update={"publish": [target, spec.publish[1]], **more})

    sentence = (
        r"^WB-6001: 9 messages wait for the target 'canal', .* or write dropped_targets: \[canal\]"
    )
    for dropped in ([], ["debezium"]):
        with pytest.raises(ConfigurationError, match=sentence):
            run_stage("publish", renamed("canal", dropped_targets=dropped), "b1", spark)
    assert not (tmp_path / "out").exists()

    sent = run_stage("publish", renamed("canal", dropped_targets=["canal"]), "b1", spark)
    assert (sent.rows_in, sent.rows_out) == (9 + 10, 9)
    left_out = {"for the dropped target canal": 9, "a null value cannot be a line": 1}
    assert sent.skipped == left_out
    assert {name.split("/")[0] for name in files_below(tmp_path / "out")} == {"debezium-json"}

    # What waits for a target goes where the target is when it is sent.
    (tmp_path / "in/1.jsonl").write_bytes(canal(10) + b"\n")
    run_migration(renamed("canal"), until="validate", batch="b2", spark=spark)
    assert run_stage("publish", renamed("moved"), "b2", spark).rows_out == 2
    assert {name.split("/")[0] for name in files_below(tmp_path / "out")} == {
        "debezium-json",
        "moved",
    }
