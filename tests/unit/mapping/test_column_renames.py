"""Statements that give a hidden column another name."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from waybill.batches.change_rows import ChangeRows
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.batches.mapped_encoding import MappedMessageBatches
from waybill.envelopes import registry
from waybill.errors import ConfigurationError
from waybill.lake_columns import CHANGES
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRules
from waybill.types import STRING

MASK = MappingRule(("shop.*",), masks={"email": Mask("sha256")})
DROP = MappingRule(("shop.*",), drop=("email",))
STOPS = r"renames (?i:email) of shop\.(public\.)?people.*to mail,.* name mail under mask or drop"


def event(text: str | None, dialect: str = "mysql", table: str | None = "people") -> Change:
    space = None if dialect == "mysql" else "public"
    schema = intern_schema("shop", space, table, (), None, dialect)
    return Change("ddl", schema, Message("t", 0, 0, None, None, None), ddl_text=text)


RENAMES = [
    ("mysql", "ALTER TABLE people RENAME COLUMN email TO mail"),
    ("mysql", "ALTER TABLE people CHANGE email mail VARCHAR(200)"),
    ("mysql", "alter table `shop`.`people` change column `EMAIL` `mail` varchar(9) not null"),
    ("mysql", "ALTER TABLE people ADD COLUMN a INT, RENAME COLUMN email TO mail"),
    ("mysql", "/*!50000 ALTER TABLE people RENAME COLUMN `email` TO `mail` */"),
    ("mysql", "ALTER TABLE people CHANGE email mail INT, PARTITION BY HASH(id) PARTITIONS 4"),
    ("mysql", "ALTER TABLE _people_gho CHANGE email mail VARCHAR(200)"),
    ("postgresql", "ALTER TABLE people RENAME COLUMN email TO mail"),
    ("postgresql", "ALTER TABLE people RENAME email TO MAIL"),
    ("oracle", 'ALTER TABLE people RENAME COLUMN email TO "mail"'),
    ("tsql", "EXEC sp_rename 'public.people.email', 'mail', 'COLUMN'"),
    ("tsql", "EXEC sp_rename 'people.\"email\"', 'mail', 'COLUMN'"),
    (
        "tsql",
        "EXEC sp_rename 'people.note', 'memo', 'COLUMN'\nGO\n"
        "EXEC sp_rename 'other.name', 'e', 'COLUMN'; EXEC sp_rename 'people', 'persons'; "
        "EXEC sp_rename 'people.email', 'mail', 'COLUMN'",
    ),
    (
        "tsql",
        "exec sp_rename @objname = N'[people].[email]', @newname = N'mail', @objtype='COLUMN'",
    ),
    ("", "ALTER TABLE people RENAME COLUMN email TO mail"),
    ("", 'ALTER TABLE people RENAME COLUMN "email" TO "mail"'),
    ("", 'ALTER TABLE people RENAME COLUMN "email" TO mail'),
    ("mysql", 'ALTER TABLE people CHANGE email "mail" INT'),
    ("mysql", "alter table people change `email` /* pii */ `mail` varchar(9) COMPRESSED"),
    ("mysql", "ALTER TABLE people CHANGE email/**/mail text -- so\n COMPRESSED"),
    ("mysql", "ALTER TABLE people RENAME/**/COLUMN email # so\n TO/**/mail, WHATEVER (1)"),
]


@pytest.mark.parametrize("rule", [MASK, DROP])
@pytest.mark.parametrize(("dialect", "text"), RENAMES)
def test_the_batch_stops_where_values_would_be_shown(dialect, text, rule):
    with pytest.raises(ConfigurationError, match=STOPS):
        ChangeMapper(Rules(of_tables=(rule,), shadows=True)).map(event(text, dialect))


@pytest.mark.parametrize(
    "more",
    [
        {"masks": {"email": Mask("sha256"), "mail": Mask("last4")}},
        {"masks": {"*mail": Mask("sha256")}},
        {"masks": {"email": Mask("sha256")}, "drop": ("mail",)},
        {"masks": {"email": Mask("sha256")}, "keep": ("id", "email")},
        {"keep": ("id", "mail")},
        {"rename": {"email": "m"}},
    ],
)
@pytest.mark.parametrize(("dialect", "text"), RENAMES)
def test_it_goes_on_where_the_file_names_the_new_column(dialect, text, more):
    rules = Rules(of_tables=(MappingRule(("shop.*",), **more),), shadows=True)
    assert ChangeMapper(rules).map(event(text, dialect)).sentence is None


def test_a_name_that_rows_do_not_have_is_no_answer():
    """PostgreSQL makes small letters of a name, unless it is quoted."""
    rules = Rules(
        of_tables=(MappingRule(("*",), masks={"email": Mask("null"), "MAIL": Mask("null")}),)
    )
    quoted, plain = ('ALTER TABLE people RENAME email TO "MAIL"', RENAMES[8][1])
    assert ChangeMapper(rules).map(event(quoted, "postgresql")).sentence is None
    with pytest.raises(ConfigurationError, match="to mail, and"):
        ChangeMapper(rules).map(event(plain, "postgresql"))


def test_sql_server_takes_the_new_name_as_it_stands():
    rules = Rules(
        of_tables=(MappingRule(("*",), masks={"email": Mask("null"), "mail": Mask("null")}),)
    )
    for new, stops in (("mail", False), ("[mail]", True), ("e.mail", True)):
        told = event(f"EXEC sp_rename 'people.email', '{new}', 'COLUMN'", "tsql")
        if not stops:
            assert ChangeMapper(rules).map(told).sentence is None
            continue
        with pytest.raises(ConfigurationError, match=f"to {re.escape(new)}, and under"):
            ChangeMapper(rules).map(told)


@pytest.mark.parametrize(
    "text",
    [
        "EXEC sp_rename 'sales.people.email', 'mail', 'COLUMN'",
        "EXEC sp_rename 'sales.people.note', 'a', 'COLUMN'; EXEC sp_rename '.', 'b', 'COLUMN'",
    ],
)
def test_a_table_of_another_schema_is_another_one(text):
    rules = Rules(of_tables=(MappingRule(("shop.public.people",), masks={"email": Mask("null")}),))
    assert ChangeMapper(rules).map(event(text, "tsql")).sentence is None


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE people RENAME COLUMN note TO memo",
        "ALTER TABLE people CHANGE email email VARCHAR(300)",
        "ALTER TABLE people CHANGE email EMail VARCHAR(300)",
        "ALTER TABLE people RENAME TO persons",
        "RENAME TABLE email TO mail",
        "ALTER TABLE people DROP COLUMN email",
        "ALTER TABLE people MODIFY email TEXT",
        "ALTER TABLE elsewhere.people CHANGE email mail INT",
        "rename it, please (",
        None,
    ],
)
def test_others_do_not_stop_it(text):
    rules = Rules(of_tables=(MASK,))
    told = event(text)
    assert ChangeMapper(rules).map(told).sentence is None


def test_a_message_that_names_no_table_or_tells_its_new_columns():
    rules = Rules(of_tables=(MASK,))
    text = RENAMES[0][1]
    with pytest.raises(ConfigurationError, match=STOPS):
        ChangeMapper(rules).map(event(text, table=None))
    # Every column of the new schema stays, so nothing else would look at the statement.
    schema = intern_schema("shop", None, "people", (Column("mail", STRING),), None, "mysql")
    told = Change("ddl", schema, Message("t", 0, 0, None, None, None), ddl_text=text)
    with pytest.raises(ConfigurationError, match=STOPS):
        ChangeMapper(rules).map(told)


def rows_of(change: Change) -> pa.RecordBatch:
    envelope = registry.get("canal")
    assert envelope.decoder is not None
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    return ChangeRows(decoder, "b1").rows([change])


def test_in_the_lake_and_for_a_target():
    batch = rows_of(event(RENAMES[0][1]))
    mapping = MappedDecoding(Rules(of_tables=(MASK,)), TableRules())
    with pytest.raises(ConfigurationError, match=STOPS):
        list(mapping.of([batch]))
    envelope = registry.get("canal")
    assert envelope.encoder is not None
    encoder = envelope.encoder(envelope.encode_settings())
    schemas = {event(None).schema.id: event(None).schema}
    work = MappedMessageBatches(Rules(of_tables=(MASK,)), encoder, "t", "b1", schemas)
    rows = pa.Table.from_batches([batch], CHANGES).filter(
        pa.compute.equal(pa.Table.from_batches([batch], CHANGES).column("outcome"), "ok")
    )
    with pytest.raises(ConfigurationError, match=STOPS):
        list(work.convert(iter(rows.to_batches())))
