"""Statements that give a table another name, under which nothing hides its columns."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.mapping.test_column_renames import event, rows_of
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.batches.mapped_encoding import MappedMessageBatches
from waybill.envelopes import registry
from waybill.errors import ConfigurationError
from waybill.lake_columns import CHANGES
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.tables import TableRules

PEOPLE = ("shop.people", "shop.public.people")
MASK = MappingRule(PEOPLE, masks={"email": Mask("sha256")})
DROP = MappingRule(PEOPLE, drop=("email",))
KEEP = MappingRule(PEOPLE, keep=("id", "name"))
STOPS = (
    r"WB-1106.*the table shop\.(public\.)?people to shop\.(public\.)?{to}, "
    "and under that name {what} would"
)

RENAMES = [
    ("mysql", "RENAME TABLE people TO persons"),
    ("mysql", "rename table if exists `shop`.`people` to `shop`.`persons`;"),
    ("mysql", "RENAME TABLE a TO b, people TO persons"),
    ("mysql", "RENAME TABLE people TO tmp, other TO people, tmp TO persons"),
    ("mysql", "RENAME TABLE people WAIT 5 TO persons"),
    ("mysql", "RENAME TABLE `people`TO`persons`"),
    ("mysql", "RENAME TABLE people /* by hand */ TO persons"),
    ("mysql", "RENAME TABLE people-- by hand\nTO persons"),
    ("mysql", "/*!50000 RENAME TABLE people TO persons */"),
    ("mysql", "RENAME /* by hand */ TABLE people TO persons"),
    ("mysql", "ALTER TABLE people RENAME TO persons"),
    ("mysql", "ALTER TABLE people RENAME AS persons"),
    ("mysql", "ALTER TABLE people RENAME persons, ADD COLUMN n INT"),
    ("mysql", "ALTER TABLE people ADD n INT, RENAME TO persons, PARTITION BY HASH(id)"),
    ("mysql", "ALTER TABLE People RENAME persons"),
    ("", "RENAME TABLE people TO persons"),
    ("postgresql", "ALTER TABLE IF EXISTS ONLY People RENAME TO Persons"),
    ("postgresql", 'ALTER TABLE public.people RENAME TO "persons"'),
    ("oracle", 'RENAME "people" TO "persons"'),
    ("tsql", "EXEC sp_rename 'public.people', 'persons'"),
    ("tsql", "EXEC sp_rename 'people.a', 'b', 'COLUMN'; EXEC sp_rename 'people', 'persons'"),
    ("tsql", "exec sp_rename @objname = N'[people]', @newname = N'persons', @objtype = 'OBJECT'"),
]


def outcome(text: str, dialect: str, *rules: MappingRule, **more: Any) -> Any:
    return ChangeMapper(Rules(of_tables=rules, **more)).map(event(text, dialect))


@pytest.mark.parametrize("rule", [MASK, DROP, KEEP])
@pytest.mark.parametrize(("dialect", "text"), RENAMES)
def test_the_batch_stops_where_columns_would_be_shown(dialect, text, rule):
    what = "more than id, name" if rule is KEEP else "email"
    with pytest.raises(ConfigurationError, match=STOPS.format(to="persons", what=what)):
        outcome(text, dialect, rule)


def test_a_table_that_moves_to_another_schema_has_another_name():
    moved, exact = "ALTER TABLE people SET SCHEMA old", MappingRule(PEOPLE[1:], drop=("email",))
    with pytest.raises(ConfigurationError, match=r"shop\.public\.people to shop\.old\.people"):
        outcome(moved, "postgresql", exact)
    for moved in (
        "ALTER SCHEMA old TRANSFER public.people",
        "alter schema [old] transfer OBJECT :: people",
    ):
        with pytest.raises(ConfigurationError, match=r"shop\.public\.people to shop\.old\.people"):
            outcome(moved, "tsql", exact)
    moved = "ALTER TABLE people SET SCHEMA old"
    # shop.people stands for it in any schema.
    assert outcome(moved, "postgresql", MASK).sentence is None
    with pytest.raises(ConfigurationError, match=r"shop\.people to archive\.people"):
        outcome("RENAME TABLE people TO archive.people", "mysql", MASK)


@pytest.mark.parametrize(
    "more",
    [
        MappingRule(("shop.*persons",), masks={"*mail*": Mask("null")}),
        MappingRule(("*",), drop=("email",)),
        MappingRule(("*",), keep=("id", "name")),
        MappingRule(("*",), drop=("*",)),
    ],
)
@pytest.mark.parametrize(("dialect", "text"), RENAMES)
def test_it_goes_on_where_the_new_name_is_hidden_too(dialect, text, more):
    assert outcome(text, dialect, MASK, more).sentence is None


def test_sql_server_takes_the_new_name_as_it_stands():
    named = MappingRule(
        ("shop.public.persons", "shop.public.x.persons"), masks={"email": Mask("null")}
    )
    for new in ("[persons]", '"persons"', "x.persons"):
        text = f"EXEC sp_rename 'public.people', '{new}'"
        if new == "x.persons":
            assert outcome(text, "tsql", MASK, named).sentence is None
            continue
        with pytest.raises(ConfigurationError, match=re.escape(f"to shop.public.{new}, and")):
            outcome(text, "tsql", MASK, named)


def test_it_goes_on_where_no_reader_gets_the_new_table():
    assert outcome(RENAMES[0][1], "mysql", MASK, exclude=("shop.persons",)).sentence is None
    assert outcome(RENAMES[0][1], "mysql", MASK, include=("shop.people",)).sentence is None


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("mysql", "RENAME TABLE other TO persons"),
        ("mysql", "RENAME TABLE people TO tmp, tmp TO people"),
        ("mysql", "RENAME USER people TO persons"),
        ("postgresql", "ALTER INDEX people RENAME TO persons"),
        ("postgresql", "ALTER VIEW people RENAME TO persons"),
        ("mysql", "ALTER TABLE people RENAME INDEX people TO persons"),
        ("mysql", "ALTER TABLE people RENAME KEY people TO persons, PARTITION BY HASH(id)"),
        ("mysql", "ALTER TABLE people ADD COLUMN n INT COMMENT 'rename to persons'"),
        ("mysql", "RENAME TABLE `shop`.people TO _people_del, _people_gho TO `shop`.people"),
        ("postgresql", "ALTER TABLE people RENAME a TO persons"),
        ("postgresql", "ALTER TABLE people RENAME CONSTRAINT a TO persons"),
        ("tsql", "EXEC sp_rename 'public.people.i', 'persons', 'INDEX'"),
    ],
)
def test_others_do_not_stop_it(dialect, text):
    assert outcome(text, dialect, MASK).sentence is None


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ({"drop": ("e*",)}, {"drop": ("e*",)}, None),
        ({"drop": ("e*l",)}, {"masks": {"e*": Mask("null")}}, None),
        ({"drop": ("e?",)}, {"drop": ("e*",)}, None),
        ({"drop": ("e*",)}, {"drop": ("e?",)}, r"e\*"),
        ({"drop": ("[ef]*",)}, {"drop": ("*e*",)}, None),
        ({"drop": ("[ef]*",)}, {"drop": ("e*", "f*")}, r"\[ef\]\*"),
        ({"drop": ("*l",)}, {"keep": ("id", "name")}, None),
        ({"drop": ("*l",)}, {"keep": ("id", "mail")}, r"\*l"),
        ({"drop": ("e*",)}, {"keep": ("a*",)}, None),
        ({"drop": ("e*",)}, {"keep": ("*d",)}, r"e\*"),
        ({"drop": ("EMAIL",)}, {"drop": ("email",)}, None),
        ({"keep": ("i*",)}, {"keep": ("id",)}, None),
        ({"keep": ("id",)}, {"keep": ("i*",)}, "more than id"),
        ({"drop": ("email", "phone")}, {"drop": ("email",)}, "phone"),
    ],
)
def test_a_pattern_hides_what_another_one_hid(before, now, shown):
    rules = (MappingRule(PEOPLE, **before), MappingRule(("shop.persons",), **now))
    if shown is None:
        assert outcome(RENAMES[0][1], "mysql", *rules).sentence is None
        return
    with pytest.raises(ConfigurationError, match=STOPS.format(to="persons", what=shown)):
        outcome(RENAMES[0][1], "mysql", *rules)


def test_in_the_lake_and_for_a_target():
    renaming = event(RENAMES[0][1])
    batch = rows_of(renaming)
    rules = Rules(of_tables=(DROP,))
    stops = STOPS.format(to="persons", what="email")
    with pytest.raises(ConfigurationError, match=stops):
        list(MappedDecoding(rules, TableRules()).of([batch]))
    envelope = registry.get("canal")
    assert envelope.encoder is not None
    encoder = envelope.encoder(envelope.encode_settings())
    work = MappedMessageBatches(rules, encoder, "t", "b1", {renaming.schema.id: renaming.schema})
    rows = pa.Table.from_batches([batch], CHANGES)
    taken = rows.filter(pa.compute.equal(rows.column("outcome"), "ok"))
    with pytest.raises(ConfigurationError, match=stops):
        list(work.convert(iter(taken.to_batches())))
