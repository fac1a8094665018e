"""Which row groups of messages are read beside which of changes, and that none is left out."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.outbox_damage import DAMAGES
from tests.unit.validate.test_comparing import both_kinds, made
from waybill.lake.ordered_rows import row_groups
from waybill.lake.task_rows import DataFile
from waybill.lake_columns import MESSAGE_PLACE
from waybill.validate.pairing import compared, place_ranges, tasks_of

if TYPE_CHECKING:
    from waybill.validate.comparing import Comparison

COUNT = 200


def written(folder, name: str, table: pa.Table, cuts: list[int], size: int):
    """The row groups of files that hold a table, cut into files and those into row groups."""
    files = []
    for begin, end in pairwise([0, *cuts, table.num_rows]):
        path = folder / f"{name}-{begin}.parquet"
        pq.write_table(table.slice(begin, end - begin), path, row_group_size=size)
        files.append(DataFile(str(path), path.stat().st_size))
    groups = row_groups(files, MESSAGE_PLACE, ())
    assert groups is not None
    return groups


def rows_of(changes, messages, comparison: Comparison):
    """What all tasks together find."""
    found = place_ranges(changes, {"canal": messages})
    assert found is not None
    tasks = tasks_of(found, 2)
    readers = {"canal": comparison._reader}
    rows = [compared(task, comparison._schemas, readers).to_pylist() for task in tasks]
    return [row for some in rows for row in some]


@pytest.mark.parametrize("cuts", [[], [150], [33, 34, 300]])
@pytest.mark.parametrize("size", [7, 90, 1000])
def test_every_message_is_compared_once(tmp_path, cuts, size):
    changes, messages, comparison = made("canal", both_kinds(COUNT))
    mine = written(tmp_path, "changes", changes, [100], 61)
    theirs = written(tmp_path, "messages", messages, cuts, size)
    rows = rows_of(mine, theirs, comparison)
    assert sum(row["compared"] for row in rows) == 2 * COUNT
    assert {(row["undecodable"], row["different"], row["examples"]) for row in rows} == {
        (0, 0, "[]")
    }


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_wherever_it_is_read(tmp_path, damage):
    """Also where a message stands in a row group of others, or behind all changes."""
    changes, messages, comparison = made("canal", both_kinds(COUNT))
    mine = written(tmp_path, "changes", changes, [], 50)
    for at in (0, 49, 50, 151, 398):
        rows = messages.to_pylist()
        wrong = DAMAGES[damage](rows, at)
        damaged = pa.Table.from_pylist(rows, messages.schema)
        found = rows_of(mine, written(tmp_path, f"m{at}", damaged, [], 60), comparison)
        bad = sum(row["undecodable"] + row["different"] for row in found)
        assert bad == len(wrong), at
        examples = [one for row in found for one in json.loads(row["examples"])]
        assert {one["place"][2] for one in examples} == wrong


def test_messages_without_any_change_are_found(tmp_path):
    _, messages, comparison = made("canal", both_kinds(5))
    found = rows_of([], written(tmp_path, "messages", messages, [], 60), comparison)
    assert sum(row["different"] for row in found) == 10


def test_where_no_message_is_nothing_is_read(tmp_path):
    changes, messages, comparison = made("canal", both_kinds(COUNT))
    mine = written(tmp_path, "changes", changes, [], 50)
    few = written(tmp_path, "messages", messages.slice(60, 10), [], 60)
    found = place_ranges(mine, {"canal": few})
    assert [len(one.changes) for one in found] == [1]
    assert sum(row["compared"] for row in rows_of(mine, few, comparison)) == 10
    assert place_ranges(mine, {"canal": []}) == tasks_of([], 2) == []


def test_rows_that_are_in_no_order_are_not_read_again_and_again(tmp_path):
    changes, messages, _ = made("canal", both_kinds(COUNT))
    mixed = messages.take(pa.array([*range(0, 400, 2), *range(1, 400, 2)]))
    mixed = pa.concat_tables([mixed.slice(i, 1) for i in (0, 399)] + [mixed.slice(1, 398)])
    mine = written(tmp_path, "changes", changes, [], 10)
    assert place_ranges(mine, {"canal": written(tmp_path, "messages", mixed, [], 400)}) is None
