"""Maxwell, GoldenGate, DMS and three methods of OMS: the fast way of decoding equals the slow one.

Generated tables and changes are written, and what is read on the fast way, by a decoder that knows
the table, is what a decoder reads that sees it for the first time.
"""

from __future__ import annotations

import json
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.contract.roundtrip import rules_for
from tests.histories import Knobs, histories, tables
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import ROW_OPERATIONS, Message
from waybill.values.wkt import wkt_from_base64, wkt_to_base64

ENVELOPES = [
    registry.get(name)
    for name in ("maxwell", "ogg", "dms", "oms-shareplex", "oms-canal", "oms-dataworks")
]
COMPARED = {"oms-canal", "oms-dataworks"}
"""They tell types in JSON that is known byte by byte, once it was looked at closely."""
each = pytest.mark.parametrize("envelope", ENVELOPES, ids=lambda envelope: envelope.name)
quick = settings(max_examples=cases(30), suppress_health_check=list(HealthCheck), deadline=None)
WHOLE = Knobs(before="full", partial=False)


@st.composite
def written(draw, envelope):
    """Rules of a table, and messages of its rows."""
    history = draw(histories(schema=draw(tables()), knobs=WHOLE, steps=(2, 8)))
    # Zeros that a format does not show would be gone when its text is compared.
    zeros = {"trailing_zeros": True} if envelope.name.startswith("oms") else {}
    encoder = envelope.encoder(envelope.encode_settings(**zeros))
    rows = [change for change in history.changes if change.operation in ROW_OPERATIONS]
    messages = []
    for offset, change in enumerate(rows):
        (out,) = encoder.encode(change, [])
        messages.append(Message("t", 0, offset, 5, out.key, out.value))
    return rules_for(envelope, [history.schema]), messages


def decoder_of(envelope, rules):
    return envelope.decoder(envelope.decode_settings(), rules)


def facts_of(change):
    images = [
        None if image is None else msgspec.to_builtins(image)
        for image in (change.before, change.after)
    ]
    schema = change.schema
    names = (schema.qualified_name, schema.key, change.order_key, change.source_time)
    return (change.operation, *names, images, change.transaction, json.loads(change.extra))


def spaced(value: bytes) -> bytes:
    """The same JSON as another producer writes it: in ASCII, with blanks."""
    text = msgspec.json.format(value, indent=2).decode()
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text).encode()


@each
@quick
@given(data=st.data())
def test_the_fast_way_is_the_slow_way(envelope, data):
    rules, messages = data.draw(written(envelope))
    known = decoder_of(envelope, rules)
    # The fast way is made for a form that comes a second time.
    for message in [*messages, *messages]:
        known.decode(message)
        if envelope.name in COMPARED:
            known.decode(Message("t", 0, 0, 5, message.key, spaced(message.value)))
    for message in messages:
        for value in (message.value, spaced(message.value)):
            again = Message("t", 0, message.offset, 5, message.key, value)
            with patch.object(known, "_slow", side_effect=AssertionError("the slow way")):
                (fast,) = known.decode(again)
            (slow,) = decoder_of(envelope, rules).decode(again)
            assert facts_of(fast) == facts_of(slow)


@each
@quick
@given(data=st.data())
def test_a_name_that_stands_twice_is_refused(envelope, data):
    """Wherever it stands, after messages of the same table."""
    rules, messages = data.draw(written(envelope))
    assume(messages)
    decoder = decoder_of(envelope, rules)
    for message in messages:
        decoder.decode(message)
    value = data.draw(st.sampled_from(messages)).value
    places = [i + 1 for i in range(len(value)) if value[i : i + 2] == b'{"']
    at = data.draw(st.sampled_from(places))
    name, _ = json.JSONDecoder().raw_decode(value[at:].decode())
    spelt = data.draw(
        st.sampled_from([json.dumps(name), "".join(f"\\u{ord(c):04x}" for c in name).join('""')])
    )
    assume(json.loads(spelt) == name)
    inner = data.draw(st.sampled_from([b"null", b'""', b"1"]))
    doubled = value[:at] + spelt.encode() + b":" + inner + b"," + value[at:]
    # A document inside a string of the message is no object of the message.
    assume(value[:at].replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"') % 2 == 0)
    with pytest.raises(Refusal) as caught:
        decoder.decode(Message("t", 0, 9, 5, None, doubled))
    assert caught.value.kind == "json"


numbers = st.floats(allow_nan=False, allow_infinity=False).map(repr)
points = st.tuples(numbers, numbers).map(" ".join)
lines = st.lists(points, min_size=1, max_size=4).map(lambda p: f"({','.join(p)})")
areas = st.lists(lines, min_size=1, max_size=3).map(lambda p: f"({','.join(p)})")
shapes = st.one_of(
    points.map("POINT({})".format),
    lines.map("LINESTRING{}".format),
    areas.map("POLYGON{}".format),
    st.lists(points, min_size=1, max_size=3).map(
        lambda p: f"MULTIPOINT({','.join(f'({one})' for one in p)})"
    ),
    areas.map("MULTILINESTRING{}".format),
    st.lists(areas, min_size=1, max_size=2).map(lambda p: f"MULTIPOLYGON({','.join(p)})"),
)


@quick
@given(st.lists(shapes, min_size=1, max_size=3), st.none() | st.integers(0, 9999))
def test_well_known_text_and_binary_are_one(found, srid):
    head = "" if srid is None else f"SRID={srid};"
    for text in (found[0], f"GEOMETRYCOLLECTION({','.join(found)})"):
        assert wkt_from_base64(wkt_to_base64(head + text)) == head + text


def test_notations_of_other_writers_of_well_known_text():
    assert wkt_to_base64("point ( 1  2 )") == wkt_to_base64("POINT(1.0 2.0)")
    assert wkt_to_base64("MULTIPOINT (1 2, 3 4)") == wkt_to_base64(
        "MULTIPOINT((1.0 2.0),(3.0 4.0))"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "POINT", "POINT()", "POINT(1)", "POINT(1 2 3)", "POINT(1 2", "POINT(1 2))"),
        *("POINT EMPTY", "CIRCLE(1 2)", "POINT(1 x)", "POINT(1e999 0)", "POINT(0.1 NaN)"),
        *("POINT(9007199254740993 0)", "GEOMETRYCOLLECTION(" * 50, "SRID=x;POINT(1 2)"),
    ],
)
def test_what_is_no_geometry_is_refused(text):
    with pytest.raises(Refusal) as caught:
        wkt_to_base64(text)
    assert caught.value.kind == "value"


@pytest.mark.parametrize("text", ["", "AA==", "not base64", "AAAAAAE/8AAAAAAAAEAAAAAAAAAA"])
def test_binary_without_well_known_text_is_refused(text):
    with pytest.raises(Refusal) as caught:
        wkt_from_base64(text)
    assert caught.value.kind == "encoding"
