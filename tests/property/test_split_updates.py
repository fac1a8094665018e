"""Halves of updates give the same tables and wait alike, wherever a topic is cut."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import EFFORT
from tests.property.split_updates import SplitHistory, cut, split_history
from tests.property.test_merge_rules import drawn
from tests.spark.tiny_envelope import TinyDecoder, TinySettings
from waybill.batches.decoding import ChangeBatches
from waybill.convert.halves import group_of, settle
from waybill.envelopes.pairs import PairJoiner
from waybill.lake_columns import ARCHIVE, CHANGES
from waybill.merge.rules import Change, fold
from waybill.records import TableSchema


class Convert:
    """The first pass of `convert` without Spark: tasks, then what waits."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.offset = 0
        self.spent = 0
        self.columns: dict[str, frozenset[str]] = {}

    def batch(self, name: str, tasks: list[list[dict]], limit: int) -> None:
        for number, messages in enumerate(tasks):
            joiner = PairJoiner(limit)
            work = ChangeBatches(TinyDecoder(TinySettings(), None), name, joiner)
            for batch in work.convert(iter([self._archived(number, messages)])):
                for row in batch.to_pylist():
                    self._take(row)
            self.spent += joiner.joined
        self._settle(name)

    def _archived(self, partition: int, messages: list[dict]) -> pa.RecordBatch:
        rows = []
        for message in messages:
            row = dict.fromkeys(ARCHIVE.names)
            row.update(topic="t", partition=partition, offset=self.offset)
            rows.append({**row, "value": json.dumps(message).encode()})
            self.offset += 1
        return pa.RecordBatch.from_pylist(rows, ARCHIVE)

    def _take(self, row: dict[str, Any]) -> None:
        if row["outcome"] == "schema":
            schema = TableSchema.from_json(row["extra"].encode())
            self.columns[schema.id] = frozenset(schema.names)
        else:
            places = {"ok": self.taken, "waiting": self.waiting}
            places.get(row["outcome"], self.others).append(row)

    def _settle(self, name: str) -> None:
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in self.waiting:
            groups.setdefault(group_of(row), []).append(row)
        looked_at = [row for row in self.taken if self._may_have_copies(row, name, groups)]
        rows = sorted([*self.waiting, *looked_at], key=lambda r: (group_of(r), r["order_key"]))
        self.waiting = []
        if not rows:
            return
        for batch in settle([pa.RecordBatch.from_pylist(rows, CHANGES)], name, self.columns.get):
            for row in batch.to_pylist():
                if row["outcome"] == "spent":
                    self.spent += 1
                else:
                    self._take(row)

    @staticmethod
    def _may_have_copies(row: dict[str, Any], name: str, groups: dict) -> bool:
        halves = groups.get(group_of(row), [])
        return (
            row["operation"] == "update"
            and row["before"] is not None
            and len({half["half"] for half in halves}) == 1
            and any(name in (half["batch"], row["batch"]) for half in halves)
        )

    @property
    def rows(self) -> dict[str, Any]:
        found = fold({}, (_change(row) for row in self.taken))
        return {key: dict(row.image or {}) for key, row in found.items() if row.live}


def _change(row: dict[str, Any]) -> Change:
    image = None if row["after"] is None else json.loads(row["after"])
    return Change(row["order_key"], row["operation"], row["key"], image, row["old_key"])


def converted(batches: list[list[list[dict]]], limit: int = 100) -> Convert:
    work = Convert()
    for number, tasks in enumerate(batches):
        work.batch(f"b{number}", tasks, limit)
    return work


def check(work: Convert, history: SplitHistory) -> None:
    assert work.rows == history.rows
    assert {(row["half"], row["key"]) for row in work.waiting} == history.alone
    assert all(row["reason_kind"] == "duplicate half" for row in work.others)
    accounted = len(work.taken) + len(work.waiting) + len(work.others) + work.spent
    assert accounted == work.offset


@given(st.data())
@settings(max_examples=100 * EFFORT, deadline=None)
def test_any_cut_gives_the_same_tables_and_the_same_halves_that_wait(data) -> None:
    choose = drawn(data)
    history = split_history(choose, data.draw(st.integers(1, 14)))
    check(converted([[history.messages]]), history)
    batches = cut(choose, [history], 1 + choose(4), 1 + choose(3))
    check(converted(batches, limit=choose(4)), history)


@given(st.data())
@settings(max_examples=60 * EFFORT, deadline=None)
def test_no_update_is_made_twice_of_halves_that_come_twice(data) -> None:
    """However often its halves come: an update that moves a row is one, or it is joined anew."""
    choose = drawn(data)
    before = {"op": "update", "half": "before", "seq": 7, "row": {"id": "1", "v": "old"}}
    after = {"op": "update", "half": "after", "seq": 7, "row": {"id": "2", "v": "new"}}
    sent = data.draw(st.permutations([before, after, *data.draw(st.permutations([before, after]))]))
    work = Convert()
    for number, message in enumerate(sent):
        work.batch(f"b{number}", [[message]], choose(3))
    assert work.rows == {'{"id":"2"}': {"id": "2", "v": "new"}}
    assert (work.waiting, len(work.taken), len(work.others)) == ([], 1, 2)
    assert all(row["reason_kind"] == "duplicate half" for row in work.others)
