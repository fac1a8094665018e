"""Rows of transactions that a mapping leaves out are counted all the same."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tests.histories import image
from waybill.batches.change_rows import ChangeRows
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.envelopes import registry
from waybill.mapping.rules import NOT_MET, NOT_SELECTED, Join, MappingRule, Mask, Rules
from waybill.mapping.shards import EMPTIED, VOID, Floor, read_emptied
from waybill.mapping.transaction_rows import LEFT_OUT_ROW
from waybill.order import order_key
from waybill.records import Change, Column, Message, TableSchema, intern_schema
from waybill.tables import TableRules
from waybill.types import STRING, parse_type

COLUMNS = (Column("id", parse_type("bigint"), None, False), Column("v", STRING))
NAMES = {"database": "shop", "table": "orders"}
JOIN = MappingRule(("shop_*.orders_*",), NAMES, join=Join("shard", True))
WHERE = MappingRule(
    ("shop.people",), {"table": "persons"}, masks={"v": Mask("sha256")}, where="v = 'a'"
)
RULES = Rules(exclude=("shop.hidden",), of_tables=(JOIN, WHERE))


def table(name: str, key: tuple[str, ...] = ("id",)) -> TableSchema:
    database, _, short = name.partition(".")
    return intern_schema(database, None, short, COLUMNS, key, "mysql")


def change(name: str, operation: str, place: int, **more: Any) -> Change:
    schema = more.pop("schema", None) or table(name)
    message = Message("t", 0, place, None, None, None)
    made = Change(operation, schema, message, transaction="x", sequence=(more.pop("at", place),))
    for part, values in more.items():
        setattr(made, part, image(schema, **values))
    return made


def fails(place: int, number: str = "1", **more: Any) -> Change:
    """An update of a row that meets its table's condition neither before nor after."""
    images = {"before": {"id": number, "v": "b"}, "after": {"id": number, "v": "c"}}
    return change("shop.people", "update", place, **images, **more)


def decoded(changes: list[Change], **more: Any) -> tuple[MappedDecoding, list[dict[str, Any]]]:
    envelope = registry.get("canal")
    assert envelope.decoder is not None
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    mapping = MappedDecoding(more.pop("rules", RULES), TableRules(), **more)
    rows = ChangeRows(decoder, "b1").rows(changes)
    found = pa.Table.from_batches(mapping.of([rows])).to_pylist()
    return mapping, [row for row in found if row["outcome"] != "schema"]


def digests(*changes: Change, **more: Any) -> list[str]:
    _, rows = decoded(list(changes), **more)
    assert {(row["outcome"], row["transaction"]) for row in rows} == {("skipped", "x")}
    return [json.loads(row["extra"])[LEFT_OUT_ROW] for row in rows]


def test_what_is_left_out_keeps_its_transaction_and_nothing_else():
    _, (row,) = decoded([fails(1)])
    assert (row["reason_kind"], row["transaction"]) == (NOT_MET, "x")
    kept = {name for name, value in row.items() if value is not None}
    assert not kept & {"key", "old_key", "before", "after", "ddl_text", "raw", "schema_id"}
    assert list(json.loads(row["extra"])) == [LEFT_OUT_ROW]


def test_a_row_is_known_when_it_comes_again_and_from_others_of_its_place():
    first, again, other = digests(fails(1), fails(9, at=1), fails(1, "2"))
    assert first == again
    assert first != other
    # Without a key only all of the row tells.
    bare = table("shop.people", ())
    same, equal, two = digests(
        fails(1, schema=bare),
        fails(2, schema=bare),
        fails(3, "2", schema=bare),
        rules=Rules(of_tables=(MappingRule(("shop.people",), where="v = 'a'"),)),
    )
    assert same == equal
    assert same != two


def test_values_that_are_masked_are_in_no_digest():
    """Whoever guesses one could find it there."""
    mask = MappingRule(("shop.people",), masks={"v": Mask("null")}, where="v = 'a'")
    bare = table("shop.people", ())
    one = change(
        "shop.people",
        "update",
        1,
        before={"id": "1", "v": "b"},
        after={"id": "1", "v": "c"},
        schema=bare,
    )
    two = change(
        "shop.people",
        "update",
        1,
        before={"id": "1", "v": "x"},
        after={"id": "1", "v": "y"},
        schema=bare,
    )
    first, second = digests(one, two, rules=Rules(of_tables=(mask,)), bags=None)
    assert first == second


def test_truncates_of_joined_tables_are_told_apart():
    """PostgreSQL empties several tables at one place of its log."""
    names = ("shop_1.orders_1", "shop_2.orders_7")
    mapping, rows = decoded([change(name, "truncate", n, at=5) for n, name in enumerate(names)])
    assert [(row["reason_kind"], row["transaction"]) for row in rows] == [(EMPTIED, "x")] * 2
    assert [read_emptied(row["extra"])[0].tables for row in rows] == [(name,) for name in names]
    assert len({json.loads(row["extra"])[LEFT_OUT_ROW] for row in rows}) == 2
    assert mapping.emptied == 2


def test_what_is_void_is_known_by_its_images_as_if_it_were_taken():
    row = change("shop_1.orders_1", "insert", 3, after={"id": "1", "v": "a"})
    _, (taken,) = decoded([row])
    floor = {"shop_1.orders_1": Floor(order_key((9,), 1, 0, 9, 0))}
    _, (void,) = decoded([row], floors=floor)
    assert (taken["outcome"], void["outcome"], void["reason_kind"]) == ("ok", "skipped", VOID)
    for name in ("database", "table", "key", "before", "after", "transaction", "order_key"):
        assert void[name] == taken[name]


def test_tables_that_are_left_out_are_not_counted():
    _, (row,) = decoded([change("shop.hidden", "insert", 1, after={"id": "1", "v": "a"})])
    assert (row["reason_kind"], row["transaction"], row["extra"]) == (NOT_SELECTED, None, None)


@pytest.mark.parametrize("operation", ["insert", "update"])
def test_what_is_refused_is_waited_for(operation):
    """A replay may bring it."""
    lacking = change("shop.people", operation, 1, after={"id": "1"})
    _, (row,) = decoded([lacking])
    assert (row["outcome"], row["transaction"]) == ("refused", None)


def test_what_tables_are_called_at_the_source():
    changes = [
        change("shop_1.orders_1", "insert", 1, after={"id": "1", "v": "a"}),
        change("shop_2.orders_7", "truncate", 2),
        fails(3),
        change("shop.hidden", "insert", 4, after={"id": "1", "v": "a"}),
        change("shop.other", "insert", 5, after={"id": "1", "v": "a"}),
    ]
    mapping, _ = decoded(changes)
    assert mapping.sources == {
        "shop_1.orders_1": "shop.orders",
        "shop_2.orders_7": "shop.orders",
        "shop.people": "shop.persons",
    }
    # All rows of such a table may be left out, so that the merge never meets it.
    kept = Rules(of_tables=(MappingRule(("shop.people",), where="v = 'a'"),))
    assert decoded([fails(1)], rules=kept)[0].sources == {"shop.people": "shop.people"}
