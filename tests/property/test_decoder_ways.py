"""Canal and OMS Default: the fast way of decoding equals the slow one, and nothing is changed.

Both decoders have a way for messages of a known table and one for everything else. Generated
tables, rows and ways to write JSON go through both.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type
from waybill.values.values import base64_text

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'), min_size=1, max_size=8
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DIGITS = (
    st.decimals(allow_nan=False, allow_infinity=False)
    .map(lambda d: f"{d:f}")
    .filter(lambda t: len(t) < 200)
)
CLOCKS = st.datetimes().map(lambda d: d.isoformat(timespec="microseconds"))
VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1).map(str),
    "uint64": st.integers(0, 2**64 - 1).map(str),
    "number": DIGITS,
    "decimal(38,10)": st.decimals(-(10**28) + 1, 10**28 - 1, places=10).map(lambda d: f"{d:f}"),
    "float64": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "string": TEXTS,
    "json": TEXTS,
    "boolean": st.sampled_from(["true", "false"]),
    "bytes": st.binary(max_size=9).map(base64_text),
    "bit(12)": st.integers(0, 4095).map(lambda n: base64_text(n.to_bytes(2, "big"))),
    "date": st.dates().map(lambda d: d.isoformat()),
    "time": st.times().map(lambda t: t.isoformat(timespec="milliseconds")),
    "timestamp": CLOCKS | st.just("0000-00-00 00:00:00"),
    "timestamptz": CLOCKS.map(lambda t: f"{t}Z") | st.just("0000-00-00 00:00:00"),
}
ENVELOPES = ["canal", "oms-default", "oms-extended"]
SETTINGS = {"canal": {}, "oms-default": {"lobs": "null"}, "oms-extended": {"lobs": "null"}}
"""What writing means by null in both images of an update, is a setting of reading."""


@st.composite
def tables(draw):
    """A table with the types of its columns and a few changes of its rows."""
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    kinds = [draw(st.sampled_from(sorted(VALUES))) for _ in names]
    key = tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
    schema = intern_schema(
        draw(NAMES),
        None,
        draw(NAMES),
        tuple(Column(name, parse_type(kind)) for name, kind in zip(names, kinds, strict=True)),
        key,
    )
    rows = st.tuples(
        *[
            VALUES[kind] if name in key else st.none() | VALUES[kind]
            for name, kind in zip(names, kinds, strict=True)
        ]
    ).map(lambda row: schema.Image(*row))
    changes = []
    for offset in range(draw(st.integers(1, 4))):
        operation = draw(st.sampled_from(["insert", "update", "delete"]))
        changes.append(
            Change(
                operation,
                schema,
                Message("t", 0, offset, 5, None, None),
                before=None if operation == "insert" else draw(rows),
                after=None if operation == "delete" else draw(rows),
                sequence=(offset,),
                source_time=draw(st.integers(0, 2**31)) * 1_000_000,
            )
        )
    return schema, changes


def decoder_of(envelope, schema):
    declaration = registry.get(envelope)
    types = {column.name: column.type for column in schema.columns}
    rules = TableRules({schema.qualified_name: TableRule(schema.key, types)})
    return declaration.decoder(declaration.decode_settings(**SETTINGS[envelope]), rules)


def written(envelope, changes):
    declaration = registry.get(envelope)
    # Zeros that a format does not show would be gone when its text is compared.
    zeros = {"trailing_zeros": True} if envelope.startswith("oms") else {}
    encoder = declaration.encoder(declaration.encode_settings(**zeros))
    return [encoder.encode(change, [])[0].value for change in changes]


def facts_of(change):
    images = [
        None if image is None else msgspec.to_builtins(image)
        for image in (change.before, change.after)
    ]
    return (change.operation, change.schema, images, change.source_time, change.extra)


def spaced(value: bytes) -> bytes:
    """The same JSON as another producer writes it: over many lines, in ASCII."""
    text = msgspec.json.format(value, indent=2).decode()
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text).encode()


@pytest.mark.parametrize("envelope", ENVELOPES)
@settings(max_examples=cases(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(tables())
def test_what_is_written_reads_back(envelope, table):
    schema, changes = table
    assume("*" not in schema.qualified_name and "." not in schema.database)
    decoder = decoder_of(envelope, schema)
    for change, value in zip(changes, written(envelope, changes), strict=True):
        for text in (value, spaced(value)):
            (again,) = decoder.decode(Message("t", 0, 9, 5, None, text))
            assert facts_of(again)[2] == facts_of(change)[2]
            assert again.operation == change.operation
            assert again.source_time == change.source_time
            assert again.schema.key == schema.key
            assert [c.type for c in again.schema.columns] == [c.type for c in schema.columns]


@pytest.mark.parametrize("envelope", ENVELOPES)
@settings(max_examples=cases(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(tables())
def test_the_fast_way_is_the_slow_way(envelope, table):
    schema, changes = table
    values = written(envelope, changes)
    fast, slow = decoder_of(envelope, schema), decoder_of(envelope, schema)
    for value in values:
        for text in (value, value, spaced(value)):
            message = Message("t", 0, 9, 5, None, text)
            (one,), (other,) = fast.decode(message), slow._slow(message, text)
            assert facts_of(one) == facts_of(other)
            # By now the table is known, so this was the fast way, however the JSON is written.
            assert fast._last.read(message, text) is not None


@pytest.mark.parametrize("envelope", ENVELOPES)
@settings(max_examples=cases(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(tables(), st.data())
def test_damaged_messages_are_refused_or_read_the_same_both_ways(envelope, table, data):
    schema, changes = table
    values = written(envelope, changes)
    fast, slow = decoder_of(envelope, schema), decoder_of(envelope, schema)
    for value in values:
        fast.decode(Message("t", 0, 9, 5, None, value))
    value = data.draw(st.sampled_from(values))
    at = data.draw(st.integers(0, len(value)))
    end = data.draw(st.integers(at, min(len(value), at + 9)))
    piece = data.draw(
        st.binary(max_size=3) | st.sampled_from([b'"', b",", b"null", b"1", value[:at]])
    )
    damaged = value[:at] + piece + value[end:]
    message = Message("t", 0, 9, 5, None, damaged)

    def outcome(decode):
        try:
            return [(c.outcome, c.reason_kind, facts_of(c)) for c in decode()]
        except Refusal as refusal:
            return refusal.kind

    one = outcome(lambda: fast.decode(message))
    if envelope != "canal":
        # What was seen before decides the type of a column that is null or new here.
        for seen in values:
            slow._slow(message, seen)
    assert one == outcome(lambda: slow._slow(message, damaged))


@pytest.mark.parametrize("envelope", ENVELOPES)
@given(tables(), st.data())
@settings(max_examples=cases(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_name_that_stands_twice_is_refused(envelope, table, data):
    """Wherever it stands, however it is spelt, after messages of the same table."""
    schema, changes = table
    values = written(envelope, changes)
    decoder = decoder_of(envelope, schema)
    for value in values:
        decoder.decode(Message("t", 0, 9, 5, None, value))
    value = data.draw(st.sampled_from(values))
    places = [i for i in range(len(value)) if value[i : i + 2] == b'{"']
    at = data.draw(st.sampled_from(places)) + 1
    name, _ = json.JSONDecoder().raw_decode(value[at:].decode())
    spelt = data.draw(
        st.sampled_from(
            [
                json.dumps(name),
                "".join(['"', *(f"\\u{ord(c):04x}" for c in name if ord(c) < 65536), '"']),
            ]
        )
    )
    assume(json.loads(spelt) == name)
    inner = data.draw(st.sampled_from([b"null", b'""', b"1"]))
    blank = data.draw(st.sampled_from([b"", b" ", b"\n"]))
    doubled = value[:at] + spelt.encode() + blank + b":" + inner + b"," + value[at:]
    with pytest.raises(Refusal) as caught:
        decoder.decode(Message("t", 0, 9, 5, None, doubled))
    assert caught.value.kind == "json"
