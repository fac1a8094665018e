"""What `waybill check` says of a mapping."""

from __future__ import annotations

from tests.unit.mapping.test_shards import MESSAGE, event, rules, table
from waybill.cli.check_mapping import mapped
from waybill.cli.findings import NOTE, OK
from waybill.records import Change, Column, intern_schema
from waybill.spec.mapping import Selection, TableMapping, rules_of
from waybill.types import STRING, parse_type

JOIN = {
    "tables": "shop_*.orders_*",
    "rename": {"database": "shop", "table": "orders"},
    "join": {"column": "shard"},
}


def test_joined_tables_are_reported_one_by_one():
    findings = []
    changes = []
    for schema in (table(), table("shop_2", "orders_7")):
        changes.append(Change("insert", schema, MESSAGE, after=schema.Image("1", "x")))
    changes.append(event("truncate", None))
    given = TableMapping.model_validate(JOIN)
    found = mapped("migration", Selection(), [given], rules(), changes)
    try:
        while True:
            findings.append(next(found))
    except StopIteration as end:
        made = end.value
    (good,) = [one for one in findings if one.verdict == OK]
    expected = "shop_1.orders_1 becomes shop.orders; shop_2.orders_7 becomes shop.orders"
    assert good.text == expected
    assert [change.outcome for change in made] == ["ok", "ok", "skipped"]
    assert made[2].reason_kind == "its rows of the joined table are deleted"


def unmatched(select: Selection, *given: dict) -> list[str]:
    """What is noted of a sample of two tables of MySQL with the columns `id` and `v`."""
    tables = [TableMapping.model_validate(one) for one in given]
    schemas = [table(), table("shop_2", "orders_7")]
    changes = [Change("insert", one, MESSAGE, after=one.Image("1", "x")) for one in schemas]
    found = mapped("target", select, tables, rules_of(select, tables), changes)
    return [one.text for one in found if one.verdict == NOTE]


def test_tables_that_match_nothing_are_named_with_their_place():
    select = Selection(include=["shop_*.*", "shop_1.order_1"], exclude=["shop_3.*"])
    other = {"tables": ["shop_9.a", "shop_9.b"], "rename": {"database": "x"}}
    assert unmatched(select, {"tables": "shop_1.*", "where": "id > 0"}, other) == [
        "select.include: no table of the sample is called shop_1.order_1; "
        "did you mean 'shop_1.orders_1'?",
        "select.exclude: no table of the sample is called shop_3.*; "
        "known: shop_1.orders_1, shop_2.orders_7",
        "map[1]: no table of the sample is called shop_9.a or shop_9.b; "
        "known: shop_1.orders_1, shop_2.orders_7",
    ]


def test_columns_that_match_nothing_are_named_with_their_field():
    columns = {
        "keep": ["id", "v", "note"],
        "drop": ["*_note"],
        "rename": {"v": "value", "vv": "w"},
        # Names fit in any case.
        "mask": {"V": "sha256", "mail": "null"},
    }
    found = unmatched(Selection(), {"tables": "shop_2.*", "columns": columns})
    assert found == [
        f"map[0].columns.{field}: no column there is called {name}; {hint}"
        for field, name, hint in (
            ("keep", "note", "known: id, v"),
            ("drop", "*_note", "known: id, v"),
            ("rename", "vv", "did you mean 'v'?"),
            ("mask", "mail", "known: id, v"),
        )
    ]


def test_what_matches_is_not_noted():
    columns = {"keep": ["i*"], "mask": {"*": "sha256"}}
    named = {"tables": ["shop_1.orders_*", "nowhere.at_all"], "columns": columns}
    assert unmatched(Selection(include=["shop_*.*"], exclude=["*_7"]), named) == [
        "1 change of the sample left out: shop_2.orders_7 (not selected)"
    ]


def test_names_with_signs_of_other_patterns_are_found():
    columns = (Column("id", parse_type("bigint")), Column("card[no]", STRING))
    schema = intern_schema("shop", None, "t[1]", columns, ("id",), "mysql")
    given = TableMapping.model_validate(
        {"tables": "shop.t[1]", "columns": {"mask": {"card[no]": "sha256"}, "rename": {"c*": "c"}}}
    )
    select = Selection(include=["shop.t[1]"])
    change = Change("insert", schema, MESSAGE, after=schema.Image("1", "4111"))
    found = mapped("target", select, [given], rules_of(select, [given]), [change])
    # A new name is that of one column, so a pattern there renames none.
    assert [one.text for one in found if one.verdict == NOTE] == [
        "map[0].columns.rename: no column there is called c*; known: card[no], id"
    ]
