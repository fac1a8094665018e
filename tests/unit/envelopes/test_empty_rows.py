"""A row of which no column is stated is no row: nobody could say which one it is."""

from __future__ import annotations

import json

import pytest

from waybill.batches.decoding import ChangeBatches
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.inprocess.converter import Converter
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRules
from waybill.types import STRING

SCHEMA = intern_schema("shop", None, "notes", (Column("note", STRING),), ())
SENTENCE = "the row has none of its columns"


def lobs_alone() -> Message:
    """An update of OMS of a table without key that has LOB columns only, none of them touched."""
    row = {"note": None, "__light_type": {"note": {"schemaType": "TEXT"}}}
    meta = {"dbType": "MYSQL", "db": "shop", "table_name": "notes", "record_primary_key": None}
    value = {"prevStruct": row, "postStruct": row, "allMetaData": meta, "recordType": "UPDATE"}
    return Message("topic", 0, 0, None, None, json.dumps(value).encode())


@pytest.mark.parametrize("key", [(), None])
def test_it_has_no_key(key):
    schema = intern_schema("shop", None, "notes", SCHEMA.columns, key)
    change = Change("insert", schema, Message("t", 0, 0, None, None, b""), after=schema.Image())
    with pytest.raises(Refusal, match=SENTENCE):
        change.key_image()
    change.after = schema.Image(None)
    assert change.key_image() is None


def test_it_is_refused_when_it_is_converted():
    source, target = registry.get("oms-extended"), registry.get("canal")
    refused = []
    converter = Converter(
        source,
        target,
        TableRules(),
        source.decode_settings(sequence_ids="none"),
        target.encode_settings(),
        lambda message, index, kind, why: refused.append((message.offset, index, kind, why)),
    )
    out: list = []
    converter.convert([lobs_alone()], out, [])
    assert refused == [(0, 0, "shape", SENTENCE)]
    assert out == []


def test_it_is_refused_in_the_stage():
    source = registry.get("oms-extended")
    work = ChangeBatches(
        source.decoder(source.decode_settings(sequence_ids="none"), TableRules()), "batch", None
    )
    rows = work.rows(work.changes([lobs_alone()])).to_pylist()
    (row,) = [row for row in rows if row["outcome"] != "schema"]
    assert (row["outcome"], row["reason"]) == ("refused", SENTENCE)
    assert row["raw"] == lobs_alone().value
