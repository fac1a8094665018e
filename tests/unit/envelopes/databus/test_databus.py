"""Databus events against a second reader and writer of their layout, and against hostile bytes."""

from __future__ import annotations

import base64
import io
import json
import re
from hashlib import md5

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import databus_layout as layout
from tests.contract.probes import MOVED, OTHER, PLAIN, ROW, change, table
from tests.histories import by_name
from waybill.batches.messages import decode_message
from waybill.cli.formats import settings_of
from waybill.counting import counted
from waybill.envelopes import registry
from waybill.envelopes.databus.binary.decoder import BinaryDecoder
from waybill.envelopes.databus.binary.encoder import BinaryEncoder
from waybill.envelopes.databus.event import checksum
from waybill.envelopes.databus.json.decoder import JsonDecoder
from waybill.envelopes.databus.json.encoder import JsonEncoder
from waybill.envelopes.databus.schemas import avro_text
from waybill.envelopes.databus.settings import (
    BinaryWriteSettings,
    DatabusReadSettings,
    JsonWriteSettings,
)
from waybill.errors import ConfigurationError, Refusal
from waybill.inprocess.job import checked_settings
from waybill.records import NO_TABLE, Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

PERSON = """{
  "name" : "Person_V1",
  "type" : "record",
  "meta" : "dbFieldName=person;pk=id;",
  "namespace" : "com.acme.events",
  "fields" : [
    { "name" : "id", "type" : [ "long", "null" ], "meta" : "dbFieldName=ID;dbFieldPosition=0;" },
    { "name" : "firstName", "type" : [ "string", "null" ], "meta" : "dbFieldName=FIRST_NAME;" },
    { "name" : "birthDate", "type" : [ "long", "null" ], "meta" : "dbFieldName=BIRTH_DATE;" }
  ]
}
"""
ID = md5(PERSON.encode()).digest()
PARSED = fastavro.parse_schema(json.loads(PERSON))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "com.acme.events.Person.1.avsc").write_text(PERSON)
    return str(tmp_path)


def avro(row, schema=PARSED) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


ANN = avro({"id": 9007199254740993, "firstName": "Ann", "birthDate": None})


def message(value, headers=None, offset=5):
    return Message("topic", 2, offset, None, None, value, headers)


def reader(folder, rules=None, kind=BinaryDecoder, **settings):
    return kind(DatabusReadSettings(schemas=folder, **settings), rules or TableRules())


def image(change, which="after"):
    return by_name(change.schema, getattr(change, which))


def test_the_checksum_is_databuses_own():
    assert checksum(b"123456789") == layout.crc(b"123456789") != 0xCBF43926


def with_wrong_header(event):
    """The event with the first byte of its time changed, which only the header's checksum tells."""
    at = 23
    return event[:at] + bytes([event[at] ^ 1]) + event[at + 1 :]


ORDERS = pytest.mark.parametrize("order", [">", "<"])


class TestReading:
    @ORDERS
    @pytest.mark.parametrize("key", [9007199254740993, b"9007199254740993"])
    def test_version_1(self, folder, order, key):
        (found,) = reader(folder).decode(message(layout.v1(key, ANN, schema=ID, order=order)))
        assert (found.operation, found.sequence, found.transaction) == ("upsert", (7,), "7")
        assert (found.schema.table, found.schema.key) == ("Person", ("id",))
        assert image(found) == {
            "id": "9007199254740993",
            "firstName": "Ann",
            "birthDate": None,
        }
        assert found.source_time == 1_700_000_000_123_456
        carried = json.loads(found.extra)["databus"]
        assert carried["nanos"] == 1_700_000_000_123_456_789
        assert (carried["physical"], carried["logical"], carried["source"]) == (3, 4, 101)

    @ORDERS
    @pytest.mark.parametrize("key", ["long", "bytes", "schema"])
    @pytest.mark.parametrize("digest", ["md5", "crc"])
    def test_version_2(self, folder, order, key, digest):
        id_ = ID if digest == "md5" else layout.crc(PERSON.encode()).to_bytes(4, "big")
        fields = {
            "long": {"key": 1},
            "bytes": {"key": b"k"},
            "schema": {"schema_key": layout.part(b"\x02", bytes(16), 1, order)},
        }[key]
        event = layout.v2(
            payload=layout.part(ANN, id_, 1, order),
            metadata=layout.part(b"meta", b"abcd", 9, order),
            order=order,
            **fields,
        )
        (found,) = reader(folder).decode(message(event))
        assert image(found)["id"] == "9007199254740993"
        carried = json.loads(found.extra)["databus"]
        assert base64.b64decode(carried["metadata"]["data"]) == b"meta"
        assert carried["metadata"]["version"] == 9

    def test_a_delete_without_payload_is_its_key(self, folder):
        event = layout.v2(12, attributes=2)
        decoder = reader(folder, sources={"Person": 101})
        (found,) = decoder.decode(message(event))
        assert found.operation == "delete"
        assert found.key_image().f0 == "12"
        assert image(found, "before")["id"] == "12"
        with pytest.raises(Refusal, match="source 101 is not known"):
            reader(folder).decode(message(event))

    def test_a_stream_of_windows(self, folder):
        stream = b"".join(
            [
                layout.v1(1, ANN, schema=ID, sequence=7),
                layout.v1(2, ANN, schema=ID, sequence=7, attributes=2, order="<"),
                layout.v1(0, attributes=0, source=-2, sequence=7),
                layout.v2(3, layout.part(ANN, ID), sequence=8),
                layout.v1(0, b"{}", attributes=0, source=-3, sequence=8),
            ]
        )
        found = reader(folder).decode(message(stream))
        assert [(c.operation, c.transaction, c.index, c.sequence) for c in found] == [
            ("upsert", "7", 0, (7,)),
            ("delete", "7", 1, (7,)),
            ("commit", "7", 2, (7,)),
            ("upsert", "8", 3, (8,)),
            ("other", None, 4, (8,)),
        ]
        assert sorted(found[:4], key=lambda c: c.order_key) == found[:4]
        ignored = reader(folder, windows="ignore").decode(message(stream))
        assert [(c.operation, c.transaction, c.outcome) for c in ignored][1:3] == [
            ("delete", None, "ok"),
            ("commit", None, "skipped"),
        ]

    def test_a_bad_event_does_not_take_its_neighbours(self, folder):
        good = layout.v1(1, ANN, schema=ID)
        other = layout.v1(1, ANN, schema=bytes(16))
        broken = bytearray(good)
        broken[-1] ^= 1
        found = reader(folder).decode(message(good + bytes(broken) + other + good))
        assert [c.outcome for c in found] == ["ok", "refused", "refused", "ok"]
        assert [c.reason_kind for c in found] == [None, "binary", "schema", None]
        assert f"byte {len(good)} " in found[1].reason
        assert [c.index for c in found] == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("attributes", "old", "replicated"),
        [(0x0101, False, True), (0x0101, True, False), (0x0505, False, False)],
    )
    def test_old_writers_set_bits_in_both_bytes(self, folder, attributes, old, replicated):
        event = layout.v1(1, ANN, schema=ID, attributes=attributes)
        (found,) = reader(folder, old_writers=old).decode(message(event))
        assert ("replicated" in json.loads(found.extra)["databus"]) is replicated

    def test_flags_are_carried(self, folder):
        event = layout.v1(1, ANN, schema=ID, attributes=0x105)
        (found,) = reader(folder).decode(message(event))
        carried = json.loads(found.extra)["databus"]
        assert carried["replicated"] is carried["trace"] is True

    def test_database_names_and_declared_types(self, folder):
        types = {"BIRTH_DATE": parse_type("timestamp")}
        rules = TableRules({"hr.person": TableRule(None, types)})
        decoder = reader(folder, rules, names="columns", database="hr")
        born = avro({"id": 1, "firstName": None, "birthDate": 1_700_000_000_123})
        (found,) = decoder.decode(message(layout.v1(1, born, schema=ID)))
        assert found.schema.qualified_name == "hr.person"
        assert image(found) == {
            "ID": "1",
            "FIRST_NAME": None,
            "BIRTH_DATE": "2023-11-14T22:13:20.123",
        }
        assert found.schema.key == ("ID",)

    def test_the_id_of_a_schema_as_avro_prints_it(self, folder):
        id_ = md5(avro_text(json.loads(PERSON)).encode()).digest()
        assert id_ != ID
        (found,) = reader(folder).decode(message(layout.v1(1, ANN, schema=id_)))
        assert found.outcome == "ok"

    def test_a_schema_id_that_is_a_version(self):
        listed = {"databus": [{"srcId": 101, "source": "x.Person", "version": 4, "schema": PERSON}]}
        decoder = reader(listed, schema_ids="version")
        for order in "><":
            version = (4).to_bytes(2, "big" if order == ">" else "little")
            event = layout.v1(1, ANN, schema=version + bytes(14), order=order)
            assert decoder.decode(message(event))[0].outcome == "ok"
        with pytest.raises(Refusal, match="version 5"):
            decoder.decode(message(layout.v1(1, ANN, schema=b"\0\x05" + bytes(14))))

    def test_a_list_of_schemas_names_tables(self):
        entry = {"source": "x.Person", "table": "people", "database": "hr", "schema": PERSON}
        (found,) = reader({"databus": [entry]}).decode(message(layout.v1(1, ANN, schema=ID)))
        assert found.schema.qualified_name == "hr.people"


class TestHostileBytes:
    EVENTS = (
        layout.v1(1, ANN, schema=ID),
        layout.v1(b"key", ANN, schema=ID, order="<"),
        layout.v2(b"key", layout.part(ANN, ID), metadata=layout.part(b"m", b"abcd")),
    )

    @pytest.mark.parametrize("event", EVENTS)
    def test_every_cut_is_refused(self, folder, event):
        decoder = reader(folder)
        for size in range(len(event)):
            with pytest.raises(Refusal) as refused:
                decoder.decode(message(event[:size]))
            assert refused.value.kind in ("binary", "shape")

    @pytest.mark.parametrize("event", EVENTS)
    def test_every_flipped_bit_is_refused(self, folder, event):
        decoder = reader(folder)
        for place in range(len(event) * 8):
            broken = bytearray(event)
            broken[place // 8] ^= 1 << place % 8
            with pytest.raises(Refusal):
                decoder.decode(message(bytes(broken)))

    @pytest.mark.parametrize(
        ("event", "kind", "sentence"),
        [
            (b'{"error":"x"}', "shape", "relay"),
            (b"\x01" + bytes(70), "shape", "version 1"),
            (layout.v1(1, ANN, schema=ID) + b"\x00", "binary", "cut off"),
            (layout.v1(1, ANN, schema=bytes(16)), "schema", "0000"),
            (layout.v1(1, ANN + b"\x00", schema=ID), "binary", "left"),
            (layout.v1(1, ANN[:-1], schema=ID), "binary", "ends"),
            (layout.v1(1, b"\x01" * 9, schema=ID), "value", "union"),
            (layout.v1(1, ANN, schema=ID, attributes=0), "operation", "no opcode"),
            (layout.v2(1, layout.part(ANN, ID), attributes=3), "operation", "opcode 3"),
            (layout.v2(1), "shape", "no DELETE"),
            (layout.v2(1, layout.part(ANN, ID)[:5]), "binary", "cut off"),
            (layout.v2(1, b"\x7f\xff\xff\xff" + layout.part(ANN, ID)[4:]), "binary", "2147483647"),
            (layout.v2(1, layout.part(ANN, ID) + b"x"), "binary", "after its last part"),
        ],
    )
    def test_the_sentence_says_what_and_where(self, folder, event, kind, sentence):
        decoder = reader(folder, sources={"Person": 101})
        found = decode_message(decoder, message(event))[-1]
        assert (found.outcome, found.reason_kind) == ("refused", kind)
        assert sentence in found.reason
        assert "byte" in found.reason

    @pytest.mark.parametrize(
        ("broken", "sentence"),
        [
            (with_wrong_header(layout.v1(1, ANN, schema=ID)), "a wrong checksum of its header"),
            (with_wrong_header(layout.v1(b"k", ANN, schema=ID)), "a wrong checksum of its header"),
            (with_wrong_header(layout.v2(1, layout.part(ANN, ID))), "checksum of its header ("),
            (b"\x02" + bytes(60), "no magic number"),
            (b"\x05" + bytes(60), "version 5"),
            (layout.v1(1, ANN, schema=ID)[:70], "wrong checksum of its value"),
            (layout.v2(1, layout.part(ANN, ID))[:20], "has a wrong checksum of its header"),
        ],
    )
    def test_what_is_not_read_behind_a_broken_event_is_reported(self, folder, broken, sentence):
        """Nobody can say where the next event begins: what is left out is counted in bytes."""
        good = layout.v1(1, ANN, schema=ID)
        stream = good + broken + good * 2
        found = decode_message(reader(folder), message(stream))
        assert [c.outcome for c in found[:2]] == ["ok", "refused"]
        assert sentence in found[1].reason
        place = re.fullmatch(r"the event at byte (\d+) .*", found[-1].reason)
        left = len(stream) - int(place[1])
        ending = f"; the rest of the message from there, {counted(left, 'byte')}, is not read"
        assert found[-1].reason.endswith(ending)
        assert not any(ending in c.reason for c in found[1:-1])

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_right_checksums_around_anything(self, folder, data):
        value = data.draw(st.binary(max_size=40) | st.sampled_from([ANN, ANN * 2]))
        key = data.draw(st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=9))
        attributes = data.draw(st.integers(0, 0x7FFF)) & ~8
        source = data.draw(st.integers(-(2**15), 2**15 - 1))
        event = layout.v1(key, value, attributes=attributes, source=source, schema=ID)
        for found in decode_message(reader(folder), message(event)):
            assert found.order_key
            assert found.outcome in ("ok", "skipped") or found.reason

    def test_schemas_that_would_be_bombs(self):
        nested = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}
        for depth in range(1, 30):
            name = f"R{depth - 1}"
            nested = {
                "type": "record",
                "name": f"R{depth}",
                "fields": [{"name": "a", "type": nested}, {"name": "b", "type": name}],
            }
        bombs = [
            nested,
            {
                "type": "record",
                "name": "A",
                "fields": [{"name": "x", "type": {"type": "array", "items": "null"}}],
            },
            {"type": "record", "name": "B", "fields": [{"name": "b", "type": ["null", "B"]}]},
        ]
        for bomb in bombs:
            text = json.dumps(bomb).encode()
            event = layout.v1(1, b"\xff\xff\xff\xff\x0f", schema=md5(text).digest())
            with pytest.raises(Refusal) as refused:
                reader(None).decode(message(event, [("databus.schema", text)]))
            assert refused.value.kind == "schema"

    @pytest.mark.parametrize(
        "stated",
        [
            *(None, 1, [], {}, {"table": "t", "columns": [[1, "int64", None, None]]}),
            {"table": "t", "columns": [["a", "int64" * 100, None, None]]},
            {"table": "t", "columns": [["a", "no type", None, None]]},
            {"table": "t", "columns": [["a", "int64", None, None]] * 2},
            {"table": 5, "columns": [["a", "int64", None, None]]},
        ],
    )
    def test_a_schema_that_tells_no_table(self, stated):
        field = {"name": "a", "type": "long", "waybill": 0}
        schema = {"type": "record", "name": "R", "fields": [field], "waybill": stated}
        text = json.dumps(schema).encode()
        event = layout.v1(1, b"\x02", schema=md5(text).digest())
        with pytest.raises(Refusal) as refused:
            reader(None).decode(message(event, [("databus.schema", text)]))
        assert refused.value.kind in ("schema", "shape")

    def test_the_schema_beside_the_message_must_be_the_one_named(self):
        event = layout.v1(1, ANN, schema=bytes(16))
        with pytest.raises(Refusal, match="not 0000"):
            reader(None).decode(message(event, [("databus.schema", PERSON.encode())]))


def written(made, settings, encoder=BinaryEncoder):
    losses = []
    return encoder(settings).encode(made, losses), losses


def payload(event, headers):
    schema = fastavro.parse_schema(json.loads(dict(headers)["databus.schema"]))
    assert event["schema"] == md5(dict(headers)["databus.schema"]).digest()
    data = io.BytesIO(event["value"])
    row = fastavro.schemaless_reader(data, schema, None)
    assert data.read() == b""
    return row


class TestWriting:
    @ORDERS
    @pytest.mark.parametrize("version", [1, 2])
    @pytest.mark.parametrize("key", [("id",), ("region",), ("region", "id"), ()])
    def test_a_second_reader_accepts_it(self, order, version, key):
        schema = table({"id": "bigint", "region": "varchar(8)", "v": "decimal(38,10)"}, key)
        row = {"id": "9007199254740993", "region": "eu", "v": "1.1000000000"}
        settings = BinaryWriteSettings(
            version=version, byte_order="little" if order == "<" else "big", sources={"*": 1}
        )
        (out,), losses = written(change("insert", after=row, schema=schema), settings)
        event, end = layout.read_stream(out.value, order)
        assert losses == []
        assert payload(event, out.headers) == {**row, "id": 9007199254740993}
        expected = {
            ("id",): 9007199254740993,
            ("region",): b"eu",
            ("region", "id"): b'["eu","9007199254740993"]',
            (): b"",
        }[key]
        assert event["key"] == expected
        assert (event["opcode"], event["sequence"]) == ("UPSERT", 1_605_339_516_000_000_004)
        assert event["nanos"] == 1_700_000_000_123_000_000
        assert event["source"] > 0
        assert (end["opcode"], end["source"], end["key"], end["sequence"]) == (
            *(None, -2, 0),
            event["sequence"],
        )

    def test_a_change_of_the_key_is_two_events(self):
        out, losses = written(change("update", ROW, MOVED), BinaryWriteSettings())
        events = [layout.read_stream(one.value)[0] for one in out]
        assert [event["opcode"] for event in events] == ["DELETE", "UPSERT"]
        assert events[0]["sequence"] == events[1]["sequence"]
        assert losses == ["key_change"]

    def test_windows_of_commits(self):
        settings = BinaryWriteSettings(windows="commit")
        (row,), _ = written(change("insert", after=ROW, transaction="7"), settings)
        assert len(layout.read_stream(row.value)) == 1
        (end,), _ = written(change("commit", schema=NO_TABLE, transaction="7"), settings)
        assert [event["source"] for event in layout.read_stream(end.value)] == [-2]

    @ORDERS
    @pytest.mark.parametrize("version", [1, 2])
    def test_databus_stays_databus(self, folder, order, version):
        payload_ = layout.part(ANN, ID, 1, order)
        name = "little" if order == "<" else "big"
        events = {
            1: [
                layout.v1(1, ANN, schema=ID, attributes=0x105, order=order),
                layout.v1(1, ANN, schema=ID, attributes=0x101, order=order),
                layout.v1(b"\xff\x00", ANN, schema=ID, attributes=2, order=order),
                layout.v1(0, attributes=0, source=-2, order=order),
                layout.v1(5, b"{}", attributes=0, source=-3, schema=ID, order=order),
            ],
            2: [
                layout.v2(1, payload_, attributes=0x31, order=order),
                layout.v2(
                    schema_key=layout.part(b"\x02", b"abcd", 3, order),
                    payload=payload_,
                    metadata=layout.part(b"m", bytes(16), 2, order),
                    attributes=2,
                    order=order,
                ),
                layout.v2(0, attributes=0, source=-2, order=order),
                layout.v2(5, payload_, attributes=0, source=-30000, order=order),
            ],
        }[version]
        changes = reader(folder, sources={"Person": 101}).decode(message(b"".join(events)))
        settings = BinaryWriteSettings(version=version, byte_order=name, schemas=folder)
        encoder, losses = BinaryEncoder(settings), []
        out = [encoder.encode(made, losses) for made in changes]
        assert [one.value for (one,) in out] == events
        assert losses == []
        assert [one.headers for (one,) in out] == [None] * len(events)

    def test_a_registered_schema_is_written_or_the_row_is_refused(self, folder):
        schema = table({"id": "int64", "firstName": "string", "birthDate": "timestamp"}, dialect="")
        schema = type(schema)("hr", None, "Person", schema.columns, ("id",), "")
        settings = BinaryWriteSettings(schemas=folder, headers=False, sources={"Person": 101})
        row = {"id": "1", "firstName": "Ann", "birthDate": "2023-11-14T22:13:20.123"}
        (out,), losses = written(change("insert", after=row, schema=schema), settings)
        event = layout.read_stream(out.value)[0]
        assert (event["schema"], event["source"], out.headers) == (ID, 101, None)
        read = fastavro.schemaless_reader(io.BytesIO(event["value"]), PARSED, None)
        assert read == {"id": 1, "firstName": "Ann", "birthDate": 1_700_000_000_123}
        assert losses == ["types", "operations"]
        for name, text in (("birthDate", "2023-11-14T22:13:20.123456"), ("id", "1" * 30)):
            with pytest.raises(Refusal) as refused:
                written(change("insert", after={**row, name: text}, schema=schema), settings)
            assert refused.value.kind == "encoding"
        del row["firstName"]
        with pytest.raises(Refusal, match="firstName"):
            written(change("insert", after=row, schema=schema), settings)

    def test_without_headers_a_table_needs_a_schema(self):
        with pytest.raises(Refusal, match="put one under `schemas`"):
            written(change("insert", after=ROW), BinaryWriteSettings(headers=False))

    def test_times_out_of_range_are_refused(self):
        with pytest.raises(Refusal, match="nanoseconds"):
            written(change("insert", after=ROW, source_time=2**60), BinaryWriteSettings())


LINE = {
    "opcode": "UPSERT",
    "key": 9007199254740993,
    "sequence": 7,
    "logicalPartitionId": 4,
    "physicalPartitionId": 3,
    "timestampInNanos": 1_700_000_000_123_456_789,
    "srcId": 101,
    "schemaId": base64.b64encode(ID).decode(),
    "valueEnc": "JSON",
    "isReplicated": False,
    "value": base64.b64encode(ANN).decode(),
}
PLAIN_VALUE = '{"id":{"long":9007199254740993},"firstName":{"string":"Ann"},"birthDate":null}'
END = {"sequence": 7, "timestampInNanos": 0, "srcId": -2, "key": 0, "endOfPeriod": True}


class TestJson:
    def decode(self, folder, *lines, **settings):
        text = "\n".join(json.dumps(line) for line in lines)
        return reader(folder, kind=JsonDecoder, **settings).decode(message(text.encode()))

    @pytest.mark.parametrize("name", ["JSON_PLAIN", "JSON_PLAIN_VALUE", "JSON"])
    def test_both_value_encodings(self, folder, name):
        line = dict(LINE, valueEnc=name)
        if name != "JSON":
            line["value"] = PLAIN_VALUE
        (found,) = self.decode(folder, line)
        assert image(found)["id"] == "9007199254740993"
        assert (found.sequence, found.operation, found.transaction) == ((7,), "upsert", "7")

    def test_the_end_of_a_window(self, folder):
        for end in (True, "true"):
            found = self.decode(folder, LINE, dict(END, endOfPeriod=end))
            assert [c.operation for c in found] == ["upsert", "commit"]
        for end in (False, "false"):
            found = self.decode(folder, dict(LINE, endOfPeriod=end))
            assert [c.operation for c in found] == ["upsert"]
        found = self.decode(folder, dict(LINE, endOfPeriod=True))
        assert [c.operation for c in found] == ["upsert", "commit"]

    def test_base64_may_be_broken_into_lines(self, folder):
        line = dict(LINE, keyBytes=base64.encodebytes(bytes(100)).decode())
        del line["key"]
        (found,) = self.decode(folder, line)
        assert base64.b64decode(json.loads(found.extra)["databus"]["key"]["bytes"]) == bytes(100)

    @pytest.mark.parametrize(
        ("wrong", "kind"),
        [
            ({"sequence": 7.0}, "shape"),
            ({"sequence": 2**63}, "shape"),
            ({"key": "a"}, "shape"),
            ({"key": None}, "shape"),
            ({"key": 2**63}, "shape"),
            ({"keyBytes": "AA=="}, "shape"),
            ({"opcode": "INSERT"}, "operation"),
            ({"valueEnc": "XML"}, "shape"),
            ({"valueEnc": None}, "shape"),
            ({"value": "###"}, "shape"),
            ({"value": base64.b64encode(ANN[:-1]).decode()}, "binary"),
            ({"schemaId": "AAAA"}, "shape"),
            ({"schemaId": base64.b64encode(bytes(16)).decode()}, "schema"),
            ({"srcId": 40000}, "shape"),
            ({"endOfPeriod": "maybe"}, "shape"),
            ({"version": 3}, "shape"),
            ({"valueEnc": "JSON_PLAIN", "value": '{"id":{"long":1.0}}'}, "value"),
            ({"valueEnc": "JSON_PLAIN", "value": "["}, "json"),
        ],
    )
    def test_refusals(self, folder, wrong, kind):
        with pytest.raises(Refusal) as refused:
            self.decode(folder, dict(LINE, **wrong))
        assert refused.value.kind == kind
        assert "byte 0" in refused.value.sentence
        found = self.decode(folder, LINE, dict(LINE, **wrong), LINE)
        assert [c.outcome for c in found] == ["ok", "refused", "ok"]

    @pytest.mark.parametrize("name", ["logicalPartitionId", "physicalPartitionId"])
    def test_no_partition_is_made_up(self, folder, name):
        """The document's table of members says of both that they are not optional."""
        without = {one: value for one, value in LINE.items() if one != name}
        found = self.decode(folder, LINE, without, LINE, dict(LINE, **{name: None}))
        assert [c.outcome for c in found] == ["ok", "refused", "ok", "refused"]
        assert found[1].reason_kind == found[3].reason_kind == "shape"
        at = len(json.dumps(LINE)) + 1
        sentence = f"the event at byte {at} cannot be taken: {name} is not told"
        assert found[1].reason == sentence
        for wrong in (dict(without, endOfPeriod=True), dict(without, srcId=-2, key=0)):
            with pytest.raises(Refusal, match=f"{name} is not told"):
                self.decode(folder, wrong)

    @pytest.mark.parametrize("name", ["logicalPartitionId", "physicalPartitionId"])
    def test_no_partition_is_made_up_in_version_2(self, name):
        settings = JsonWriteSettings(version=2)
        for one in written(change("insert", after=ROW), settings, JsonEncoder)[0]:
            line = json.loads(one.value)
            del line[name]
            with pytest.raises(Refusal, match=f"{name} is not told") as refused:
                reader(None, kind=JsonDecoder).decode(
                    message(json.dumps(line).encode(), one.headers)
                )
            assert refused.value.kind == "shape"

    @pytest.mark.parametrize("more", [{}, {"logicalPartitionId": 0, "value": ""}])
    def test_the_end_of_a_window_may_name_no_partition(self, folder, more):
        """Databus itself reads no more of it than the time and the sequence."""
        end = dict(END, valueEnc="JSON", **more)
        found = self.decode(folder, LINE, end)
        assert [c.operation for c in found] == ["upsert", "commit"]

    def test_a_name_that_stands_twice(self, folder):
        text = json.dumps(LINE).replace('"srcId": 101', '"srcId": 101, "srcId": 102')
        with pytest.raises(Refusal, match="twice"):
            reader(folder, kind=JsonDecoder).decode(message(text.encode()))

    @pytest.mark.parametrize("version", [1, 2])
    @pytest.mark.parametrize("values", ["JSON", "JSON_PLAIN"])
    def test_what_is_written_is_read(self, version, values):
        settings = JsonWriteSettings(version=version, values=values)
        (out, last), _ = written(change("update", None, OTHER), settings, JsonEncoder)
        first, end = json.loads(out.value), json.loads(last.value)
        value = first["value" if version == 1 else "payloadValue"]
        if values == "JSON":
            (binary,), _ = written(
                change("update", None, OTHER), BinaryWriteSettings(version=version)
            )
            event = layout.read_stream(binary.value)[0]
            assert base64.b64decode(value) == event["value"]
        else:
            assert json.loads(value)["amount"] == {"string": "-2.5000000000"}
        assert end["srcId"] == -2
        decoder = reader(None, kind=JsonDecoder)
        (found,) = decoder.decode(message(out.value, out.headers))
        (skipped,) = decoder.decode(message(last.value, last.headers))
        assert (found.operation, image(found)) == ("update", OTHER)
        assert found.schema is PLAIN
        assert skipped.outcome == "skipped"

    def test_a_file_of_lines_is_read_with_its_schemas(self, folder):
        """Files of lines have no headers: rows wait for the end of their window, which is there."""
        schema = table({"id": "int64", "firstName": "string", "birthDate": "int64"}, dialect="")
        schema = type(schema)(None, None, "Person", schema.columns, ("id",), "")
        settings = JsonWriteSettings(schemas=folder, sources={"Person": 101})
        row = {"id": "1", "firstName": "a\nb", "birthDate": None}
        out, losses = written(change("insert", after=row, schema=schema), settings, JsonEncoder)
        assert losses == []
        assert not any(b"\n" in one.value for one in out)
        text = b"\n".join(one.value for one in out)
        found = reader(folder, kind=JsonDecoder).decode(message(text))
        assert [(c.operation, c.transaction) for c in found] == [
            ("upsert", "1605339516000000004"),
            ("commit", "1605339516000000004"),
        ]
        assert image(found[0]) == row

    def test_checksums_of_version_2(self):
        settings = JsonWriteSettings(version=2)
        (out, _), _ = written(change("insert", after=ROW), settings, JsonEncoder)
        broken = out.value.replace(b'"bodyCrc":', b'"bodyCrc":1')
        with pytest.raises(Refusal) as refused:
            reader(None, kind=JsonDecoder).decode(message(broken, out.headers))
        assert refused.value.kind == "binary"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("/no/such/place", "cannot be read"),
        ({"avro": {}}, 'a list "databus"'),
        ({"databus": [{"source": "x"}]}, "schema"),
        ({"databus": [{"source": "x", "schema": "[]"}]}, "no Avro schema"),
    ],
)
def test_schemas_that_are_none(given, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        reader(given)


class TestTheVersionThatIsWritten:
    @pytest.mark.parametrize(("given", "version"), [(1, 1), (2, 2), ("1", 1), ("2", 2)])
    @pytest.mark.parametrize("kind", [BinaryWriteSettings, JsonWriteSettings])
    def test_as_a_number_and_as_the_command_line_gives_it(self, kind, given, version):
        found = kind.model_validate({"version": given}).version
        assert (found, type(found)) == (version, int)

    @pytest.mark.parametrize(
        "given", [0, 3, "3", "x", "", " 2", "2.0", 1.5, 1.0, True, "true", None, [2]]
    )
    def test_another_is_refused(self, given):
        envelope = registry.get("databus-binary")
        with pytest.raises(ConfigurationError) as refused:
            checked_settings(envelope.encode_settings, {"version": given}, envelope, "to")
        assert str(refused.value) == "to.version: Input should be 1 or 2"

    def test_the_choices_are_shown(self):
        (choice,) = (one for one in settings_of(BinaryWriteSettings) if one["name"] == "version")
        assert (choice["type"], choice["choices"], choice["default"]) == (
            "Literal[1, 2]",
            [1, 2],
            1,
        )
