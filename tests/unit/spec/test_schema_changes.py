"""What `schema_changes` of a migration file may say, and what `waybill check` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spec.spec_files import GOOD, writer_in
from waybill.cli.check_decisions import check_decisions
from waybill.cli.findings import WRONG
from waybill.errors import ConfigurationError
from waybill.spec.decisions import ColumnDecision
from waybill.spec.file import load_migration


@pytest.fixture
def load(tmp_path):
    def loader(more: str):
        return load_migration(writer_in(tmp_path / "m")(GOOD + more))

    return loader


def test_the_first_entry_decides_and_what_it_leaves_out_is_as_without_one(load):
    first, second = "{tables: shop.orders, add: stop}", "{tables: 'shop.*', drop: stop}"
    spec = load(f"schema_changes: [{first}, {second}]\n")
    assert spec.decisions.find("shop.orders") == ColumnDecision(add="stop")
    assert spec.decisions.find("shop.x") == ColumnDecision(drop="stop")
    assert load("").decisions.find("shop.x") == ColumnDecision()


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("{tables: [], add: stop}", "tables"),
        ("{add: stop}", "tables"),
        ("{tables: a, drop: take}", "keep"),
        ("{tables: a, ad: stop}", "add"),
    ],
)
def test_what_an_entry_may_not_say(load, entry, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        load(f"schema_changes: [{entry}]\n")


def test_entries_that_name_no_table_or_never_count(load):
    spec = load(
        "schema_changes:\n"
        "  - {tables: [shop.*, crm.x]}\n"
        "  - {tables: shop.orders, add: stop}\n"
        "  - {tables: shop.ordres, add: stop}\n"
    )
    found = [
        (one.about, one.text)
        for one in check_decisions(spec.schema_changes, ["shop.orders", "crm.y"])
    ]
    assert found[0][0] == "schema_changes[0]"
    assert found[0][1].startswith("no table of the sample is called crm.x")
    assert found[1] == (
        "schema_changes[1]",
        "shop.orders is named by entry 0 already, which decides: put it first",
    )
    assert len(found) == 3
    assert list(check_decisions(spec.schema_changes[:1], [])) == [], "an empty sample tells nothing"


def test_the_example_of_the_page_is_one(load):
    page = (Path(__file__).parents[3] / "docs/merge.md").read_text(encoding="utf-8")
    example = page.partition("## Schema changes")[2].partition("```yaml\n")[2].partition("```")[0]
    spec = load(example)
    assert spec.decisions.find("shop.orders") == ColumnDecision(add="stop", rename="beside")
    assert spec.decisions.find("shop.items") == ColumnDecision(retype="rewrite")


JOINED = (
    "map:\n"
    '  - {tables: "shop_*.orders_*", rename: {database: shop, table: orders}, join: {column: s}}\n'
    '  - {tables: "crm.public.p_*", rename: {table: people}, join: {column: s}}\n'
    '  - {tables: "x_*.y_*", rename: {database: "{database}_all", table: y}, join: {column: s}}\n'
)


def test_names_of_joined_tables_are_not_mapped(load):
    mapped = "  - {tables: '*', rename: map}\n"
    spec = load(f"{JOINED}schema_changes:\n{mapped}")
    every = ["shop.orders", "shop.dbo.orders", "crm.public.people", "x_1_all.y", "x_1_all.s.y"]
    others = ["shop.orders_1", "shop.customers", "erp.people", "crm.people", "z.y"]
    assert [name for name in [*every, *others] if spec.decisions.joins(name)] == every
    found = list(check_decisions(spec.schema_changes, others, spec.decisions.joined))
    assert [(one.about, one.verdict) for one in found] == [("schema_changes[0]", WRONG)] * 2
    assert found[1].text.startswith("several tables become shop.orders (map.join)")
    assert len(list(check_decisions(spec.schema_changes, every, spec.decisions.joined))) == 5
    first = "  - {tables: [shop.orders, crm.public.people], rename: beside}\n"
    spec = load(f"{JOINED}schema_changes:\n{first}{mapped}")
    found = check_decisions(spec.schema_changes, every, spec.decisions.joined)
    assert [one.text.split(" (")[0] for one in found if one.verdict == WRONG] == [
        "several tables become shop.dbo.orders",
        "several tables become x_1_all.s.y",
        "several tables become x_1_all.y",
    ]
