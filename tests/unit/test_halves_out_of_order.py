"""A row after an update that stands before its row before: what is said of it is true."""

from __future__ import annotations

import msgspec

from waybill.inprocess.job import ConvertJob
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


def _converted(tmp_path, lines):
    source, target, refused = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "q.jsonl"))
    source.write_bytes(b"\n".join(lines) + b"\n")
    job = ConvertJob("datahub-blob", "oms-default", str(source), str(target))
    convert_file(job, str(refused))
    rows = [msgspec.json.decode(line) for line in target.read_bytes().splitlines()]
    reasons = [msgspec.json.decode(line)["reason"] for line in refused.read_bytes().splitlines()]
    return rows, reasons


def test_a_row_after_in_front_of_its_row_before_is_not_said_to_be_missing(tmp_path):
    after = _half("UPDATE_AFTER", "after", {"id": 1, "n": "new"}, 5)
    before = _half("UPDATE_BEFOR", "before", {"id": 1, "n": "old"}, 5)
    rows, reasons = _converted(tmp_path, [after, before])
    assert len(rows) == 1
    assert rows[0]["postStruct"]["n"] == "new"
    # The row after is in the input: that it is not would be untrue.
    assert reasons == ["no row after this update stands behind the row before it in the input"]


def test_halves_in_their_order_are_one_update(tmp_path):
    before = _half("UPDATE_BEFOR", "before", {"id": 1, "n": "old"}, 5)
    after = _half("UPDATE_AFTER", "after", {"id": 1, "n": "new"}, 5)
    rows, reasons = _converted(tmp_path, [before, after])
    assert [(r["prevStruct"]["n"], r["postStruct"]["n"]) for r in rows] == [("old", "new")]
    assert reasons == []
