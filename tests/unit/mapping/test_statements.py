"""Statements of mapped tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.mapping.test_column_renames import rows_of
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.mapping.changes import STATEMENT, ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.records import NO_TABLE as NOWHERE
from waybill.records import Change, Message, TableSchema, intern_schema
from waybill.tables import TableRules

RULES = Rules(
    of_tables=(
        MappingRule(
            ("shop.*",),
            {"database": "crm", "table": "{table}_v2"},
            drop=("gone",),
            rename={"a": "b"},
            masks={"secret*": Mask("sha256")},
        ),
    )
)
NAMES = Rules(of_tables=(MappingRule(("shop.*",), {"database": "crm", "table": "{table}_v2"}),))


def statement(text: str, rules: Rules = RULES, dialect: str = "mysql") -> str | None:
    mapper = ChangeMapper(rules)
    mapped = mapper.of(intern_schema("shop", None, "t", (), None, dialect))
    assert mapped is not None
    return mapper.statement(text, mapped)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE t", "DROP TABLE t_v2"),
        ("drop table `shop`.`t`", "drop table `crm`.`t_v2`"),
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
        ("ALTER TABLE t CHANGE a c INT", "ALTER TABLE t_v2 CHANGE b c INT"),
        ("ALTER TABLE t CHANGE a a INT", "ALTER TABLE t_v2 CHANGE b b INT"),
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
        ("ALTER TABLE t ADD UNIQUE KEY i (a(10))", "ALTER TABLE t_v2 ADD UNIQUE KEY i (b(10))"),
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
            "ALTER TABLE t_v2 ALTER COLUMN b TYPE text USING b::text",
        ),
        ("ALTER TABLE t ALTER COLUMN secret_n SET DEFAULT 'x@y'", None),
        ("ALTER TABLE t ALTER COLUMN c TYPE text USING gone", None),
        ("ALTER TABLE t RENAME a TO c", "ALTER TABLE t_v2 RENAME b TO c"),
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
    rules = Rules(of_tables=(MappingRule(("other.*",), {"table": "x"}),))
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
    assert statement(text, Rules(of_tables=(MappingRule(("*",), where="a > 1"),))) is None
    assert (
        statement("DROP  TABLE t", Rules(of_tables=(MappingRule(("*",), where="a > 1"),)))
        is not None
    )


OF_SOME = Rules(of_tables=(MappingRule(("*",), where="a > 1"),))


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
    for rules in (
        RULES,
        Rules(exclude=("a.b",)),
        Rules(of_tables=(MappingRule(("*",), where="1 = 1"),)),
    ):
        assert (ChangeMapper(rules).map(change).change is None) is hidden
    assert ChangeMapper(NAMES).map(change).change is change


def told(
    text: str, rules: Rules, source: TableSchema, extra: bytes | None = None
) -> tuple[str | None, str | None]:
    """The statement as it is published, and why it is not; one by one and in bulk."""
    message = Message("t", 0, 0, None, None, None)
    change = Change("ddl", source, message, ddl_text=text, extra=extra)
    found = ChangeMapper(rules).map(change)
    rows = pa.Table.from_batches(MappedDecoding(rules, TableRules()).of([rows_of(change)]))
    (row,) = [one for one in rows.to_pylist() if one["outcome"] != "schema"]
    if found.change is None:
        assert (row["outcome"], row["reason_kind"]) == ("skipped", found.why)
        return None, found.why
    carried = found.change.extra
    assert (row["outcome"], row["ddl_text"]) == ("ok", found.change.ddl_text)
    assert row["extra"] == (None if carried is None else carried.decode())
    return found.change.ddl_text, None


def place(table: str | None, schema: str | None = None, dialect: str = "") -> TableSchema:
    return intern_schema("shop", schema, table, (), None, dialect)


PEOPLE = Rules(
    of_tables=(MappingRule(("shop.people",), masks={"email": Mask("sha256")}, drop=("note",)),)
)


@pytest.mark.parametrize("dialect", ["", "streamx", "mysql"])
@pytest.mark.parametrize("table", ["people", "other", None])
@pytest.mark.parametrize(
    "action",
    [
        "MODIFY \"EMAIL\" VARCHAR2(99) DEFAULT 'alice@x.org'",
        "ADD CONSTRAINT C CHECK (\"EMAIL\" <> 'alice@x.org')",
        "ALTER COLUMN \"email\" SET DEFAULT 'alice@x.org'",
        "ADD \"note\" text DEFAULT 'alice@x.org'",
        "ADD b text GENERATED ALWAYS AS (CONCAT(\"email\", 'alice@x.org')) STORED",
        "DROP \"email\" /* it was 'alice@x.org' */",
        "MODIFY email varchar(9) COMPRESSED DEFAULT 'alice@x.org'",
        "/*!50000 MODIFY email varchar(9) DEFAULT 'alice@x.org' */",
    ],
)
def test_no_value_of_a_hidden_column_shows_whatever_its_quotes(action, table, dialect):
    for name in ("shop.people", '"shop"."people"'):
        text = f"ALTER TABLE {name} {action}"
        assert told(text, PEOPLE, place(table, dialect=dialect)) == (None, STATEMENT)
    others = told(
        f"ALTER TABLE shop.people ADD b int, {action}", PEOPLE, place(table, dialect=dialect)
    )
    assert "alice" not in (others[0] or "")


@pytest.mark.parametrize(
    "text", ["CREATE TABLE shop.{} AS SELECT * FROM shop.people WHERE x = 'a'"]
)
def test_what_another_table_is_created_with_shows_no_hidden_column(text):
    for table in ("copy", None):
        assert told(text.format("copy"), PEOPLE, place(table)) == (None, STATEMENT)
    text = "CREATE TABLE copy (a int REFERENCES people (id))"
    assert told(text, PEOPLE, place("copy")) == (text, None)
    text = text.replace("(id)", "(email)")
    assert told(text, PEOPLE, place("copy")) == (None, STATEMENT)


@pytest.mark.parametrize("dialect", ["", "mysql"])
@pytest.mark.parametrize(
    "text",
    [
        'ALTER TABLE ORDERS RENAME COLUMN "TITLE" TO "NAME"',
        'ALTER TABLE ORDERS RENAME COLUMN TITLE TO "NAME"',
        'ALTER TABLE ORDERS CHANGE "TITLE" "NAME" int',
        'ALTER TABLE ORDERS RENAME "TITLE" TO "NAME"',
    ],
)
def test_a_renamed_column_in_quotes_ends_no_batch(text, dialect):
    assert told(text, PEOPLE, place("ORDERS", dialect=dialect)) == (text, None)
    masked = Rules(
        of_tables=(MappingRule(("*",), masks={"TITLE": Mask("sha256"), "NAME": Mask("null")}),)
    )
    assert told(text, masked, place("ORDERS", dialect=dialect)) == (None, STATEMENT)


PARTNERS = Rules(of_tables=(MappingRule(("shop.*",), {"database": "partners"}),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE shop.orders, archive.orders", "DROP TABLE partners.orders, archive.orders"),
        ("DROP TABLE orders, archive.ORDERS", "DROP TABLE orders, archive.ORDERS"),
        (
            "CREATE TABLE shop.orders LIKE archive.orders",
            "CREATE TABLE partners.orders LIKE archive.orders",
        ),
        (
            "ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES archive.orders (id)",
            "ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES archive.orders (id)",
        ),
        ("TRUNCATE TABLE archive.orders", "TRUNCATE TABLE archive.orders"),
    ],
)
def test_a_table_of_another_database_keeps_its_name(text, expected):
    assert told(text, PARTNERS, place("orders", dialect="mysql")) == (expected, None)
    text = "DROP TABLE shop.people, archive.people"
    assert told(text, PEOPLE, place("people", dialect="mysql")) == (text, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALTER TABLE shop.dbo.orders ADD c int", "ALTER TABLE partners.dbo.orders ADD c int"),
        (
            "ALTER TABLE [shop].[dbo].[orders] ADD c int",
            "ALTER TABLE [partners].[dbo].[orders] ADD c int",
        ),
        ("ALTER TABLE dbo.orders ADD c int", "ALTER TABLE dbo.orders ADD c int"),
        ("DROP TABLE a.dbo.orders, dbo.x", "DROP TABLE a.dbo.orders, dbo.x"),
    ],
)
def test_a_name_of_three_parts(text, expected):
    rules = Rules(of_tables=(MappingRule(("shop.*",), {"database": "partners"}),))
    assert told(text, rules, place("orders", "dbo", "tsql")) == (expected, None)


@pytest.mark.parametrize(
    ("text", "table", "expected"),
    [
        ("DROP TABLE shop.orders", None, "DROP TABLE partners.orders"),
        ("DROP TABLE orders -- all", None, "DROP TABLE partners.orders -- all"),
        ("DROP TABLE `orders`, other.x", None, "DROP TABLE `partners`.`orders`, other.x"),
        (
            "ALTER TABLE shop.orders ADD fee int8 DEFAULT 5",
            None,
            "ALTER TABLE partners.orders ADD fee int8 DEFAULT 5",
        ),
        ("CREATE DATABASE shop", None, "CREATE DATABASE shop"),
        ("CREATE USER shop", None, "CREATE USER shop"),
        ("whatever  IT says of other.x;", "", "whatever  IT says of other.x;"),
        ("RENAME TABLE shop.orders TO shop.b", None, None),
        ("ALTER TABLE shop.orders DO SOMETHING NEW", None, None),
        (
            "DROP TABLE a; DROP TABLE shop.orders",
            None,
            "DROP TABLE partners.a; DROP TABLE partners.orders",
        ),
    ],
)
def test_a_statement_of_a_message_that_names_no_table_has_the_new_names(text, table, expected):
    source = NOWHERE if table == "" else place(table, dialect="mysql")
    why = STATEMENT if expected is None else None
    assert told(text, PARTNERS, source) == (expected, why)


def test_a_statement_of_several_tables_has_the_name_of_each_whatever_its_message_names():
    rules = Rules(of_tables=(MappingRule(("shop.orders",), {"database": "partners"}),))
    text = "DROP TABLE shop.orders, shop.x"
    for table in ("x", "orders", None, "orders,x"):
        made = told(text, rules, place(table, dialect="mysql"))
        assert made == ("DROP TABLE partners.orders, shop.x", None)
    # In the message of the renamed table the plain name of the other one would mean another.
    made = told("DROP TABLE orders, x", rules, place("orders", dialect="mysql"))
    assert made == ("DROP TABLE orders, shop.x", None)
    left_out = Rules(exclude=("archive.*",), of_tables=rules.of_tables)
    text = "DROP TABLE archive.a, shop.orders, archive.b, shop.x, archive.c CASCADE"
    made = told(text, left_out, place("x", dialect="mysql"))
    assert made == ("DROP TABLE partners.orders, shop.x CASCADE", None)
    made = told("DROP TABLE archive.a", left_out, place(None, dialect="mysql"))
    assert made == (None, STATEMENT)


def test_what_an_event_of_no_table_repeats_of_its_statement_goes_if_that_changes():
    extra = b'{"debezium_message":{"ddl":"DROP TABLE shop.orders"}}'
    made = told("DROP TABLE shop.orders", PARTNERS, place(None), extra)
    assert made == ("DROP TABLE partners.orders", None)
    assert told("DROP TABLE b.orders", PARTNERS, place(None), extra) == (
        "DROP TABLE b.orders",
        None,
    )


@pytest.mark.parametrize(
    ("dialect", "rename", "action", "expected"),
    [
        ("mysql", "service fee", "ADD fee INT DEFAULT 5", "ADD `service fee` INT DEFAULT 5"),
        ("mysql", "order", "DROP COLUMN fee", "DROP COLUMN `order`"),
        ("mysql", "a`b", "DROP COLUMN fee", "DROP COLUMN `a``b`"),
        ("mysql", "cost", "DROP COLUMN `fee`", "DROP COLUMN `cost`"),
        ("mysql", "cost", 'DROP COLUMN "fee"', 'DROP COLUMN "cost"'),
        ("", "cost", 'DROP COLUMN "fee"', 'DROP COLUMN "cost"'),
        ("postgresql", "Fee", "ADD FEE int8 DEFAULT 5", 'ADD "Fee" int8 DEFAULT 5'),
        ("postgresql", 'a"b', "DROP COLUMN fee", 'DROP COLUMN "a""b"'),
        ("tsql", "a]b", "ADD fee int, c int", "ADD [a]]b] int, c int"),
        ("tsql", "a]b", 'ADD "fee" int', 'ADD "a]b" int'),
    ],
)
def test_a_new_name_is_quoted_unless_it_reads_back_as_itself(dialect, rename, action, expected):
    rules = Rules(of_tables=(MappingRule(("*",), rename={"fee": rename}),))
    made = told(f"ALTER TABLE t {action}", rules, place("t", dialect=dialect))
    assert made == (f"ALTER TABLE t {expected}", None)


def test_oracle_has_large_letters_unless_they_are_quoted():
    rules = Rules(of_tables=(MappingRule(("*",), rename={"FEE": "fee", "TAX": "COST"}),))
    text = "ALTER TABLE T ADD (fee NUMBER(5) DEFAULT 5 NOT NULL, tax NUMBER)"
    expected = text.replace("fee", '"fee"').replace("tax", "COST")
    assert told(text, rules, place("T", dialect="oracle")) == (expected, None)


@pytest.mark.parametrize("dialect", ["", "mysql", "postgresql"])
@pytest.mark.parametrize("kind", ["int8", "real", "timestamptz", "bytea", "text[]", "float8"])
def test_types_stay_as_they_are_spelled(kind, dialect):
    rules = Rules(of_tables=(MappingRule(("*",), {"table": "t_v2"}),))
    text = f"alter  table t\tadd a {kind} -- new"
    made = told(text, rules, place("t", dialect=dialect))
    assert made == (text.replace(" t\t", " t_v2\t"), None)


def test_comments_go_where_columns_are_hidden_and_what_mysql_executes_in_them():
    text = "ALTER TABLE people /* alice */ ADD b int /*!50600 , DROP c */ # alice"
    assert told(text, PEOPLE, place("people")) == ("ALTER TABLE people ADD b int", None)
    made = told("DROP TABLE orders /* so */ /*!50600 CASCADE */", PARTNERS, place(None))
    assert made == ("DROP TABLE partners.orders", None)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE elsewhere.people ADD b int DEFAULT 5",
        "ALTER TABLE shop.other ADD email text DEFAULT 'alice@x.org'",
        "CREATE TABLE elsewhere.people (email text DEFAULT 'alice@x.org')",
    ],
)
def test_what_defines_another_table_is_not_told_as_of_one_with_hidden_columns(text):
    """The merge goes by the message."""
    assert told(text, PEOPLE, place("people", dialect="mysql")) == (None, STATEMENT)
    assert told(text, PEOPLE, place("other", dialect="mysql")) == (text, None)


@pytest.mark.parametrize(
    "text",
    [
        "COMMENT ON COLUMN shop.people.email IS 'alice@x.org'",
        "CREATE TRIGGER t BEFORE INSERT ON people FOR EACH ROW SET NEW.email = 'alice@x.org'",
        "CREATE PROCEDURE p() INSERT INTO shop.people VALUES (1, 'alice@x.org')",
        "CREATE VIEW v AS SELECT * FROM people WHERE email <> 'alice@x.org'",
        "CREATE INDEX i ON people (id) WHERE email <> 'alice@x.org'",
        "BEGIN NOT ATOMIC ALTER TABLE people ADD email text DEFAULT 'alice@x.org'; END",
        "CREATE SCHEMA shop CREATE TABLE people (email text DEFAULT 'alice@x.org')",
        "alter table SHOP.PEOPLE add EMAIL varchar(99) default 'alice@x.org'",
        "alter table SHOP.PEOPLE add EMAIL varchar(99) compressed default 'alice@x.org'",
    ],
)
def test_what_else_names_a_table_with_hidden_columns_is_not_told(text):
    for table in ("other", None):
        assert told(text, PEOPLE, place(table)) == (None, STATEMENT)
    unknown = Rules(of_tables=(MappingRule(("shop.p*",), drop=("email",)),))
    assert told(text, unknown, place(None)) == (None, STATEMENT)


def test_a_name_that_cannot_be_read_ends_no_batch():
    text = 'ALTER TABLE "orders" RENAME INDEX [a] TO b'
    assert told(text, PEOPLE, place("x", dialect="postgresql")) == (None, STATEMENT)
