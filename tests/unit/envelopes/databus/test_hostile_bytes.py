"""Databus events that are cut, damaged or lie about themselves."""

from __future__ import annotations

import json
import re
from hashlib import md5

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import databus_layout as layout
from tests.contract.effort import cases
from tests.unit.envelopes.databus.persons import (
    ANN,
    ID,
    PERSON,
    message,
    reader,
)
from tests.unit.envelopes.databus.test_databus import with_wrong_header
from waybill.batches.messages import decode_message
from waybill.counting import counted
from waybill.errors import Refusal


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

    @settings(max_examples=cases(200), deadline=None, suppress_health_check=list(HealthCheck))
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
