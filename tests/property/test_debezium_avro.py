"""Debezium in Avro: the short way of reading equals the long one, whatever the data is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.probes import OTHER, PLAIN, ROW, change
from tests.contract.test_garbage import outcome, said
from tests.histories import Knobs, histories
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRules

ENVELOPE = registry.get("debezium-avro")
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


def written(folder, changes, **told):
    """Messages of changes, at the places of a topic."""
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(schemas=folder, **told))
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


def decoder_of(folder, **told):
    return ENVELOPE.decoder(ENVELOPE.decode_settings(schemas=folder, **told), TableRules())


def slowly(decoder, message):
    """What the long way alone makes of a message."""
    if message.value is None:
        return outcome(decoder, message)

    class Slow:
        def decode(self, message):
            return decoder._by_json(message, message.value)

    return outcome(Slow(), message)


@properties(60)
@given(data=st.data())
def test_the_short_way_is_the_long_way(folder, data):
    history = data.draw(histories(knobs=Knobs(hard=data.draw(st.booleans()))))
    told = data.draw(WRITING)
    reading = {"replica_identity": data.draw(st.sampled_from(["default", "full"]))}
    messages = written(folder, history.changes, **told)
    short, long = decoder_of(folder, **reading), decoder_of(folder, **reading)
    for message in (*messages, *messages):
        assert said(outcome(short, message)) == said(slowly(long, message))


@properties(150)
@given(data=st.data())
def test_damage_is_found_on_the_short_way_too(folder, data):
    history = data.draw(histories(steps=(1, 3)))
    messages = [m for m in written(folder, history.changes) if m.value is not None]
    if not messages:
        return
    short, long = decoder_of(folder), decoder_of(folder)
    for message in messages:
        outcome(short, message)
    message = data.draw(st.sampled_from(messages))
    for part in ("value", "key"):
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
