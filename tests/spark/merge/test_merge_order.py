"""Changes without a sequence id: statements that have no order, and what `source_time` binds to."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import change_row, merge, put, rows_of, schema
from tests.spark.merge.test_merge_stage import TABLE, ambiguous, ddl, images, row, step
from waybill.cli import tables
from waybill.errors import ConfigurationError
from waybill.merge.ledger import Ledger
from waybill.merge.rules import Change
from waybill.order import order_key

if TYPE_CHECKING:
    from pathlib import Path

    from waybill.lake import Lake

pytestmark = pytest.mark.spark

BY_TIME = {"ambiguous": "source_time"}
KEYLESS = schema("shop.log", {"id": "int64", "n": "int32"}, ())
THREE = [row(None, n, place=(n, 1), n="1") for n in range(3)]


def placed(text: str, partition: int = 1, offset: int = 50):
    """A statement without sequence id."""
    order = order_key(None, 1, partition, offset, 0)
    return {**ddl(0, text), "partition": partition, "offset": offset, "order_key": order}


def timed(entry, second: int):
    return {**entry, "source_time": datetime.fromtimestamp(second, UTC)}


def test_a_half_that_waits_before_a_statement_without_an_id_is_older(lake: Lake, migration):
    half = {**row(10, 2, "update", place=(0, 5), n="2"), "outcome": "waiting", "half": "after"}
    emptied = row(None, None, "truncate", place=(0, 6))
    step(lake, migration(), "b1", [row(8, 1, place=(0, 4), n="1"), half, emptied])
    assert images(lake) == []
    # The other half has come: the joined update stands where its first half did.
    step(lake, migration(), "b2", [row(10, 2, "update", place=(0, 5), n="2")])
    assert images(lake) == []


@pytest.mark.parametrize(
    "batch",
    [
        [row(None, None, "truncate", place=(1, 50))],
        [placed("DROP TABLE t")],
        [placed("DROP TABLE t"), row(None, 5, place=(0, 60), n="5")],
    ],
    ids=["truncate", "drop", "drop-and-rows"],
)
def test_a_statement_that_has_no_order_empties_nothing(lake: Lake, migration, batch) -> None:
    step(lake, migration(), "b1", THREE)
    put(lake, "b2", batch, [TABLE])
    with pytest.raises(ConfigurationError, match="a TRUNCATE or DROP that has no order"):
        merge(lake, migration(), "b2")
    assert lake.waiting(lake.merged("shop.t"), "merge") == []
    assert [image["id"] for image in images(lake)] == ["0", "1", "2"]
    # Who knows that it does not matter says so.
    merge(lake, migration(order={"ambiguous": "partition"}), "b2")


def keyless(partition: int, offset: int, operation: str = "insert", **image):
    place = ("t", partition, offset, 0)
    order = order_key(None, 1, partition, offset, 0)
    return change_row(Change(order, operation, "", image or None, place=place), KEYLESS)


def test_the_time_of_a_truncate_orders_it_in_a_table_without_key_too(lake, migration) -> None:
    rows = [
        timed(keyless(0, 1, id="1"), 1),
        timed(keyless(2, 1, id="2"), 2),
        timed(keyless(1, 1, "truncate"), 3),
        timed(keyless(0, 2, id="3"), 4),
    ]
    put(lake, "b1", rows, [KEYLESS])
    with pytest.raises(ConfigurationError, match="a TRUNCATE or DROP that has no order"):
        merge(lake, migration(), "b1")
    step(lake, migration(order=BY_TIME), "b2", [])
    assert [image["id"] for _, image in rows_of(lake, "shop.log").values()] == ["3"]


def test_source_time_is_kept_once_it_has_decided(lake: Lake, migration) -> None:
    by_time = migration(order=BY_TIME)
    step(lake, by_time, "b1", ambiguous(9))
    assert Ledger(lake).position().state.by_source_time is True
    put(lake, "b2", [timed(row(None, 1, "update", place=(0, 10), n="2"), 10)], [TABLE])
    with pytest.raises(ConfigurationError, match=r"shop\.t\) were merged by their source time"):
        merge(lake, migration(), "b2")
    step(lake, by_time, "b3", [])
    assert images(lake) == [{"id": "1", "n": "2"}]


def test_source_time_may_be_set_later(lake: Lake, migration) -> None:
    step(lake, migration(), "b1", [timed(row(None, 1, place=(0, 1), n="1"), 5)])
    assert Ledger(lake).position().state.by_source_time is False
    later = [
        timed(row(None, 1, "update", place=(1, 1), n="2"), 6),
        timed(row(None, 1, "update", place=(0, 2), n="3"), 7),
    ]
    step(lake, migration(order=BY_TIME), "b2", later)
    assert images(lake) == [{"id": "1", "n": "3"}]


def test_the_changes_of_a_row_are_reported_as_they_were_merged(
    lake: Lake, migration, monkeypatch, tmp_path: Path, capsys
) -> None:
    spec = migration(order=BY_TIME)
    step(lake, spec, "b1", ambiguous(9))
    path = tmp_path / "shop.yaml"
    path.write_text(spec.model_dump_json(exclude_defaults=True))

    @contextmanager
    def opened(spec):
        yield lake

    monkeypatch.setattr(tables, "look_into", opened)
    tables.changes_command(path, tables.ChangeFilter(None, "1", 100), as_json=True)
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(change["partition"], change["outcome"]) for change in documents] == [
        (1, "superseded: t/0/9/0 is newer"),
        (0, "won, it is the newest: this is the row"),
    ]


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("operation", ["truncate", "drop"])
def test_a_statement_without_sequence_id_comes_after_the_changes_before_it(
    lake: Lake, migration, operation: str, batches: int
) -> None:
    order = order_key(None, 1, 0, 50, 0)
    drop = {**placed("DROP TABLE t", partition=0), "order_key": order}
    statement = row(None, None, "truncate", place=(0, 50)) if operation == "truncate" else drop
    parts = [
        [row(7, 1, place=(0, 1), n="1"), row(7, 2, place=(0, 2), n="1")],
        [statement],
        [row(8, 3, place=(0, 60), n="1"), row(6, 4, place=(1, 70), n="1")],
    ]
    if batches == 1:
        parts = [[entry for part in parts for entry in part]]
    for number, part in enumerate(parts):
        step(lake, migration(), f"b{number}", part)
    # The last one is of another partition, where only its sequence id tells that it is older.
    assert [image["id"] for image in images(lake)] == ["3"]


def test_a_statement_that_comes_late_takes_no_later_rows(lake: Lake, migration) -> None:
    later = [row(7, 1, place=(0, 1), n="1"), row(8, 2, place=(0, 60), n="1")]
    step(lake, migration(), "b1", later)
    report = step(lake, migration(), "b2", [row(None, None, "truncate", place=(0, 50))])
    assert [image["id"] for image in images(lake)] == ["2"]
    assert report.details["shop.t"]["merged by Spark"] == "it was emptied"


def test_numbers_of_another_table_order_no_statement(lake: Lake, migration) -> None:
    """The rows of its own table have none, so one of another's would be above all of them."""
    other = row(7, 1, place=(0, 1), table=schema("shop.u", {"id": "int64"}, ("id",)))
    step(lake, migration(), "b1", [other, row(None, 1, place=(0, 2), n="1")])
    statement = row(None, None, "truncate", place=(0, 50))
    step(lake, migration(), "b2", [statement, row(None, 2, place=(0, 60), n="1")])
    assert [image["id"] for image in images(lake)] == ["2"]
