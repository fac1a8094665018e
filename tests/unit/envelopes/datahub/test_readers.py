"""DataHub BLOB: a message is read the same whether its table is known already or not."""

from __future__ import annotations

import json

import pytest

from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type


def message(value: str, kind: str = "STRING") -> bytes:
    columns = [{"name": "id", "type": "LONG"}, {"name": "d", "type": kind}]
    schema = {"dataColumn": columns, "primaryKey": ["id"], "source": {"tableName": "t"}}
    payload = {
        "after": {"dataColumn": {"id": 1, "d": value}},
        "sequenceId": "1605339516000000004",
        "timestamp": {"eventTime": 1, "systemTime": 2, "checkpointTime": 3},
        "op": "INSERT",
    }
    document = {"schema": schema, "payload": payload, "version": "0.0.1"}
    return json.dumps(document, separators=(",", ":")).encode()


def read(decoder, value: str) -> str | None:
    try:
        (change,) = decoder.decode(Message("topic", 0, 0, None, None, message(value)))
    except Refusal:
        return None
    return change.after.f1


@pytest.mark.parametrize("kind", ["decimal(3,5)", "decimal(5,5)", "decimal(5,2)", "decimal(5,0)"])
def test_a_decimal_is_the_same_in_the_first_and_in_later_messages(kind):
    envelope = registry.get("datahub-blob")
    rules = TableRules({"t": TableRule(None, {"d": parse_type(kind)})})
    known = envelope.decoder(envelope.decode_settings(), rules)
    assert read(known, "0") == "0"
    for value in ("0.001", "0.00999", "0.01000", "0.123", "1", "-0", "1.10", "12345", "0.000001"):
        fresh = envelope.decoder(envelope.decode_settings(), rules)
        assert read(known, value) == read(fresh, value), value


def test_a_misspelt_metadata_column_is_no_column_of_the_table():
    """What is refused for it tells nothing about the table."""
    tuples = registry.get("datahub-tuple")
    decoder = tuples.decoder(tuples.decode_settings(), TableRules({}))
    good = (
        b'{"_sequence_id_":"7","_operation_type_":"U","_source_table_":"t",'
        b'"_before_image_":"N","_after_image_":"Y","id":"1"}'
    )
    bad = good.replace(b"_after_image_", b"_after_image_%")
    names = []
    for value in (good.replace(b'"id"', b'"a":"1","id"'), bad, bad, good):
        try:
            (change,) = decoder.decode(Message("t", 0, 0, None, None, value))
            names.append(change.schema.names)
        except Refusal as refusal:
            names.append(refusal.kind)
    assert names == [("a", "id"), "shape", "shape", ("a", "id")]


@pytest.mark.parametrize("name", ["\0", 'a"b', "a\\b", "\n", "\ud800"])
def test_a_statement_about_a_column_whose_name_cannot_be_carried_is_refused(name):
    """As its rows are: no writer has to think of such names."""
    envelope = registry.get("datahub-blob")
    columns = [{"name": name, "type": "LONG"}]
    schema = {"dataColumn": columns, "primaryKey": None, "source": {"tableName": "t"}}
    payload = {"sequenceId": "5", "op": "ALTER", "ddlMeta": "", "timestamp": {"eventTime": 1}}
    value = json.dumps({"schema": schema, "payload": payload, "version": "0.0.1"}).encode()
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    with pytest.raises(Refusal) as caught:
        decoder.decode(Message("topic", 0, 0, None, None, value))
    assert caught.value.kind in ("shape", "json")
