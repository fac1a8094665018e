"""Tables that become one, from messages to published messages, in a real lake."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.spark.merge.test_full_loads import oms
from tests.spark.test_mapping import batches, publish, published, rows_of, statement_of
from waybill.errors import ConfigurationError, described
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.report import TABLES_HELD

pytestmark = pytest.mark.spark

TABLES = {"shop_*.orders_*": {"key": ["id"], "columns": {"id": "bigint", "v": "string"}}}
MAP = [
    {
        "tables": "shop_*.orders_*",
        "rename": {"database": "shop", "table": "orders"},
        "join": {"column": "shard"},
    }
]
DISTINCT = [{**MAP[0], "join": {"column": "shard", "keys": "distinct"}}]
ONE, TWO = "shop_1.orders_1", "shop_2.orders_7"
NAME = "shop.orders"


def row(number: int, value: str | None = "a", **more: Any) -> dict[str, Any]:
    return {"id": number, "v": value, **more}


def message(place: int, kind: str, before: Any, after: Any, shard: str = ONE) -> bytes:
    data = json.loads(oms(place, kind, before, after))
    database, table = shard.split(".")
    data["allMetaData"].update(db=database, table_name=table, dbType="MYSQL")
    return json.dumps(data).encode()


def statement(place: int, sql: str, shard: str = ONE) -> bytes:
    return statement_of(message(place, "INSERT", None, {}, shard), sql)


@pytest.fixture
def run(spark, migration, tmp_path):
    return batches(spark, migration, tmp_path, TABLES, MAP)


def shown(spark: Any, spec: Any) -> dict[tuple[str, int], str]:
    return {(r["shard"], r["id"]): r["v"] for r in rows_of(spark, spec, NAME)}


def test_a_truncate_and_a_drop_take_only_the_rows_of_their_table(spark, run, tmp_path):
    fields = {"publish": publish(tmp_path)}
    first = [
        message(10, "INSERT", None, row(1)),
        message(11, "INSERT", None, row(2)),
        message(12, "UPDATE", row(2), row(3)),
        message(5, "INSERT", None, row(1, "b"), TWO),
        statement(20, "TRUNCATE TABLE orders_1"),
        message(21, "INSERT", None, row(4)),
        message(6, "UPDATE", row(1, "b"), row(1, "c"), TWO),
    ]
    spec, waybill = run(first, **fields)
    assert set(Lake.open(spark, spec).merged_tables()) == {NAME}
    assert shown(spark, spec) == {(ONE, 4): "a", (TWO, 1): "c"}
    account = waybill.stage("convert")
    assert account.skipped == {"its rows of the joined table are deleted": 1}
    assert account.extra_in == {"deletes of rows of emptied tables": 3}
    assert (account.rows_in, account.rows_out) == (7, 9)
    deletes = [
        (m["type"], m["data"][0]["id"], m["data"][0]["shard"])
        for m in published(tmp_path / "out", "b1")
    ]
    assert deletes == [
        ("INSERT", "1", ONE),
        ("INSERT", "2", ONE),
        ("UPDATE", "3", ONE),
        ("INSERT", "1", TWO),
        *[("DELETE", number, ONE) for number in ("1", "2", "3")],
        ("INSERT", "4", ONE),
        ("UPDATE", "1", TWO),
    ]
    # What comes late is void for its own table, and a DROP of the other one leaves this one.
    late = [
        message(13, "INSERT", None, row(9)),
        message(7, "INSERT", None, row(9, "d"), TWO),
        statement(30, "DROP TABLE orders_7", TWO),
        statement(22, "ALTER TABLE orders_1 ADD COLUMN note VARCHAR(9)"),
        message(23, "INSERT", None, row(5, note="n")),
        message(31, "INSERT", None, row(8, "e"), TWO),
    ]
    spec, waybill = run(late, **fields)
    assert shown(spark, spec) == {(ONE, 4): "a", (ONE, 5): "a", (TWO, 8): "e"}
    assert {r["id"]: r["note"] for r in rows_of(spark, spec, NAME)} == {4: None, 5: "n", 8: None}
    account = waybill.stage("convert")
    assert account.skipped == {
        "from before its table was emptied": 1,
        "its rows of the joined table are deleted": 1,
        "statement of one of the joined tables": 1,
    }
    assert account.extra_in == {"deletes of rows of emptied tables": 2}
    assert not [m for m in published(tmp_path / "out", "b2") if m["isDdl"]]


def test_a_reload_brings_nothing_back_that_was_emptied(spark, run):
    first = [message(1, "INSERT", None, row(1)), message(1, "INSERT", None, row(1, "b"), TWO)]
    run(first)
    spec, _ = run([statement(2, "TRUNCATE TABLE orders_1"), message(3, "INSERT", None, row(2))])
    wanted = {(ONE, 2): "a", (TWO, 1): "b"}
    assert shown(spark, spec) == wanted
    waybill = run_migration(spec, batch="b3", spark=spark, mode="reload", tables=[NAME])
    assert shown(spark, spec) == wanted
    # The row that was emptied is void, so two of three make the table anew.
    account = waybill.stage("convert")
    assert account.extra_in == {"rows of reloaded tables": 4}
    assert account.skipped == {
        "from before its table was emptied": 1,
        "its rows of the joined table are deleted": 1,
    }


def test_what_was_emptied_stays_so_though_a_batch_joins_nothing(spark, run):
    run([message(1, "INSERT", None, row(1)), statement(5, "TRUNCATE TABLE orders_1")])
    run([], map=[])
    spec, waybill = run([message(2, "INSERT", None, row(2)), message(6, "INSERT", None, row(3))])
    assert waybill.stage("convert").skipped == {"from before its table was emptied": 1}
    assert shown(spark, spec) == {(ONE, 3): "a"}


def test_a_reload_takes_a_shard_in_as_it_is_now(spark, run):
    emptied = [
        message(1, "INSERT", None, row(1)),
        message(1, "INSERT", None, row(7, "b"), TWO),
        statement(2, "TRUNCATE TABLE orders_7", TWO),
        message(3, "INSERT", None, row(8, "c"), TWO),
    ]
    without, _ = run(emptied, select={"exclude": [TWO]})
    assert shown(spark, without) == {(ONE, 1): "a"}
    spec = without.model_copy(update={"select": run([])[0].select})
    run_migration(spec, batch="b3", spark=spark, mode="reload", tables=[NAME])
    assert shown(spark, spec) == {(ONE, 1): "a", (TWO, 8): "c"}


def test_a_default_of_one_table_needs_a_decision(spark, run):
    begin = [message(1, "INSERT", None, row(1)), message(1, "INSERT", None, row(1, "b"), TWO)]
    spec, _ = run(begin)
    text = "ALTER TABLE orders_1 ADD COLUMN tier VARCHAR(9) DEFAULT 'basic'"
    with pytest.raises(ConfigurationError, match=r"WB-1106.*shop_1\.orders_1.*column tier.*shared"):
        run([statement(2, text)])
    shared = [{**MAP[0], "join": {"column": "shard", "defaults": "shared"}}]
    more = [statement(2, text, TWO), message(3, "INSERT", None, row(2, tier="gold"), TWO)]
    spec, _ = run(more, map=shared)
    assert [r["tier"] for r in rows_of(spark, spec, NAME)] == ["basic", "basic", "gold"]


def test_a_table_whose_types_do_not_go_together_waits(run):
    tables = {ONE: TABLES["shop_*.orders_*"], TWO: {"key": ["id"], "columns": {"id": "string"}}}
    run([message(1, "INSERT", None, row(1))], tables=tables)
    other = message(1, "INSERT", None, {"id": "x", "v": "b"}, TWO)
    _, waybill = run([other], tables=tables)
    assert "column id of shop.orders" in waybill.stage("merge").details[TABLES_HELD][NAME]["why"]


def test_distinct_keys_may_not_meet(spark, run):
    spec, _ = run(
        [message(1, "INSERT", None, row(1)), message(2, "INSERT", None, row(2), TWO)], map=DISTINCT
    )
    lake = Lake.open(spark, spec)
    keys = {r["_waybill_key"] for r in lake.read(lake.merged_tables()[NAME]).collect()}
    assert keys == {'{"id":"1"}', '{"id":"2"}'}
    meet = (
        r"WB-1106.*key \{\"id\":\"1\"\}.*_1\.orders_1 at shop/0/0 and shop_2\.orders_7 at shop/1/1"
    )
    with pytest.raises(ConfigurationError, match=meet) as caught:
        run(
            [statement(3, "TRUNCATE TABLE orders_7", TWO), message(4, "INSERT", None, row(1), TWO)],
            map=DISTINCT,
        )
    public = described(caught.value)["message"]
    assert public.startswith(
        "1 key of shop.orders is in two of its tables, shop_1.orders_1 at shop/0/0 and "
        "shop_2.orders_7 at shop/1/1, and map.join.keys says"
    )
    assert '"id"' not in public, "mails and pages have it"


def test_a_table_of_its_own_may_have_a_column_of_that_name(run):
    """Only rows of the joined table are held against each other."""
    declared = {"id": "bigint", "shard": "string", "v": "string"}
    tables = {**TABLES, "shop_1.audit": {"key": ["id"], "columns": declared}}
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(1, shard="a"), "shop_1.audit"),
        message(3, "UPDATE", row(1, shard="a"), row(1, shard="b"), "shop_1.audit"),
    ]
    _, waybill = run(first, map=DISTINCT, tables=tables)
    assert waybill.stage("convert").rows_out == 3


def test_a_drop_of_several_tables_is_one_of_each(spark, run):
    people = {"shop_1.people": {"key": ["id"], "columns": {"id": "bigint", "v": "string"}}}
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(1, "b"), TWO),
        message(3, "INSERT", None, row(7), "shop_1.people"),
        statement(4, "DROP TABLE orders_1, people"),
        statement(5, "DROP TABLE nothing, shop_2.nowhere", "shop_1.people"),
        message(6, "INSERT", None, row(8), "shop_1.people"),
    ]
    spec, waybill = run(first, tables={**TABLES, **people})
    assert shown(spark, spec) == {(TWO, 1): "b"}
    assert [r["id"] for r in rows_of(spark, spec, "shop_1.people")] == [8]
    account = waybill.stage("convert")
    assert account.extra_in == {"deletes of rows of emptied tables": 1}
    assert (account.rows_in, account.rows_out) == (6, 7)


def test_distinct_keys_are_emptied_by_table(spark, run):
    first = [
        message(1, "INSERT", None, row(1)),
        message(2, "INSERT", None, row(2), TWO),
        statement(3, "TRUNCATE TABLE orders_7", TWO),
    ]
    spec, _ = run(first, map=DISTINCT)
    assert shown(spark, spec) == {(ONE, 1): "a"}


def history(dice: random.Random, shard: str, first: int) -> tuple[list[bytes], dict[Any, str]]:
    """Messages of one table, and its rows at the end."""
    rows: dict[int, dict[str, Any]] = {}
    made: list[bytes] = []
    for place in range(first, first + 3 * 30, 3):
        number, value = dice.randrange(6), f"v{place}"
        kind = dice.choice(["write", "write", "write", "move", "delete", "empty"])
        if kind == "empty" and dice.random() < 0.5:
            made.append(statement(place, f"TRUNCATE TABLE {shard.split('.')[1]}", shard))
            rows.clear()
        elif kind == "delete" and number in rows:
            made.append(message(place, "DELETE", rows.pop(number), None, shard))
        elif kind == "move" and number in rows and (new := dice.randrange(6)) not in rows:
            old = rows.pop(number)
            rows[new] = row(new, value)
            made.append(message(place, "UPDATE", old, rows[new], shard))
        else:
            old = rows.get(number)
            rows[number] = row(number, value)
            made.append(message(place, "UPDATE" if old else "INSERT", old, rows[number], shard))
    return made, {(shard, number): one["v"] for number, one in rows.items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_in_any_order_and_twice(spark, run, seed):
    """Sequence ids of the two tables have nothing to do with each other."""
    dice = random.Random(seed)
    one, wanted = history(dice, ONE, 1000)
    two, more = history(dice, TWO, 10)
    messages = (one + two) * 2
    dice.shuffle(messages)
    came: Counter[str] = Counter()
    for n in range(3):
        spec, waybill = run(messages[n::3])
        for stage in ("convert", "merge"):
            waybill.stage(stage).reconcile()
        came.update(waybill.stage("convert").skipped)
    assert shown(spark, spec) == {**wanted, **more}
    assert came["from before its table was emptied"]


def event(place: int, op: str, before: Any, after: Any, shard: str = ONE) -> bytes:
    """A message of DataHub, whose updates come as two."""
    database, table = shard.split(".")
    columns = [{"name": "id", "type": "LONG"}, {"name": "v", "type": "STRING"}]
    source = {"dbName": database, "dbType": "MySQL", "tableName": table}
    payload: dict[str, Any] = {
        "op": op,
        "sequenceId": str(place),
        "timestamp": {"eventTime": place},
    }
    for name, image in (("before", before), ("after", after)):
        if image is not None:
            payload[name] = {"dataColumn": image}
    schema = {"dataColumn": columns, "source": source, "primaryKey": ["id"]}
    return json.dumps({"schema": schema, "payload": payload, "version": "0.0.1"}).encode()


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_halves_of_updates_that_meet_late_stay_void(spark, run, cut):
    """Of two updates from before the TRUNCATE; what is cut off comes in a second batch."""
    one, two = event(5, "UPDATE_BEFOR", row(1), None), event(5, "UPDATE_AFTER", None, row(1, "b"))
    early = [event(3, "UPDATE_BEFOR", row(3), None), one]
    late = [event(3, "UPDATE_AFTER", None, row(3, "c")), two]
    messages = [
        event(4, "INSERT", None, row(7, "x"), TWO),
        event(9, "TRUNCATE", None, None),
        *early,
        *late,
    ]
    given = {"envelope": "datahub-blob", "tables": {}}
    run(messages[: cut + 1] if cut > 1 else [messages[0], *early, messages[1]], **given)
    spec, waybill = run(messages[cut + 1 :] if cut > 1 else late, **given)
    assert shown(spark, spec) == {(TWO, 7): "x"}
    assert waybill.stage("convert").waiting == 0


def test_a_target_begins_with_a_joined_table_of_which_one_part_was_emptied(spark, run, tmp_path):
    begin = [message(n, "INSERT", None, row(n)) for n in range(1, 7)]
    begin += [message(n, "INSERT", None, row(n, "b"), TWO) for n in range(1, 4)]
    begin += [statement(20, "TRUNCATE TABLE orders_1")]
    first = publish(tmp_path)
    spec, _ = run(begin, publish=first)
    new = {"envelope": "oms-default", "name": "new", "files": {"path": str(tmp_path / "new")}}
    more = [*first, {**new, "bootstrap": "tables"}]
    spec, waybill = run([message(30, "INSERT", None, row(9))], publish=more)
    begun = waybill.stage("convert").details["bootstrap"]["new"]
    assert begun["tables"] == {NAME: {"rows": 3, "deleted": 6}}
    lake = Lake.open(spark, spec)
    sent = lake.read(lake.log("outbox")).where("target = 'new' AND outcome = 'ok'")
    place = ["topic", "partition", "offset", "index", "message"]
    assert sent.groupBy("batch", *place).count().where("count > 1").isEmpty()
    assert sent.count() == 10
    # All that one statement deletes has one place in the order, and needs no topic for each.
    assert sent.select("topic").distinct().count() <= 4
    assert shown(spark, spec) == {(TWO, 1): "b", (TWO, 2): "b", (TWO, 3): "b", (ONE, 9): "a"}
