"""Debezium in Avro: the short ways of reading and writing equal the long ones, whatever comes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.outcomes import outcome, said
from tests.contract.probes import OTHER, PLAIN, ROW, change
from tests.contract.roundtrip import travel
from tests.histories import Knobs, histories
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRules

ENVELOPE, DEBEZIUM = registry.get("debezium-avro"), registry.get("debezium-json")
WRITING = st.fixed_dictionaries(
    {
        "decimals": st.sampled_from(["string", "precise"]),
        "unsigned": st.sampled_from([None, "number", "long", "precise"]),
        "temporal": st.sampled_from(["adaptive", "connect", "isostring", "nanoseconds"]),
        "connector": st.sampled_from([None, "mysql", "postgresql", "sqlserver"]),
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where schemas are, so that messages have nothing but their ids."""
    return str(tmp_path_factory.mktemp("schemas"))


def written(folder, changes, **settings):
    """Messages of changes, at the places of a topic."""
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(schemas=folder, **settings))
    found = []
    for one in changes:
        try:
            found += encoder.encode(one, [])
        except Refusal:
            continue
    return [
        Message("shop.t", 0, offset, 5, encoded.key, encoded.value, encoded.headers)
        for offset, encoded in enumerate(found)
    ]


def decoder_of(folder, **settings):
    return ENVELOPE.decoder(ENVELOPE.decode_settings(schemas=folder, **settings), TableRules())


def slowly(decoder, message):
    """What the long way alone makes of a message."""
    if message.value is None:
        return outcome(decoder, message)

    class Slow:
        def decode(self, message):
            return decoder.exact(message)

    return outcome(Slow(), message)


@properties(60)
@given(data=st.data())
def test_the_short_way_is_the_long_way(folder, data):
    history = data.draw(histories(knobs=Knobs(hard=data.draw(st.booleans()))))
    settings = data.draw(WRITING)
    reading = {"replica_identity": data.draw(st.sampled_from(["default", "full"]))}
    messages = written(folder, history.changes, **settings)
    short, long = decoder_of(folder, **reading), decoder_of(folder, **reading)
    for message in (*messages, *messages):
        assert said(outcome(short, message)) == said(slowly(long, message))


@properties(35)
@given(data=st.data())
def test_damage_is_found_on_the_short_way_too(folder, data):
    history = data.draw(histories(steps=(1, 3)))
    messages = [m for m in written(folder, history.changes) if m.value is not None]
    if not messages:
        return
    short, long = decoder_of(folder), decoder_of(folder)
    for message in messages:
        outcome(short, message)
    for part in ("value", "value", "value", "key"):
        message = data.draw(st.sampled_from(messages))
        whole = getattr(message, part)
        if whole is None:
            continue
        at = data.draw(st.integers(5, len(whole)))
        rest = whole[at + data.draw(st.integers(0, 4)) :]
        bad = msgspec.structs.replace(
            message, **{part: whole[:at] + data.draw(st.binary(max_size=4)) + rest}
        )
        assert said(outcome(short, bad)) == said(slowly(long, bad))
        assert said(outcome(short, message)) == said(slowly(long, message))


def test_rows_of_known_tables_take_the_short_way(folder):
    """Of several tables in one topic too."""
    made = []
    for n in range(3):
        made += [
            change("insert", after=ROW, sequence=(1, n)),
            change("update", ROW, OTHER, sequence=(2, n)),
            change("delete", OTHER, sequence=(3, n)),
        ]
    messages = [m for m in written(folder, made, tombstones=False) if m.value is not None]
    decoder = decoder_of(folder)
    decoder.decode(messages[0])
    decoder._by_json = None  # whatever comes now needs it no more
    for message, one in zip(messages[1:], made[1:], strict=True):
        (found,) = decoder.decode(message)
        assert found.operation == one.operation
        assert found.sequence == one.sequence
        for image, expected in ((found.before, one.before), (found.after, one.after)):
            texts = None if image is None else msgspec.structs.astuple(image)
            assert texts == (None if expected is None else msgspec.structs.astuple(expected))


def test_a_key_that_cannot_be_read_is_refused_on_the_short_way_too(folder):
    messages = written(folder, [change("insert", after=ROW, schema=PLAIN)] * 2)
    decoder = decoder_of(folder)
    decoder.decode(messages[0])
    bad = msgspec.structs.replace(messages[1], key=messages[1].key + b"\0")
    kind, sentence = outcome(decoder, bad)
    assert kind == "binary"
    assert "behind the Avro data" in sentence


# Writing


def translated(encoder):
    """An encoder that makes JSON of everything first."""
    encoder.events._whole = lambda *_: False
    return encoder


@properties(60)
@given(data=st.data())
def test_rows_are_written_as_their_json_is(folder, data):
    history = data.draw(histories(knobs=Knobs(hard=data.draw(st.booleans()))))
    settings = data.draw(WRITING) | {"tombstones": data.draw(st.booleans())}
    schemas = data.draw(st.sampled_from([folder, None]))
    short, long = (
        ENVELOPE.encoder(ENVELOPE.encode_settings(schemas=schemas, **settings)) for _ in range(2)
    )
    translated(long)
    changes = history.changes
    if data.draw(st.booleans()):
        # Blocks as Debezium itself writes them.
        changes = [change for trip in travel(DEBEZIUM, changes) for change in trip.read]
    for one in changes:
        found = []
        for encoder in (short, long):
            losses: list[str] = []
            try:
                found.append((encoder.encode(one, losses), losses))
            except Refusal as refusal:
                found.append(refusal.kind)
        assert found[0] == found[1]


BLOCKS = [
    b'{"debezium":{"source":{"connector":"mysql","name":"a","db":"shop","table":"t","ts_ms":5,'
    b'"file":"b.1","pos":4,"row":0,"x":%b},"op":"c","ts_ms":9,"transaction":%b}}' % pair
    for pair in (
        (b"null", b"null"),
        (b'"text"', b'{"id":"7","total_order":1,"data_collection_order":null}'),
        (b"-9223372036854775808", b"null"),
        (b"0.1", b"null"),
        (b"0.12345678901234567890", b"null"),
        (b'["a",null]', b"null"),
        (b"true", b"[]"),
        (b'{"y":{"z":-1}}', b'{"id":7}'),
        (b'"%b"' % (b"long" * 100), b"null"),
    )
]


@pytest.mark.parametrize("order", [[block] for block in BLOCKS] + [BLOCKS[:3] + BLOCKS[6:]])
def test_blocks_are_written_as_their_json_is(folder, order):
    """Alone, and one after the other: an encoder remembers the last shape."""
    short, long = (ENVELOPE.encoder(ENVELOPE.encode_settings(schemas=folder)) for _ in range(2))
    translated(long)
    for extra in (*order, *order[::-1]):
        one = change("insert", after=ROW, extra=extra)
        found = []
        for encoder in (short, long):
            try:
                found.append([(e.key, e.value) for e in encoder.encode(one, [])])
            except Refusal as refusal:
                found.append(refusal.kind)
        assert found[0] == found[1], extra


def test_a_number_beyond_64_bits_around_a_row_is_refused(folder):
    extra = BLOCKS[2].replace(b"-9223372036854775808", b"9223372036854775808")
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(schemas=folder))
    with pytest.raises(Refusal, match="64 bits") as caught:
        encoder.encode(change("insert", after=ROW, extra=extra), [])
    assert caught.value.kind == "encoding"


def test_whole_rows_take_the_short_way_of_writing(folder):
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(schemas=folder))
    encoder.events._translated = None
    for one in (
        change("insert", after=ROW),
        change("update", ROW, OTHER),
        change("read", after=ROW, full_row=True, sequence=None),
        change("delete", ROW),
    ):
        assert encoder.encode(one, [])
