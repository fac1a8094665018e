"""Statements of mapped tables."""

from __future__ import annotations

import pytest

from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import Mask, Rule, Rules
from waybill.records import intern_schema

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
        ("ALTER TABLE t DROP COLUMN gone", None),
        ("CREATE TABLE t (id INT)", None),
        ("ALTER TABLE t DO SOMETHING NEW", None),
        ("not sql at all (", None),
        ("", None),
    ],
)
def test_names_are_the_new_ones(text, expected):
    assert statement(text) == expected


def test_a_table_is_created_with_its_new_name_where_its_columns_stay():
    expected = "CREATE TABLE t_v2 (id INT)"
    assert statement("CREATE TABLE t (id INT)", NAMES) == expected


def test_a_table_that_is_not_mapped_keeps_its_statement():
    rules = Rules(of_tables=(Rule(("other.*",), {"table": "x"}),))
    assert statement("whatever  IT says;", rules) == "whatever  IT says;"
