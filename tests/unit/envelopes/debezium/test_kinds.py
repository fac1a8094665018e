"""What a value without schema is does not depend on earlier messages where its type is declared."""

from __future__ import annotations

import base64
import hashlib
import itertools
import uuid

import msgspec
import pytest
from msgspec import UNSET

from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.spec.migration import Table, table_rules
from waybill.types import parse_type

ENVELOPE = registry.get("debezium-json")
TYPES = ["decimal(5,0)", "decimal(5,2)", "double", "varchar(20)", "datetime(3)", "json", "bigint"]
BEFORE = [None, "1", 1, 1.5, "NaN"]
IMAGES = [("1", "NaN"), ("NaN", "1"), (1, "NaN"), (None, "NaN"), ("-Infinity", None), (1.5, "1")]


def message(offset, before, after):
    body = {
        "before": None if before is None else {"id": 1, "v": before},
        "after": {"id": 1, "v": after},
        "source": {"connector": "mysql", "db": "shop", "table": "t", "ts_ms": 1},
        "op": "c" if before is None else "u",
        "ts_ms": 1,
    }
    return Message("t", 0, offset, None, None, msgspec.json.encode(body))


def images_of(decoder, one):
    try:
        (change,) = decoder.decode(one)
    except Refusal as refusal:
        return refusal.kind, refusal.sentence
    return change.before, change.after


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("decimals", ["string", "precise"])
def test_what_a_declared_column_holds_is_decided_by_its_message_alone(type_, decimals):
    table = Table.model_validate({"key": ["id"], "columns": {"id": "int", "v": type_}})
    rules = table_rules({"shop.t": table})
    settings = ENVELOPE.decode_settings(decimals=decimals)
    for images in IMAGES:
        found = []
        for earlier in BEFORE:
            decoder = ENVELOPE.decoder(settings, rules)
            if earlier is not None:
                images_of(decoder, message(0, None, earlier))
            found.append(images_of(decoder, message(1, *images)))
        for one, other in itertools.pairwise(found):
            assert one == other, images


def test_a_text_beside_nan_makes_it_a_text_of_an_undeclared_column():
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), table_rules({}))
    for images in (("x", "NaN"), ("NaN", "x")):
        before, after = images_of(decoder, message(0, *images))
        assert (before.f1, after.f1) == images


@pytest.mark.parametrize("temporal", ["adaptive", "connect", "microseconds", "isostring"])
@pytest.mark.parametrize("type_", ["datetime", "datetime(3)", "datetime(6)", "time"])
def test_a_null_of_a_declared_time_has_the_schema_of_its_values(type_, temporal):
    """Whether one came before or not: a target with schemas writes them."""
    table = Table.model_validate({"key": ["id"], "columns": {"id": "int", "v": type_}})
    rules = table_rules({"shop.t": table})
    value = 1000
    if temporal == "isostring":
        value = "03:04:05Z" if type_ == "time" else "2026-01-02T03:04:05Z"
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(temporal=temporal), rules)
    texts = [None, value, None]
    changes = [decoder.decode(message(n, None, text))[0] for n, text in enumerate(texts)]
    assert changes[0].schema == changes[1].schema == changes[2].schema
    assert changes[1].after.f1 is not None


# Objects, which are known by their names alone

OBJECTS = [
    '{"a":1}',
    "[1]",
    '{"scale":1,"value":"AQ=="}',
    '{ "value":"AQ==","scale":1}',
    '{"\\u0073cale":1,"value":"AQ=="}',
    '{"scale":null,"value":null}',
    '{"wkb":"AQ==","srid":1}',
    '{"wkb":"AQ==","srid":1,"z":5}',
]


def object_message(offset, value):
    made = message(offset, None, "@")
    made.value = made.value.replace(b'"@"', value.encode())
    return made


@pytest.mark.parametrize("type_", [None, "varchar(20)", "json", "xml"])
def test_what_an_object_is_does_not_depend_on_the_one_before_it(type_):
    columns = {} if type_ is None else {"id": "int", "v": type_}
    rules = table_rules({"shop.t": Table.model_validate({"key": ["id"], "columns": columns})})
    for value in OBJECTS:
        alone = images_of(
            ENVELOPE.decoder(ENVELOPE.decode_settings(), rules), object_message(0, value)
        )
        for earlier in OBJECTS:
            decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), rules)
            images_of(decoder, object_message(0, earlier))
            assert images_of(decoder, object_message(1, value)) == alone, (earlier, value)


@pytest.mark.parametrize("value", OBJECTS)
def test_an_object_in_a_column_declared_as_json_is_its_text(value):
    """Whatever its names are: a number or a geometry is in a column of another type."""
    table = Table.model_validate({"key": ["id"], "columns": {"id": "int", "v": "json"}})
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), table_rules({"shop.t": table}))
    for offset in (0, 1):
        _, after = images_of(decoder, object_message(offset, value))
        assert after.f1 == value.strip()


@pytest.mark.parametrize("value", ['{"scale":null,"value":null}', '{"wkb":"AQ==","srid":1,"z":5}'])
def test_a_map_that_is_no_number_and_no_geometry_stays_whole(value):
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), table_rules({}))
    _, after = images_of(decoder, object_message(0, value))
    assert after.f1 == value


# Placeholders, whatever stood in their column before

PLACEHOLDER = "__debezium_unavailable_value"
ENCODED = base64.b64encode(PLACEHOLDER.encode()).decode()
HASH = str(uuid.UUID(bytes=hashlib.md5(PLACEHOLDER.encode()).digest(), version=3))
PLACEHOLDERS = [
    *(PLACEHOLDER, ENCODED, HASH, [PLACEHOLDER], [ENCODED], [HASH]),
    *({PLACEHOLDER: PLACEHOLDER}, list(PLACEHOLDER.encode())),
]
VALUES = ["abc", "AQID", 5, 1.5, True, [1], {"a": 1}, {"wkb": "AQ==", "srid": 1}, None]


@pytest.mark.parametrize("type_", [None, "varchar(20)", "json", "blob", "bit(9)", "geometry"])
def test_a_placeholder_is_one_whatever_stood_in_its_column(type_):
    columns = {} if type_ is None else {"id": "int", "v": type_}
    rules = table_rules({"shop.t": Table.model_validate({"key": ["id"], "columns": columns})})
    for value in PLACEHOLDERS:
        fresh = images_of(
            ENVELOPE.decoder(ENVELOPE.decode_settings(), rules), message(0, None, value)
        )
        for earlier in VALUES:
            decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), rules)
            images_of(decoder, message(0, None, earlier))
            assert images_of(decoder, message(1, None, value)) == fresh, (earlier, value)


@pytest.mark.parametrize("first", [True, False])
def test_bytes_that_were_not_sent_are_read_again_by_who_knows_nothing(first):
    """In whatever order; the types are MySQL's, and so is the connector that is written."""
    columns = (Column("id", parse_type("int32"), "int"), Column("v", parse_type("bytes"), "blob"))
    schema = intern_schema("shop", None, "t", columns, ("id",), "mysql")
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings())
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), table_rules({}))
    for value in ("AQID", UNSET) if first else (UNSET, "AQID"):
        image = schema.Image("1", value)
        (encoded,) = encoder.encode(Change("update", schema, message(0, None, 1), after=image), [])
        assert b'"connector":"mysql"' in encoded.value
        _, after = images_of(decoder, Message("t", 0, 1, None, encoded.key, encoded.value))
        assert after.f1 == value


def test_a_text_that_is_the_hash_of_the_placeholder_is_a_value():
    """It stands inside arrays of UUIDs alone."""
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), table_rules({}))
    _, after = images_of(decoder, message(0, None, HASH))
    assert after.f1 == HASH
