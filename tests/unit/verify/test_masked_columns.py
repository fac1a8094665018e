"""Masks on both sides: which columns can be compared, and what a row is told by."""

from __future__ import annotations

import hashlib

import pytest

from tests.unit.verify.test_canonical import column
from waybill.mapping.rules import Mask
from waybill.verify.canonical import MYSQL, POSTGRESQL, has_one_text
from waybill.verify.plan import CanonicalRows, Compared


@pytest.mark.parametrize(
    ("dialect", "declared", "expected"),
    [
        (POSTGRESQL, "text", True),
        (POSTGRESQL, "character varying(40)", True),
        (POSTGRESQL, "bigint", True),
        (POSTGRESQL, "date", True),
        (POSTGRESQL, "uuid", True),
        (POSTGRESQL, "citext", True),
        (POSTGRESQL, "character(6)", False),
        (POSTGRESQL, "text[]", False),
        (POSTGRESQL, "numeric", False),
        (POSTGRESQL, "numeric(10,2)", False),
        (POSTGRESQL, "boolean", False),
        (POSTGRESQL, "bytea", False),
        (POSTGRESQL, "double precision", False),
        (POSTGRESQL, "time without time zone", False),
        (POSTGRESQL, "timestamp without time zone", False),
        (POSTGRESQL, "timestamp with time zone", False),
        (POSTGRESQL, "jsonb", False),
        (POSTGRESQL, "interval", False),
        (MYSQL, "varchar(40)", True),
        (MYSQL, "int(11)", True),
        (MYSQL, "enum('a','b')", True),
        (MYSQL, "int(6) unsigned zerofill", False),
        (MYSQL, "tinyint(1)", False),
        (MYSQL, "year(4)", False),
        (MYSQL, "varbinary(20)", False),
        (MYSQL, "bit(9)", False),
        (MYSQL, "timestamp(6)", False),
        (MYSQL, "decimal(20,4)", False),
    ],
)
def test_which_values_have_one_text(dialect: str, declared: str, expected: bool):
    assert has_one_text(column(declared, dialect)) is expected


def test_a_key_has_one_text_if_each_of_its_columns_has():
    key = column("bigint", POSTGRESQL), column("character(6)", POSTGRESQL)
    whole = compared(None, None, None)
    assert whole._replace(key=key[:1]).key_has_one_text
    assert not whole._replace(key=key).key_has_one_text


def compared(*masks: Mask | None) -> Compared:
    columns = tuple(
        column("bigint", POSTGRESQL)._replace(name=name) for name in ("id", "phone", "age")
    )
    names = ("id", "phone", "years")
    facts = ("shop.t", "lake.shop.t", None, columns[:1], True, columns, ())
    return Compared(*facts, names, read=columns, masks=masks)


def test_a_row_of_the_database_is_masked_and_one_of_the_lake_is_not_masked_again():
    mask = Mask("sha256")
    hashed = {text: hashlib.sha256(text.encode()).hexdigest() for text in ("7", "123")}
    table = compared(mask, mask, Mask("null"))
    texts = CanonicalRows(table)
    row = texts.of_database(("7", "123", "40"))
    assert row == (hashed["7"], hashed["123"], None)
    image = {"id": hashed["7"], "phone": hashed["123"], "years": None}
    assert texts.of_image(image) == row
    assert texts.key(row) == texts.key_of_image({"id": hashed["7"]})
    assert texts.of_database(("7", None, None)) == (hashed["7"], None, None)
    assert table.key_is_masked
    assert not compared(None, mask, None).key_is_masked


def test_the_secret_of_a_mask_shows_nowhere():
    assert "pepper" not in repr(compared(None, Mask("hmac", "pepper"), None))
