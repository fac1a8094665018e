"""Messages of Debezium that lack what a row needs, and numbers that are none of their type."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from tests.contract.test_bulk import agree
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.spec.migration import Table, table_rules

ENVELOPE = registry.get("debezium-json")
SOURCE = {"connector": "mysql", "db": "shop", "table": "t", "file": "a.1", "pos": 5, "row": 0}
ROW = {"id": 1, "name": "a"}
GONE = {"before": None, "after": None, "op": "d"}
NEW = {"before": None, "after": ROW, "op": "c"}
LONG = {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}


def event(images, source=SOURCE, **more):
    return {**images, "source": source, "ts_ms": 1, **more}


def decoder(rules=None):
    return ENVELOPE.decoder(ENVELOPE.decode_settings(), table_rules(rules or {}))


def outcome_of(reader, value, key=None, headers=None):
    """The change of a message, or the kind of its refusal and the sentence."""
    text = json.dumps(key).encode() if key is not None and not isinstance(key, bytes) else key
    try:
        (change,) = reader.decode(
            Message("a.shop.t", 0, 0, None, text, json.dumps(value).encode(), headers)
        )
    except Refusal as refusal:
        return refusal.kind, refusal.sentence
    return change


# A delete that shows no row


@pytest.mark.parametrize("key", [{}, {"schema": LONG | {"fields": []}, "payload": {}}])
def test_a_delete_without_row_and_key_columns_is_refused(key):
    kind, sentence = outcome_of(decoder(), event(GONE), key)
    assert kind == "key"
    assert "declare the key under `tables`" in sentence


@pytest.mark.parametrize("earlier", [None, b"{bad", b"5"])
def test_a_delete_takes_its_key_from_its_own_message_key(earlier):
    """Whatever keys the messages of its table had before it."""
    reader = decoder()
    assert outcome_of(reader, event(NEW), earlier).operation == "insert"
    for number in (1, 2, 3):
        change = outcome_of(reader, event(GONE), {"id": number})
        assert change.operation == "delete"
        assert change.schema.key == ("id",)
        assert change.before.f0 == str(number)
    inserted = outcome_of(reader, event(NEW), earlier)
    assert inserted.schema.key is None
    assert outcome_of(reader, event(GONE), {"id": 4}).before.f0 == "4"


@pytest.mark.parametrize("key", [{"zz": 3}, {}])
@pytest.mark.parametrize("earlier", [None, b"5"])
def test_a_delete_whose_key_names_no_column_of_a_known_table_is_refused(earlier, key):
    reader = decoder()
    outcome_of(reader, event(NEW), earlier)
    for _ in range(2):
        kind, sentence = outcome_of(reader, event(GONE), key)
        assert kind == "key"
        assert "declare the key under `tables`" in sentence


def test_a_delete_of_a_table_declared_without_key_is_refused():
    table = Table.model_validate({"key": []})
    for images in (None, NEW):
        reader = decoder({"shop.t": table})
        if images is not None:
            assert outcome_of(reader, event(images), {"id": 1}).operation == "insert"
        assert outcome_of(reader, event(GONE), {"id": 1})[0] == "key"


def value_schema():
    row = {"type": "struct", "optional": True, "fields": [{"type": "int64", "field": "id"}]}
    return {"type": "struct", "fields": [row | {"field": "before"}, row | {"field": "after"}]}


@pytest.mark.parametrize("key", [{}, {"zz": 3}, b"{bad", b"5"])
def test_a_delete_with_a_schema_and_no_key_column_is_refused(key):
    reader = decoder()
    wrapped = {"schema": value_schema(), "payload": event({**NEW, "after": {"id": 1}})}
    inserted = outcome_of(reader, wrapped, key)
    # A key of other columns is refused beside a row, too.
    assert inserted[0] == "key" if key == {"zz": 3} else inserted.operation == "insert"
    assert outcome_of(reader, wrapped | {"payload": event(GONE)}, key)[0] == "key"


def test_a_refused_message_tells_nothing_of_the_columns_of_its_table():
    """A position that cannot be read is found after the columns were looked at."""
    reader = decoder()
    bad = event({**NEW, "after": {"v": 1.5}}, {**SOURCE, "file": "a.x"})
    assert outcome_of(reader, bad)[0] == "shape"
    change = outcome_of(reader, event({**NEW, "after": {"v": "NaN"}}))
    assert change.schema.columns[0].type.kind == "string"


# A row without a table


@pytest.mark.parametrize("table", [{}, {"table": None}, {"table": ""}])
@pytest.mark.parametrize(
    "images",
    [NEW, {**NEW, "op": "r"}, {"before": ROW, "after": ROW, "op": "u"}, {**GONE, "before": ROW}],
)
def test_a_row_without_a_table_is_refused(images, table):
    source = {name: value for name, value in SOURCE.items() if name != "table"} | table
    reader = decoder()
    for earlier in (None, NEW):
        if earlier is not None:
            assert outcome_of(reader, event(earlier), {"id": 1}).operation == "insert"
        kind, sentence = outcome_of(reader, event(images, source), {"id": 1})
        assert kind == "shape"
        assert "names no table" in sentence


@pytest.mark.parametrize("table", [{}, {"table": None}, {"table": ""}])
def test_a_truncate_without_a_table_is_refused(table):
    source = {name: value for name, value in SOURCE.items() if name != "table"} | table
    assert outcome_of(decoder(), event({"op": "t"}, source))[0] == "shape"


# Numbers that are none of their type

MADE = 1_700_000_000_456
NO_INTEGERS = [1.5, 1.0, "1", True, {}, [], 2**63, -(2**63) - 1]


@pytest.mark.parametrize("name", ["ts_ms", "ts_us", "ts_ns"])
@pytest.mark.parametrize("images", [NEW, {"op": "t"}])
def test_a_time_of_the_envelope_is_an_integer(images, name):
    """In the first message of a table, and in later ones, which go the way of those before."""
    reader = decoder()
    good = event(images, **{name: 1})
    for value in NO_INTEGERS:
        kind, sentence = outcome_of(reader, good | {name: value})
        assert kind == "shape"
        assert name in sentence
        assert json.dumps(value)[:40] in sentence
        for other in (1, 0, -1, None, 2**63 - 1):
            change = outcome_of(reader, good | {name: other})
            assert b'"%b":%b' % (name.encode(), json.dumps(other).encode()) in change.extra


@pytest.mark.parametrize("name", ["ts_ms", "ts_us", "ts_ns"])
@pytest.mark.parametrize(
    "message",
    [
        {},
        {"op": "m", "source": SOURCE, "message": {}},
        {"status": "END", "id": "1", "event_count": 1, "data_collections": []},
        {"source": SOURCE, "databaseName": "shop", "ddl": "x"},
    ],
)
def test_a_time_of_a_message_without_row_is_an_integer(message, name):
    for value in NO_INTEGERS:
        assert outcome_of(decoder(), {**message, name: value})[0] == "shape"
    assert outcome_of(decoder(), {**message, name: 1}).extra
    assert outcome_of(decoder(), {**message, name: None}).extra


def test_a_time_of_a_document_is_an_integer():
    source = {"connector": "mongodb", "db": "shop", "collection": "t", "ord": 1, "ts_ms": 1}
    value = {"before": None, "after": "{}", "op": "c", "source": source}
    assert outcome_of(decoder(), value | {"ts_ms": 1}, {"id": "1"}).operation == "insert"
    assert outcome_of(decoder(), value | {"ts_ms": 1.5}, {"id": "1"})[0] == "shape"


@pytest.mark.parametrize("first", [MADE, None])
def test_times_are_held_at_once_as_one_by_one(first):
    """Those that are refused, and those of other lengths and null, which are not."""
    rules = table_rules(
        {"shop.t": Table.model_validate({"key": ["id"], "columns": {"id": "int", "name": "text"}})}
    )
    odd = [1, 2**63, "1", None, 10**12, -5, 1.5, 2**63 - 1, 1.0, True]
    lines = []
    for number in range(200):
        value = {"before": None, "after": {"id": number, "name": "a"}}
        value |= {"source": {**SOURCE, "pos": number, "ts_ms": 1}, "op": "c"}
        value |= {"ts_ms": first, "ts_us": MADE * 1000, "ts_ns": MADE * 1_000_000 + number}
        if number % 20 == 19:
            value["ts_ns"] = odd[number // 20]
        lines.append(json.dumps(value, separators=(",", ":")).encode())
    assert agree("debezium-json", "debezium-json", lines, rules) >= 100
    assert agree("debezium-json", "canal", lines, rules) >= 100


@pytest.mark.parametrize("op", ["c", "r"])
@pytest.mark.parametrize("first", [None, "u", ROW])
def test_rows_before_nothing_are_held_at_once_as_one_by_one(op, first):
    """Whether the first message is a good one, an update, or one of those that are refused."""
    rules = table_rules(
        {"shop.t": Table.model_validate({"key": ["id"], "columns": {"id": "int", "name": "text"}})}
    )
    lines = []
    for number in range(200):
        row = {"id": number, "name": "a"}
        value = event({"before": None, "after": row}, {**SOURCE, "pos": number}, op=op)
        if number % 50 == 39 or (number == 0 and first is not None):
            value |= {"before": row} if first != "u" else {"before": row, "op": "u"}
        if number % 50 == 29:
            value |= {"before": row if number % 100 == 29 else {}}
        lines.append(json.dumps(value, separators=(",", ":")).encode())
    for target in ("debezium-json", "canal"):
        assert agree("debezium-json", target, lines, rules) >= 50
    reader = decoder({"shop.t": Table.model_validate({"key": ["id"]})})
    for _ in range(2):
        kind, sentence = outcome_of(reader, event({"before": ROW, "after": ROW, "op": op}))
        assert (kind, "with a row in `before`" in sentence) == ("shape", True)
        assert outcome_of(reader, event({**NEW, "op": op})).before is None


@pytest.mark.parametrize("name", ["total_order", "data_collection_order"])
@pytest.mark.parametrize("first", [1, None, "1"])
def test_places_in_a_transaction_are_held_at_once_as_one_by_one(name, first):
    rules = table_rules(
        {"shop.t": Table.model_validate({"key": ["id"], "columns": {"id": "int", "name": "text"}})}
    )
    odd = [1.0, 2**63, "1", None, -5, 1.5, 2**63 - 1, True, {}, []]
    lines = []
    for number in range(400):
        block = {"id": "x", "total_order": 1, "data_collection_order": 1}
        block[name] = first if first is None else type(first)(number)
        if number % 20 == 19 and number > 200:
            block[name] = odd[number // 20 - 10]
        value = {"before": None, "after": {"id": number, "name": "a"}}
        value |= {"source": {**SOURCE, "pos": number}, "transaction": block, "op": "c", "ts_ms": 1}
        lines.append(json.dumps(value, separators=(",", ":")).encode())
    assert agree("debezium-json", "debezium-json", lines, rules) >= 100
    reader = decoder()
    for value in (1.0, 1.5, True, {}, [], 2**63):
        kind, sentence = outcome_of(reader, event(NEW, transaction={"id": "x", name: value}))
        assert (kind, name in sentence) == ("shape", True)
        assert outcome_of(reader, event(NEW, transaction={"id": "x", name: 7})).transaction == "x"


def key_of(schema, payload):
    return {"schema": schema, "payload": payload}


@pytest.mark.parametrize("value", [1.5, "1", True, 2**63, {}])
def test_a_message_key_is_held_to_its_schema(value):
    for earlier in (None, NEW):
        reader = decoder()
        if earlier is not None:
            assert outcome_of(reader, event(earlier), key_of(LONG, {"id": 1})).operation == "insert"
        kind, sentence = outcome_of(reader, event(GONE), key_of(LONG, {"id": value}))
        assert kind == "value"
        assert "'id'" in sentence
        # A refused one tells nothing: the column is what it would have been without it.
        assert outcome_of(reader, event(NEW), key_of(LONG, {"id": 1})).after.f0 == "1"
        assert outcome_of(reader, event(GONE), key_of(LONG, {"id": 3})).before.f0 == "3"


def test_a_message_key_is_held_to_its_schema_beside_that_of_the_row():
    reader = decoder()
    wrapped = {"schema": value_schema(), "payload": event(GONE)}
    assert outcome_of(reader, wrapped, key_of(LONG, {"id": 1.5}))[0] == "value"
    assert outcome_of(reader, wrapped, key_of(LONG, {"id": 1})).before.f0 == "1"
    # The key of a row that is there is held against that.
    there = wrapped | {"payload": event({**GONE, "before": {"id": 1}})}
    assert outcome_of(reader, there, key_of(LONG, {"id": 1.5}))[0] == "key"


def test_a_message_key_has_the_columns_of_its_schema():
    kind, sentence = outcome_of(decoder(), event(GONE), key_of(LONG, {"id": 1, "no": 2}))
    assert kind == "shape"
    assert "'no'" in sentence


def test_the_schema_of_a_message_key_that_cannot_be_read_is_refused():
    for schema in ({"fields": 5}, {"type": "struct", "fields": [5]}):
        assert outcome_of(decoder(), event(GONE), key_of(schema, {"id": 1}))[0] == "schema"


@pytest.mark.parametrize("header", ["__debezium.oldkey", "__debezium.newkey"])
def test_a_key_in_a_header_is_held_to_its_schema(header):
    images = NEW if header.endswith("oldkey") else {**GONE, "before": ROW}
    for value, kind in ((1.5, "value"), (7, None)):
        key = key_of(LONG, {"id": value})
        reader = decoder()
        headers = [(header, json.dumps(key).encode())]
        found = outcome_of(reader, event(images), key_of(LONG, {"id": 1}), headers)
        assert (found[0] if isinstance(found, tuple) else None) == kind


# The same in Avro


def optional(*kinds):
    return ["null", *kinds]


def record(name, **fields):
    declared = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "fields": declared}


AVRO_SOURCE = {name: optional("string") for name in ("connector", "db", "table", "file")}
ROWS = {
    "before": optional(record("Value", id="long")),
    "after": optional("Value"),
    "source": record("Source", **AVRO_SOURCE, pos=optional("long"), row=optional("int")),
    "op": "string",
}
AVRO = {
    1: record("Key", id="long"),
    2: record("Envelope", **ROWS, ts_ms=optional("long"), ts_us="long"),
    3: record("Envelope", **ROWS, ts_ms=optional("double"), ts_us=optional("double")),
}


def framed(number, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO[number]), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


@pytest.fixture
def avro(tmp_path):
    for number, schema in AVRO.items():
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    envelope = registry.get("debezium-avro")
    reader = envelope.decoder(envelope.decode_settings(schemas=str(tmp_path)), table_rules({}))

    def read(value, key=None, number=2):
        message = Message("a.shop.t", 0, 0, None, key, framed(number, value), None)
        try:
            (change,) = reader.decode(message)
        except Refusal as refusal:
            return refusal.kind, refusal.sentence
        return change

    return read


@pytest.mark.parametrize("key", [b"{}", b"{bad", b'{"zz":1}', b"5"])
def test_a_delete_in_avro_without_row_and_key_is_refused(avro, key):
    for _ in range(2):
        inserted = avro(event({**NEW, "after": {"id": 1}}, ts_us=1), key)
        assert inserted[0] == "key" if b"zz" in key else inserted.operation == "insert"
        assert avro(event(GONE, ts_us=1), key)[0] == "key"
        assert avro(event(GONE, ts_us=1), framed(1, {"id": 3})).before.f0 == "3"


def test_a_row_in_avro_without_a_table_is_refused(avro):
    new = event({**NEW, "after": {"id": 1}}, ts_us=1)
    for table in (None, "", None):
        kind, sentence = avro(new | {"source": {**SOURCE, "table": table}})
        assert (kind, "names no table" in sentence) == ("shape", True)
        assert avro(new).operation == "insert"


@pytest.mark.parametrize("name", ["ts_ms", "ts_us"])
def test_a_time_in_avro_is_an_integer(avro, name):
    good = event({**NEW, "after": {"id": 1}}, ts_ms=None, ts_us=None)
    for _ in range(2):
        assert avro(good, number=3).operation == "insert"
        kind, sentence = avro(good | {name: 1.5}, number=3)
        assert (kind, f"{name} of the envelope is 1.5" in sentence) == ("shape", True)


# What does not depend on earlier messages


@pytest.mark.parametrize("block", [5, 1.5, True, [], "a", ""])
def test_a_transaction_that_is_no_object_is_refused_after_others_too(block):
    """Also where its JSON is as short as a null."""
    reader = decoder()
    for _ in range(2):
        kind, _ = outcome_of(reader, event(NEW, transaction=block), {"id": 1})
        assert kind == "shape"
        assert outcome_of(reader, event(NEW, transaction=None), {"id": 1}).transaction is None
    assert outcome_of(reader, event(NEW, transaction={}), {"id": 1}).transaction is None


@pytest.mark.parametrize("earlier", [None, NEW, {"before": ROW, "after": None, "op": "d"}])
def test_a_delete_of_a_row_without_columns_takes_its_key_from_the_message_key(earlier):
    """An object without columns tells as little as null."""
    reader = decoder()
    if earlier is not None:
        outcome_of(reader, event(earlier), {"id": 1})
    empty = {"before": {}, "after": None, "op": "d"}
    for _ in range(2):
        assert outcome_of(reader, event(empty), {"id": 7}).before.f0 == "7"
        assert outcome_of(reader, event(empty))[0] == "key"


@pytest.mark.parametrize("key", ["a", 5, 1.5, True, None])
@pytest.mark.parametrize("earlier", ["b", 7, 2.5, False, None])
def test_a_delete_without_row_is_read_whatever_kind_the_keys_before_it_had(earlier, key):
    alone = outcome_of(decoder(), event(GONE), {"id": key})
    reader = decoder()
    outcome_of(reader, event(GONE), {"id": earlier})
    for _ in range(2):
        change = outcome_of(reader, event(GONE), {"id": key})
        assert (change.operation, change.before.f0) == ("delete", alone.before.f0)


def test_an_empty_row_is_one_whatever_came_before_it():
    empty = event({"before": None, "after": {}, "op": "c"})
    reader = decoder()
    outcome_of(reader, event(NEW))
    for one in (decoder(), reader):
        assert outcome_of(one, empty).operation == "insert"


@pytest.mark.parametrize("said", ["x", 1.5, [], {"prefix": []}])
def test_a_logical_message_that_is_no_object_is_refused(said):
    """It ended the run of a target that writes such messages again."""
    assert outcome_of(decoder(), event({"op": "m"}, message=said))[0] == "shape"


@pytest.mark.parametrize("more", [{}, {"message": None}, {"message": {"prefix": "a"}}])
def test_a_logical_message_is_written_again(more):
    change = outcome_of(decoder(), event({"op": "m"}, message=None) | more)
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(control_messages=True))
    (encoded,) = encoder.encode(change, [])
    said = more.get("message") or {}
    assert json.loads(encoded.key) == {"prefix": said.get("prefix")}
