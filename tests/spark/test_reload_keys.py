"""The rows that a verification found to differ once more, from the archive."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from tests.spark import test_shards as shards
from tests.spark.merge import test_mapped_transactions as transactions
from tests.spark.test_mapping import TABLES, message, row, rows_of, statement
from tests.spark.test_reload import bring, sent, spec
from waybill.convert.reloading_keys import KEYS, NO_MESSAGE, OTHERS
from waybill.errors import ConfigurationError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.lake.rebuilt_rows import RebuiltTables
from waybill.lake.table_properties import KEPT_SINCE
from waybill.lake_columns import REBUILT_KEYS
from waybill.overview.row_changes import changes_of_row
from waybill.verify.deciding import DIFFERS, Difference, Pending
from waybill.verify.results import Recording, TableResult

__all__ = ["spec"]
pytestmark = pytest.mark.spark

PEOPLE = "shop.people"
NUMBERS = count(1)


def found(lake: Lake, *keys: dict[str, str], table: str = PEOPLE) -> None:
    """Keep what a verification has found: that rows differ."""
    seen = Pending("", "", 0, 0.0)
    rows = [Difference(json.dumps([*k.values()]), k, DIFFERS, {}, (1, 1), seen) for k in keys]
    facts = (table, "full", 9, 9, len(rows), 0, None, None, "", None, "", rows, {}, None)
    recording = Recording(lake, f"verify-{next(NUMBERS)}")
    recording.add([TableResult(*facts)])
    recording.finish()


def reload(spark: Any, spec: Any, batch: str, table: str = PEOPLE) -> Any:
    given = {"mode": "reload", "tables": [table], "keys": "differing"}
    return run_migration(spec, batch=batch, spark=spark, **given)


def whole_rows(lake: Lake, table: str = PEOPLE) -> dict[str, Any]:
    return {r["_waybill_key"]: r for r in lake.read(lake.merged_tables()[table]).collect()}


def values(lake: Lake, table: str = PEOPLE) -> dict[str, dict[str, Any]]:
    """The rows without the batch that wrote them."""
    rows = {key: r.asDict() for key, r in whole_rows(lake, table).items()}
    return {
        key: {**r, "_waybill_batch": None, "_waybill_image": json.loads(r["_waybill_image"])}
        for key, r in rows.items()
    }


def id_(number: int) -> dict[str, str]:
    return {"id": str(number)}


def test_rows_that_were_spoilt_are_right_again_and_no_other_is_touched(spark, spec, tmp_path):
    """One is wrong, one is gone, one was never there, one is right by now; one has its key of
    another row, in a key change."""
    whole = spec()
    first = [
        *(message(n, "INSERT", None, row(n)) for n in (1, 2, 3, 4)),
        message(5, "INSERT", None, row(1), "orders"),
        message(6, "UPDATE", row(3), row(7)),
        statement(7, "ALTER TABLE people ADD COLUMN city VARCHAR(20) DEFAULT 'Bonn'"),
        message(9, "INSERT", None, {**row(5), "city": "Rom"}),
    ]
    bring(tmp_path, "1", first)
    run_migration(whole, batch="b1", spark=spark)
    bring(tmp_path, "2", [message(8, "UPDATE", row(2), {**row(2, "new@b.c"), "city": "Ulm"})])
    run_migration(whole, batch="b2", spark=spark)
    lake = Lake.open(spark, whole)
    full = lake.merged_tables()[PEOPLE]
    was, before = whole_rows(lake), values(lake)
    assert [r["city"] for r in before.values()].count("Bonn") == 3
    lake.spark.sql(f"UPDATE {full} SET email = 'no', _waybill_image = '{{}}' WHERE id IN (2, 7)")
    lake.spark.sql(f"DELETE FROM {full} WHERE id = 4")
    assert values(lake) != before
    found(lake, id_(2), id_(4), id_(5), id_(7), id_(99))
    waybill = reload(spark, whole, "b3")
    assert whole_rows(lake)['{"id":"1"}'] == was['{"id":"1"}']
    assert values(lake) == before
    convert, merged = waybill.stage("convert"), waybill.stage("merge")
    # Both keys of the change of the key come, and nothing of the others.
    assert sent(tmp_path, "b3") == [("people", n) for n in ("2", "3", "4", "7", "5", "2")]
    assert convert.rows_out == 6
    assert convert.extra_in == {"rows of reloaded tables": 8}
    assert convert.skipped == {OTHERS: 2}
    assert convert.details[KEYS][PEOPLE] == {
        "that differ": 5,
        "linked with them": 1,
        "rebuilt": 5,
        NO_MESSAGE: 1,
        "left as they are": 0,
    }
    assert convert.details[REBUILT_KEYS] == {PEOPLE: "b3"}
    (warning,) = convert.warnings
    assert warning.startswith("no message is about 1 key of shop.people as the verification writes")
    # Two rows with wrong values, the tombstone that one has left, and the row that was right.
    assert merged.details[PEOPLE]["rows that were rebuilt"] == 4
    history = changes_of_row(lake, PEOPLE, "2", 9, by_time=False)
    assert [(r["batch"], r["operation"]) for r in history.rows] == [
        ("b3", "insert"),
        ("b3", "update"),
    ]


def test_a_row_stays_if_a_message_that_it_came_from_is_missing(spark, spec, tmp_path):
    """Others that differ are made anew, as today's mapping makes them."""
    old = spec()
    hidden = spec(map=[{"tables": PEOPLE, "columns": {"mask": {"email": {"text": "-"}}}}])
    bring(tmp_path, "1", [message(n, "INSERT", None, row(n)) for n in (1, 2, 3)])
    run_migration(old, batch="b1", spark=spark)
    bring(tmp_path, "2", [message(4, "UPDATE", row(2), row(2, "new@b.c"))])
    run_migration(old, batch="b2", spark=spark)
    lake = Lake.open(spark, old)
    lake.spark.sql(f"DELETE FROM {lake.log('archive')} WHERE `offset` = 1")
    run_migration(hidden, batch="b3", spark=spark)
    found(lake, id_(2), id_(3))
    waybill = reload(spark, hidden, "b4")
    assert rows_of(spark, hidden, PEOPLE) == [row(1), row(2, "new@b.c"), row(3, "-")]
    assert sent(tmp_path, "b4") == [("people", "3")]
    (warning,) = waybill.stage("convert").warnings
    assert warning.startswith(
        "1 key keeps its row of shop.people, and nothing of them is sent, because a message that "
        "they came from is not in the archive, or is not a change of them now (the first at "
        "shop/0/1)"
    )
    assert "`waybill run FILE --reload shop.people`" in warning
    assert waybill.stage("convert").details[KEYS][PEOPLE]["left as they are"] == 1
    lake.set_properties(lake.log("archive"), {KEPT_SINCE: "0"})
    with pytest.raises(ConfigurationError, match=r"no row of shop[.]people can be rebuilt"):
        reload(spark, hidden, "b5")


def test_rows_of_joined_tables_stay_as_their_truncate_left_them(spark, migration, tmp_path):
    """A TRUNCATE of one of them took rows away that its messages would bring back."""
    whole = migration(tables=shards.TABLES, envelope="oms-default", map=shards.MAP)
    first = [
        shards.message(1, "INSERT", None, shards.row(1)),
        shards.message(2, "INSERT", None, shards.row(2)),
        shards.statement(3, "TRUNCATE TABLE orders_1"),
        shards.message(4, "INSERT", None, shards.row(2, "b")),
        shards.message(1, "INSERT", None, shards.row(1, "c"), shards.TWO),
    ]
    bring(tmp_path, "1", first)
    run_migration(whole, batch="b1", spark=spark)
    wanted = {(shards.ONE, 2): "b", (shards.TWO, 1): "c"}
    assert shards.shown(spark, whole) == wanted
    lake = Lake.open(spark, whole)
    full = lake.merged_tables()[shards.NAME]
    lake.spark.sql(f"UPDATE {full} SET v = 'wrong', _waybill_image = '{{}}'")
    keys = [json.loads(key) for key in whole_rows(lake, shards.NAME)]
    gone = dict(keys[0], id="1", shard=shards.ONE)
    found(lake, gone, *keys, table=shards.NAME)
    waybill = reload(spark, whole, "b2", shards.NAME)
    assert shards.shown(spark, whole) == wanted
    assert waybill.stage("convert").warnings == []
    assert waybill.stage("convert").details[KEYS][shards.NAME]["rebuilt"] == 3


def test_what_a_dump_has_brought_is_replaced_though_it_names_the_table_otherwise(
    spark, migration, tmp_path
):
    """In a dump the first dot of the name ends the database, and in messages the last one does."""
    name, dump = "tenant.db.orders", tmp_path / "orders.csv"
    dump.write_text("id,email,phone\n1,a@b.c,1\n2,a@b.c,2\n3,a@b.c,3\n")
    full = {name: {"path": str(dump)}}
    whole = migration(tables={name: TABLES["shop.orders"]}, envelope="oms-default", full=full)
    bring(tmp_path, "1", [of_tenant(4, "UPDATE", row(1), row(1, "new@b.c"))])
    run_migration(whole, batch="b1", spark=spark)
    lake = Lake.open(spark, whole)
    before = values(lake, name)
    found(lake, id_(1), id_(2), table=name)
    reload(spark, whole, "b2", name)
    assert values(lake, name) == before
    head = lake.head(lake.log("changes"))
    tables = RebuiltTables(lake, head)
    log = lake.read(lake.log("changes"), head).where("outcome = 'ok'")
    counts = [(r.database, r["schema"], r.key, r.batch) for r in tables.counting(log).collect()]
    assert sorted(counts, key=str) == [
        ("tenant", "db", '{"id":"1"}', "b2"),
        ("tenant", "db", '{"id":"2"}', "b2"),
        ("tenant", "db", '{"id":"3"}', "b1"),
        ("tenant.db", None, '{"id":"1"}', "b2"),
    ]
    # A verification by changes looks for the name that messages have.
    marks = {one[:3] for one in tables.replaced if one.is_mark}
    assert marks == {("tenant.db", None, "orders")}


def of_tenant(place: int, kind: str, before: Any, after: Any) -> bytes:
    return message(place, kind, before, after, "orders").replace(b'"shop"', b'"tenant.db"')


def test_rows_of_a_transaction_that_has_not_ended_stay(spark, migration, tmp_path):
    """A row that the mapping leaves out by now is one of those that its end has announced."""
    name, event = "shop.public.people", transactions.event
    settings = {"replica_identity": "full"}
    fields = {"envelope": "debezium-json", "settings": settings, "tables": transactions.TABLES}
    old = migration(**fields)
    bring(tmp_path, "1", [event(n, "c", "people", None, (n, "a")) for n in (1, 2)])
    run_migration(old, batch="b1", spark=spark)
    second = [
        transactions.border("BEGIN", 10),
        event(11, "c", "people", None, (3, "c")),
        event(12, "u", "people", (1, "a"), (1, "b")),
        transactions.border("END", 90, people=3),
    ]
    bring(tmp_path, "2", second)
    run_migration(old, batch="b2", spark=spark)
    now = migration(**fields, map=[{"tables": name, "where": "v <> 'c'"}])
    lake = Lake.open(spark, now)
    full = lake.merged_tables()[name]
    lake.spark.sql(f"UPDATE {full} SET v = 'wrong', _waybill_image = '{{}}'")
    found(lake, id_(1), id_(2), id_(3), table=name)
    convert = reload(spark, now, "b3", name).stage("convert")
    assert {r.id: r.v for r in lake.read(full).collect()} == {1: "wrong", 2: "a"}
    assert convert.details[KEYS][name]["left as they are"] == 2
    (warning,) = convert.warnings
    assert warning.startswith(
        f"2 keys keep their rows of {name}, and nothing of them is sent, because a change of "
        "theirs is of a transaction that has not ended, or that was rolled back (the first at "
    )
    bring(tmp_path, "3", [event(13, "u", "people", (2, "a"), (2, "d"))])
    run_migration(now, batch="b4", spark=spark)
    assert {r.id: r.v for r in lake.read(full).collect()} == {1: "b", 2: "d", 3: "c"}
