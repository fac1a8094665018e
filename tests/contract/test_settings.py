"""What every envelope promises whatever its settings of writing say.

Nothing here knows an envelope by name. What a setting gives up belongs into its declaration.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.contract.effort import properties
from tests.contract.probes import PROBES
from tests.contract.roundtrip import Trip, travel
from tests.contract.settings import choosable
from tests.contract.test_envelopes import BOTH_WAYS, WRITTEN, by_name, count_as_declared, lost
from tests.histories import Knobs, histories
from waybill.protocol import Envelope, Limit

Settings = dict[str, Any]


CHOSEN = [
    pytest.param(envelope, {name: value}, id=f"{envelope.name}-{name}-{value}")
    for envelope in BOTH_WAYS
    for name, values in choosable(envelope).items()
    for value in values
    if value != envelope.encode_settings.model_fields[name].default
]
LIMITS = [
    pytest.param(envelope, limit, id=f"{envelope.name}-{limit.under}-{limit.capability}")
    for envelope in BOTH_WAYS
    for limit in envelope.limits
]


def needs_declarations(trip: Trip) -> bool:
    """Whether messages say so little that a reader needs more than these tests tell him."""
    if trip.unread is not None and trip.unread.kind == "schema":
        return True
    return any(c.schema.table and c.schema.database is None for c in trip.read)


def hold(envelope: Envelope, settings: Settings, trip: Trip) -> None:
    """Hold what was counted against the declaration, and what was lost against the count."""
    given_up = envelope.limits_under(settings).keys()
    if needs_declarations(trip):
        count_as_declared(envelope, trip, given_up)
    else:
        lost(envelope, trip, given_up)


@pytest.mark.parametrize(("envelope", "settings"), CHOSEN)
def test_what_a_setting_gives_up_is_declared(envelope, settings):
    """Also where it refuses some changes that are written without it."""
    for capability, probe in PROBES.items():
        trips = travel(envelope, probe(), **settings)
        written = [trip for trip in trips if trip.refusal is None]
        for trip in written:
            hold(envelope, settings, trip)
        if written and len(written) < len(trips) and capability in envelope.carries:
            assert capability in envelope.limits_under(settings), trips


@pytest.mark.parametrize(("envelope", "limit"), LIMITS)
def test_a_limit_is_one(envelope, limit):
    """It is of something that is carried in full otherwise, and gives up some of it."""
    assert limit.capability in envelope.carries
    assert limit.value in choosable(envelope)[limit.setting]
    assert limit.value != envelope.encode_settings.model_fields[limit.setting].default
    settings = {limit.setting: limit.value}
    trips = [trip for probe in PROBES.values() for trip in travel(envelope, probe(), **settings)]
    assert any(limit.capability in trip.losses for trip in trips) or any(
        trip.refusal is not None and trip.refusal.kind in WRITTEN
        for trip in travel(envelope, PROBES[limit.capability](), **settings)
    )


@pytest.mark.parametrize("envelope", BOTH_WAYS, ids=by_name)
@properties(15)
@given(data=st.data())
def test_a_history_comes_back_under_any_settings(envelope, data):
    settings = {name: data.draw(st.sampled_from(v)) for name, v in choosable(envelope).items()}
    history = data.draw(histories(knobs=Knobs(hard=data.draw(st.booleans())), steps=(1, 6)))
    for trip in travel(envelope, history.changes, **settings):
        if trip.refusal is not None:
            assert trip.refusal.kind in WRITTEN
        elif trip.unread is None or trip.unread.kind != "value":
            hold(envelope, settings, trip)


@pytest.mark.parametrize("envelope", BOTH_WAYS, ids=by_name)
def test_losses_are_reported_before_with_the_settings(envelope):
    """A limit is shown to those who set it, and to no others."""
    everything = structs.replace(envelope, carries=frozenset(PROBES), partly={})
    fields = envelope.encode_settings.model_fields
    defaults = {limit.setting: fields[limit.setting].default for limit in envelope.limits}
    usual = everything.losses_to(envelope, defaults)
    for limit in envelope.limits:
        losses = everything.losses_to(envelope, {limit.setting: limit.value})
        assert limit.capability not in usual
        assert losses[limit.capability] == str(limit)
        assert limit.under in str(limit)


def test_a_limit_reads_as_a_sentence():
    limit = Limit("tombstones", False, "delete", "nobody knows")
    assert str(limit) == "with tombstones: false, nobody knows"
