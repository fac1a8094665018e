"""Statements of mapped tables."""

from __future__ import annotations

import pytest

from waybill.mapping.changes import STATEMENT, ChangeMapper
from waybill.mapping.rules import Mask, Rule, Rules
from waybill.records import NO_TABLE as NOWHERE
from waybill.records import Change, Message, intern_schema

RULES = Rules(
    of_tables=(
        Rule(
            ("shop.*",),
            {"database": "crm", "table": "{table}_v2"},
            drop=("gone",),
            rename={"a": "b"},
            masks={"secret*": Mask("sha256")},
        ),
    )
)
NAMES = Rules(of_tables=(Rule(("shop.*",), {"database": "crm", "table": "{table}_v2"}),))


def statement(text: str, rules: Rules = RULES, dialect: str = "mysql") -> str | None:
    mapper = ChangeMapper(rules)
    mapped = mapper.of(intern_schema("shop", None, "t", (), None, dialect))
    assert mapped is not None
    return mapper.statement(text, mapped)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE t", "DROP TABLE t_v2"),
        ("drop table `shop`.`t`", "DROP TABLE `crm`.`t_v2`"),
        ("DROP TABLE T", "DROP TABLE t_v2"),
        ("DROP TABLE t, other", "DROP TABLE t_v2, other_v2"),
        ("ALTER TABLE t ADD COLUMN c INT", "ALTER TABLE t_v2 ADD COLUMN c INT"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t_v2 ADD COLUMN b INT"),
        ("ALTER TABLE t DROP COLUMN A", "ALTER TABLE t_v2 DROP COLUMN b"),
        (
            "ALTER TABLE t ADD COLUMN c INT, ADD COLUMN gone INT, ADD COLUMN secret_n INT",
            "ALTER TABLE t_v2 ADD COLUMN c INT",
        ),
        ("ALTER TABLE t ADD COLUMN Secret_n INT DEFAULT 5", None),
        ("ALTER TABLE t CHANGE a c INT", "ALTER TABLE t_v2 CHANGE COLUMN b c INT"),
        ("ALTER TABLE t CHANGE a a INT", "ALTER TABLE t_v2 CHANGE COLUMN b b INT"),
        (
            "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5",
            "ALTER TABLE t_v2 ALTER COLUMN b SET DEFAULT 5",
        ),
        ("ALTER TABLE t ALTER secret_n SET DEFAULT 'x@y'", None),
        (
            "ALTER TABLE t ALTER gone SET DEFAULT 'x', DROP COLUMN a",
            "ALTER TABLE t_v2 DROP COLUMN b",
        ),
        ("ALTER TABLE t CHANGE c secret_n INT DEFAULT 7", None),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", "ALTER TABLE t_v2 ADD PRIMARY KEY (b)"),
        ("ALTER TABLE t ADD UNIQUE KEY i (a(10))", "ALTER TABLE t_v2 ADD UNIQUE i (b(10))"),
        ("ALTER TABLE t ADD PRIMARY KEY (secret_n)", None),
        ("ALTER TABLE t ADD FOREIGN KEY (c) REFERENCES o (a)", None),
        ("ALTER TABLE t DROP COLUMN gone", None),
        ("CREATE TABLE t (id INT)", None),
        ("ALTER TABLE t DO SOMETHING NEW", None),
        ("not sql at all (", None),
        ("", None),
    ],
)
def test_names_are_the_new_ones(text, expected):
    assert statement(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ALTER TABLE t ALTER COLUMN a TYPE text USING a::text",
            "ALTER TABLE t_v2 ALTER COLUMN b SET DATA TYPE TEXT USING CAST(b AS TEXT)",
        ),
        ("ALTER TABLE t ALTER COLUMN secret_n SET DEFAULT 'x@y'", None),
        ("ALTER TABLE t ALTER COLUMN c TYPE text USING gone", None),
        ("ALTER TABLE t RENAME a TO c", "ALTER TABLE t_v2 RENAME COLUMN b TO c"),
        ("ALTER TABLE t RENAME gone TO c", None),
        ("ALTER TABLE t RENAME a.b TO c", None),
    ],
)
def test_names_of_altered_columns_in_postgresql(text, expected):
    assert statement(text, dialect="postgresql") == expected


@pytest.mark.parametrize("text", ["DROP TABLE t, other", "ALTER TABLE t ADD COLUMN a INT"])
def test_a_statement_of_two_migrations_has_the_names_of_each(text):
    """Both read one tree."""
    first = statement(text)
    assert statement(text, NAMES) == text.replace("t", "t_v2", 1).replace("other", "other_v2")
    assert statement(text) == first


def test_a_table_is_created_with_its_new_name_where_its_columns_stay():
    expected = "CREATE TABLE t_v2 (id INT)"
    assert statement("CREATE TABLE t (id INT)", NAMES) == expected


def test_a_table_that_is_not_mapped_keeps_its_statement():
    rules = Rules(of_tables=(Rule(("other.*",), {"table": "x"}),))
    assert statement("whatever  IT says;", rules) == "whatever  IT says;"


@pytest.mark.parametrize(
    "text",
    ["INSERT INTO t VALUES (1, 'x')", "UPDATE t SET a = 1 WHERE id = 2", "DELETE FROM shop.t"],
)
def test_statements_about_rows_are_reported_only_of_rows_that_stay(text):
    """They show values as the source has them, of all its rows."""
    mapped = statement(text, NAMES)
    assert mapped is not None
    assert "t_v2" in mapped
    assert statement(text) is None
    assert statement(text, Rules(of_tables=(Rule(("*",), where="a > 1"),))) is None
    assert statement("DROP  TABLE t", Rules(of_tables=(Rule(("*",), where="a > 1"),))) is not None


OF_SOME = Rules(of_tables=(Rule(("*",), where="a > 1"),))


@pytest.mark.parametrize(
    "text",
    [
        "INSERT LOW_PRIORITY INTO t VALUES (1, 's')",
        "REPLACE INTO t VALUES (1, 's')",
        "UPDATE IGNORE t SET a = 's' WHERE id = 1",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "CALL p('s')",
        "EXEC p 's'",
        "DO $$ BEGIN INSERT INTO t VALUES (1); END $$",
        "BULK INSERT t FROM 's'",
        "/*!50003 INSERT INTO t VALUES (1, 's') */",
        "/* CREATE */ REPLACE INTO t VALUES (1, 's')",
        "/*!50003 REPLACE INTO t VALUES (1) */ CREATE",
        "ALTER TABLE t ADD c INT; INSERT INTO t VALUES (1, 's')",
        "what is this",
    ],
)
def test_statements_that_cannot_be_read_are_taken_as_about_rows(text):
    """They may show rows that a condition leaves out."""
    assert statement(text, OF_SOME) is None
    found = ChangeMapper(OF_SOME).map(event("other", text))
    assert found[:2] == (None, STATEMENT)


@pytest.mark.parametrize(
    "text",
    [
        "RENAME TABLE t TO u",
        "ALTER TABLE t DO SOMETHING NEW (1)",
        "-- why\n/* so */ Optimize Table t",
        "EXEC sp_rename 't.a', 'b', 'COLUMN'",
        "exec [sys].[sp_rename] 't.a', 'b', 'COLUMN'",
    ],
)
def test_statements_that_define_something_stay_though_they_cannot_be_read(text):
    assert statement(text, OF_SOME) == text


def event(operation: str, text: str | None, extra: bytes | None = None) -> Change:
    schema = intern_schema("shop", None, "t", (), None, "mysql")
    message = Message("topic", 0, 0, None, None, None)
    return Change(operation, schema, message, ddl_text=text, extra=extra)


def test_events_that_tell_a_statement_tell_the_mapped_one():
    found = ChangeMapper(RULES).map(event("truncate", "TRUNCATE TABLE t"))
    assert found.change is not None
    assert found.change.ddl_text == "TRUNCATE TABLE t_v2"
    unread = ChangeMapper(RULES).map(event("truncate", "empty t, please"))
    assert unread.change is not None
    assert unread.change.ddl_text is None
    mapped = ChangeMapper(NAMES).map(event("other", "INSERT INTO t VALUES (1)"))
    assert mapped.change is not None
    assert mapped.change.ddl_text == "INSERT INTO t_v2 VALUES (1)"
    assert ChangeMapper(RULES).map(event("other", "INSERT INTO t VALUES (1)"))[:2] == (
        None,
        STATEMENT,
    )
    assert ChangeMapper(RULES).map(event("other", None)).change is not None


def test_what_an_event_repeats_of_its_statement_goes():
    extra = b'{"debezium_message":{"ddl":"ALTER TABLE t ADD secret INT DEFAULT 5"}}'
    (found, *_) = ChangeMapper(RULES).map(event("ddl", "ALTER TABLE t ADD COLUMN c INT", extra))
    assert found is not None
    assert found.extra is None


@pytest.mark.parametrize(
    ("extra", "hidden"),
    [
        (b'{"canal":{"sql":"INSERT INTO t VALUES (1)"}}', True),
        (b'{"canal":{"sql":"/* x */ update t set a = 1"}}', True),
        (b'{"maxwell":{"query":"REPLACE INTO t VALUES (1)"}}', True),
        (b'{"canal":{"sql":"/*!50003 INSERT INTO t VALUES (1) */"}}', True),
        (b'{"canal":{"sql":"/*!50003 so */ INSERT INTO t VALUES (1)"}}', True),
        (b'{"canal":{"sql":"CREATE DATABASE shop"}}', False),
        (b'{"canal":{"id":1}}', False),
        (None, False),
    ],
)
def test_events_of_no_table_that_repeat_rows_go_where_the_mapping_shows_less(extra, hidden):
    change = Change("other", NOWHERE, Message("t", 0, 0, None, None, None), extra=extra)
    for rules in (RULES, Rules(exclude=("a.b",)), Rules(of_tables=(Rule(("*",), where="1 = 1"),))):
        assert (ChangeMapper(rules).map(change).change is None) is hidden
    assert ChangeMapper(NAMES).map(change).change is change
