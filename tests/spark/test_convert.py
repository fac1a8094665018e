"""The stage convert in Spark: changes, refused rows, halves, the outbox, and what is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waybill.convert.stage import run_convert
from waybill.errors import ConfigurationError, LossError, WaitingError, WaybillError
from waybill.jobs import STAGES, read_table, run_migration, run_stage
from waybill.lake import Lake
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import Options, StageContext

pytestmark = pytest.mark.spark


class Line:
    """A migration of the tiny envelope, fed message by message."""

    def __init__(self, spark, spec, folder: Path) -> None:
        self.spec, self.folder = spec, folder
        self.lake = Lake.open(spark, spec)

    def context(self, batch: str) -> StageContext:
        return StageContext(self.lake.spark, self.lake, self.spec, batch, Options())

    def feed(self, batch: str, *files: list[object]):
        for n, messages in enumerate(files):
            texts = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
            (self.folder / f"{batch}-{n}.jsonl").write_bytes(b"\n".join(texts))
        run_snapshot(self.spec, self.context(batch))

    def batch(self, batch: str, *files: list[object]):
        self.feed(batch, *files)
        return run_convert(self.spec, self.context(batch))

    def changes(self, where: str = "outcome = 'ok'"):
        rows = self.lake.read(self.lake.log("changes")).where(where)
        return sorted(rows.collect(), key=lambda r: (r.partition, r.offset, r["index"], r.outcome))

    def outbox(self, where: str = "true"):
        rows = self.lake.read(self.lake.log("outbox")).where(where)
        return sorted(rows.collect(), key=lambda r: (r.target, r.partition, r.offset, r["index"]))


@pytest.fixture
def line(spark, migration, tiny, tmp_path: Path):
    def make(**fields) -> Line:
        spec = migration(envelope=tiny, **fields)
        return Line(spark, spec, tmp_path / "in")

    return make


def out(tmp_path: Path, *names: str) -> list[dict]:
    return [
        {"envelope": "tiny", "name": name, "files": {"path": str(tmp_path / name)}}
        for name in names
    ]


def insert(key: str, seq: int, **columns: str | None) -> dict:
    return {"op": "insert", "seq": seq, "row": {"id": key, **columns}}


def half(which: str, key: str, seq: int, **columns: str | None) -> dict:
    return {"op": "update", "half": which, "seq": seq, "row": {"id": key, **columns}}


def test_good_and_bad_rows_side_by_side(line, tmp_path: Path) -> None:
    bad = b'\xff\x00 {"broken \xe2\x80\xa8'
    work = line(publish=out(tmp_path, "one", "two"))
    report = work.batch(
        "b1",
        [
            insert("1", 1, v="ü😀\u2028"),
            bad,
            {"op": "noise"},
            {"op": "insert", "seq": 2, "rows": [{"id": "2"}, None, {"id": "3", "v": "twice"}]},
            {"op": "delete", "seq": 3, "row": {"id": "1"}},
            {"op": "update", "seq": 4, "old": {"id": "2"}, "row": {"id": "9"}},
            insert("4", 5, v="unwritable"),
        ],
    )
    assert (report.rows_in, report.rows_out) == (7, 6)
    assert report.refused == {"json": 1, "shape": 1, "encoding": 2}
    assert report.skipped == {"noise": 1}
    assert report.extra_in["further rows of a message"] == 2
    assert report.losses == {
        "one": {"delete": 1, "before_image": 1},
        "two": {"delete": 1, "before_image": 1},
    }
    assert report.details["targets"]["two"] == {
        "changes": 6,
        "messages": 5,
        "extra_in": {"further messages of a change": 1},
        "refused": {"encoding": 1},
        "skipped": {"the target has no word for it": 1},
    }
    assert report.details["tables"] == {"shop.t": {"insert": 4, "delete": 1, "update": 1}}
    first, *_, moved, _last = work.changes()
    assert json.loads(first.after) == {"id": "1", "v": "ü😀\u2028"}
    assert (moved.key, moved.old_key) == ('{"id":"9"}', '{"id":"2"}')
    refused = work.changes("outcome = 'refused'")
    assert [(r.offset, r["index"], r.reason_kind) for r in refused] == [
        (1, 0, "json"),
        (3, 1, "shape"),
    ]
    assert bytes(refused[0].raw) == bad
    schemas = work.changes("outcome = 'schema'")
    assert {r.schema_id for r in schemas} == {r.schema_id for r in work.changes()}
    assert len(work.outbox("target = 'one' and outcome = 'ok'")) == 5
    twice = work.outbox("target = 'two' and message = 1")
    assert [bytes(r.key) for r in twice] == [b"second"]


def test_a_batch_takes_what_is_new_and_is_done_once(line, tmp_path: Path) -> None:
    work = line(publish=out(tmp_path, "one"))
    first = work.batch("b1", [insert("1", 1)])
    second = work.batch("b2", [insert("2", 2), insert("3", 3)])
    empty = run_convert(work.spec, work.context("b3"))
    assert [r.rows_in for r in (first, second, empty)] == [1, 2, 0]
    assert [r.batch for r in work.changes()] == ["b1", "b2", "b2"]
    assert [r.batch for r in work.outbox()] == ["b1", "b2", "b2"]
    again = run_convert(work.spec, work.context("b2"))
    assert again.repeated
    again.repeated = False
    assert again == second
    assert len(work.changes()) == 3


def test_a_convert_catches_up_on_several_snapshots(line) -> None:
    work = line()
    work.feed("b1", [insert("1", 1)])
    work.feed("b2", [insert("2", 2)])
    report = run_convert(work.spec, work.context("b2"))
    assert (report.rows_in, report.rows_out) == (2, 2)


@pytest.mark.parametrize("next_batch", ["b1", "b2"])
def test_a_run_stopped_between_the_two_tables(
    line, tmp_path: Path, monkeypatch, next_batch: str
) -> None:
    work = line(publish=out(tmp_path, "one"))
    work.feed("b1", [insert("1", 1), b"bad"])

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("waybill.convert.stage._encode", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_convert(work.spec, work.context("b1"))
    assert len(work.changes()) == 1
    if next_batch == "b2":
        work.feed("b2", [insert("2", 2)])
    report = run_convert(work.spec, work.context(next_batch))
    assert report.details["targets"]["one"]["changes"] == len(work.changes())
    assert len(work.outbox()) == len(work.changes())
    assert not report.repeated
    if next_batch == "b2":
        late = run_convert(work.spec, work.context("b1"))
        assert late.details["targets"] == {}
        assert len(work.outbox()) == 2


def test_halves_in_one_task(line) -> None:
    work = line()
    report = work.batch(
        "b1",
        [
            half("before", "1", 7, v="old"),
            insert("5", 8),
            half("before", "2", 9, v="old"),
            half("after", "1", 7, v="new"),
            half("after", "3", 9, v="new"),
        ],
    )
    assert (report.rows_out, report.superseded, report.waiting) == (3, 2, 0)
    assert "halves_joined_across_tasks" not in report.details
    rows = {r.key: (r.operation, r.before, r.after, r.old_key) for r in work.changes()}
    assert rows['{"id":"1"}'] == (
        "update",
        '{"id":"1","v":"old"}',
        '{"id":"1","v":"new"}',
        None,
    )
    assert rows['{"id":"3"}'][3] == '{"id":"2"}'


def test_halves_in_two_tasks_and_over_a_batch_boundary(line, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("waybill.sources.files.BYTES_PER_TASK", 1)
    monkeypatch.setattr("waybill.lake.tables.SMALLEST_PIECE", 4096)
    monkeypatch.setattr("waybill.lake.tables.LARGEST_PIECE", 4096)
    work = line(publish=out(tmp_path, "one"))
    first = work.batch(
        "b1",
        [half("after", "1", 7, v="new"), half("before", "5", 20, v="left over"), insert("9", 30)],
        [half("before", "1", 7, v="old"), half("before", "2", 8, v="old")],
        [insert("8", 31)],
        [half("after", "6", 40, v="nothing before")],
    )
    assert (first.rows_in, first.rows_out) == (7, 3)
    assert (first.superseded, first.waiting) == (1, 3)
    rows = {r.key: r for r in work.changes()}
    assert rows['{"id":"1"}'].before == '{"id":"1","v":"old"}'
    assert len(work.outbox()) == 3
    # The after half knows one column less, which the row before keeps. A key has changed, too.
    second = work.batch("b2", [half("after", "3", 8), insert("1", 50)])
    assert second.extra_in == {"halves of earlier batches": 3}
    assert (second.rows_out, second.superseded, second.waiting) == (2, 1, 2)
    assert second.warnings
    (joined,) = [r for r in work.changes() if r.key == '{"id":"3"}']
    assert (joined.batch, joined.old_key) == ("b2", '{"id":"2"}')
    assert joined.before == '{"id":"2","v":"old"}'
    assert (joined.partition, joined.offset) == (4, 0)
    waiting = work.changes("outcome = 'waiting'")
    assert [(r.key, r.half) for r in waiting] == [
        ('{"id":"5"}', "before"),
        ('{"id":"6"}', "after"),
    ]
    assert len(work.outbox()) == 5
    # The other half of an after image comes last, too, and tells the key that the row had.
    others = [half("after", "5", 20, v="at last"), half("before", "7", 40, v="moved")]
    third = work.batch("b3", others)
    assert (third.rows_out, third.superseded, third.waiting) == (2, 2, 0)
    (moved,) = [r for r in work.changes() if r.key == '{"id":"6"}']
    assert (moved.batch, moved.old_key, moved.raw) == ("b3", '{"id":"7"}', None)
    assert work.changes("outcome = 'waiting'") == []
    assert len({(r.partition, r.offset, r["index"]) for r in work.outbox()}) == 7


def test_a_half_does_not_wait_for_ever(line) -> None:
    patient = line()
    patient.batch("b1", [half("before", "1", 7, v="old"), insert("2", 8)])
    assert patient.batch("b2", [insert("3", 9)]).waiting == 1
    strict = line(halves={"longest_wait": "0s"})
    with pytest.raises(WaitingError, match=r"1 before image .* the first at \S+/0/0: "):
        strict.batch("b3", [insert("4", 10)])
    assert [r.key for r in strict.changes("outcome = 'waiting'")] == ['{"id":"1"}']
    lenient = line(halves={"longest_wait": "0s", "then": "refuse"})
    report = run_convert(lenient.spec, lenient.context("b3"))
    assert (report.waiting, report.refused, report.rows_out) == (0, {"pair": 1}, 1)
    (refused,) = lenient.changes("outcome = 'refused'")
    assert json.loads(bytes(refused.raw))["half"] == "before"
    assert "has not come within 0s" in refused.reason
    late = lenient.batch("b4", [half("after", "1", 7, v="late")])
    assert (late.rows_out, late.waiting) == (0, 1), "what has just come may wait for the next batch"
    fresh = lenient.batch("b5", [half("before", "9", 70, v="new")])
    assert (fresh.rows_out, fresh.refused, fresh.waiting) == (0, {"pair": 1}, 1)
    reasons = {r.reason for r in lenient.changes("outcome = 'refused'")}
    assert reasons == {f"its {other} image has not come within 0s" for other in ("before", "after")}


def test_after_images_are_taken_alone_where_the_migration_says_so(line, tmp_path: Path) -> None:
    patient = line(publish=out(tmp_path, "one"))
    first = patient.batch("b1", [half("after", "1", 7, v="new"), half("before", "2", 8, v="old")])
    assert (first.rows_out, first.waiting) == (0, 2)
    taking = line(publish=out(tmp_path, "one"), halves={"longest_wait": "0s", "then": "take"})
    second = taking.batch("b2", [half("after", "3", 9, v="newer"), half("before", "4", 10, v="x")])
    assert (second.rows_out, second.refused, second.waiting) == (2, {"pair": 1}, 1)
    assert "2 after images are updates without before image" in second.warnings[-1]
    taken = taking.changes()
    assert [(r.key, r.before, r.half, r.raw, r.reason) for r in taken] == [
        ('{"id":"1"}', None, None, None, None),
        ('{"id":"3"}', None, None, None, None),
    ]
    assert len(taking.outbox()) == 2
    third = taking.batch("b3", [half("after", "5", 11, v="alone")])
    assert (third.rows_out, third.waiting) == (1, 0)


def test_halves_of_updates_that_were_joined_before_are_duplicates(line) -> None:
    work = line()
    before, after = half("before", "1", 7, v="old"), half("after", "2", 7, v="new")
    assert work.batch("b1", [before, after]).rows_out == 1
    for batch, copy in (("b2", before), ("b3", after)):
        report = work.batch(batch, [copy, insert(batch, 50)])
        assert (report.rows_out, report.waiting) == (1, 0)
        assert report.skipped == {"duplicate half": 1}
    other = work.batch("b4", [half("before", "3", 7, v="old")])
    assert other.refused == {"pair": 1}


def test_halves_that_come_twice(line, monkeypatch) -> None:
    monkeypatch.setattr("waybill.sources.files.BYTES_PER_TASK", 1)
    monkeypatch.setattr("waybill.lake.tables.SMALLEST_PIECE", 4096)
    monkeypatch.setattr("waybill.lake.tables.LARGEST_PIECE", 4096)
    work = line()
    before, after = half("before", "1", 7, v="old"), half("after", "1", 7, v="new")
    report = work.batch("b1", [before], [before], [after], [after])
    assert (report.rows_out, report.superseded, report.waiting) == (1, 1, 0)
    assert report.skipped == {"duplicate half": 2}
    assert [r.before for r in work.changes()] == ['{"id":"1","v":"old"}']


def test_two_updates_under_one_id_in_several_tasks(line, monkeypatch) -> None:
    monkeypatch.setattr("waybill.sources.files.BYTES_PER_TASK", 1)
    monkeypatch.setattr("waybill.lake.tables.SMALLEST_PIECE", 4096)
    monkeypatch.setattr("waybill.lake.tables.LARGEST_PIECE", 4096)
    work = line()
    halves = [half(which, key, 7) for which in ("before", "after") for key in "12"]
    report = work.batch("b1", *([one] for one in halves))
    assert report.refused == {"pair": 1}, (report, [tuple(r) for r in work.changes()])
    assert (report.rows_out, report.superseded, report.waiting) == (2, 1, 0)
    (refused,) = work.changes("outcome = 'refused'")
    assert json.loads(bytes(refused.raw))["row"] == {"id": "2"}
    assert {r.key: r.old_key for r in work.changes("outcome = 'ok'")} == {
        '{"id":"1"}': None,
        '{"id":"2"}': None,
    }


def test_a_fault_of_the_decoder_names_the_message(line) -> None:
    work = line()
    work.feed("b1", [insert("1", 1), {"op": "crash"}])
    with pytest.raises(WaybillError, match=r"shop, partition 0, offset 1 failed with RuntimeError"):
        run_convert(work.spec, work.context("b1"))
    assert work.lake.head(work.lake.log("changes")) is None


def test_what_is_wrong_is_said_before_anything_moves(line, tmp_path: Path) -> None:
    wrong = line(settings={"databse": "x"})
    with pytest.raises(
        ConfigurationError, match=r"source\.settings\.databse is not a setting of tiny"
    ):
        run_convert(wrong.spec, wrong.context("b1"))
    strict = line(publish=out(tmp_path, "one"), on_loss="fail")
    strict.feed("b1", [insert("1", 1)])
    run_convert(strict.spec, strict.context("b1"))


def test_a_loss_is_refused_where_the_migration_says_so(line, tmp_path: Path, monkeypatch) -> None:
    import msgspec

    from tests.spark import tiny_envelope
    from waybill.envelopes import registry

    rich = msgspec.structs.replace(
        tiny_envelope.ENVELOPE, carries=tiny_envelope.ENVELOPE.carries | {"delete"}
    )
    known = registry.get
    work = line(
        publish=[{"envelope": "canal", "files": {"path": str(tmp_path / "o")}}], on_loss="fail"
    )
    monkeypatch.setattr(
        "waybill.convert.plan.registry.get",
        lambda name: rich if name == "tiny" else known("tiny"),
    )
    with pytest.raises(LossError, match="a row was deleted"):
        run_convert(work.spec, work.context("b1"))
    assert not work.lake.exists(work.lake.log("changes"))


def test_halves_put_aside_pass_the_gate(line, spark) -> None:
    """Its account reads of a batch what it appended, so halves of before have to be appended."""
    quality = {"max_refused_share": 1.0}
    patient = line(quality=quality)
    lenient = line(quality=quality, halves={"longest_wait": "0s", "then": "refuse"})

    def run(work: Line, batch: str, *messages: dict):
        text = b"\n".join(json.dumps(message).encode() for message in messages)
        (work.folder / f"{batch}.jsonl").write_bytes(text)
        return run_migration(work.spec, batch=batch, spark=spark)

    run(patient, "b1", half("before", "1", 7, v="old"), insert("2", 8))
    young = half("before", "5", 9, v="young")
    done = run(lenient, "b2", insert("3", 10), young)
    assert done.stage("convert").refused == {"pair": 1}
    assert done.stage("convert").waiting == 1
    assert done.stage("validate").details["outcome"] == "passed"
    assert [r.key for r in lenient.changes("outcome = 'waiting'")] == ['{"id":"5"}']
    (refused,) = lenient.changes("outcome = 'refused'")
    assert (refused.key, refused.half, refused.batch) == ('{"id":"1"}', None, "b2")
    assert json.loads(bytes(refused.raw))["half"] == "before"
    # The last one that waits, with nothing that is new.
    done = run_migration(lenient.spec, batch="b3", spark=spark)
    assert done.stage("convert").refused == {"pair": 1}
    assert done.stage("validate").details["outcome"] == "passed"
    assert lenient.changes("outcome = 'waiting'") == []
    assert [r["id"] for r in read_table(lenient.spec, spark=spark)] == ["2", "3"]


def compact(lake: Lake, *names: str) -> None:
    """Leave snapshots as upkeep does: the same rows, and no stamp."""
    for name in names:
        lake.iceberg(lake.log(name)).rewriteManifests().commit()
        assert lake.newest(lake.log(name)) != lake.head(lake.log(name))


def test_upkeep_between_decode_and_encode(line, tmp_path: Path, monkeypatch) -> None:
    work = line(publish=out(tmp_path, "one"))
    work.batch("b1", [insert("1", 1)])
    work.feed("b2", [insert("2", 2)])
    compact(work.lake, "archive")

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("waybill.convert.stage._encode", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_convert(work.spec, work.context("b2"))
    compact(work.lake, "changes")
    again = run_convert(work.spec, work.context("b2"))
    assert again.details["targets"]["one"]["changes"] == 1
    stands = work.lake.last(work.lake.log("changes"), "convert").snapshot
    assert again.cursor["changes"]["upto"] == stands
    third = work.batch("b3", [insert("3", 3)])
    assert third.details["targets"]["one"]["changes"] == 1
    assert len(work.outbox()) == 3


def test_cursors_that_stand_at_a_compaction_are_healed(line, spark, monkeypatch) -> None:
    """Earlier versions read up to the newest snapshot, whoever made it."""
    work = line()

    def run(batch: str, *messages: dict):
        text = b"\n".join(json.dumps(message).encode() for message in messages)
        (work.folder / f"{batch}.jsonl").write_bytes(text)
        return {stage: run_stage(stage, work.spec, batch, spark) for stage in STAGES}

    def stopped(*_):
        raise KeyboardInterrupt

    run("b0", insert("0", 1))
    work.feed("b1", [insert("1", 2)])
    with monkeypatch.context() as patched:
        patched.setattr("waybill.convert.stage._encode", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_convert(work.spec, work.context("b1"))
    compact(work.lake, "archive", "changes")
    with monkeypatch.context() as patched:
        patched.setattr(Lake, "newest", lambda self, table, after=None: self.head(table))
        for stage in STAGES[1:3]:
            run_stage(stage, work.spec, "b1", spark)
    cursor = work.lake.last(work.lake.log("outbox"), "convert").cursor
    assert cursor["changes"]["upto"] == work.lake.head(work.lake.log("changes"))
    for stage in STAGES[3:]:
        run_stage(stage, work.spec, "b1", spark)
    assert run("b2")["convert"].rows_in == 0
    third = run("b3", insert("3", 3), insert("4", 4))
    assert [third[stage].rows_in for stage in STAGES[:3]] == [2, 2, 2]
    assert [r["id"] for r in read_table(work.spec, spark=spark)] == ["0", "1", "3", "4"]
