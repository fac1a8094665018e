"""When the lake knows that a table is gone, and is not only hidden from the user who looks."""

from __future__ import annotations

from typing import Any

import pytest

from waybill.merge.state import TableState
from waybill.order import order_key
from waybill.verify.dropped_tables import is_dropped

NOBODY = ("shop", None, None)
ORDERS = ("shop", None, "orders")


class Log:
    """The statements of a lake."""

    def __init__(self, *statements: tuple[tuple[str, str | None, str | None], str]) -> None:
        self.rows = [
            {
                **dict(zip(("database", "schema", "table"), named, strict=True)),
                "ddl_text": text,
                "source_time": None,
                "topic": "shop",
                "partition": 0,
                "offset": number,
                "order_key": order_key((number,), 1, 0, number, 0, False),
            }
            for number, (named, text) in enumerate(statements, start=1)
        ]

    def log(self, name: str) -> str:
        return name

    def scan(self, table: str, columns: Any, where: Any) -> Any:
        assert (table, where) == ("changes", {"operation": ["ddl"], "outcome": ["ok"]})
        # In no order.
        return [{name: row[name] for name in columns} for row in reversed(self.rows)]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([], False),
        ([(ORDERS, "DROP TABLE orders")], True),
        ([(ORDERS, "/* generated */ drop table if exists `orders`")], True),
        ([(NOBODY, "DROP TABLE parcels, orders")], True),
        ([(NOBODY, "DROP TABLE elsewhere.orders")], False),
        ([(("shop", None, "parcels"), "DROP TABLE parcels")], False),
        ([(ORDERS, "TRUNCATE TABLE orders")], False),
        ([(ORDERS, "ALTER TABLE orders DROP COLUMN note")], False),
        ([(ORDERS, "DROP INDEX i ON orders")], False),
        ([(ORDERS, "DROP TABLE orders"), (ORDERS, "CREATE TABLE orders (id int)")], False),
        ([(ORDERS, "CREATE TABLE orders (id int)"), (ORDERS, "DROP TABLE orders")], True),
        ([(ORDERS, "DROP TABLE (((")], False),
    ],
)
def test_only_a_drop_of_the_table_says_so(statements: Any, expected: bool):
    lake: Any = Log(*statements)
    assert is_dropped(lake, "shop.orders", TableState(), "mysql", False) is expected


def test_a_row_that_came_since_says_that_it_is_there_again():
    lake: Any = Log((ORDERS, "DROP TABLE orders"))
    known = TableState(truncated="b", highest="a")
    assert is_dropped(lake, "shop.orders", known, "mysql", False)
    known.highest = "c"
    assert not is_dropped(lake, "shop.orders", known, "mysql", False)
