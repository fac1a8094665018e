"""Statements that give a schema or database another name, under which nothing hides columns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.mapping.test_column_renames import rows_of
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.errors import ConfigurationError
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.records import NO_TABLE, Change, Message, intern_schema
from waybill.tables import TableRules

SCHEMA_MASK = MappingRule(("shop.public.people", "*.log.*"), masks={"email": Mask("sha256")})
SCHEMA_KEEP = MappingRule(("shop.pub*.people",), keep=("id", "name"))
DATABASE_DROP = MappingRule(("shop.p?ople*",), drop=("email",))

SCHEMAS = [
    ("postgresql", "ALTER SCHEMA public RENAME TO old"),
    ("postgresql", 'alter schema /* all */ Public rename to "old";'),
    ("postgresql", "SET x = 1;\nALTER SCHEMA public RENAME TO OLD"),
    ("", "ALTER SCHEMA public RENAME TO old"),
]
DATABASES = [
    ("postgresql", "ALTER DATABASE shop RENAME TO old"),
    ("tsql", "ALTER DATABASE shop MODIFY NAME = old"),
    ("tsql", "USE master;\nALTER DATABASE [Shop] MODIFY NAME = [old]"),
    ("tsql", "ALTER DATABASE CURRENT MODIFY NAME = old"),
    ("tsql", "EXEC sp_renamedb 'shop', N'old'"),
    ("tsql", "exec sp_renamedb @dbname = N'shop', @newname = N'old'"),
    ("tsql", "EXEC sp_rename 'shop', 'old', 'DATABASE'"),
    ("mysql", "RENAME DATABASE shop TO old"),
    ("mysql", "rename schema `shop` to `old`"),
    ("", "ALTER DATABASE shop RENAME TO old"),
]


def event(text: str, dialect: str, database: str | None = "shop") -> Change:
    schema = intern_schema(database, None, None, (), None, dialect)
    return Change("ddl", schema, Message("t", 0, 0, None, None, None), ddl_text=text)


def outcome(text: str, dialect: str, *rules: MappingRule, **more: Any) -> Any:
    return ChangeMapper(Rules(of_tables=rules, **more)).map(event(text, dialect))


@pytest.mark.parametrize("rule", [SCHEMA_MASK, SCHEMA_KEEP])
@pytest.mark.parametrize(("dialect", "text"), SCHEMAS)
def test_the_batch_stops_where_a_schema_takes_its_tables_out_of_the_mapping(dialect, text, rule):
    what = "more than id, name" if rule is SCHEMA_KEEP else "email"
    where = r"WB-1106.*the schema public to old, so that shop\.pub.*\.people under map does not fit"
    with pytest.raises(ConfigurationError, match=f"{where}.*{what} would be shown"):
        outcome(text, dialect, rule)


@pytest.mark.parametrize("rule", [DATABASE_DROP, MappingRule(("shop.*",), drop=("email",))])
@pytest.mark.parametrize(("dialect", "text"), DATABASES)
def test_the_batch_stops_where_a_database_does(dialect, text, rule):
    where = r"WB-1106.*the (database|schema) shop to old, so that shop\.\S* under map"
    with pytest.raises(ConfigurationError, match=f"{where}.*email would be shown"):
        outcome(text, dialect, rule)


@pytest.mark.parametrize(
    "more",
    [
        MappingRule(("*",), masks={"*mail*": Mask("null")}, keep=("id", "name")),
        MappingRule(("*old*",), keep=()),
        MappingRule(("*old.*",), drop=("*",)),
    ],
)
@pytest.mark.parametrize(("dialect", "text"), [*SCHEMAS, *DATABASES])
def test_it_goes_on_where_the_new_name_is_hidden_too(dialect, text, more):
    given = (SCHEMA_MASK, SCHEMA_KEEP, DATABASE_DROP, more)
    assert outcome(text, dialect, *given).sentence is None


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("postgresql", "ALTER SCHEMA public OWNER TO old"),
        ("postgresql", 'ALTER SCHEMA "PUBLIC2" RENAME TO old'),
        ("postgresql", "ALTER SCHEMA pub RENAME TO published"),
        ("postgresql", "ALTER TABLE x RENAME TO y"),
        ("postgresql", "COMMENT ON TABLE x IS 'then ALTER SCHEMA public RENAME TO old'"),
        ("tsql", "ALTER DATABASE other MODIFY NAME = old"),
        ("tsql", "ALTER DATABASE shop MODIFY FILE (NAME = a, NEWNAME = b)"),
        ("tsql", "EXEC sp_rename 'shop', 'old'"),
        ("mysql", "ALTER DATABASE shop CHARACTER SET utf8mb4"),
        ("oracle", "ALTER DATABASE RENAME FILE 'a' TO 'b'"),
        ("oracle", "ALTER DATABASE RENAME GLOBAL_NAME TO old"),
    ],
)
def test_others_do_not_stop_it(dialect, text):
    assert outcome(text, dialect, SCHEMA_MASK, DATABASE_DROP).sentence is None


def test_a_procedure_takes_the_new_name_as_it_stands():
    hidden = MappingRule(("old.*",), drop=("email",))
    assert outcome("EXEC sp_renamedb 'shop', 'old'", "tsql", DATABASE_DROP, hidden).sentence is None
    with pytest.raises(ConfigurationError, match=r"the database shop to \[old\], so that"):
        outcome("EXEC sp_renamedb 'shop', '[old]'", "tsql", DATABASE_DROP, hidden)


def test_rules_of_any_schema_stay_with_a_schema_that_gets_another_name():
    assert outcome(SCHEMAS[0][1], "postgresql", DATABASE_DROP).sentence is None


def test_it_goes_on_where_no_reader_gets_the_tables_of_the_new_name():
    for choice in ({"exclude": ("shop.old.*",)}, {"include": ("shop.public.*",)}):
        assert outcome(SCHEMAS[0][1], "postgresql", SCHEMA_MASK, **choice).sentence is None


def test_a_message_that_does_not_say_of_which_database_it_is():
    for schema in (NO_TABLE, intern_schema(None, None, None, (), None, "postgresql")):
        told = Change("other", schema, Message("t", 0, 0, None, None, None), ddl_text=SCHEMAS[0][1])
        with pytest.raises(ConfigurationError, match="the schema public to old"):
            ChangeMapper(Rules(of_tables=(SCHEMA_MASK,))).map(told)


def test_in_the_lake():
    batch = rows_of(event(SCHEMAS[0][1], "postgresql"))
    with pytest.raises(ConfigurationError, match="the schema public to old"):
        list(MappedDecoding(Rules(of_tables=(SCHEMA_MASK,)), TableRules()).of([batch]))
