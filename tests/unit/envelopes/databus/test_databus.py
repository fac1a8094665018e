"""Databus events against a second reader and writer of their layout."""

from __future__ import annotations

import base64
import io
import json
from hashlib import md5

import fastavro
import pytest

from tests import databus_layout as layout
from tests.contract.probes import MOVED, ROW, change, table
from tests.unit.envelopes.databus.persons import (
    ANN,
    ID,
    PARSED,
    PERSON,
    avro,
    image,
    message,
    reader,
)
from waybill.cli.envelopes import settings_of
from waybill.envelopes import registry
from waybill.envelopes.databus.binary.encoder import BinaryEncoder
from waybill.envelopes.databus.event import checksum
from waybill.envelopes.databus.schemas import avro_text
from waybill.envelopes.databus.settings import (
    BinaryWriteSettings,
    JsonWriteSettings,
)
from waybill.errors import ConfigurationError, Refusal
from waybill.inprocess.job import checked_settings
from waybill.records import NO_TABLE
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type


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
