"""Transactions that end in a later batch, are rolled back, or never end."""

from __future__ import annotations

import json

import pytest

from tests.spark.merge.merge_lake import change_row, let_pass, schema
from tests.spark.merge.test_merge_stage import TABLE, ddl, images, merge, put, row, step
from waybill.errors import WaitingError
from waybill.merge.change_facts import changes_of, merged_facts
from waybill.merge.explain import explain
from waybill.merge.rules import Change
from waybill.merge.stage import OF_EARLIER
from waybill.order import order_key
from waybill.records import NO_TABLE

pytestmark = pytest.mark.spark


def event(operation: str, transaction: str, sequence: int):
    change = Change(
        order_key((sequence,), 1, 0, sequence, 0), operation, place=("t", 0, sequence, 0)
    )
    return change_row(change, NO_TABLE, transaction=transaction, schema_id=None)


def inside(transaction: str, entry):
    return {**entry, "transaction": transaction}


def test_an_open_transaction_waits_for_its_commit(lake, migration):
    spec = migration()
    first = step(
        lake, spec, "b1",
        [row(1, 1, n="1"), event("begin", "x", 2), inside("x", row(3, 1, "update", n="2"))],
    )  # fmt: skip
    assert images(lake) == [{"id": "1", "n": "1"}]
    assert (first.rows_in, first.waiting, first.skipped) == (3, 1, {"begin": 1})
    second = step(
        lake, spec, "b2",
        [inside("x", row(4, 2, n="5")), row(6, 3, n="6")],
    )  # fmt: skip
    assert [image["id"] for image in images(lake)] == ["1", "3"]
    assert (second.waiting, second.extra_in) == (1, {})
    third = step(lake, spec, "b3", [event("commit", "x", 5)])
    assert [image["n"] for image in images(lake)] == ["2", "5", "6"]
    assert third.extra_in == {OF_EARLIER: 2}
    assert (third.rows_in, third.rows_out, third.waiting) == (1, 2, 0)
    assert step(lake, spec, "b4", [row(9, 9, n="9")]).rows_out == 1


def test_a_rolled_back_transaction_never_shows(lake, migration):
    spec = migration()
    step(lake, spec, "b1", [event("begin", "x", 1), inside("x", row(2, 1, n="2"))])
    back = [inside("x", row(3, 2, n="3")), event("rollback", "x", 4), row(5, 3, n="5")]
    report = step(lake, spec, "b2", back)
    assert images(lake) == [{"id": "3", "n": "5"}]
    assert report.skipped == {"rollback": 1, "rolled back": 2}
    # A row that starts anew from the log does not bring it back either.
    partial = row(9, 2, "update")
    step(lake, spec, "b3", [partial])
    moved = row(10, 4, "update", old=2)
    step(lake, spec, "b4", [moved])
    assert {"id": "4"} in images(lake)


def test_statements_of_an_open_transaction_wait_too(lake, migration):
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, n="1"), event("begin", "x", 2)])
    step(lake, spec, "b2", [inside("x", row(3, 0, "truncate"))])
    assert len(images(lake)) == 1
    step(lake, spec, "b3", [event("commit", "x", 4)])
    assert images(lake) == []


def test_the_longest_wait_stops_the_batch_and_letting_go_helps(lake, migration):
    spec = migration(transactions={"longest_wait": "0s"})
    step(lake, spec, "b1", [event("begin", "x", 1), inside("x", row(2, 1, n="2"))])
    put(lake, "b2", [row(3, 3, n="3")], [TABLE])
    import time

    time.sleep(1.1)
    with pytest.raises(WaitingError, match=r"transaction x has been open.*hold: false"):
        merge(lake, spec, "b2")
    loose = migration(transactions={"hold": False})
    step(lake, loose, "b3", [ddl(4, "ALTER TABLE shop.t ADD COLUMN a INT")])
    assert [image["id"] for image in images(lake)] == ["1", "3"]


def test_what_became_of_the_changes_of_a_row(lake, migration):
    """The facts of the lake in the words of `waybill changes --key`."""
    spec = migration()
    rows = [
        row(1, 1, n="1", place=(0, 1)),
        row(2, 1, "update", n="x", place=(0, 2)),
        event("begin", "x", 3),
    ]
    step(lake, spec, "b1", [*rows, inside("x", row(4, 1, "update", n="4", place=(0, 4)))])
    put(lake, "b2", [row(5, 1, "update", n="5", place=(0, 5))], [TABLE])
    found = lake.read(lake.log("changes")).where("table = 't' AND outcome = 'ok'")
    log = [r.asDict() for r in found.orderBy("order_key").collect()]
    changes = changes_of(log)
    outcomes = explain('{"id":"1"}', changes.values(), merged_facts(lake, "shop.t", log))
    assert [outcomes[place] for place in changes] == [
        "won, it is the newest: this is the row",
        "refused: column n is int in the lake and cannot hold 'x'",
        "waits for the end of its transaction x",
        "not merged yet",
    ]


def end(transaction: str, sequence: int, **counts: int):
    """The end of a transaction as Debezium tells it."""
    ending = {
        "status": "END",
        "id": transaction,
        "event_count": sum(counts.values()),
        "data_collections": [
            {"data_collection": name.replace("_", "."), "event_count": n}
            for name, n in counts.items()
        ],
    }
    return {
        **event("commit", transaction, sequence),
        "extra": json.dumps({"debezium_message": ending}),
    }


def test_operations_of_postgresql_that_name_their_own_places(lake, migration):
    """The txId is that of a transaction long ago, too, which is not held back with it."""
    spec = migration()
    old = [event("begin", "768:10", 1), inside("768:10", row(2, 9, n="9")), end("768:12", 3)]
    first = [event("begin", "768:500", 20), inside("768:500", row(21, 1, n="1"))]
    step(lake, spec, "b1", [*old, *first, inside("768:504", row(22, 2, n="2"))])
    assert [image["id"] for image in images(lake)] == ["9"]
    # The end announces four rows of a table that is read, and one of another.
    ended = [inside("768:508", row(23, 3, n="3")), end("768:600", 30, shop_t=4, other_t=1)]
    second = step(lake, spec, "b2", ended)
    assert [image["id"] for image in images(lake)] == ["9"]
    assert second.waiting == 1
    third = step(lake, spec, "b3", [inside("768:512", row(24, 4, n="4")), row(40, 5, n="5")])
    assert [image["id"] for image in images(lake)] == ["1", "2", "3", "4", "5", "9"]
    assert third.extra_in == {OF_EARLIER: 3}
    assert step(lake, spec, "b4", [row(50, 6, n="6")]).waiting == 0


def test_rows_that_were_merged_before_their_begin_was_read_count(lake, migration):
    spec = migration()
    step(lake, spec, "b1", [inside("768:500", row(21, 1, n="1"))])
    assert len(images(lake)) == 1
    events = [event("begin", "768:500", 30), end("768:600", 31, shop_t=2)]
    step(lake, spec, "b2", [*events, inside("768:504", row(22, 2, n="2"))])
    assert [image["id"] for image in images(lake)] == ["1", "2"]


def test_a_begin_that_is_read_once_more_takes_nothing_back(lake, migration):
    """Not even where a late change has the row made of the whole log anew."""
    spec, table = (
        migration(),
        schema("shop.t", {"id": "int64", "n": "int32", "t": "string"}, ("id",)),
    )
    whole = [row(1, 1, n="1", t="a", table=table), event("begin", "x", 3)]
    inner = inside("x", row(4, 1, "update", n="2", table=table))
    step(lake, spec, "b1", [*whole, inner, event("commit", "x", 5)], (table,))
    assert images(lake) == [{"id": "1", "n": "2", "t": "a"}]
    late = row(2, 1, "update", t="late", table=table)
    step(lake, spec, "b2", [event("begin", "x", 6), late], (table,))
    assert images(lake) == [{"id": "1", "n": "2", "t": "late"}]
    step(lake, spec, "b3", [event("commit", "x", 7), row(3, 1, "update", n="3", table=table)])
    assert images(lake) == [{"id": "1", "n": "2", "t": "late"}]


def test_a_statement_of_a_binlog_commits_itself(lake, migration):
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, n="1"), event("begin", "0-1-7", 2)])
    step(lake, spec, "b2", [inside("0-1-7", row(3, 0, "truncate"))])
    assert images(lake) == []


def test_what_follows_in_a_binlog_ends_the_transaction_before(lake, migration):
    spec = migration()
    begun = [event("begin", "0-1-7", 2), inside("0-1-7", row(3, 1, n="1"))]
    assert step(lake, spec, "b1", begun).waiting == 1
    # A row of a later one; its begin is read in a later batch.
    step(lake, spec, "b2", [inside("0-1-8", row(5, 2, n="2"))])
    assert [image["id"] for image in images(lake)] == ["1", "2"]
    cut = [event("begin", "0-1-9", 10), inside("0-1-9", row(11, 3, n="3"))]
    assert step(lake, spec, "b3", cut).waiting == 1
    # The connector began anew with it, and went on to the next.
    step(lake, spec, "b4", [event("begin", "0-1-9", 12), event("begin", "0-1-10", 14)])
    assert [image["id"] for image in images(lake)] == ["1", "2", "3"]


def test_a_quiet_source_does_not_stop_its_batches(lake, migration):
    """SQL Server's end comes with the next transaction, which may be long in coming."""
    import time

    spec = migration(transactions={"longest_wait": "0s"})
    id_ = "00000025:00000d08:0025"
    step(lake, spec, "b1", [event("begin", id_, 1), inside(id_, row(2, 1, n="1"))])
    assert images(lake) == []
    time.sleep(1.1)
    report = step(lake, spec, "b2", [row(3, 2, n="2")])
    assert [image["id"] for image in images(lake)] == ["1", "2"]
    assert "its end has not come within transactions.longest_wait (0s)" in report.warnings[0]


def test_a_row_that_comes_twice_is_no_row_that_is_missing(lake, migration):
    """The end announces two rows; one of them comes twice before the other."""
    spec = migration()
    begun = [event("begin", "x", 1), inside("x", row(2, 1, n="1", place=(0, 2)))]
    again = inside("x", row(2, 1, n="1", place=(0, 9)))
    report = step(lake, spec, "b1", [*begun, again, end("x", 5, shop_t=2)])
    assert (images(lake), report.waiting) == ([], 2)
    step(lake, spec, "b2", [inside("x", row(2, 1, n="1", place=(0, 12)))])
    assert images(lake) == []
    step(lake, spec, "b3", [inside("x", row(3, 2, n="2", place=(0, 3)))])
    assert [image["id"] for image in images(lake)] == ["1", "2"]


def test_rows_of_what_was_rolled_back_do_not_show_however_late_they_come_again(lake, migration):
    spec, inner = migration(), inside("x", row(2, 1, n="1"))
    step(lake, spec, "b1", [event("begin", "x", 1), inner, event("rollback", "x", 4)])
    report = step(lake, spec, "b2", [inner, row(9, 2, n="2")])
    assert images(lake) == [{"id": "2", "n": "2"}]
    assert report.skipped == {"rolled back": 1}
    # The name begins anew, and that one is committed.
    anew = [event("begin", "x", 20), inside("x", row(21, 3, n="3")), event("commit", "x", 22)]
    step(lake, spec, "b3", anew)
    assert [image["id"] for image in images(lake)] == ["2", "3"]
    # Starting anew from the log tells the two from each other.
    step(lake, spec, "b4", [row(30, 1, "update"), row(31, 4, "update", old=3)])
    assert images(lake) == [{"id": "1"}, {"id": "2", "n": "2"}, {"id": "4", "n": "3"}]


def test_what_was_merged_before_its_begin_was_read_stays_when_rows_start_anew(lake, migration):
    """Also where that transaction was rolled back in the end."""
    table = schema("shop.t", {"id": "int64", "n": "int32", "t": "string"}, ("id",))
    spec = migration()
    first = [row(1, 1, n="1", t="a", table=table), row(2, 2, n="2", t="b", table=table)]
    early = inside("x", row(4, 1, "update", n="4", table=table))
    step(lake, spec, "b1", [*first, early], (table,))
    held = inside("x", row(6, 2, "update", n="6", table=table))
    step(lake, spec, "b2", [event("begin", "x", 5), held], (table,))
    step(lake, spec, "b3", [event("rollback", "x", 7)], (table,))
    wanted = [{"id": "1", "n": "4", "t": "a"}, {"id": "2", "n": "2", "t": "b"}]
    assert images(lake) == wanted
    # A late change below the row has it made of the whole log.
    step(lake, spec, "b4", [row(3, 1, "update", t="late", table=table)], (table,))
    assert images(lake) == [{**wanted[0], "t": "late"}, wanted[1]]
    log = lake.read(lake.log("changes")).where("table = 't' AND outcome = 'ok'")
    rows = [r.asDict() for r in log.orderBy("order_key").collect()]
    sentences = merged_facts(lake, "shop.t", rows).waiting.values()
    assert list(sentences) == ["rolled back with its transaction x"]


def test_a_batch_without_changes_forgets_no_transaction(lake, migration):
    spec = migration()
    step(lake, spec, "b1", [event("begin", "x", 1), inside("x", row(2, 1, n="1"))])
    merge(lake, spec, "b2")
    let_pass(lake, "b2")
    step(lake, spec, "b3", [event("commit", "x", 3)])
    assert [image["id"] for image in images(lake)] == ["1"]


def test_a_begin_that_is_mended_behind_its_end_opens_nothing(lake, migration):
    spec = migration()
    step(lake, spec, "b1", [inside("x", row(2, 1, n="1")), event("commit", "x", 3)])
    put(lake, "b2", [event("begin", "x", 1), inside("x", row(4, 2, n="2"))], [TABLE])
    report = merge(lake, spec, "b2", mode="replay")
    let_pass(lake, "b2")
    assert (report.waiting, [image["id"] for image in images(lake)]) == (0, ["1", "2"])
