"""Databus events as lines of JSON."""

from __future__ import annotations

import base64
import json

import pytest

from tests import databus_layout as layout
from tests.contract.probes import OTHER, PLAIN, ROW, change, table
from tests.unit.envelopes.databus.persons import (
    ANN,
    ID,
    image,
    message,
    reader,
)
from tests.unit.envelopes.databus.test_databus import written
from waybill.envelopes.databus.json.decoder import JsonDecoder
from waybill.envelopes.databus.json.encoder import JsonEncoder
from waybill.envelopes.databus.settings import (
    BinaryWriteSettings,
    JsonWriteSettings,
)
from waybill.errors import Refusal

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
