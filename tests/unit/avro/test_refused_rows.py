"""Avro messages with rows that nobody would see are refused at once as they are one by one."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from tests.contract.test_bulk_avro import CANAL, JSON, Side, agree
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.spec.migration import Table, table_rules


def record(name, **fields):
    declared = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "fields": declared}


TEXT, NUMBER = ["string", "null"], ["int", "null"]
COLUMNS = {"ID": NUMBER, "N": TEXT, "B_ID": NUMBER, "B_N": TEXT}
SOURCE = {"connector": "mysql", "db": "shop", "table": "t", "file": "a.1", "pos": 5, "row": 0}
SOURCE_TYPES = dict.fromkeys(("connector", "db", "table", "file"), "string")
SCHEMAS = {
    1: record("T", A_ENTTYP=TEXT, A_TIMSTAMP=TEXT, **COLUMNS) | {"namespace": "value.SOURCEDB.S"},
    2: record("T", ID="int") | {"namespace": "key.SOURCEDB.S"},
    3: record(
        "Envelope",
        before=["null", record("Value", id="int", n=["null", "string"])],
        after=["null", "Value"],
        source=record("Source", **SOURCE_TYPES, pos="long", row="int"),
        op="string",
    ),
    4: record("Key", id="int"),
    5: "string",
    6: "int",
    7: record("T", ID=NUMBER, N=TEXT) | {"namespace": "value.SOURCEDB.S"},
    8: record("U", AT={"type": "string", "logicalType": "TIMESTAMP"})
    | {"namespace": "value.SOURCEDB.S"},
    9: record("U", AT="string") | {"namespace": "key.SOURCEDB.S"},
}


def framed(number, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMAS[number]), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def audit(entry, row, old=(None, None), time="2021-10-25 12:31:35.145000"):
    columns = dict(zip(COLUMNS, (*row, *old), strict=True))
    return framed(1, {"A_ENTTYP": entry, "A_TIMSTAMP": time, **columns})


def usual(entry, number):
    """A record as it should be."""
    row = number, "x"
    return {
        "PT": audit("PT", row),
        "RR": audit("RR", row),
        "UP": audit("UP", row, (number, "w")),
        "DL": audit("DL", (None, None), row),
        "BOTH": audit("DL", row, row),
        "LOST": audit("PT", row, time="LOST"),
    }[entry]


def odd(number):
    """Records that are not, and keys that are broken."""
    row, other, key = (number, "x"), (9, "b"), framed(2, {"ID": number})
    return [
        (key, audit("PT", row, other)),
        (key, audit("RR", row, (None, "b"))),
        (key, audit("DL", row, other)),
        (key, audit("DL", row, (number, "y"))),
        (key, audit("DL", row, row)),
        (key, audit("DL", row)),
        (key, audit("PT", row, time="LOST")),
        (key, audit("PT", row, time="")),
        (key + b"z", audit("PT", row)),
        (key[:5], audit("PT", row)),
        (b"text", audit("PT", row)),
    ]


@pytest.fixture
def held(tmp_path):
    """Holds both ways against each other; gives how many were read at once."""
    for number, schema in SCHEMAS.items():
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))

    def hold(name, pairs, target):
        messages = [Message("topic", 0, n, 1, *pair) for n, pair in enumerate(pairs)]
        settings = registry.get(name).decode_settings(schemas=str(tmp_path))
        return agree(Side(name), target, messages, table_rules({}), settings, str(tmp_path))

    return hold


@pytest.mark.parametrize("target", [JSON, CANAL], ids=["debezium-json", "canal"])
@pytest.mark.parametrize("entry", ["PT", "RR", "UP", "DL", "BOTH", "LOST"])
def test_audit_records(held, entry, target):
    pairs = []
    for number in range(165):
        pair = framed(2, {"ID": number}), usual(entry, number)
        pairs.append(odd(number)[number // 15] if number % 15 == 7 else pair)
    done = held("ibmcdc-avro", pairs, target)
    assert entry in ("BOTH", "UP") or done >= 60


def test_deletes_of_two_rows_after_one_of_a_row_stated_twice(held):
    """The row stays the same, and the row before is another one in some."""
    row, key = (1, "x"), framed(2, {"ID": 1})
    olds = [(1, "y") if number % 15 == 7 else row for number in range(60)]
    held("ibmcdc-avro", [(key, audit("DL", row, old)) for old in olds], JSON)


@pytest.mark.parametrize("target", [JSON, CANAL], ids=["debezium-json", "canal"])
@pytest.mark.parametrize("op", ["c", "r"])
def test_events_of_new_rows(held, op, target):
    pairs = []
    for number in range(150):
        row = {"id": number, "n": "x"}
        value = {"before": None, "after": row, "source": {**SOURCE, "pos": number}, "op": op}
        if number % 15 == 7:
            value["before"] = row
            value["op"] = "u" if number % 2 else op
        pairs.append((framed(4, {"id": number}), framed(3, value)))
    assert held("debezium-avro", pairs, target) >= 60


@pytest.mark.parametrize(("schema", "value"), [(5, "abc"), (6, 7), (5, '{"id":1}')])
def test_events_whose_keys_are_single_values(held, tmp_path, schema, value):
    """ExtractField makes such keys; like those of other converters they name no columns."""
    pairs = []
    for number in range(150):
        row = {"id": number, "n": "x"}
        event = {"before": None, "after": row, "source": {**SOURCE, "pos": number}, "op": "c"}
        key = framed(schema, value)
        if number % 15 == 7:
            key = {7: key + b"x", 22: key[:-1], 37: framed(4, {"id": number})}.get(number, key)
        pairs.append((key, framed(3, event)))
    held("debezium-avro", pairs, JSON)
    settings = registry.get("debezium-avro").decode_settings(schemas=str(tmp_path))
    decoder = registry.get("debezium-avro").decoder(settings, table_rules({}))
    (change,) = decoder.decode(Message("topic", 0, 0, 1, *pairs[0]))
    assert (change.operation, change.schema.key, change.after.f0) == ("insert", None, "0")
    for number in (7, 22):
        with pytest.raises(Refusal, match="Avro data"):
            decoder.decode(Message("topic", 0, number, 1, *pairs[number]))


@pytest.mark.parametrize("target", [JSON, CANAL], ids=["debezium-json", "canal"])
@pytest.mark.parametrize("entry", ["PT", "UP", "DL", None])
def test_rows_under_the_key_of_another_row(held, entry, target):
    """They are refused: nothing tells what became of the row whose key it is."""
    pairs = []
    for number in range(165):
        key = framed(2, {"ID": number})
        value = framed(7, {"ID": number, "N": "x"}) if entry is None else usual(entry, number)
        if number % 15 == 7:
            key = framed(2, {"ID": number + 1})
        if number % 15 == 11 and entry == "UP":
            value = audit("UP", (number + 1, "x"), (number, "x"))
        pairs.append((key, value))
    done = held("ibmcdc-avro", pairs, target)
    assert entry == "UP" or done >= 60


@pytest.fixture
def outcome_of(tmp_path):
    """The operation of a message of IBM CDC, or the kind and sentence of its refusal."""
    for number, schema in SCHEMAS.items():
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    envelope = registry.get("ibmcdc-avro")

    def tell(key, value, declared=None):
        rules = table_rules({} if declared is None else {"S.T": Table(key=declared)})
        decoder = envelope.decoder(envelope.decode_settings(schemas=str(tmp_path)), rules)
        try:
            (change,) = decoder.decode(Message("topic", 0, 0, 1, key, value))
        except Refusal as refusal:
            return refusal.kind, refusal.sentence
        return change.operation

    return tell


def test_a_row_under_the_key_of_another_row_is_refused(outcome_of):
    key, row = framed(2, {"ID": 2}), framed(7, {"ID": 1, "N": "x"})
    kind, sentence = outcome_of(key, row)
    assert kind == "key"
    assert "the message key has '2' in 'ID' and the row '1'" in sentence
    assert outcome_of(key, row, ["ID"]) == "upsert"
    assert outcome_of(framed(2, {"ID": 1}), row) == "upsert"


def test_a_delete_that_tells_no_row_is_none_of_its_message_key(outcome_of):
    """It was taken for the delete of a row whose key is null."""
    kind, sentence = outcome_of(framed(2, {"ID": 1}), audit("DL", (None, None)))
    assert kind == "key"
    assert "has '1' in 'ID' and the row null" in sentence


def test_an_update_that_tells_both_rows_stands_under_the_key_of_either(outcome_of):
    update = audit("UP", (2, "x"), (1, "x"))
    assert outcome_of(framed(2, {"ID": 1}), update) == "update"
    assert outcome_of(framed(2, {"ID": 2}), update) == "update"
    assert outcome_of(framed(2, {"ID": 3}), update)[0] == "key"


def test_texts_of_keys_of_another_type_are_not_compared(outcome_of):
    """A key may be noted without the types of the source."""
    row = framed(8, {"AT": "2021-10-25 12:31:35.145000"})
    assert outcome_of(framed(9, {"AT": "2021-10-25 12:31:35.145000"}), row) == "upsert"
