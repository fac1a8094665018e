"""Changes that come late from in front of a statement that has no sequence id of its own.

However late they are, the tables end as if they had come in time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.merge.merge_lake import change_row, image_text, rows_of, schema
from tests.spark.merge.test_merge_stage import TABLE, images, row, step
from waybill.lake import Lake
from waybill.merge.ledger import Ledger
from waybill.merge.rules import Change
from waybill.merge.state import MergeState
from waybill.order import order_key

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark

HEAP = schema("shop.t", {"id": "int64", "n": "int32"}, ())
OTHER_KEY = schema("shop.t", {"id": "int64", "n": "int32"}, ("n",))
Rows = list[dict[str, Any]]

TIER = "ALTER TABLE t ADD COLUMN tier VARCHAR(9) NOT NULL DEFAULT 'basic'"


def statement(text: str, offset: int = 50) -> dict[str, Any]:
    order = order_key(None, 1, 0, offset, 0)
    change = Change(order, "ddl", place=("t", 0, offset, 0))
    return change_row(change, TABLE, ddl_text=text)


def truncate(offset: int = 50) -> dict[str, Any]:
    return row(None, None, "truncate", place=(0, offset))


def kept(number: int, key: int, offset: int, **values: str) -> dict[str, Any]:
    """A row of a table without key."""
    change = Change(
        order_key((number,), 1, 0, offset, 0),
        "insert",
        image={"id": str(key), **values},
        place=("t", 0, offset, 0),
    )
    return change_row(change, HEAP)


def both(lake: Lake, spark, migration, parts: list[Rows], schemas=(TABLE,)) -> list[Any]:
    """The reports of batches; the table that they leave must be that of one batch."""
    reports = [
        step(lake, migration(), f"b{number}", part, schemas) for number, part in enumerate(parts)
    ]
    spec = migration("whole", lake={"warehouse": f"{migration().lake.warehouse}-whole"})
    whole = Lake.open(spark, spec)
    step(whole, spec, "b", [entry for part in parts for entry in part], schemas)
    assert rows_of(lake, "shop.t", dead=True) == rows_of(whole, "shop.t", dead=True)
    was, wanted = (Ledger(each).position().state.table("shop.t") for each in (lake, whole))
    assert (was.truncated, was.defaults) == (wanted.truncated, wanted.defaults)
    return reports


@pytest.mark.parametrize(
    "make", [truncate, lambda: statement("DROP TABLE t")], ids=["truncate", "drop"]
)
def test_a_change_before_it_does_not_come_back(
    lake: Lake, spark, migration, make: Callable[[], dict[str, Any]]
) -> None:
    parts = [
        [row(7, 1, place=(0, 1), n="1"), make(), row(30, 2, place=(0, 60), n="1")],
        [row(9, 3, place=(0, 2), n="1"), row(20, 1, "update", place=(0, 3), n="5")],
    ]
    first, second = both(lake, spark, migration, parts)
    assert [image["id"] for image in images(lake)] == ["2"]
    assert first.rows_in - second.rows_in == 1
    # It was counted by the first batch.
    assert (second.rows_out, second.superseded) == (0, 2)
    (warning,) = second.warnings
    assert "belong before the TRUNCATE or DROP t/0/50" in warning


def test_rows_that_it_would_have_taken_go(lake: Lake, spark, migration) -> None:
    """Ids of another partition up to that of the late change are older than the TRUNCATE."""
    parts = [
        [row(7, 1, place=(0, 1), n="1"), truncate(), row(8, 2, place=(1, 1), n="1")],
        [row(12, 4, place=(1, 2), n="1")],
        [row(10, 3, place=(0, 2), n="1")],
    ]
    both(lake, spark, migration, parts)
    assert [image["id"] for image in images(lake)] == ["4"]


def test_nothing_in_front_of_it_had_come(lake: Lake, spark, migration) -> None:
    parts = [[truncate(), row(8, 2, place=(0, 60), n="1")], [row(7, 1, place=(0, 1), n="1")]]
    both(lake, spark, migration, parts)
    assert [image["id"] for image in images(lake)] == ["2"]


def test_it_rises_again_and_below_a_newer_one_of_its_own_id(lake: Lake, spark, migration) -> None:
    parts = [
        [row(7, 1, place=(0, 1), n="1"), truncate(50)],
        [row(9, 2, place=(0, 70), n="1"), row(10, None, "truncate", place=(0, 71))],
        [row(11, 3, place=(0, 72), n="1"), row(15, 4, place=(0, 73), n="1")],
        [row(8, 5, place=(0, 2), n="1")],
        [row(12, 6, place=(0, 3), n="1")],
        [row(13, 7, place=(0, 4), n="1"), truncate(80)],
    ]
    both(lake, spark, migration, parts)
    assert images(lake) == []


def test_a_table_without_key(lake: Lake, spark, migration) -> None:
    parts = [
        [kept(7, 1, 1), row(None, None, "truncate", place=(0, 50), table=HEAP), kept(30, 2, 60)],
        [kept(9, 3, 2), kept(30, 2, 60)],
    ]
    _, second = both(lake, spark, migration, parts, [HEAP])
    assert [image["id"] for image in images(lake)] == ["2"]
    assert (second.rows_out, second.superseded) == (0, 2)


def test_a_table_without_key_that_is_dropped(lake: Lake, spark, migration) -> None:
    parts = [[kept(7, 1, 1)], [statement("DROP TABLE t"), kept(3, 4, 2)], [kept(9, 3, 3)]]
    both(lake, spark, migration, parts, [HEAP])
    assert images(lake) == []


def test_the_table_was_made_again_with_another_key(lake: Lake, spark, migration) -> None:
    again = row(30, 2, place=(0, 60), table=OTHER_KEY, n="1")
    parts = [
        [row(7, 1, place=(0, 1), n="1"), statement("DROP TABLE t"), {**again, "key": '{"n":"1"}'}],
        [row(6, 3, place=(0, 2), n="1")],
        [row(9, 3, place=(0, 3), n="1")],
    ]
    both(lake, spark, migration, parts, [TABLE, OTHER_KEY])
    assert [image["id"] for image in images(lake)] == ["2"]


def test_rows_that_were_older_than_a_new_column_get_its_default(
    lake: Lake, spark, migration
) -> None:
    parts = [
        [row(7, 1, place=(0, 1), n="1"), statement(TIER), row(8, 2, place=(1, 1), n="1")],
        [row(20, 2, "update", place=(1, 2), n="2"), row(21, 4, place=(1, 3), n="1")],
        [row(10, 3, place=(0, 2), n="1")],
    ]
    both(lake, spark, migration, parts)
    assert images(lake) == [
        {"id": "1", "n": "1", "tier": "basic"},
        {"id": "2", "n": "2", "tier": "basic"},
        {"id": "3", "n": "1", "tier": "basic"},
        {"id": "4", "n": "1"},
    ]


def test_a_default_that_another_statement_had_made_void(lake: Lake, spark, migration) -> None:
    parts = [
        [row(7, 1, place=(0, 1), n="1"), statement(TIER), row(8, None, "truncate", place=(1, 1))],
        [row(9, 2, place=(1, 2), n="1")],
        [row(10, 3, place=(0, 2), n="1")],
    ]
    both(lake, spark, migration, parts)
    assert [(image["id"], image.get("tier")) for image in images(lake)] == [
        ("2", "basic"),
        ("3", "basic"),
    ]


def test_a_half_that_waits_in_front_of_it(lake: Lake, spark, migration) -> None:
    half = {**row(10, 2, "update", place=(0, 5), n="2"), "outcome": "waiting", "half": "after"}
    first = [row(7, 1, place=(0, 1), n="1"), truncate(), row(8, 3, place=(1, 1), n="1")]
    step(lake, migration(), "b0", first)
    step(lake, migration(), "b1", [half])
    assert images(lake) == []
    joined = {**half, "outcome": "ok", "half": None, "before": image_text({"id": "2", "n": "1"})}
    step(lake, migration(), "b2", [joined])
    assert images(lake) == []


@pytest.mark.parametrize("with_rows", [True, False])
def test_states_of_before_go_on(lake: Lake, spark, migration, monkeypatch, with_rows: bool) -> None:
    """They do not tell where such statements stand; the log does."""
    real = MergeState.to_json

    def as_before(state: MergeState) -> str:
        document = json.loads(real(state))
        del document["unnumbered"]
        return json.dumps(document)

    first = [row(7, 1, place=(0, 1), n="1"), truncate(), row(30, 2, place=(0, 60), n="1")]
    with monkeypatch.context() as patch:
        patch.setattr(MergeState, "to_json", as_before)
        step(lake, migration(), "b0", first)
    assert Ledger(lake).position().state.unnumbered is None
    if with_rows:
        step(lake, migration(), "b1", [row(31, 4, place=(0, 61), n="1")])
        assert Ledger(lake).position().state.unnumbered == {"t": {0: 50}}
    step(lake, migration(), "b2", [row(9, 3, place=(0, 2), n="1")])
    assert [image["id"] for image in images(lake)] == (["2", "4"] if with_rows else ["2"])
