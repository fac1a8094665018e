"""One table as a mapping makes it: names, columns, masks, keys."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from msgspec import UNSET

from tests.histories import by_name, image
from waybill.errors import ConfigurationError
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.masks import mask_function
from waybill.mapping.rules import Added, MappingRule, Mask, Rules
from waybill.mapping.table import ChangeContext, MappedTable
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import STRING, parse_type

INT = parse_type("bigint")
COLUMNS = (
    Column("id", INT, "bigint", False),
    Column("email", STRING, "varchar(20)"),
    Column("note", STRING, "text"),
)
PEOPLE = intern_schema("shop", "public", "people", COLUMNS, ("id",), "postgresql")
EVENT = ChangeContext("update", 1_700_000_000_123_450, (7, 8))


def mapped(**rule) -> MappedTable:
    return MappedTable(PEOPLE, [MappingRule(("*",), **rule)])


def test_nothing_said_is_nothing_changed():
    table = mapped()
    assert table.same
    assert table.schema is PEOPLE


def test_names_from_the_old_ones():
    names = {"database": "{schema}_x", "schema": "{database}", "table": "{database}_{table}"}
    schema = mapped(names=names).schema
    assert (schema.database, schema.schema, schema.table) == ("public_x", "shop", "shop_people")
    assert schema.columns == PEOPLE.columns


def test_columns_that_go_get_names_are_masked_and_come():
    table = mapped(
        drop=("no*",),
        rename={"id": "number", "email": "mail"},
        masks={"email": Mask("sha256")},
        add={
            "c": Added("constant", "x"),
            "s": Added("schema"),
            "t": Added("source_time"),
            "o": Added("operation"),
            "q": Added("sequence"),
        },
    )
    schema = table.schema
    assert schema.names == ("number", "mail", "c", "s", "t", "o", "q")
    assert schema.key == ("number",)
    assert schema.columns[1] == Column("mail", STRING, None, None)
    row = image(PEOPLE, id="1", email="a@b.c", note="n")
    hashed = hashlib.sha256(b"a@b.c").hexdigest()
    known = {"number": "1", "mail": hashed, "c": "x", "s": "public"}
    added = {"t": "2023-11-14T22:13:20.12345Z", "o": "update", "q": "7.8"}
    assert by_name(schema, table.image(row, EVENT)) == {**known, **added}
    assert by_name(schema, table.image(row, EVENT, alone=False)) == known


def test_null_and_unstated_values_stay_so_behind_a_mask():
    table = mapped(masks={"*": Mask("sha256")})
    null = table.image(image(PEOPLE, id="1", email=None), EVENT)
    assert by_name(table.schema, null) == {"id": hashlib.sha256(b"1").hexdigest(), "email": None}
    assert null.f2 is UNSET


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (Mask("null"), None),
        (Mask("text", "t"), "t"),
        (Mask("last4"), "****6789"),
        (Mask("sha256"), hashlib.sha256(b"0123456789").hexdigest()),
        (Mask("hmac", "k"), hmac.new(b"k", b"0123456789", "sha256").hexdigest()),
    ],
)
def test_masks(mask, expected):
    assert mask_function(mask)("0123456789") == expected


@pytest.mark.parametrize("value", ["", "1", "1234", "12345678"])
def test_little_is_left_of_a_short_value(value):
    assert mask_function(Mask("last4"))(value) == "****"


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"drop": ("id",)}, "drops id, which is in the key of shop.public.people"),
        ({"keep": ("email",)}, "drops id, which is in the key"),
        ({"masks": {"i*": Mask("last4")}}, "id is in the key .* masked by last4"),
        ({"rename": {"note": "email"}}, "gives two columns the name 'email'"),
        ({"add": {"note": Added("table")}}, "gives two columns the name 'note'"),
    ],
)
def test_what_does_not_fit_is_an_error(rule, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        mapped(**rule)


def test_the_first_rule_that_says_something_counts():
    first = MappingRule(("shop.people",), {"table": "a"}, masks={"email": Mask("null")})
    second = MappingRule(("*",), {"table": "b", "database": "d"}, masks={"*": Mask("sha256")})
    table = MappedTable(PEOPLE, [first, second])
    assert table.schema.qualified_name == "d.public.a"
    row = table.image(image(PEOPLE, id="1", email="a", note="n"), EVENT)
    assert by_name(table.schema, row)["email"] is None


def test_a_declared_type_goes_with_the_table():
    declared = TableRules({"shop.people": TableRule(None, {"note": parse_type("timestamp(9)")})})
    rules = Rules(of_tables=(MappingRule(("*",), {"table": "x"}, rename={"note": "at"}),))
    found = ChangeMapper(rules, declared).of(PEOPLE)
    assert found is not None
    assert str(found.schema.columns[2].type) == "timestamp(9)"


def test_patterns_name_a_table_with_and_without_its_schema():
    for pattern in ("shop.public.people", "shop.people", "*.people", "shop.*"):
        assert not Rules(exclude=(pattern,)).selects(PEOPLE)
    assert not Rules(include=("public.people",)).selects(PEOPLE)
    assert Rules(include=("nothing",)).selects(intern_schema(None, None, None))


def test_a_change_of_the_key_and_what_is_carried_on():
    extra = (
        b'{"debezium_oldkey":true,"debezium":{"ts_ms":5,"source":{"connector":"postgresql",'
        b'"db":"shop","schema":"public","table":"people","query":"UPDATE people"}}}'
    )
    change = Change(
        "update",
        PEOPLE,
        Message("t", 0, 0, None, None, None),
        after=image(PEOPLE, id="2", email="a", note="n"),
        moved_from=PEOPLE.Key("1"),
        extra=extra,
    )
    rules = Rules(of_tables=(MappingRule(("*",), {"table": "x"}, masks={"id": Mask("hmac", "k")}),))
    made = ChangeMapper(rules).map(change).change
    old, new = (hmac.new(b"k", text, "sha256").hexdigest() for text in (b"1", b"2"))
    assert made.old_key_image() == made.schema.Key(old)
    assert made.key_image() == made.schema.Key(new)
    assert made.extra == (
        b'{"debezium_oldkey":true,"debezium":{"ts_ms":5,"source":{"connector":"postgresql",'
        b'"db":"shop","schema":"public","table":"x"}}}'
    )


CANAL = b'{"canal":{"id":1,"ts":2,"type":"ALTER","sqlType":{"id":4},"sql":"x"}}'
MAXWELL = b'{"maxwell":{"xoffset":1,"query":"x","old":{"note":"n"},"other":"v"}}'


@pytest.mark.parametrize(
    ("extra", "named", "masked"),
    [
        (
            CANAL,
            b'{"canal":{"id":1,"ts":2,"type":"ALTER","sqlType":{"id":4}}}',
            b'{"canal":{"id":1,"ts":2,"type":"ALTER"}}',
        ),
        (MAXWELL, b'{"maxwell":{"xoffset":1,"old":{"note":"n"}}}', b'{"maxwell":{"xoffset":1}}'),
        (b'{"databus":{"key":"secret"}}', None, None),
        (b'{"oms":{"db":"tenant.shop"}}', b'{"oms":{"db":"tenant.shop"}}', b'{"oms":{}}'),
        (
            b'{"dataworks":{"op":"GTID","dbName":"t.shop","extend":{"a":1},"schema":{}}}',
            b'{"dataworks":{"op":"GTID","dbName":"t.shop","extend":{"a":1}}}',
            b'{"dataworks":{"op":"GTID"}}',
        ),
        (b'{"streamx":{"op":"XACOMMIT","ddlMeta":"x"}}', *[b'{"streamx":{"op":"XACOMMIT"}}'] * 2),
        (
            b'{"shareplex":{"rowid":"x","table":"t1.shop.public.people"}}',
            b'{"shareplex":{"table":"t1.shop.public.x"}}',
            b'{"shareplex":{"table":"t1.crm.public.people"}}',
        ),
        (
            b'{"ogg":{"primary_keys":["id"],"tokens":{"a":"b"}}}',
            b'{"ogg":{"primary_keys":["id"],"tokens":{"a":"b"}}}',
            b'{"ogg":{"tokens":{"a":"b"}}}',
        ),
        (
            b'{"debezium_newkey":{"id":"1"},"debezium":{"ts_ms":1}}',
            b'{"debezium_newkey":{"id":"1"},"debezium":{"ts_ms":1}}',
            b'{"debezium_newkey":{"id":"%b"},"debezium":{"ts_ms":1}}'
            % hashlib.sha256(b"1").hexdigest().encode(),
        ),
    ],
)
def test_fields_of_the_family_that_stay(extra, named, masked):
    """Beside a table with another name, and beside one whose columns are masked."""
    change = Change("delete", PEOPLE, Message("t", 0, 0, None, None, None), extra=extra)
    columns = MappingRule(("*",), {"database": "crm"}, masks={"*": Mask("sha256")})
    for rule, expected in ((MappingRule(("*",), {"table": "x"}), named), (columns, masked)):
        assert ChangeMapper(Rules(of_tables=(rule,))).map(change).change.extra == expected


HEAP = intern_schema("shop", None, "heap", (Column("a", STRING), Column("b", STRING)), ())


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"add": {"at": Added("source_time")}}, r"shop\.heap has no key.* with the source_time is"),
        ({"add": {"x": Added("table"), "y": Added("operation")}}, "with the operation is another"),
        ({"add": {"x": Added("sequence")}}, "with the sequence is another"),
        ({"drop": ("b",)}, "without those of b two rows may become one"),
        ({"keep": ("b",)}, "without those of a two"),
        ({"masks": {"a": Mask("last4")}}, "without those of a two"),
        ({"masks": {"a": Mask("null")}}, "without those of a two"),
        ({"masks": {"*": Mask("text", "x")}}, "without those of a two"),
    ],
)
def test_rows_without_a_key_are_known_by_their_values(more, sentence):
    rules = Rules(of_tables=(MappingRule(("*",), **more),))
    with pytest.raises(ConfigurationError, match=sentence):
        ChangeMapper(rules, bags="id").of(HEAP)
    # Messages of a target are not known by anything.
    assert ChangeMapper(rules).of(HEAP) is not None
    keyed = intern_schema("shop", None, "heap", HEAP.columns, None)
    assert ChangeMapper(rules, bags="id").of(keyed) is not None
    if "add" not in more:
        assert ChangeMapper(rules, bags="place").of(HEAP) is not None


@pytest.mark.parametrize(
    "more",
    [
        {"add": {"x": Added("table"), "y": Added("constant", "c")}},
        {"masks": {"a": Mask("sha256"), "b": Mask("hmac", "k")}},
        {"rename": {"a": "c"}, "where": "a IS NULL"},
    ],
)
def test_what_leaves_rows_without_a_key_apart(more):
    rules = Rules(of_tables=(MappingRule(("*",), **more),))
    assert ChangeMapper(rules, bags="id").of(HEAP) is not None


def people(*names: str, dialect: str = "connect"):
    columns = tuple(Column(name, STRING) for name in names)
    return intern_schema("shop", None, "people", columns, ("Id",), dialect)


@pytest.mark.parametrize("dialect", ["mysql", "postgresql", "connect", "oms", ""])
def test_names_of_columns_fit_in_any_case(dialect):
    schema = people("Id", "EMail", "Note", "Old", dialect=dialect)
    rule = MappingRule(("*",), masks={"email": Mask("null")}, drop=("n*",), rename={"old": "older"})
    made = MappedTable(schema, [rule])
    assert made.schema.names == ("Id", "EMail", "older")
    event = ChangeContext("insert", None, None)
    shown = by_name(made.schema, made.image(schema.Image("1", "a@x", "n", "o"), event))
    assert shown == {"Id": "1", "EMail": None, "older": "o"}
    assert [made.called(name) for name in ("ID", "email", "NOTE", "OLD")] == [
        *("Id", None, None, "older"),
    ]
    assert made.column("Note") is None
    kept = MappedTable(schema, [MappingRule(("*",), keep=("ID", "email"))])
    assert kept.schema.names == ("Id", "EMail")
    assert [kept.called(name) for name in ("eMail", "note")] == ["EMail", None]


def test_what_a_rule_spells_exactly_goes_first():
    masks = {"EMAIL": Mask("text", "any"), "email": Mask("text", "exact"), "*": Mask("null")}
    rule = MappingRule(("*",), masks=masks, rename={"EMAIL": "any", "email": "exact"})
    schema = people("Id", "email")
    made = MappedTable(schema, [MappingRule(("*",), masks={"id": Mask("hmac", "k")}), rule])
    image_ = made.image(schema.Image("1", "a@x"), EVENT)
    shown = by_name(made.schema, image_)
    assert shown == {"Id": hmac.new(b"k", b"1", "sha256").hexdigest(), "exact": "exact"}


def test_columns_that_differ_by_case_only_are_named_exactly():
    """Nobody knows which of them another spelling means."""
    schema = people("Id", "Email", "email", "Phone")
    rule = MappingRule(
        ("*",), masks={"email": Mask("null"), "phone": Mask("null")}, drop=("EMAIL",)
    )
    made = MappedTable(schema, [rule])
    shown = by_name(made.schema, made.image(schema.Image("1", "a", "b", "c"), EVENT))
    assert shown == {"Id": "1", "Email": "a", "email": None, "Phone": None}
    kept = MappedTable(
        schema, [MappingRule(("*",), keep=("id", "email"), rename={"email": "mail"})]
    )
    assert kept.schema.names == ("Id", "mail")
    assert [kept.called(name) for name in ("email", "Email")] == ["mail", None]


@pytest.mark.parametrize("more", [{"rename": {"note": "NAME"}}, {"add": {"Name": Added("table")}}])
def test_names_that_differ_by_case_only_are_one(more):
    columns = tuple(Column(name, STRING) for name in ("id", "name", "note"))
    schema = intern_schema("shop", None, "people", columns, ("id",), "postgresql")
    with pytest.raises(ConfigurationError, match=r"two columns the name '(NAME|Name)', whatever"):
        MappedTable(schema, [MappingRule(("*",), **more)])
    own = (*columns, Column("NAME", STRING))
    schema = intern_schema("shop", None, "people", own, ("id",), "postgresql")
    assert MappedTable(schema, [MappingRule(("*",), drop=("note",))]).schema.names == (
        "id",
        "name",
        "NAME",
    )
