"""Tables that become one: their key, their statements, and what is void."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.histories import by_name, image
from tests.unit.mapping.test_column_renames import rows_of
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.errors import ConfigurationError
from waybill.mapping.changes import STATEMENT, ChangeMapper, add_name, joined_tables
from waybill.mapping.rules import Join, MappingRule, Mask, Rules
from waybill.mapping.shards import EMPTIED, OF_ONE, EmptiedShards, Floor, read_emptied
from waybill.order import order_key
from waybill.records import Change, Column, Message, TableSchema, intern_schema
from waybill.tables import TableRules
from waybill.types import STRING, parse_type

MESSAGE = Message("t", 0, 0, None, None, None)
COLUMNS = (Column("id", parse_type("bigint"), "bigint", False), Column("v", STRING, "text"))


OF = ("shop", None, "orders")


def rules(in_key: bool = True, shared: bool = False, **more) -> Rules:
    names = {"database": "shop", "table": "orders"}
    join = Join("shard", in_key, shared)
    return Rules(of_tables=(MappingRule(("shop_*.orders_*",), names, join=join, **more),))


def table(database: str = "shop_1", name: str | None = "orders_1", **more) -> TableSchema:
    given = {"columns": COLUMNS, "key": ("id",), "dialect": "mysql", **more}
    return intern_schema(database, None, name, given["columns"], given["key"], given["dialect"])


def event(operation: str, text: str | None, name: str | None = "orders_1") -> Change:
    return Change(operation, table("shop_1", name, columns=(), key=None), MESSAGE, ddl_text=text)


def test_rows_tell_their_table_and_keys_do_too():
    schema = table()
    change = Change("update", schema, MESSAGE, before=image(schema, id="1"), moved_from=None)
    change.after = image(schema, id="2", v="x")
    made = ChangeMapper(rules()).map(change).change
    assert made is not None
    assert (made.schema.qualified_name, made.schema.key) == ("shop.orders", ("id", "shard"))
    assert by_name(made.schema, made.after) == {"id": "2", "v": "x", "shard": "shop_1.orders_1"}
    assert by_name(made.schema, made.before) == {"id": "1", "shard": "shop_1.orders_1"}
    assert made.old_key_image() == made.schema.Key("1", "shop_1.orders_1")
    apart = ChangeMapper(rules(in_key=False)).map(change).change
    assert apart is not None
    assert apart.schema.key == ("id",)
    assert apart.key_image() == apart.schema.Key("2")


def test_a_masked_key_is_distinguished_too():
    mapped = ChangeMapper(rules(masks={"id": Mask("hmac", "k")})).of(table())
    assert mapped is not None
    assert mapped.key(table().Key("1")).f1 == "shop_1.orders_1"


def test_tables_of_one_join_have_one_name_and_others_have_another():
    mapper = ChangeMapper(rules())
    one, two = mapper.of(table()), mapper.of(table("shop_2", "orders_7"))
    assert one is not None
    assert two is not None
    assert one.schema is two.schema
    with pytest.raises(
        ConfigurationError, match=r"shards of shop\.orders and shop\.orders one name"
    ):
        mapper.of(table("shop", "orders"))
    with pytest.raises(ConfigurationError, match=r"shop\.orders and shards of shop\.orders"):
        add_name({"shop.orders": "shop.orders"}, "shop.orders", "shards of shop.orders")


def test_one_table_is_joined_in_one_way():
    names = {"database": "shop", "table": "orders"}
    ways = [
        MappingRule((f"shop_{number}.orders_1",), names, join=join)
        for number, join in ((1, Join("a", False)), (2, Join("b", False)), (3, Join("a", False)))
    ]
    mapper = ChangeMapper(Rules(of_tables=tuple(ways)))
    assert mapper.of(table("shop_1")) is not None
    assert mapper.of(table("shop_3")) is not None
    with pytest.raises(ConfigurationError, match=r"make shop\.orders and say .* shop_2\.orders_1:"):
        mapper.of(table("shop_2"))


def test_which_names_are_those_of_joined_tables():
    mapper = ChangeMapper(rules())
    for schema in (table(), table("shop_2", "orders_7"), table("shop_3", "people")):
        mapper.of(schema)
    assert joined_tables(mapper.names) == ["shop.orders"]


def test_what_cannot_be_joined():
    with pytest.raises(ConfigurationError, match=r"shop_1\.orders_1 has no key"):
        ChangeMapper(rules()).of(table(key=()))
    own = (*COLUMNS, Column("shard", STRING))
    with pytest.raises(ConfigurationError, match="two columns the name 'shard'"):
        ChangeMapper(rules()).of(table(columns=own))


@pytest.mark.parametrize(
    ("operation", "text", "emptied"),
    [
        ("truncate", None, ("shop_1.orders_1",)),
        ("truncate", "anything", ("shop_1.orders_1",)),
        ("ddl", "TRUNCATE TABLE orders_1", ("shop_1.orders_1",)),
        ("ddl", "DROP TABLE IF EXISTS `shop_1`.`orders_1`", ("shop_1.orders_1",)),
        ("ddl", "DROP TABLE orders_1, orders_2", ("shop_1.orders_1", "shop_1.orders_2")),
        ("ddl", "TRUNCATE ORDERS_1, orders_2", ("shop_1.orders_1", "shop_1.orders_2")),
        ("ddl", "CREATE OR REPLACE TABLE orders_1 (id INT)", ("shop_1.orders_1",)),
    ],
)
def test_statements_that_empty_a_table(operation, text, emptied):
    found = ChangeMapper(rules()).map(event(operation, text))
    assert found == (None, EMPTIED, None, (EmptiedShards(emptied, "shard", True, OF),))


@pytest.mark.parametrize("name", ["orders_1", "people", "hidden"])
@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("DROP TABLE orders_1, people", "DROP TABLE shop_1.folk"),
        ("DROP TABLE IF EXISTS people, `orders_1`", "DROP TABLE IF EXISTS shop_1.folk"),
        ("TRUNCATE TABLE orders_1, people", "TRUNCATE TABLE shop_1.folk"),
        (
            "DROP TABLE people, shop_1.orders_1, hidden, shop_2.others CASCADE",
            "DROP TABLE shop_1.folk, shop_2.others CASCADE",
        ),
    ],
)
def test_a_statement_about_several_tables_is_one_of_each(name, text, rest):
    """Whichever of them the message names, and never of the whole joined table."""
    given = Rules(
        exclude=("shop_1.hidden",),
        of_tables=(*rules().of_tables, MappingRule(("*.people",), {"table": "folk"})),
    )
    told = event("ddl", text, name)
    found = ChangeMapper(given).map(told)
    assert found.emptied == (EmptiedShards(("shop_1.orders_1",), "shard", True, OF),)
    assert found.change is not None
    assert found.change.schema.qualified_name == "shop_1.folk"
    assert found.change.ddl_text == rest
    rows = pa.Table.from_batches(
        MappedDecoding(given, TableRules()).of([rows_of(told)])
    ).to_pylist()
    (row,) = [one for one in rows if one["outcome"] == "ok"]
    assert (row["database"], row["table"], row["ddl_text"]) == ("shop_1", "folk", rest)
    assert read_emptied(row["extra"]) == found.emptied
    assert row["schema_id"] in {o["schema_id"] for o in rows if o["outcome"] == "schema"}


@pytest.mark.parametrize("name", [None, "people"])
@pytest.mark.parametrize("text", ["DROP TABLE shop_1.orders_1", "TRUNCATE `orders_1`"])
def test_a_statement_about_one_table_that_its_message_does_not_name(name, text):
    told = event("ddl", text, name)
    expected = (EmptiedShards(("shop_1.orders_1",), "shard", True, OF),)
    assert ChangeMapper(rules()).map(told) == (None, EMPTIED, None, expected)
    rows = pa.Table.from_batches(MappedDecoding(rules(), TableRules()).of([rows_of(told)]))
    (row,) = [one for one in rows.to_pylist() if one["outcome"] == "skipped"]
    assert (row["reason_kind"], read_emptied(row["extra"])) == (EMPTIED, expected)
    for action, why in (("ADD c INT", OF_ONE), ("ADD c INT DEFAULT NULL", OF_ONE)):
        told = event("ddl", f"ALTER TABLE shop_1.orders_1 {action}", name)
        assert ChangeMapper(rules()).map(told)[:2] == (None, why)
        rows = pa.Table.from_batches(MappedDecoding(rules(), TableRules()).of([rows_of(told)]))
        (row,) = [one for one in rows.to_pylist() if one["outcome"] == "skipped"]
        assert row["reason_kind"] == why
    with pytest.raises(ConfigurationError, match=r"shop_1\.orders_1 a value in the new column c"):
        ChangeMapper(rules()).map(event("ddl", "ALTER TABLE orders_1 ADD c INT DEFAULT 5", name))


def test_two_joined_tables_in_one_statement():
    lines = MappingRule(
        ("shop_*.lines_*",), {"database": "shop", "table": "lines"}, join=Join("of", False)
    )
    given = Rules(of_tables=(*rules().of_tables, lines))
    told = event("ddl", "DROP TABLE orders_1, lines_1, lines_2")
    found = ChangeMapper(given).map(told)
    expected = (
        EmptiedShards(("shop_1.orders_1",), "shard", True, OF),
        EmptiedShards(("shop_1.lines_1", "shop_1.lines_2"), "of", False, ("shop", None, "lines")),
    )
    assert found == (None, EMPTIED, None, expected)
    rows = pa.Table.from_batches(
        MappedDecoding(given, TableRules()).of([rows_of(told)])
    ).to_pylist()
    (row,) = [one for one in rows if one["outcome"] == "skipped"]
    assert (row["reason_kind"], row["ddl_text"]) == (EMPTIED, None)
    assert read_emptied(row["extra"]) == expected
    assert read_emptied(None) == read_emptied('{"canal":{}}') == ()


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ("ddl", "DROP TEMPORARY TABLE orders_1"),
        ("ddl", "TRUNCATE TABLE orders_1 PARTITION (p0)"),
        ("ddl", "ALTER TABLE orders_1 ADD COLUMN c INT"),
        ("ddl", "ALTER TABLE orders_1 ADD COLUMN c INT DEFAULT NULL"),
        ("ddl", "ALTER TABLE orders_1 DROP COLUMN v"),
        ("ddl", "CREATE TABLE orders_1 (id INT)"),
        ("ddl", "RENAME TABLE orders_1 TO orders_1_old"),
        ("ddl", "not sql at all ("),
        ("ddl", None),
        ("other", "INSERT INTO orders_1 VALUES (1)"),
        ("other", None),
    ],
)
def test_statements_of_one_table_do_not_hold_for_all(operation, text):
    assert ChangeMapper(rules()).map(event(operation, text))[:3] == (None, OF_ONE, None)


@pytest.mark.parametrize(
    "kind", ["INT DEFAULT 5", "INT NOT NULL", "VARCHAR(9) NOT NULL DEFAULT ''"]
)
def test_values_that_no_message_tells_need_a_decision(kind):
    text = f"ALTER TABLE orders_1 ADD COLUMN c {kind}"
    with pytest.raises(ConfigurationError, match=r"shop_1\.orders_1 a value in the new column c"):
        ChangeMapper(rules()).map(event("ddl", text))
    (change, *_) = ChangeMapper(rules(shared=True)).map(event("ddl", text))
    assert change is not None
    assert change.ddl_text == text.replace("orders_1", "orders")
    # Of a column that is left out nobody needs to know.
    assert ChangeMapper(rules(drop=("c",))).map(event("ddl", text))[1] == OF_ONE


@pytest.mark.parametrize("column", ["COLUMN ", ""])
def test_a_column_with_another_name_is_for_the_merge_to_stop_at(column):
    (change, *_) = ChangeMapper(rules()).map(
        event("ddl", f"ALTER TABLE orders_1 RENAME {column}v TO w")
    )
    assert change is not None
    assert change.ddl_text == f"ALTER TABLE orders RENAME {column}v TO w"
    masked = rules(drop=("v", "w"))
    found = ChangeMapper(masked).map(event("ddl", "ALTER TABLE orders_1 RENAME COLUMN v TO w"))
    assert found[:2] == (None, STATEMENT)


def order(number: int | None, offset: int = 0) -> str:
    return order_key(None if number is None else (number,), 1, 0, offset, 0)


def test_what_is_void():
    here, there = ("t", 0, 3), ("t", 1, 3)
    assert Floor(order(5)).voids(order(4, 9), None, here, False)
    assert not Floor(order(5)).voids(order(6), None, here, False)
    assert Floor(order(5)).voids(order_key(None, 1, 0, 0, 0, True), None, here, False)
    placed = Floor(order(None, 7), place=("t", 0, 7)).behind(order(5, 3))
    assert placed.voids(order(5, 3), None, here, False)
    assert not placed.voids(order(6, 1), None, there, False)
    assert Floor(order(5)).behind(order(9)) == Floor(order(5))


def test_a_change_that_stands_ahead_is_void_whatever_its_id():
    """A statement without an id stands behind all that is in front of it in its partition."""
    placed = Floor(order(None, 7), place=("t", 0, 7)).behind(order(5, 3))
    assert placed.voids(order(9, 6), None, ("t", 0, 6), False)
    assert not placed.voids(order(9, 8), None, ("t", 0, 8), False)


def test_times_order_what_has_no_id_if_they_may():
    at = Floor(order(None, 7), 1000)
    place = ("t", 1, 3)
    assert at.voids(order(None, 9), 999, place, True)
    assert not at.voids(order(None, 1), 1001, place, True)
    assert not at.voids(order(None, 9), 1000, place, True)
    # A time that is on no calendar is none.
    assert at.voids(order(None, 9), 10**18, place, True)
