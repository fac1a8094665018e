"""Hostile input: nothing but a Refusal, and no trace of it in what is read afterwards."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.outcomes import good_messages, outcome, reason, said
from tests.contract.test_envelopes import BOTH_WAYS, by_name
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

CASES = 550
"""Of each property and envelope: a minute in all."""

envelopes = pytest.mark.parametrize("envelope", BOTH_WAYS, ids=by_name)


def written(changes) -> None:
    """Whatever was accepted can be written in every envelope, or is refused."""
    if not isinstance(changes, list):
        return
    accepted = [change for change in changes if change.outcome == "ok" and change.half is None]
    for envelope in BOTH_WAYS if accepted else ():
        encoder = envelope.encoder(envelope.encode_settings())
        for change in accepted:
            losses: list[str] = []
            try:
                assert encoder.encode(change, losses) or losses
            except Refusal as refusal:
                reason(refusal)


@envelopes
@properties(CASES)
@given(value=st.one_of(st.binary(), st.text().map(str.encode)), key=st.none() | st.binary())
def test_any_bytes(envelope, value, key):
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    outcome(decoder, Message("topic", 0, 0, None, key, value))


ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 10**30, "", "x", "-1", "１", "\ud800", "NaN", [], {}, [None]),
    *({"": None}, [[]], {"dataColumn": 1}, "\u0000", "a" * 5000, 1e308, -0.0),
]


def paths_in(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at]
    inner: Any = ()
    if isinstance(data, dict):
        inner = data.items()
    elif isinstance(data, list):
        inner = enumerate(data)
    for name, value in inner:
        found += paths_in(value, (*at, name))
    return found


# A strategy is looked through before its first value is drawn, which takes longer than the value.
EITHER, UP_TO_FIVE, FEW_BYTES = st.booleans(), st.integers(0, 5), st.binary(max_size=5)
ANY_ODD = st.sampled_from(ODD)
HOW = st.sampled_from(["replace", "remove", "add"])
ANY_NAME = st.sampled_from(["op", "id", "extra", "payload", 'a"b'])


@cache
def good(name: str) -> st.SearchStrategy[Any]:
    """A good message of an envelope, with the settings of its reader."""
    return st.sampled_from(good_messages(name))


@st.composite
def broken(draw: st.DrawFn, value: bytes) -> bytes:
    """A message that somebody damaged: some bytes, or one member of its JSON."""
    try:
        data = json.loads(value)
        paths = paths_in(data)
    except (ValueError, RecursionError):
        data = None
    if data is None or draw(EITHER):
        at = draw(st.integers(0, len(value)))
        removed = draw(UP_TO_FIVE)
        return value[:at] + draw(FEW_BYTES) + value[at + removed :]
    path = draw(st.sampled_from(paths))
    odd = draw(ANY_ODD)
    if not path:
        return json.dumps(odd).encode()
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    how = draw(HOW)
    if how == "remove":
        del inner[path[-1]]
    elif how == "add" and isinstance(inner, dict):
        inner[draw(ANY_NAME)] = odd
    else:
        inner[path[-1]] = odd
    compact = draw(EITHER)
    return json.dumps(data, separators=(",", ":") if compact else None).encode()


@envelopes
@properties(CASES)
@given(data=st.data())
def test_damaged_messages(envelope, data):
    """One decoder reads a good message, a damaged one, and the good one again as before."""
    message, rules, settings = data.draw(good(envelope.name))
    if message.value is None:
        return
    decoder = envelope.decoder(settings, rules)
    bad = Message("topic", 0, 1, None, message.key, data.draw(broken(message.value)))
    bad.headers = message.headers
    damaged(decoder, message, bad)


def damaged(decoder, message, bad) -> None:
    first = outcome(decoder, message)
    written(outcome(decoder, bad))
    again = outcome(decoder, message)
    if isinstance(first, tuple):
        # What is known of a table may bring up another of its faults first.
        assert isinstance(again, tuple)
    else:
        assert said(again) == said(first)


DEBEZIUM = (
    b'{"before":null,"after":{"id":1,"at":%b},"source":{"version":"2.7.4.Final","connector":'
    b'"mysql","name":"dbz","ts_ms":1700000000000,"snapshot":"false","db":"shop","sequence":null,'
    b'"table":"t","file":"mysql-bin.000003","pos":154,"row":0},"transaction":%b,"op":"c","ts_ms":5%b}'
)
MAXWELL = b'{"database":"shop","table":"t","type":"update","data":{%b"n":7},"old":{"a":{}}}'
OGG = b'{"table":"OGG.T","op_type":"I","primary_keys":["id"],"after":{"id":1,"at":"%b"}}'
GOOD = DEBEZIUM % (b"1", b"null", b"")
TRUNCATE = GOOD.replace(b'{"id":1,"at":1}', b"null").replace(b'"c"', b'"t"')
UNCHANGED = GOOD.replace(b'{"id":1,"at":1}', b'{"a":"__debezium_unavailable_value"}').replace(
    b'"c"', b'"u"'
)
FOUND = {
    # A name that no struct can have, carried on to a message with a schema.
    "name": ("debezium-json", GOOD, TRUNCATE[:-1] + b',"a\\"b":""}'),
    # A block of another type than its schema has.
    "block": ("debezium-json", GOOD, DEBEZIUM % (b"1", b"[]", b"")),
    # An update of a table without key that tells no column at all.
    "unchanged": ("debezium-json", GOOD, UNCHANGED),
    # A fraction among counts of time: the counts after it were taken for texts.
    "count": ("debezium-json", GOOD, DEBEZIUM % (b"-0.0", b"null", b"")),
    # A document where texts are: the texts after it were taken for documents.
    "document": ("maxwell", MAXWELL % b'"a":"text",', MAXWELL % b""),
    # A text that is nearly a time with its offset.
    "time": ("ogg", OGG % b"2020-01-01 08:00:00.5 +08:00", OGG % b"2020-01N#01 08:00:00.5 +08:00"),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_was_found_once(case):
    name, good, bad = FOUND[case]
    envelope = registry.get(name)
    rules = TableRules(
        {"*": TableRule(None, {"at": parse_type(f"timestamp{'tz' * (name == 'ogg')}")})}
    )
    decoder = envelope.decoder(envelope.decode_settings(), rules)
    messages = [Message("topic", 0, n, 5, None, value) for n, value in enumerate((good, bad))]
    damaged(decoder, *messages)


@envelopes
def test_the_second_time_is_as_the_first(envelope):
    """Decoders remember what schemas decide; that must not show."""
    for message, rules, settings in good_messages(envelope.name):
        fresh = [outcome(envelope.decoder(settings, rules), message) for _ in range(2)]
        decoder = envelope.decoder(settings, rules)
        known = [outcome(decoder, message) for _ in range(3)]
        assert all(found == fresh[0] for found in (*fresh, *known)), message.value


@envelopes
def test_a_table_whose_key_is_not_among_its_columns(envelope):
    """Messages can declare such tables; no encoder trips over one."""
    columns = (Column("v", parse_type("string")),)
    schema = intern_schema("shop", None, "t", columns, ("id",))
    message = Message("topic", 0, 0, 1700000000000, None, b"{}")
    for operation, before, after in (("insert", None, "x"), ("delete", "x", None)):
        images = {"before": before and schema.Image(before), "after": after and schema.Image(after)}
        change = Change(operation, schema, message, sequence=(7,), **images)
        with pytest.raises(Refusal):
            envelope.encoder(envelope.encode_settings()).encode(change, [])
