"""What `retention` lets go of the log is nothing that a later batch would have looked at."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.property.merge_histories import COLUMNS, history, misfit
from tests.spark.merge.merge_lake import change_row, let_pass, merge, put, rows_of, schema
from tests.spark.merge.test_merge_histories import deal, versions, without
from tests.spark.merge.test_merge_stage import ddl, images, row, step
from tests.spark.merge.test_merge_transactions import event, inside
from tests.spark.merge.test_statements_without_ids import truncate
from tests.spark.seeds import SEEDS
from waybill.errors import ConfigurationError
from waybill.lake_columns import OUTBOX
from waybill.merge.rules import WHOLE, Table
from waybill.upkeep.retention import LOGS, delete_batches

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.merge.rules import Change
    from waybill.spec.migration import Migration

pytestmark = pytest.mark.spark


def forget(lake: Lake, spec: Migration, *batches: str) -> int:
    """Let go of what may go of batches, else of all that were merged.

    Returns:
        How many changes it was.
    """
    lake.ensure(lake.log("outbox"), OUTBOX, ("target", "outcome"))
    ages = dict.fromkeys(batches or lake.batches(lake.log("changes")), 1)
    count, left = delete_batches(spec, lake, LOGS["changes"], ages, 2)
    assert left is None
    return count


def sequences(lake: Lake) -> list[int]:
    """The sequence ids of the changes of rows that are left."""
    log = lake.read(lake.log("changes")).where("outcome = 'ok' AND after IS NOT NULL")
    orders = [one.order_key.split("/")[1] for one in log.select("order_key").collect()]
    return sorted(int(order[2:]) for order in orders)


def partial(choose: Any, change: Change) -> Change:
    """The change, perhaps without a column; one that moves its row keeps all of them."""
    image = change.image or {}
    if change.operation in {*WHOLE, "delete"} or change.old_key or "t" not in image or choose(2):
        return change
    return without(change, "t")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rest_makes_the_same_rows(lake: Lake, migration: Any, seed: int) -> None:
    """Whole images at first, of which much goes, then images that leave columns out."""
    choose = random.Random(7000 + seed).randrange
    dealt = {
        "shop.many": deal(
            choose, [history(choose, 25, statements=False, partial=False) for _ in range(20)]
        )
    }
    for number in range(2):
        source = history(choose, 60, keys=6, partial=False)
        # Moves from before a column came up lack it; what becomes of them is another test's.
        source.changes = [change for change in source.changes if change.old_key is None]
        batches = deal(choose, [source])
        # So is what becomes of a default that comes late.
        added = [c for batch in batches for c in batch if c.operation == "column"]
        others = [[c for c in batch if c.operation != "column"] for batch in batches]
        dealt[f"shop.own_{number}"] = [[*added, *others[0]], *others[1:]]
    for batches in dealt.values():
        batches[-1] = [partial(choose, change) for change in batches[-1]]
    tables = {name: Table(COLUMNS if "own" in name else COLUMNS[:3], misfit) for name in dealt}
    spec, gone = migration(), 0
    for number in range(len(dealt["shop.many"])):
        rows, schemas = [], []
        for name, batches in dealt.items():
            old, new = versions(name)
            schemas += [old, new] if "own" in name else [old]
            added = [c.order for part in batches for c in part if c.operation == "column"]
            for change in batches[number]:
                is_new = bool(added) and change.order >= min(added)
                rows.append(change_row(change, new if is_new else old))
            tables[name].apply(batches[number])
        put(lake, f"b{number}", rows, schemas)
        merge(lake, spec, f"b{number}")
        let_pass(lake, f"b{number}")
        for name, table in tables.items():
            wanted = {
                key: (one.order, dict(one.image or {}) if one.live else None)
                for key, one in table.rows.items()
            }
            assert rows_of(lake, name, dead=True) == wanted, f"{name} after b{number} of {seed}"
        gone += forget(lake, spec)
    assert gone > 20


def at(sequence: int, key: int, operation: str = "insert", **more: Any) -> dict[str, Any]:
    """A change with a place of its own."""
    return row(sequence, key, operation, **{"place": (0, sequence), **more})


def test_of_a_row_its_insert_and_the_newest_stay(lake: Lake, migration: Any) -> None:
    spec = migration()
    came = [at(10, 1, n="1"), *(at(11 + n, 1, "update", n=str(n)) for n in range(5))]
    other = [at(20, 2, n="1"), at(21, 2, "delete"), at(22, 2, n="2"), at(23, 2, "update", n="3")]
    step(lake, spec, "b1", [*came, *other, at(30, 3, "update", n="1")])
    assert forget(lake, spec) == 5
    assert sequences(lake) == [10, 15, 22, 23, 30]
    assert forget(lake, spec) == 0
    step(lake, spec, "b2", [at(31, 3, "update", n="2"), at(32, 3, "update", n="3")])
    # One that is late loses, whatever it was that beat it.
    step(lake, spec, "b3", [at(14, 1, "update", n="late", place=(0, 99))])
    assert images(lake) == [{"id": str(n), "n": v} for n, v in ((1, "4"), (2, "3"), (3, "3"))]
    assert forget(lake, spec) == 3
    assert sequences(lake) == [10, 15, 22, 23, 32]
    assert lake.changes_since("shop.t") is not None
    assert lake.changes_since("shop.other") is None


def test_a_statement_finds_its_place_among_what_is_gone(lake: Lake, migration: Any) -> None:
    """Also one that was refused, and is replayed when what was in front of it is old."""
    refused = {**truncate(3), "outcome": "refused", "reason_kind": "json", "operation": "other"}
    first = [
        row(7, 1, place=(0, 1), n="1"),
        row(20, 1, "update", place=(0, 2), n="2"),
        refused,
        row(30, 1, "update", place=(0, 60), n="3"),
        row(31, 1, "update", place=(0, 61), n="4"),
        # Of another partition: it is older than the statement only by the id of the second change.
        row(19, 2, place=(1, 1), n="1"),
        row(21, 3, place=(1, 2), n="1"),
    ]
    spec = migration()
    step(lake, spec, "b1", first)
    assert forget(lake, spec) == 1
    assert sequences(lake) == [7, 19, 20, 21, 31]
    step(lake, spec, "b2", [truncate(3)])
    assert [image["id"] for image in images(lake)] == ["1", "3"]
    step(lake, spec, "b3", [truncate(90)])
    assert images(lake) == []


def test_what_waits_keeps_all_since_it_began(lake: Lake, migration: Any) -> None:
    spec = migration()
    step(lake, spec, "b1", [at(n, 1, "update" if n > 1 else "insert", n=str(n)) for n in (1, 2, 3)])
    old = [at(5, 1, "update", n="5"), inside("x", at(7, 1, "update", n="7"))]
    step(lake, spec, "b2", [event("begin", "x", 4), *old, at(8, 2, n="1")])
    step(lake, spec, "b3", [at(9, 2, "update", n="2"), at(10, 2, "update", n="3")])
    # What hides a change has to be as old as it is.
    assert forget(lake, spec) == 1
    assert sequences(lake) == [1, 3, 5, 7, 8, 9, 10]
    step(lake, spec, "b4", [event("commit", "x", 11)])
    assert images(lake) == [{"id": "1", "n": "7"}, {"id": "2", "n": "3"}]
    assert forget(lake, spec) == 3
    assert sequences(lake) == [1, 7, 8, 10]


def test_what_a_table_refused_hides_nothing(lake: Lake, migration: Any) -> None:
    spec = migration()
    big = str(2**41)
    updates = [at(2, 1, "update", n="2"), at(3, 1, "update", n=big)]
    report = step(lake, spec, "b1", [at(1, 1, n="1"), *updates])
    assert report.refused == {"column": 1}
    step(lake, spec, "b2", [at(4, 1, "update", n="4")])
    put(lake, "b3", [], [])
    report = merge(lake, spec, "b3", mode="replay")
    assert (report.refused, report.superseded) == ({}, 1)
    let_pass(lake, "b3")
    # The change that hides all of the others is younger.
    assert forget(lake, spec, "b1") == 0
    assert sequences(lake) == [1, 2, 3, 4]
    assert images(lake) == [{"id": "1", "n": "4"}]


def test_rows_that_rest_on_several_changes_keep_all_of_them(lake: Lake, migration: Any) -> None:
    spec = migration()
    step(lake, spec, "b1", [at(1, 1, n="1"), at(2, 1, "update", n="2"), at(3, 1, "update")])
    assert forget(lake, spec) == 0
    step(lake, spec, "b2", [at(4, 1, "update")])
    assert (forget(lake, spec), images(lake)) == (0, [{"id": "1", "n": "2"}])


def test_a_move_whose_row_may_be_gone_from_the_log_is_not_guessed(
    lake: Lake, migration: Any
) -> None:
    spec = migration()
    for start, key in ((0, 1), (10, 5)):
        came = [at(start + n, key, "update" if n > 1 else "insert", n=str(n)) for n in range(1, 6)]
        step(lake, spec, f"b{key}", [*came, at(start + 6, key, "delete")])
    # The first change with the schema stays.
    assert forget(lake, spec) == 9
    # One that says all of its row needs none of before.
    step(lake, spec, "b6", [at(20, 2, "update", old=1, n="5")])
    assert images(lake) == [{"id": "2", "n": "5"}]
    with pytest.raises(ConfigurationError, match=r'gave the row .*"5".* retention may have'):
        step(lake, spec, "b7", [at(21, 6, "update", old=5)])


def test_a_move_that_comes_again_is_known_by_what_was_merged(lake: Lake, migration: Any) -> None:
    spec = migration()
    came = [at(10 + n, 5, "update" if n > 1 else "insert", n=str(n)) for n in range(1, 6)]
    step(lake, spec, "b1", [*came, at(16, 5, "delete"), at(40, 7, n="1")])
    assert forget(lake, spec) == 4
    # The whole source once more brings a move at its own place.
    move = at(41, 8, "update", old=7)
    step(lake, spec, "b2", [move])
    step(lake, spec, "b3", [move])
    step(lake, spec, "b4", [at(41, 8, "update", old=7, place=(0, 99))])
    assert images(lake) == [{"id": "8", "n": "1"}]
    # Neither does one that was refused prove anything, nor do two in one batch for each other.
    report = step(lake, spec, "b5", [at(21, 6, "update", old=5, n=str(2**41))])
    assert report.refused == {"column": 1}
    again = [at(21, 6, "update", old=5, place=(0, offset)) for offset in (101, 102)]
    with pytest.raises(ConfigurationError, match=r'gave the row .*"5".* retention may have'):
        step(lake, spec, "b6", again)


def test_a_late_column_of_a_row_that_moved_after_its_delete_is_not_guessed(
    lake: Lake, migration: Any
) -> None:
    spec = migration()
    came = [at(1, 9, n="1"), at(10, 5, n="0"), *(at(n, 5, "update", n="1") for n in (11, 12))]
    step(lake, spec, "b1", [*came, at(14, 5, n="2"), at(16, 5, "delete")])
    assert forget(lake, spec) == 4
    step(lake, spec, "b2", [at(21, 6, "update", old=5, n="2")])
    wide = schema("shop.t", {"id": "int64", "n": "int32", "late": "string"}, ("id",))
    # The INSERT that hid it from the row of now is gone.
    late = at(13, 5, "update", n="1", late="x", table=wide)
    with pytest.raises(ConfigurationError, match=r'gave the row .*"5".* retention may have'):
        step(lake, spec, "b3", [late], [wide])


def test_a_default_that_comes_late_below_what_is_gone_is_not_guessed(
    lake: Lake, migration: Any
) -> None:
    spec = migration()
    updates = [at(10 + n, 1, "update", n=str(n)) for n in range(1, 4)]
    step(lake, spec, "b1", [at(10, 1, n="0"), *updates])
    assert forget(lake, spec) == 2
    add = "ALTER TABLE t ADD COLUMN {} VARCHAR(9) NOT NULL DEFAULT 'basic'"
    step(lake, spec, "b2", [ddl(20, add.format("tier"))])
    assert images(lake) == [{"id": "1", "n": "3", "tier": "basic"}]
    with pytest.raises(ConfigurationError, match="added kind with the default 'basic' came late"):
        step(lake, spec, "b3", [ddl(12, add.format("kind"))])
