"""Halves of updates give the same tables and wait the same way, wherever a topic is cut."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases, properties
from tests.histories import by_name
from tests.property.split_updates import (
    SplitHistory,
    came,
    cut,
    interrupted_history,
    plain,
    rows_of,
    split_history,
)
from tests.property.test_merge_rules import drawn
from tests.spark.tiny_envelope import TinyDecoder, TinySettings
from waybill.batches.decoding import ChangeBatches
from waybill.batches.message_rows import changes_of
from waybill.convert.halves import group_of, settle
from waybill.envelopes.pairs import PairJoiner
from waybill.lake_columns import ARCHIVE, CHANGES
from waybill.merge.rules import Change
from waybill.order import read_order_key
from waybill.records import TableSchema


class Convert:
    """The first pass of `convert` without Spark: tasks, then what waits."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.offset = 0
        self.spent = 0
        self.schemas: dict[str, TableSchema] = {}

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
            self.schemas[schema.id] = schema
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
        for batch in settle(
            [pa.RecordBatch.from_pylist(rows, CHANGES)], name, self.schemas.__getitem__
        ):
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

    def rows(self, keyed: bool) -> Any:
        """The rows that the rules make of what was taken."""
        return rows_of([change for row in self.taken if (change := _change(row))], keyed)


def _change(row: dict[str, Any]) -> Change | None:
    """A row of `changes` as the rules know it; None for a statement that is nothing to them."""
    images = [row[name] if row[name] is None else json.loads(row[name]) for name in SIDES]
    operation = row["operation"]
    if operation == "ddl":
        default = re.search("ADD COLUMN (.*) VARCHAR.* DEFAULT '(.*)'", row["ddl_text"])
        dropped = re.search("DROP COLUMN (.*)", row["ddl_text"])
        if default is not None:
            operation, images = "column", [None, {default[1]: default[2]}]
        elif dropped is not None:
            operation, images = "drop", [None, {dropped[1]: None}]
        else:
            return None
    place = (row["topic"], row["partition"], row["offset"], row["index"])
    before, after = images
    return Change(
        row["order_key"], operation, row["key"] or "", after, row["old_key"], place, before
    )


SIDES = ("before", "after")


def converted(batches: list[list[list[dict]]], limit: int = 100) -> Convert:
    work = Convert()
    for number, tasks in enumerate(batches):
        work.batch(f"b{number}", tasks, limit)
    return work


def check(work: Convert, history: SplitHistory, batches: list[list[list[dict]]]) -> None:
    there = came(history, batches)
    whole = [row for row in work.taken if row["operation"] == "update"]
    assert work.rows(bool(history.key)) == history.rows(history.changes(there))
    waiting = {(row["half"], read_order_key(row["order_key"])[0][0]) for row in work.waiting}
    assert waiting == history.waiting(there)
    assert len(work.waiting) == len(waiting)
    assert {row["schema_id"] for row in work.taken} <= work.schemas.keys()
    # A table without key knows a change by its texts, so an update has the same ones wherever its
    # halves met.
    texts = {(read_order_key(row["order_key"])[0], row["before"], row["after"]) for row in whole}
    assert len(texts) == len({sequence for sequence, _, _ in texts})
    assert all(row["reason_kind"] == "duplicate half" for row in work.others)
    accounted = len(work.taken) + len(work.waiting) + len(work.others) + work.spent
    assert accounted == work.offset


@properties(300)
@given(seed=st.integers(0, 2**32 - 1), statements=st.booleans(), keyed=st.booleans())
def test_any_cut_gives_the_same_tables_and_the_same_halves_that_wait(
    seed, statements, keyed
) -> None:
    choose = random.Random(seed).randrange
    history = split_history(choose, 1 + choose(20), statements=statements, keyed=keyed)
    whole = [[[m for m in history.messages if m["n"] not in history.lost]]]
    check(converted(whole), history, whole)
    batches = cut(choose, [history], 1 + choose(4), 1 + choose(3))
    check(converted(batches, limit=choose(4)), history, batches)


@properties(200)
@given(seed=st.integers(0, 2**32 - 1), keyed=st.booleans())
def test_renamed_columns_and_rows_that_are_sent_anew_between_halves(seed, keyed) -> None:
    choose = random.Random(seed).randrange
    history = split_history(choose, 1 + choose(20), statements=True, keyed=keyed, anew=True)
    whole = [[[m for m in history.messages if m["n"] not in history.lost]]]
    check(converted(whole), history, whole)
    batches = cut(choose, [history], 1 + choose(4), 1 + choose(3))
    check(converted(batches, limit=choose(4)), history, batches)


@properties(200)
@given(seed=st.integers(0, 2**32 - 1))
def test_statements_without_ids_between_halves_come_before_the_update(seed) -> None:
    """Wherever batches are cut: an update stands where its row after does."""
    choose = random.Random(seed).randrange
    history = interrupted_history(choose, 1 + choose(16))
    batches: list[list[list[dict]]] = [[[]]]
    for message in history.messages:
        if choose(4) == 0:
            batches.append([[]])
        if message["n"] not in history.lost:
            batches[-1][0].append(message)
    check(converted(batches, limit=choose(4)), history, batches)
    if not history.lost:
        assert history.rows(history.changes(came(history, batches))) == Counter(
            map(plain, history.left)
        )


@given(st.data())
@settings(max_examples=cases(60), deadline=None)
def test_no_update_is_made_twice_of_halves_that_come_twice(data) -> None:
    """However often its halves come: an update that moves a row is one, or it is joined anew."""
    choose = drawn(data)
    before = {"op": "update", "half": "before", "seq": 7, "row": {"id": "1", "v": "old"}}
    after = {"op": "update", "half": "after", "seq": 7, "row": {"id": "2", "v": "new"}}
    sent = data.draw(st.permutations([before, after, *data.draw(st.permutations([before, after]))]))
    work = Convert()
    for number, message in enumerate(sent):
        work.batch(f"b{number}", [[message]], choose(3))
    assert work.rows(keyed=True) == Counter([plain({"id": "2", "v": "new"})])
    assert (work.waiting, len(work.taken), len(work.others)) == ([], 1, 2)
    assert all(row["reason_kind"] == "duplicate half" for row in work.others)


@pytest.mark.parametrize("apart", [False, True], ids=["in one task", "in two"])
def test_halves_whose_key_columns_have_other_names(apart) -> None:
    """Where they meet makes no difference; the merge asks for the key that is meant."""
    before = {"op": "update", "half": "before", "seq": 7, "row": {"id": "1", "v": "a"}}
    after = {"op": "update", "half": "after", "seq": 7, "row": {"no": "1", "v": "b"}, "key": ["no"]}
    work = Convert()
    work.batch("b0", [[before], [after]] if apart else [[before, after]], 9)
    (row,) = work.taken
    assert (row["key"], row["old_key"]) == ('{"no":"1"}', None)
    (change,) = changes_of(pa.RecordBatch.from_pylist([row], CHANGES), work.schemas)
    assert by_name(change.schema, change.before) == {"v": "a", "id": "1"}
    assert by_name(change.schema, change.after) == {"no": "1", "v": "b"}
