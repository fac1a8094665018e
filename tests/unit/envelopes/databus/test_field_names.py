"""The schemas that Waybill makes for Databus have one field for each column, whatever its name."""

from __future__ import annotations

import itertools
import json

import pytest

from tests.histories import by_name, image
from waybill.envelopes import registry
from waybill.envelopes.databus.row_writers import made_writer
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRules
from waybill.types import STRING

NAMES = [
    *itertools.permutations(["a b", "a_b", "a_b_2"]),
    *itertools.permutations(["a b", "a-b", "a_b_1", "a_b_1_2"]),
    ("a_b_1_1", "a b", "a_b", "a_b_2", "a_b_2_2"),
    ("1", "_1", "_1_1", "列", "_", "__1"),
]


@pytest.mark.parametrize("names", NAMES, ids="|".join)
@pytest.mark.parametrize("name", ["databus-binary", "databus-json"])
def test_no_two_columns_share_a_field(name, names):
    schema = intern_schema("d", None, "t", tuple(Column(n, STRING) for n in names), (names[0],))
    row = {column: f"v{i}" for i, column in enumerate(names)}
    change = Change(
        "insert",
        schema,
        Message("t", 0, 0, 1, None, None),
        after=image(schema, **row),
        sequence=(7,),
    )
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings())  # type: ignore[misc]
    (made, *_) = encoder.encode(change, [])
    document = json.loads(dict(made.headers)["databus.schema"])
    fields = [field["name"] for field in document["fields"]]
    assert len(set(fields)) == len(names)
    assert [field["dbFieldName"] for field in document["fields"]] == list(names)
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())  # type: ignore[misc]
    found = decoder.decode(Message("t", 0, 0, 1, made.key, made.value, made.headers))
    assert by_name(found[0].schema, found[0].after) == row
    assert found[0].schema.key == (names[0],)


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (("id", "a b"), ["id", "a_b"]),
        (("a b", "a_b", "c"), ["a_b", "a_b_1", "c"]),
        (("a b", "a_b", "a_b_1"), ["a_b", "a_b_1", "a_b_1_2"]),
    ],
)
def test_names_that_never_clashed_are_what_they_were(names, fields):
    schema = intern_schema("d", None, "t", tuple(Column(n, STRING) for n in names), ())
    made = json.loads(made_writer(schema, (True,) * len(names)).header)
    assert [field["name"] for field in made["fields"]] == fields
