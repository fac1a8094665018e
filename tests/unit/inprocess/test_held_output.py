"""A row after an update that stands before its row before: both are one update all the same."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waybill.envelopes import registry
from waybill.inprocess import kafka_files
from waybill.inprocess import line_blocks as line_blocks_module
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.held_output import HeldOutput
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.lines import line_blocks
from waybill.inprocess.run import convert_file


def _half(operation: str, image: str, row: dict[str, object], number: int) -> bytes:
    return msgspec.json.encode(
        {
            "schema": {
                "dataColumn": [{"name": "id", "type": "LONG"}, {"name": "n", "type": "STRING"}],
                "primaryKey": ["id"],
                "source": {"dbType": "mysql", "dbName": "d", "tableName": "t"},
            },
            "payload": {
                "op": operation,
                image: {"dataColumn": row},
                "sequenceId": str(number),
                "timestamp": {"eventTime": 1605339932000},
            },
            "version": "0.0.1",
        }
    )


@pytest.fixture(params=[False, True], ids=["one-by-one", "at-once"])
def either_way(request, monkeypatch):
    """Converts lines one by one, or several at once."""

    class Chosen:
        def __init__(self, make, size):
            self.made = make() if request.param else None

        def of(self, size):
            return self.made

        def paid(self, messages, in_bulk):
            pass

    def bulk(job, converter):
        return BulkConverter(registry.get(job.source), registry.get(job.target), converter, 1)

    monkeypatch.setattr(line_blocks_module, "BulkThreshold", Chosen)
    monkeypatch.setattr(ConvertJob, "bulk", bulk)


def _converted(tmp_path, lines):
    source, target, refused = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "q.jsonl"))
    source.write_bytes(b"\n".join(lines) + b"\n")
    job = ConvertJob("datahub-blob", "oms-default", str(source), str(target))
    convert_file(job, str(refused))
    rows = [msgspec.json.decode(line) for line in target.read_bytes().splitlines()]
    reasons = [msgspec.json.decode(line)["reason"] for line in refused.read_bytes().splitlines()]
    return rows, reasons


def _after(number: int, id_: int = 1, n: str = "new") -> bytes:
    return _half("UPDATE_AFTER", "after", {"id": id_, "n": n}, number)


def _before(number: int, id_: int = 1, n: str = "old") -> bytes:
    return _half("UPDATE_BEFOR", "before", {"id": id_, "n": n}, number)


def images_of(rows):
    """The rows before and after of each update, by their column n."""
    return [((row["prevStruct"] or {}).get("n"), row["postStruct"]["n"]) for row in rows]


@pytest.mark.usefixtures("either_way")
def test_a_row_after_in_front_of_its_row_before_is_one_update(tmp_path):
    lines = [_after(5), _before(7, n="3"), _after(7, n="4"), _before(5)]
    rows, reasons = _converted(tmp_path, lines)
    # It stands where its row after does.
    assert images_of(rows) == [("old", "new"), ("3", "4")]
    assert reasons == []


@pytest.mark.usefixtures("either_way")
def test_nothing_overtakes_a_row_after_that_never_gets_its_row_before(tmp_path):
    lines = [_after(5), _before(6, n="1"), _after(6, n="2"), _after(8, n="last")]
    rows, reasons = _converted(tmp_path, lines)
    assert images_of(rows) == [(None, "new"), ("1", "2"), (None, "last")]
    assert reasons == []


def test_a_row_before_that_stays_alone_is_refused(tmp_path):
    rows, reasons = _converted(tmp_path, [_before(5), _after(6)])
    assert images_of(rows) == [(None, "new")]
    assert reasons == ["the input has no row after this update"]


def test_halves_that_come_twice(tmp_path):
    lines = [_after(5), _after(5), _before(5), _after(6), _after(6, n="other"), _before(6)]
    rows, reasons = _converted(tmp_path, lines)
    # Two rows after of one id: nobody can tell whose the row before is but that of the oldest.
    assert images_of(rows) == [("old", "new"), ("old", "new"), (None, "other")]
    assert reasons == []


@pytest.mark.parametrize(("halves", "size"), [(1, 1 << 20), (100, 1)])
def test_what_is_held_is_bounded(tmp_path, monkeypatch, halves, size):
    """The oldest row after gives way; what comes for it then stands alone."""
    monkeypatch.setattr(HeldOutput.__init__, "__defaults__", (halves, size))
    monkeypatch.setattr(line_blocks, "__defaults__", (1,))
    rows, reasons = _converted(
        tmp_path, [_after(5), _before(9), _after(9), _after(6), _before(5), _before(6)]
    )
    assert images_of(rows) == [(None, "new"), ("old", "new"), ("old", "new")]
    assert reasons == ["the input has no row after this update"]


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 4096])
@pytest.mark.parametrize("row_group", [1, 3, 100])
@pytest.mark.parametrize("target", ["out.jsonl", "out.parquet"])
def test_halves_of_several_partitions_of_a_file_of_messages(
    tmp_path, monkeypatch, rows_at_once, row_group, target
):
    """A change of the key: its halves are in two partitions, in either order."""
    monkeypatch.setattr(kafka_files, "ROWS", rows_at_once)
    messages = [
        (1, _after(5, 2)),
        (0, _before(6, 4)),
        (1, _after(6, 5)),
        (0, _before(5, 1)),
        (1, _after(7, 9)),
    ]
    columns = {
        "topic": ["t"] * len(messages),
        "partition": pa.array([partition for partition, _ in messages], pa.int32()),
        "offset": pa.array(range(len(messages)), pa.int64()),
        "value": [value for _, value in messages],
    }
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=row_group)
    job = ConvertJob("datahub-blob", "oms-default", str(path), str(tmp_path / target))
    account, _ = convert_file(job)
    assert account.refused == {}
    assert account.messages == account.written + account.skipped["first half of an update, joined"]
    if target.endswith("jsonl"):
        values = (tmp_path / target).read_bytes().splitlines()
    else:
        values = pq.read_table(tmp_path / target)["value"].to_pylist()
    rows = [msgspec.json.decode(value) for value in values]
    ids = [((row["prevStruct"] or {}).get("id"), row["postStruct"]["id"]) for row in rows]
    assert ids == [(1, 2), (4, 5), (None, 9)]


def test_several_processes_join_the_same_halves(tmp_path, monkeypatch):
    lines_ = [_after(5), _before(6), *(_half("INSERT", "after", {"id": n}, n) for n in (20, 21))]
    lines_ += [_after(7), _after(6), _before(5), _before(7)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines_) + b"\n")
    made = []
    for processes in (1, 2):
        target = tmp_path / f"{processes}.jsonl"
        job = ConvertJob("datahub-blob", "oms-default", str(tmp_path / "in.jsonl"), str(target))
        account, _ = convert_file(job, processes=processes)
        made.append((target.read_bytes(), account.skipped, account.refused, account.written))
    assert made[0] == made[1]
    assert made[0][3] == 5


def test_halves_in_their_order_are_one_update(tmp_path):
    before = _half("UPDATE_BEFOR", "before", {"id": 1, "n": "old"}, 5)
    after = _half("UPDATE_AFTER", "after", {"id": 1, "n": "new"}, 5)
    rows, reasons = _converted(tmp_path, [before, after])
    assert [(r["prevStruct"]["n"], r["postStruct"]["n"]) for r in rows] == [("old", "new")]
    assert reasons == []
