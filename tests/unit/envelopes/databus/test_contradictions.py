"""Databus events that say two things at once, and numbers that no event can hold."""

from __future__ import annotations

import base64
import json
from hashlib import md5
from typing import ClassVar

import pytest

from tests import databus_layout as layout
from tests.contract.probes import change, table
from waybill.envelopes import registry
from waybill.envelopes.databus.binary.decoder import BinaryDecoder
from waybill.envelopes.databus.binary.encoder import BinaryEncoder
from waybill.envelopes.databus.json.decoder import JsonDecoder
from waybill.envelopes.databus.json.encoder import JsonEncoder
from waybill.envelopes.databus.settings import (
    BinaryWriteSettings,
    DatabusReadSettings,
    JsonWriteSettings,
)
from waybill.errors import ConfigurationError, Refusal
from waybill.inprocess.job import checked_settings
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

ITEM = '{"type":"record","name":"Item","pk":"id","fields":[{"name":"id","type":"long"}]}'
ID = md5(ITEM.encode()).digest()
ROW = b"\x0a"
SCHEMAS = {"databus": [{"srcId": 101, "source": "shop.Item", "version": 1, "schema": ITEM}]}


def message(value, headers=None):
    return Message("topic", 2, 5, None, None, value, headers)


def text(data):
    return base64.b64encode(data).decode()


def decoder(kind, **settings):
    return kind(DatabusReadSettings(schemas=SCHEMAS, **settings), TableRules())


SECOND = {
    "version": 2,
    "magicByte": -889266451,
    "opcode": "UPSERT",
    "keyType": "Number",
    "key": 5,
    "valueEnc": "JSON",
    "isReplicated": False,
    "traceOn": False,
    "hasPayloadMetadata": False,
    "hasPayload": True,
    "timestampInNanos": 1000,
    "srcId": 101,
    "logicalPartitionId": 1,
    "physicalPartitionId": 1,
    "sequence": 9,
    "payloadLength": len(ROW),
    "payloadSchemaVersion": 1,
    "payloadSchemaId": text(ID),
    "payloadValue": text(ROW),
}
"""A row in JSON, version 2."""


def line(**settings):
    return json.dumps({**SECOND, **settings}).encode()


def part_key(version):
    return f"Length=1;SchemaVersion={version};SchemaId=0x{ID.hex()};Value=0x0a"


class TestVersionsOfSchemas:
    """A part has 14 bits for the version of its schema."""

    @pytest.mark.parametrize("version", [8192, -8193, 32767])
    @pytest.mark.parametrize("sums", [{}, {"headerCrc": 1, "bodyCrc": 2}])
    @pytest.mark.parametrize("name", ["payload", "metadata", "key"])
    def test_one_that_no_part_holds_is_refused(self, name, version, sums):
        fields = {
            "payload": {"payloadSchemaVersion": version},
            "metadata": {
                "metadataSchemaVersion": version,
                "metadataSchemaId": text(ID),
                "metadataValue": text(b"m"),
                "hasPayloadMetadata": True,
            },
            "key": {"keyType": "Schema", "key": part_key(version)},
        }[name]
        with pytest.raises(Refusal, match=f"version {version} of the {name}") as refused:
            decoder(JsonDecoder).decode(message(line(**fields, **sums)))
        assert refused.value.kind == "shape"

    @pytest.mark.parametrize("version", [8191, -8192])
    def test_the_last_ones_are_written_again(self, version):
        fields = {"keyType": "Schema", "key": part_key(version)}
        (found,) = decoder(JsonDecoder).decode(message(line(**fields)))
        (out,) = BinaryEncoder(BinaryWriteSettings(version=2)).encode(found, [])
        kind = int.from_bytes(out.value[49:51], "big", signed=True)
        assert kind >> 2 == version


class TestTheEndOfAWindow:
    """The last event of a window may say so itself (attribute EoP, member endOfPeriod)."""

    def test_it_comes_with_a_bad_row_too(self):
        good = layout.v1(1, ROW, schema=ID)
        for bad in (
            layout.v1(2, ROW * 2, schema=ID, attributes=17),
            layout.v1(2, ROW, schema=bytes(16), attributes=17),
            layout.v1(2, ROW, schema=ID, attributes=16),
        ):
            found = decoder(BinaryDecoder).decode(message(good + bad + good))
            assert [(c.operation, c.outcome, c.transaction, c.index) for c in found] == [
                ("upsert", "ok", "7", 0),
                ("other", "refused", None, 1),
                ("commit", "ok", "7", 2),
                ("upsert", "ok", "7", 3),
            ]
            alone = decoder(BinaryDecoder).decode(message(bad))
            assert [c.outcome for c in alone] == ["refused", "ok"]

    @pytest.mark.parametrize(
        "value",
        [
            layout.v1(1, ROW, schema=ID, source=-2),
            layout.v1(1, ROW, schema=ID, source=-2, attributes=2),
            layout.v2(1, layout.part(ROW, ID), source=-2),
        ],
    )
    def test_it_holds_no_row_that_nobody_would_see(self, value):
        with pytest.raises(Refusal, match="at byte 0 has a row and the source -2") as refused:
            decoder(BinaryDecoder).decode(message(value))
        assert refused.value.kind == "shape"
        found = decoder(BinaryDecoder).decode(message(layout.v1(0, attributes=1, source=-2)))
        assert [c.operation for c in found] == ["commit"]


@pytest.mark.parametrize(
    ("attributes", "header", "operation"),
    [
        *((1, name, name) for name in ("read", "insert", "update", "upsert")),
        *((1, "full", "read"), (1, "delete", None), (1, "commit", None)),
        *((2, name, None) for name in ("read", "insert", "update", "upsert", "full", "commit")),
        (2, "delete", "delete"),
    ],
)
def test_the_header_of_an_event_does_not_say_another_operation(attributes, header, operation):
    value = message(
        layout.v1(1, ROW, schema=ID, attributes=attributes),
        [("waybill.operation", header.encode())],
    )
    if operation is None:
        with pytest.raises(Refusal, match=r"the header waybill\.operation says") as refused:
            decoder(BinaryDecoder).decode(value)
        assert refused.value.kind == "operation"
    else:
        (found,) = decoder(BinaryDecoder).decode(value)
        assert found.operation == operation


class TestWindowsThatAreWrittenAgain:
    """Databus hands on no row of a window that does not end."""

    STREAM = layout.v1(1, ROW, schema=ID) + layout.v1(0, attributes=0, source=-2)

    def written(self, headers=None, **settings):
        changes = decoder(BinaryDecoder, **settings).decode(message(self.STREAM, headers))
        encoder = BinaryEncoder(BinaryWriteSettings(schemas=SCHEMAS))
        out = [one for c in changes if c.outcome == "ok" for one in encoder.encode(c, [])]
        return layout.read_stream(b"".join(one.value for one in out))

    def test_a_window_that_was_read_keeps_its_end(self):
        assert [event["source"] for event in self.written()] == [101, -2]

    def test_a_window_that_was_not_heeded_is_ended_anew(self):
        assert [event["source"] for event in self.written(windows="ignore")] == [101, -2]

    def test_so_is_one_that_waybill_wrote(self):
        headers = [("waybill.operation", b"insert"), ("waybill.transaction", b"gtid-1")]
        assert [event["source"] for event in self.written(headers)] == [101, -2]
        assert [event["source"] for event in self.written(headers[:1])] == [101, -2]


class TestWhatTheOtherVersionHasNoRoomFor:
    """What an event has beside its change and another version cannot hold is counted."""

    def losses(self, value, version):
        lost = []
        (found,) = decoder(BinaryDecoder).decode(message(value))
        BinaryEncoder(BinaryWriteSettings(version=version)).encode(found, lost)
        return lost

    @pytest.mark.parametrize(
        "value",
        [
            layout.v2(schema_key=layout.part(b"k", ID), payload=layout.part(ROW, ID)),
            layout.v2(1, layout.part(ROW, ID), metadata=layout.part(b"m", ID)),
            layout.v2(
                schema_key=layout.part(b"k", ID),
                payload=layout.part(ROW, ID),
                metadata=layout.part(b"m", ID),
            ),
            layout.v2(0, layout.part(b"{}", ID, 20), source=-30, attributes=0),
            layout.v2(0, layout.part(b"{}", b"abcd", 0), source=-30, attributes=0),
        ],
    )
    def test_version_1(self, value):
        assert self.losses(value, 1) == ["other"]
        assert self.losses(value, 2) == []

    def test_version_2(self):
        for attributes, source in ((1, 101), (0, -2), (0, -30)):
            fields = {"attributes": attributes, "source": source, "schema": ID}
            row = ROW if source > 0 else b""
            assert self.losses(layout.v1(1, row, physical=3, logical=4, **fields), 2) == ["other"]
            assert self.losses(layout.v1(1, row, physical=3, logical=3, **fields), 2) == []
            assert self.losses(layout.v1(1, row, physical=3, logical=4, **fields), 1) == []
            assert self.losses(layout.v2(1, layout.part(ROW, ID)), 1) == []


class TestVersion2InJson:
    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"magicByte": 7}, "magicByte is 7, not cafedeed"),
            ({"hasPayload": False}, "hasPayload is false, and there is a payloadValue"),
            (
                {"metadataSchemaId": text(ID), "metadataValue": text(b"m")},
                "hasPayloadMetadata is false, and there is a metadataValue",
            ),
            ({"keyBytes": "AA=="}, "both key and keyBytes"),
            ({"keyType": "String", "keyBytes": "AA=="}, "both key and keyBytes"),
        ],
    )
    def test_members_that_disagree_are_refused(self, fields, sentence):
        with pytest.raises(Refusal, match=sentence) as refused:
            decoder(JsonDecoder).decode(message(line(**fields)))
        assert refused.value.kind == "shape"

    @pytest.mark.parametrize("magic", [-889266451, 0xCAFEDEED, None])
    def test_the_magic_number_with_its_sign_without_or_not_at_all(self, magic):
        (found,) = decoder(JsonDecoder).decode(message(line(magicByte=magic)))
        assert found.outcome == "ok"

    @pytest.mark.parametrize("ends", [True, "true"])
    def test_a_row_that_ends_its_window(self, ends):
        found = decoder(JsonDecoder).decode(message(line(endOfPeriod=ends)))
        assert [c.operation for c in found] == ["upsert", "commit"]
        (found,) = decoder(JsonDecoder).decode(message(line(endOfPeriod=False)))
        assert found.operation == "upsert"


@pytest.mark.parametrize("number", [0, -2, -30000, 1 << 31])
def test_a_table_has_no_source_id_of_the_system(number):
    """Its rows would be written as ends of windows or control events, and be rows for nobody."""
    for name, side in (("encode_settings", "to"), ("decode_settings", "from")):
        envelope = registry.get("databus-binary")
        settings = {"sources": {"item": number}}
        with pytest.raises(ConfigurationError) as refused:
            checked_settings(getattr(envelope, name), settings, envelope, side)
        sentence = f"item has the source id {number}; write one from 1 to 2147483647"
        assert str(refused.value) == f"{side}.sources: {sentence}"
    listed = {"databus": [{**SCHEMAS["databus"][0], "srcId": number}]}
    with pytest.raises(ConfigurationError, match=r"databus\[0\] of the schemas: .*srcId"):
        BinaryDecoder(DatabusReadSettings(schemas=listed), TableRules())


class TestARefusalNamesTheField:
    PRICES = (
        '{"type":"record","name":"Price","pk":"id","fields":[{"name":"id","type":"long"},'
        '{"name":"n","type":["null","string"]},{"name":"day","type":{"type":"int",'
        '"logicalType":"date"}}]}'
    )
    RULES = TableRules({"Price": TableRule(None, {"n": parse_type("decimal(4,2)")})})
    SCHEMAS: ClassVar = {"databus": [{"srcId": 101, "source": "shop.Price", "schema": PRICES}]}

    def refused(self, kind, value):
        reader = kind(DatabusReadSettings(schemas=self.SCHEMAS), self.RULES)
        with pytest.raises(Refusal) as refused:
            reader.decode(message(value))
        return str(refused.value)

    def test_when_it_is_read(self):
        id_ = md5(self.PRICES.encode()).digest()
        for row, sentence in (
            (b"\x02\x02\x021\xfe\xff\xff\xff\x0f", "field 'day': a date is out of the years"),
            (b"\x02\x02\x06123\x00", "field 'n': '123' does not fit decimal(4,2)"),
            (b"\x02\x02\x06123", "the Avro data ends inside field 'day'"),
        ):
            event = layout.v1(1, row, schema=id_)
            assert f"the event at byte 0 is bad: {sentence}" in self.refused(BinaryDecoder, event)
        fields = {"version": None, "hasPayload": None, "valueEnc": "JSON_PLAIN"}
        fields = {**SECOND, **fields, "schemaId": text(id_)}
        del fields["version"]
        for row, sentence in (
            ({"id": 1, "n": None, "day": 2**31 - 1}, "field 'day': a date is out of the years"),
            ({"id": 1, "n": {"string": "123"}, "day": 0}, "field 'n': '123' does not fit"),
        ):
            event = json.dumps({**fields, "value": json.dumps(row)}).encode()
            assert f"the event at byte 0 is bad: {sentence}" in self.refused(JsonDecoder, event)

    def test_when_it_is_a_key_alone(self):
        event = layout.v2(b"x", attributes=2)
        sentence = "key column 'id': 'x' is not an integer in digits"
        assert sentence in self.refused(BinaryDecoder, event)

    def test_when_it_is_written(self):
        schema = table({"id": "int64", "n": "varchar(9)", "x": "double"}, ("id",))
        for row, sentence in (
            ({"id": "1", "n": "a", "x": "1e400"}, "column 'x': '1e400' cannot be written as"),
            ({"id": "1", "n": "\ud800", "x": None}, "column 'n': a text with half a surrogate"),
            ({"id": "y", "n": "a", "x": None}, "column 'id': 'y' cannot be written as Avro's lon"),
        ):
            with pytest.raises(Refusal, match=sentence) as refused:
                BinaryEncoder(BinaryWriteSettings()).encode(
                    change("insert", after=row, schema=schema), []
                )
            assert refused.value.kind == "encoding"


@pytest.mark.parametrize(
    ("metadata", "values", "lost"),
    [
        (b"\xff\xfe\x00", "JSON_PLAIN", ["other"]),
        (b"\xff\xfe\x00", "JSON", []),
        ("tür".encode(), "JSON_PLAIN", []),
    ],
)
def test_metadata_that_is_no_text_is_counted_where_parts_are_texts(metadata, values, lost):
    event = layout.v2(1, layout.part(ROW, ID), metadata=layout.part(metadata, ID))
    (found,) = decoder(BinaryDecoder).decode(message(event))
    losses = []
    settings = JsonWriteSettings(version=2, values=values, schemas=SCHEMAS)
    (out,) = JsonEncoder(settings).encode(found, losses)
    assert losses == lost
    (again,) = decoder(JsonDecoder).decode(message(out.value))
    assert (again.extra == found.extra) == (not lost)


@pytest.mark.parametrize(
    "event",
    [
        layout.v2(0, layout.part(b"", ID, 20), source=-30, attributes=0),
        layout.v2(0, layout.part(b"", b"abcd", 0), source=-30, attributes=0),
        layout.v2(0, layout.part(b"{}", bytes(16), 0), source=-30, attributes=0),
        layout.v2(0, source=-30, attributes=0),
    ],
)
def test_a_control_event_keeps_a_part_without_bytes(event):
    (found,) = decoder(BinaryDecoder).decode(message(event))
    (out,) = BinaryEncoder(BinaryWriteSettings(version=2)).encode(found, [])
    assert out.value == event
