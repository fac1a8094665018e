"""What `select` and `map` of a migration file may say."""

from __future__ import annotations

import pytest

from tests.unit.spec.spec_files import GOOD, writer_in
from waybill.convert.plan import make_plan
from waybill.errors import ConfigurationError
from waybill.mapping.rules import Added, Join, Mask
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
        ("map: [{tables: 'a.*', join: {column: s}}]\n", "join needs a rename.table that is the"),
        (
            "map: [{tables: 'a.*', rename: {table: '{table}_x'}, join: {column: s}}]\n",
            "join needs a rename.table that is the same for all tables",
        ),
        ('map: [{tables: a.b, rename: {table: c}, join: {column: "it\'s"}}]\n', "join.column"),
        (
            "map: [{tables: a.b, rename: {table: c}, join: {column: s}},"
            " {tables: a.d, rename: {table: c}, join: {column: s, keys: distinct}}]\n",
            "map[0] and map[1] make one table and join it in two ways",
        ),
        ("map: [{tables: 'a.*', rename: {table: one}}]\n", "give all tables of 'a.*' one name"),
        (
            "map: [{tables: a.b, columns: {mask: {c: md5}}}]\n",
            "columns.mask.c is not a mask: write null, sha",
        ),
        (
            "map: [{tables: a.b, columns: {add: {c: now}}}]\n",
            "columns.add.c is not a new column: write data",
        ),
        ("select: {includes: [a]}\n", "include"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(load, text, sentence):
    with pytest.raises(ConfigurationError) as error:
        load(text)
    assert sentence in error.value.sentence
    assert "shop.yaml:" in error.value.sentence


def test_a_dump_of_a_joined_table_is_refused(load):
    joins = "[{tables: 'a.*', rename: {table: c}, join: {column: s}}]"
    spec = load(f"map: {joins}\nfull: {{a.b: {{path: dump.parquet}}}}\n")
    with pytest.raises(ConfigurationError, match=r"WB-1106: full\.a\.b: a dump replaces the rows"):
        make_plan(spec)


def test_tables_are_joined_in_the_lake_or_not_at_all(load, tmp_path):
    joins = "[{tables: 'a.*', rename: {table: c}, join: {column: s, keys: distinct}}]"
    (rule,) = load(f"map: {joins}\n").mapping().of_tables
    assert rule.join == Join("s", in_key=False, shared_defaults=False)
    text = f"{GOOD}  - {{envelope: ogg, files: {{path: o}}, map: {joins}}}\n"
    with pytest.raises(ConfigurationError, match="join is for map of the migration only"):
        load_migration(writer_in(tmp_path / "t")(text))
