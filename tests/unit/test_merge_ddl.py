"""What the merge reads out of ALTER statements."""

from __future__ import annotations

import pytest

from waybill.merge.ddl import UnreadableStatement, read_alteration


@pytest.mark.parametrize(
    ("dialect", "definition", "defaults"),
    [
        ("mysql", "coupon VARCHAR(40) CHARACTER SET utf8mb4 NULL AFTER title", {}),
        ("mysql", "tier VARCHAR(10) NOT NULL DEFAULT 'basic'", {"tier": "basic"}),
        ("postgresql", "tier VARCHAR(10) DEFAULT 'basic'::varchar", {"tier": "basic"}),
        ("", "tier VARCHAR(10) NOT NULL DEFAULT 'ba''sic'", {"tier": "ba'sic"}),
        ("mysql", "n INT NOT NULL", {"n": "0"}),
        ("postgresql", "n INT", {}),
        ("mysql", "s VARCHAR(3) NOT NULL", {"s": ""}),
        ("mysql", "n BIGINT UNSIGNED DEFAULT 18446744073709551615", {"n": "18446744073709551615"}),
        ("mysql", "n INT DEFAULT -1", {"n": "-1"}),
        ("mysql", "d DECIMAL(12,2) DEFAULT 0", {"d": "0.00"}),
        ("mysql", "d DECIMAL(12,2) NOT NULL DEFAULT '1.5'", {"d": "1.50"}),
        ("mysql", "b TINYINT(1) DEFAULT TRUE", {"b": "1"}),
        ("postgresql", "b BOOLEAN DEFAULT false", {"b": "false"}),
        ("mysql", "x INT DEFAULT NULL", {}),
        ("mysql", "t DATETIME DEFAULT '2020-01-02 03:04:05'", {"t": "2020-01-02T03:04:05"}),
    ],
)
def test_defaults_of_new_columns(dialect, definition, defaults):
    found = read_alteration(f"ALTER TABLE shop.customers ADD COLUMN {definition}", dialect)
    assert found is not None
    assert found.table == ("shop", "customers")
    assert found.defaults == defaults
    assert found.unclear == ()


@pytest.mark.parametrize(
    "definition",
    [
        "t TIMESTAMP DEFAULT CURRENT_TIMESTAMP",
        "b BIT(1) DEFAULT b'1'",
        "d DECIMAL(3,1) DEFAULT 0.25",
        "e DATE NOT NULL",
    ],
)
def test_defaults_that_the_text_does_not_tell(definition):
    found = read_alteration(f"ALTER TABLE t ADD {definition}", "mysql")
    assert found is not None
    assert found.defaults == {}
    assert found.unclear == (definition[0],)


def test_several_actions():
    text = (
        "/* tool */ ALTER TABLE `shop`.`t` ADD a INT DEFAULT 1, DROP COLUMN z, ADD INDEX i (a), "
        "CHANGE COLUMN o n INT, ADD COLUMN e ENUM('x','y') DEFAULT 'x' FIRST"
    )
    found = read_alteration(text, "mysql")
    assert found is not None
    assert found.defaults == {"a": "1", "e": "x"}
    assert found.renamed == (("o", "n"),)


def test_a_rename():
    found = read_alteration("ALTER TABLE t RENAME COLUMN a TO b", "postgresql")
    assert found is not None
    assert found.renamed == (("a", "b"),)


@pytest.mark.parametrize(
    "text", ["CREATE TABLE t (a INT)", "DROP TABLE t", "TRUNCATE t", "", "SET x = 1", "altered"]
)
def test_other_statements_are_none(text):
    assert read_alteration(text) is None


def test_an_alter_that_cannot_be_read():
    with pytest.raises(UnreadableStatement):
        read_alteration("ALTER TABLE t nonsense ???", "mysql")
