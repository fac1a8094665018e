"""Bulk begins where loading it pays, and pauses where few messages have the same shape."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from waybill.batches import bulk_threshold
from waybill.batches.bulk_threshold import LONGEST_PAUSE, SHORTEST_PAUSE, SWITCH, BulkThreshold
from waybill.inprocess import run
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.line_blocks import LineBlocks
from waybill.inprocess.lines import line_blocks


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)


def _pauses(threshold: BulkThreshold[str], in_bulk: int, times: int) -> list[int]:
    """How many blocks go one by one after each of some that are converted in bulk."""
    found = []
    for _ in range(times):
        assert threshold.of(1) == "bulk"
        threshold.paid(100, in_bulk)
        pause = 0
        while pause <= LONGEST_PAUSE and threshold._rest:
            assert threshold.of(1) is None
            pause += 1
        found.append(pause)
    return found


def test_pauses_grow_as_long_as_bulk_is_in_vain() -> None:
    threshold = BulkThreshold(lambda: "bulk", bulk_threshold.KNOWN_SIZE)
    assert _pauses(threshold, 24, 3) == [SHORTEST_PAUSE, 2 * SHORTEST_PAUSE, 4 * SHORTEST_PAUSE]
    assert _pauses(threshold, 0, 3)[-1] == LONGEST_PAUSE
    assert _pauses(threshold, 25, 2) == [0, 0]
    assert _pauses(threshold, 0, 1) == [SHORTEST_PAUSE]


def test_no_pause_where_bulk_is_wanted(monkeypatch) -> None:
    monkeypatch.setenv(SWITCH, "on")
    assert _pauses(BulkThreshold(lambda: "bulk", 1), 0, 3) == [0, 0, 0]


def test_small_inputs_go_one_by_one(monkeypatch) -> None:
    # Once its code is loaded, bulk costs nothing to begin.
    monkeypatch.delitem(sys.modules, bulk_threshold._KERNELS, raising=False)
    assert BulkThreshold(lambda: "bulk", bulk_threshold.KNOWN_SIZE - 1).of(1) is None


_LINE = '{"database":"d","table":"t","type":"insert","ts":1,"xid":%d,"data":{"id":%d,"v":%s}}'


def test_pauses_change_nothing_that_is_written(tmp_path: Path, monkeypatch) -> None:
    values = ['{"a":[1,2]}' if 200 < n < 600 else f'"{n}"' for n in range(2000)]
    lines = [_LINE % (n, n % 7, value) for n, value in enumerate(values)]
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(run, "line_blocks", partial(line_blocks, size=3000))
    used: list[bool] = []
    in_bulk = LineBlocks._in_bulk

    def counted(self, bulk, block, first):
        used.append(True)
        return in_bulk(self, bulk, block, first)

    monkeypatch.setattr(LineBlocks, "_in_bulk", counted)
    made = {}
    monkeypatch.setattr(bulk_threshold, "KNOWN_SIZE", 0)
    for way in ("paused", "off"):
        if way == "off":
            monkeypatch.setenv(SWITCH, way)
        job = ConvertJob("maxwell", "debezium-json", str(source), str(tmp_path / f"{way}.jsonl"))
        account, _ = run.convert_file(job)
        assert account.written == 2000
        made[way] = (tmp_path / f"{way}.jsonl").read_bytes()
        if way == "paused":
            blocks = len(source.read_bytes()) // 3000
            assert 10 < len(used) < blocks - SHORTEST_PAUSE
            used.clear()
    assert not used
    assert made["paused"] == made["off"]
