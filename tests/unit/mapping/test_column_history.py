"""Conditions on messages from before their column was there."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import pytest

from tests.histories import image
from waybill.errors import ConfigurationError, MissingColumnError
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.column_history import ColumnHistory, history_of
from waybill.mapping.rules import MappingRule, Rules
from waybill.order import order_key
from waybill.records import Change, Column, Message, intern_schema
from waybill.types import STRING, parse_type

COLUMNS = (Column("id", parse_type("bigint"), None, False), Column("v", STRING))
UNKNOWN = r"WB-1106.*does not fit shop\.t: there is no column tier"


def change(operation: str, place: int, queue: int = 0, **more: Any) -> Change:
    """A change of a table that has no column `tier`, at a place in the order."""
    schema = intern_schema("shop", None, "t", COLUMNS, ("id",), "mysql")
    given = {"sequence": (place,), **more}
    images = {p: image(schema, **given.pop(p)) for p in ("before", "after") if p in given}
    message = Message("topic", queue, place, None, None, None)
    return Change(operation, schema, message, **images, **given)


def statement(text: str, place: int, dialect: str = "mysql", **more: Any) -> Change:
    schema = intern_schema("shop", None, "t", (), None, dialect)
    given = {"sequence": (place,), **more}
    message = Message("topic", 0, place, None, None, None)
    return Change("ddl", schema, message, ddl_text=text, **given)


def history(*statements: Change, **more: bool) -> ColumnHistory:
    return replace(history_of(statements), **more)


def mapped(one: Change, where: str, *statements: Change, **more: Any) -> Any:
    rules = Rules(of_tables=(MappingRule(("shop.t",), where=where),))
    return ChangeMapper(rules, history=history(*statements, **more)).map(one)


ADD = statement("ALTER TABLE t ADD COLUMN tier VARCHAR(9)", 10)
AWAY = "EXEC sp_rename 't.a', 'b', 'COLUMN'; EXEC sp_rename 't.tier', 'rank', 'COLUMN'"
BACK = "EXEC sp_rename 't.rank', 'tier', 'COLUMN'"
ROW = change("update", 5, before={"id": "1", "v": "a"}, after={"id": "1", "v": "b"})


@pytest.mark.parametrize(
    ("where", "meets"),
    [
        ("tier = 'gold'", False),
        ("tier <> 'gold'", False),
        ("NOT tier = 'gold'", False),
        ("tier IS NULL", True),
        ("TIER IS NOT NULL", False),
        ("tier IS TRUE", False),
        ("tier IS TRUE OR v IS NOT NULL", True),
        ("COALESCE(tier, 'basic') = 'basic'", True),
        ("LOWER(tier) = 'gold'", False),
        ("LENGTH(tier) > 3 OR id = 1", True),
        ("tier LIKE 'g%'", False),
        ("NOT tier LIKE 'g%'", False),
        ("tier IN ('a', 'b')", False),
        ("tier BETWEEN 1 AND 5", False),
        ("-tier > 5", False),
        ("tier > v", False),
        ("id = 1 OR tier = 'gold'", True),
    ],
)
def test_the_column_is_null_in_rows_from_before_it_came(where, meets):
    found = mapped(ROW, where, ADD)
    assert (found.change is not None, found.why) == (meets, None if meets else "where is not met")


def test_what_is_new_fails_the_condition_with_a_delete():
    row = change("upsert", 5, after={"id": "1", "v": "b"})
    found = mapped(row, "tier = 'gold'", ADD).change
    assert (found.operation, found.before.f0) == ("delete", "1")
    assert mapped(change("delete", 5, before={"id": "1"}), "tier = 'x'", ADD).why


@pytest.mark.parametrize(
    ("statements", "row"),
    [
        ((), ROW),
        ((statement("ALTER TABLE t ADD COLUMN other INT", 10),), ROW),
        ((statement("ALTER TABLE u ADD COLUMN tier INT", 10),), ROW),
        # The row may as well leave it out.
        ((ADD,), change("insert", 11, after={"id": "1"})),
        ((ADD,), change("delete", 11, before={"id": "1"})),
        # Rows have a value in it that no message tells.
        ((statement("ALTER TABLE t ADD COLUMN tier VARCHAR(9) DEFAULT 'gold'", 10),), ROW),
        ((statement("ALTER TABLE t ADD COLUMN tier INT NOT NULL", 10),), ROW),
        ((statement("ALTER TABLE t ADD COLUMN tier TIMESTAMP", 10),), ROW),
        ((statement("ALTER TABLE t ADD COLUMN tier INT AUTO_INCREMENT UNIQUE", 10),), ROW),
        ((statement("ALTER TABLE t ADD COLUMN tier INT AS (id + 1)", 10),), ROW),
        ((statement("ALTER TABLE t ADD COLUMN tier SERIAL", 10, "postgresql"),), ROW),
        # A domain may have a default, and a column that may have been there says nothing.
        ((statement("ALTER TABLE t ADD COLUMN tier grade", 10, "postgresql"),), ROW),
        ((statement("ALTER TABLE t ADD COLUMN IF NOT EXISTS tier INT", 10),), ROW),
        # It had another name, or was there before it was dropped.
        ((statement("ALTER TABLE t RENAME COLUMN rank TO tier", 10),), ROW),
        ((statement("ALTER TABLE t CHANGE rank tier INT", 10),), ROW),
        ((ADD, statement("ALTER TABLE t DROP COLUMN tier", 8)), ROW),
        ((ADD, statement("ALTER TABLE t RENAME COLUMN tier TO rank", 8)), ROW),
        ((statement("ALTER TABLE t ADD COLUMN tier INT, whatever (", 10),), ROW),
        ((ADD, statement("EXEC sp_rename 'x.a', 'b'; " + AWAY, 8, "tsql")), ROW),
        ((ADD, statement(BACK, 8, "tsql")), ROW),
        # Nobody knows which comes first.
        (
            (statement("ALTER TABLE t ADD tier INT", 10, sequence=None),),
            change("insert", 5, 1, after={"id": "1"}),
        ),
    ],
)
def test_where_nobody_knows_it_the_batch_stops(statements, row):
    with pytest.raises(ConfigurationError, match=UNKNOWN):
        mapped(row, "tier = 'gold'", *statements)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD tier INT NULL DEFAULT NULL COMMENT 'x' AFTER id",
        "ALTER TABLE shop.T ADD COLUMN other INT NOT NULL, ADD Tier INT",
        "ALTER TABLE t ADD COLUMN tier TIMESTAMP NULL",
        "ALTER TABLE t ADD COLUMN tier VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    ],
)
def test_statements_that_add_a_column_without_a_value(text):
    assert mapped(ROW, "tier = 'gold'", statement(text, 10)).why == "where is not met"


def test_a_column_that_comes_again():
    again = (ADD, statement("ALTER TABLE t DROP COLUMN tier", 20), statement(ADD.ddl_text, 30))
    for place in (5, 25):
        row = change("delete", place, before={"id": "1"})
        assert mapped(row, "tier = 'gold'", *again).why == "where is not met"
    with pytest.raises(ConfigurationError, match=UNKNOWN):
        mapped(change("delete", 15, before={"id": "1"}), "tier = 'gold'", *again)


def test_what_orders_a_row_and_a_statement():
    placed = statement(ADD.ddl_text, 10, sequence=None, source_time=1000)
    here = change("delete", 5, before={"id": "1"}, sequence=None)
    assert mapped(here, "tier = 'gold'", placed).why
    snapshot = change("delete", 99, 1, before={"id": "1"}, sequence=None, full_row=True)
    assert mapped(snapshot, "tier = 'gold'", placed).why
    # Times order what has no id only if they may.
    there = change("delete", 5, 1, before={"id": "1"}, sequence=None, source_time=999)
    assert mapped(there, "tier = 'gold'", placed, by_source_time=True).why
    with pytest.raises(ConfigurationError, match=UNKNOWN):
        mapped(there, "tier = 'gold'", placed)
    # A time that is on no calendar is none.
    far = change("delete", 5, 1, before={"id": "1"}, sequence=None, source_time=10**18)
    assert mapped(far, "tier = 'gold'", placed, by_source_time=True).why
    assert ADD.order_key == order_key((10,), 1, 0, 10, 0)


def test_a_condition_that_does_not_fit_otherwise_stops_at_once():
    rules = Rules(of_tables=(MappingRule(("shop.t",), where="tier = 'a' AND LOWER(id) = 'b'"),))
    with pytest.raises(ConfigurationError, match="is of no text"):
        ChangeMapper(rules, history=history(ADD)).of(ROW.schema)


def test_a_column_that_a_message_names_before_it_came():
    """Canal may describe old rows by the columns that the table has now."""
    schema = intern_schema("shop", None, "t", (*COLUMNS, Column("tier", STRING)), ("id",), "mysql")
    message = Message("topic", 0, 5, None, None, None)
    row = Change("insert", schema, message, after=image(schema, id="1", v="a"), sequence=(5,))
    found = mapped(row, "tier IS NULL", ADD).change
    assert found.after == image(schema, id="1", v="a", tier=None)
    assert mapped(row, "tier IS NULL").sentence.startswith("the message leaves out a column")
    later = msgspec.structs.replace(row, sequence=(11,))
    assert mapped(later, "tier IS NULL", ADD).sentence.startswith("the message leaves out a column")
    # Whoever can look for statements does so before the row is refused.
    with pytest.raises(ConfigurationError, match=UNKNOWN):
        mapped(row, "tier IS NULL", complete=False)


WITH_TIER = intern_schema("shop", None, "t", (*COLUMNS, Column("tier", STRING)), ("id",), "mysql")


def named(operation: str, place: int, **more: Any) -> Change:
    """A change whose message names the column `tier`, and may leave it out of a row."""
    given = {"sequence": (place,), **more}
    images = {p: image(WITH_TIER, **given.pop(p)) for p in ("before", "after") if p in given}
    return Change(
        operation, WITH_TIER, Message("topic", 0, place, None, None, None), **images, **given
    )


WHOLE = {"id": "1", "v": "b", "tier": "gold"}
ROWS = [
    change("insert", 5, after={"id": "1", "v": "b"}),
    change("delete", 15, before={"id": "1"}),
    change("upsert", 25, after={"id": "1"}, sequence=None),
    ROW,
    named("insert", 5, after={"id": "1", "v": "b"}),
    named("delete", 5, before={"id": "1"}),
    named("update", 5, before={"id": "1", "v": "a"}, after={"id": "1", "v": "b"}),
    named("update", 5, before={"id": "1", "v": "a"}, after=WHOLE),
    named("update", 5, before={**WHOLE, "v": "a"}, after={"id": "1", "v": "b"}),
    named("upsert", 15, after={"id": "1", "v": "a"}),
    named("update", 15, before={"id": "1"}, after={"id": "2", "tier": "gold"}),
]
STATEMENTS = (
    ADD,
    statement("ALTER TABLE t DROP COLUMN tier", 8),
    statement("ALTER TABLE t ADD tier VARCHAR(9) DEFAULT 'gold'", 6),
    statement("ALTER TABLE t CHANGE tier rank VARCHAR(9)", 20),
    statement("ALTER TABLE t ADD tier VARCHAR(9)", 30),
)
WHERES = ["tier = 'gold'", "tier IS NULL", "v = 'a' AND tier <> 'x'", "id = 1 OR tier = 'gold'"]


@pytest.mark.parametrize("where", WHERES)
def test_what_is_known_by_chance_makes_no_difference(where):
    """Before anybody has looked, earlier batches may have left any of the statements, or none."""
    rules = Rules(of_tables=(MappingRule(("shop.t",), where=where),))
    numbers = range(len(STATEMENTS))
    known = [some for size in range(len(numbers) + 1) for some in combinations(numbers, size)]

    def outcomes(some: tuple[int, ...], complete: bool) -> list[Any]:
        there = history(*(STATEMENTS[number] for number in some), complete=complete)
        mapper = ChangeMapper(rules, history=there)
        return [outcome(mapper, row) for row in ROWS]

    def outcome(mapper: ChangeMapper, row: Change) -> Any:
        try:
            found, why, sentence, _ = mapper.map(row)
        except MissingColumnError:
            return MissingColumnError
        if found is not None:
            return found.operation, found.before, found.after
        return why, sentence

    by_chance = {kept: outcomes(kept, complete=False) for kept in known}
    for there in known:
        looked = outcomes(there, complete=True)
        for kept in (kept for kept in known if set(kept) <= set(there)):
            for one, settled in zip(by_chance[kept], looked, strict=True):
                assert one in (settled, MissingColumnError)


def test_a_statement_that_is_not_known_yet_may_stand_in_between():
    """It came by another partition, say, after a batch had found the one that added the column."""
    dropped = statement("ALTER TABLE t DROP COLUMN tier", 8)
    for row in (ROW, ROWS[4]):
        with pytest.raises(MissingColumnError):
            mapped(row, "tier IS NULL", ADD, complete=False)
    with pytest.raises(MissingColumnError):
        mapped(ROW, "tier IS NULL", ADD, dropped)
    assert mapped(ROWS[4], "tier IS NULL", ADD, dropped).sentence
    assert mapped(ROWS[4], "tier IS NULL", ADD).change is not None


def test_a_row_that_needs_no_history_is_the_same_with_it():
    """Its row before does not show whether readers have it, and the row after decides it."""
    row = named("update", 5, before={"id": "1", "v": "a"}, after={"id": "1", "v": "b"})
    where = "v = 'a' AND tier = 'gold'"
    found = [mapped(row, where, complete=False), mapped(row, where, ADD), mapped(row, where)]
    assert {one.change.operation for one in found} == {"delete"}
