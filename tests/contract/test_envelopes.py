"""What every envelope promises by being registered.

Nothing here knows an envelope by name. What one cannot do belongs into its declaration.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Set

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.contract.effort import properties
from tests.contract.probes import COLUMNS, PROBES, ROW, change, table
from tests.contract.roundtrip import differences, named, shown, travel
from tests.histories import Knobs, histories
from waybill.envelopes import registry
from waybill.protocol import CAPABILITIES, MOVED_APART

ENVELOPES = registry.all_envelopes()
BOTH_WAYS = [envelope for envelope in ENVELOPES if envelope.decoder and envelope.encoder]
PAIRS = list(itertools.permutations(BOTH_WAYS, 2))
SHAPING = frozenset({"types", "key_columns"})
"""What is told of the tables beforehand where messages do not carry it."""
WRITTEN = {"encoding"}
"""The only reason to refuse a change that an encoder gets."""


def by_name(envelope):
    return envelope.name


def of_pair(pair):
    return f"{pair[0].name}-{pair[1].name}"


envelopes = pytest.mark.parametrize("envelope", BOTH_WAYS, ids=by_name)


@pytest.mark.parametrize("envelope", ENVELOPES, ids=by_name)
class TestDeclaration:
    def test_capabilities_are_known_and_said_once(self, envelope):
        assert envelope.carries | envelope.partly.keys() <= CAPABILITIES.keys()
        assert not envelope.carries & envelope.partly.keys()
        assert envelope.brings <= CAPABILITIES.keys() - envelope.carries - envelope.partly.keys()

    def test_it_says_what_it_is(self, envelope):
        for text in (envelope.title, envelope.source, envelope.sequence, envelope.key_by):
            assert text
            assert not text.endswith("."), "the page and `waybill envelopes` end the sentence"
        for limit in envelope.partly.values():
            assert len(limit) > 20, "say in a sentence what the limit is"

    def test_its_settings_have_defaults_and_refuse_others(self, envelope):
        for model in (envelope.decode_settings, envelope.encode_settings):
            model()
            with pytest.raises(ValueError, match="Extra inputs are not permitted"):
                model(no_such_setting=1)


def apart(envelope, trip) -> Set[str]:
    """What a change of the key gives up that came as two messages."""
    written_so = trip.change.moved_apart and not envelope.moves_apart
    return MOVED_APART.keys() if written_so else frozenset()


def count_as_declared(envelope, trip, given_up: Set[str] = frozenset()) -> None:
    """Hold what was counted against the declaration; `given_up` by settings."""
    counted = set(trip.losses)
    given_up = given_up | apart(envelope, trip)
    story = f"{named(trip.change)}: counted {sorted(trip.losses)}: {shown(trip)}"
    assert len(counted) == len(trip.losses), f"twice, {story}"
    assert not counted & envelope.carries - given_up, f"declared in full, and {story}"


def lost(envelope, trip, given_up: Set[str] = frozenset()) -> set[str]:
    """What was lost, held against what was counted and what is declared.

    A limit that Waybill's own reader gets over may be counted where others would not; the
    declaration has to say so.
    """
    real, counted = differences(trip), set(trip.losses)
    story = f"{named(trip.change)}: counted {sorted(counted)}, lost {sorted(real)}: {shown(trip)}"
    assert real <= counted, story
    assert counted - real <= envelope.partly.keys() | given_up | apart(envelope, trip), story
    count_as_declared(envelope, trip, given_up)
    return real


@functools.cache
def probed(name, capability, declared):
    """What becomes of the probes; of what is declared, `travel` asks for `SHAPING` alone."""
    envelope = structs.replace(registry.get(name), carries=declared, partly={})
    return travel(envelope, PROBES[capability]())


def hold_to_declaration(envelope, capability) -> None:
    """Declared in full: never lost. Not declared: always lost. In part: lost at least once."""
    kept, gone = 0, 0
    for trip in probed(envelope.name, capability, envelope.carries & SHAPING):
        if trip.refusal is not None:
            assert trip.refusal.kind in WRITTEN
            assert capability not in envelope.carries, f"{named(trip.change)}: {trip.refusal}"
            gone += 1
            continue
        real = lost(envelope, trip)
        gone += capability in trip.losses
        kept += capability not in real
    if capability in envelope.carries:
        assert gone == 0
    elif capability in envelope.partly:
        assert gone > 0, "nothing was lost: declare it in full"
    else:
        assert kept == 0, "something was carried: declare it, in part at least"


@envelopes
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_what_is_declared_is_so(envelope, capability):
    hold_to_declaration(envelope, capability)


@envelopes
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_declaration_that_lies_is_found(envelope, capability):
    """In both directions: too much promised, and too little."""
    full, part = envelope.carries, envelope.partly
    without = {name: limit for name, limit in part.items() if name != capability}
    if capability in full:
        lies = [
            structs.replace(envelope, carries=full - {capability}),
            structs.replace(
                envelope, carries=full - {capability}, partly={**part, capability: "some"}
            ),
        ]
    else:
        lies = [structs.replace(envelope, carries=full | {capability}, partly=without)]
    for lie in lies:
        with pytest.raises(AssertionError):
            hold_to_declaration(lie, capability)


@envelopes
def test_a_type_is_lost_with_the_messages_that_have_its_column(envelope):
    """A reader that remembers the column of an earlier message loses nothing anew."""
    schema = table({"name": "string", "id": "string"}, key=("name",), dialect="postgresql")
    row = {"name": "x", "id": None}
    changes = [
        change("insert", after=row, schema=schema),
        change("update", row, {"name": "x"}, schema=schema),
        change("update", {"name": "x"}, {"name": "x"}, schema=schema),
    ]
    for trip in travel(envelope, changes):
        assert trip.refusal is None
        lost(envelope, trip)


@envelopes
@pytest.mark.parametrize("operation", ["truncate", "ddl"])
def test_the_transaction_of_a_statement_is_written_or_counted(envelope, operation):
    text = "ALTER TABLE orders ADD note int" if operation == "ddl" else None
    for trip in travel(envelope, [change(operation, ddl_text=text, transaction="7")]):
        assert trip.refusal is None
        lost(envelope, trip)


@envelopes
@pytest.mark.parametrize("key", [("region", "id"), ()], ids=["key", "no key"])
def test_a_row_before_that_tells_no_column(envelope, key):
    """It is written so that it is read as it was, or as none."""
    for trip in travel(envelope, [change("update", {}, ROW, schema=table(COLUMNS, key))]):
        if trip.refusal is None:
            lost(envelope, trip)
        else:
            assert trip.refusal.kind in WRITTEN


@envelopes
@properties(15)
@given(data=st.data())
def test_a_history_comes_back(envelope, data):
    """Changes as sources send them: nothing changes but what is declared, and that is counted."""
    history = data.draw(histories())
    for trip in travel(envelope, history.changes):
        assert trip.refusal is None, f"{named(trip.change)}: {trip.refusal}"
        lost(envelope, trip)


@envelopes
@properties(15)
@given(data=st.data())
def test_values_over_the_edge_are_carried_or_refused(envelope, data):
    history = data.draw(histories(knobs=Knobs(hard=True), steps=(1, 4)))
    for trip in travel(envelope, history.changes):
        if trip.refusal is not None:
            assert trip.refusal.kind in WRITTEN
        elif trip.unread is not None:
            # The message holds the value, and its column's declared type does not allow it.
            assert trip.unread.kind == "value"
        else:
            lost(envelope, trip)


@envelopes
@properties(15)
@given(data=st.data())
def test_the_same_change_is_the_same_bytes(envelope, data):
    history = data.draw(histories())
    first = travel(envelope, history.changes, bare=False)
    time.sleep(0.002)
    again = travel(envelope, history.changes, bare=False)
    assert [trip.encoded for trip in again] == [trip.encoded for trip in first]
    assert [trip.losses for trip in again] == [trip.losses for trip in first]
    for trip in first:
        assert trip.encoded or trip.losses or trip.refusal, f"{named(trip.change)} vanished"
