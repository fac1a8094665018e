"""What `select` and `map` of a migration file may say."""

from __future__ import annotations

import pytest

from tests.unit.spec.spec_files import GOOD, writer_in
from waybill.errors import ConfigurationError
from waybill.mapping.rules import Added, Mask
from waybill.spec.file import load_migration


@pytest.fixture
def load(tmp_path):
    def loader(more: str):
        return load_migration(writer_in(tmp_path / "m")(GOOD + more))

    return loader


def test_one_name_or_several(load):
    spec = load("select: {include: shop.*, exclude: [shop.a, shop.b]}\n")
    rules = spec.mapping()
    assert (rules.include, rules.exclude) == (("shop.*",), ("shop.a", "shop.b"))


def test_a_mask_of_null_may_be_written_without_quotes(load):
    spec = load('map: [{tables: shop.*, columns: {mask: {a: null, b: "null", c: {text: x}}}}]\n')
    (rule,) = spec.mapping().of_tables
    assert rule.masks == {"a": Mask("null"), "b": Mask("null"), "c": Mask("text", "x")}


def test_the_key_of_an_hmac_is_the_password_of_its_connection(load, monkeypatch):
    text = "map: [{tables: shop.*, columns: {mask: {a: {hmac: masking}}, add: {b: table}}}]\n"
    spec = load(text)
    assert spec.connections == ["masking"]
    with pytest.raises(ConfigurationError, match="there is no connection masking"):
        spec.mapping()
    monkeypatch.setenv("AIRFLOW_CONN_MASKING", '{"conn_type": "generic", "login": "a"}')
    with pytest.raises(ConfigurationError, match="connection masking has no password"):
        spec.mapping()
    monkeypatch.setenv("AIRFLOW_CONN_MASKING", '{"conn_type": "generic", "password": "geheim"}')
    rules = spec.mapping()
    assert rules.of_tables[0].masks == {"a": Mask("hmac", "geheim")}
    assert rules.of_tables[0].add == {"b": Added("table")}
    assert "geheim" not in repr(rules)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("map: [{tables: []}]\n", "map[0].tables"),
        ("map: [{tables: a.b, rename: {table: 'x_{tabel}'}}]\n", "only {database}, {schema} and"),
        ("map: [{tables: a.b, rename: {table: 'x{'}}]\n", "only {database}, {schema} and {table}"),
        ("map: [{tables: a.b, rename: {table: ''}}]\n", "a name cannot be empty"),
        ("map: [{tables: 'a.*', rename: {table: one}}]\n", "give all tables of 'a.*' one name"),
        (
            "map: [{tables: a.b, columns: {mask: {c: md5}}}]\n",
            "columns.mask.c is no mask: write null, sha",
        ),
        (
            "map: [{tables: a.b, columns: {add: {c: now}}}]\n",
            "columns.add.c is no new column: write data",
        ),
        ("select: {includes: [a]}\n", "include"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(load, text, sentence):
    with pytest.raises(ConfigurationError) as error:
        load(text)
    assert sentence in error.value.sentence
    assert "shop.yaml:" in error.value.sentence
