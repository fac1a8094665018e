"""From every envelope into every other and back: unchanged, or refused, or stated and counted."""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.outcomes import good_streams
from tests.contract.probes import change, table
from tests.contract.roundtrip import named, travel
from tests.contract.test_envelopes import BOTH_WAYS, WRITTEN, lost
from tests.histories import by_name, histories
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.made_ids import lost_of

PAIRS = [
    pytest.param(*pair, id=f"{pair[0].name}-{pair[1].name}")
    for pair in itertools.permutations(BOTH_WAYS, 2)
]
ITSELF = [pytest.param(envelope, envelope, id=envelope.name) for envelope in BOTH_WAYS]


def read_by(envelope, changes) -> list[Any]:
    """Changes as a stream in this envelope would have brought them."""
    return [change for trip in travel(envelope, changes, bare=False) for change in trip.read]


def carried(source, target, changes) -> list[Any]:
    """The changes after the way through the target; every loss must have been stated before."""
    stated = set(source.losses_to(target, {}))
    found = []
    for trip in travel(target, changes):
        if trip.refusal is not None:
            assert trip.refusal.kind in WRITTEN
            continue
        lost(target, trip)
        unstated = set(trip.losses) - stated
        assert source is target or not unstated, (
            f"{named(trip.change)}: {sorted(unstated)} counted, but "
            f"losses of {source.name} to {target.name} do not state it"
        )
        found += trip.read
    return found


@pytest.mark.parametrize(("source", "target"), PAIRS + ITSELF)
@properties(4)
@given(data=st.data())
def test_there_and_back(source, target, data):
    history = data.draw(histories(steps=(1, 6)))
    came = read_by(source, history.changes)
    there = carried(source, target, came)
    carried(target, source, there)


EXACT = {
    "n": "number",
    "d": "decimal(65,30)",
    "u": "uint64",
    "f": "float64",
    "s": "string",
}
EXACT_ROWS: list[dict[str, str | None]] = [
    {"n": "1" * 30, "d": None, "u": "18446744073709551615", "f": "-0.0", "s": "1.10"},
    {"n": "1.10", "d": f"{'7' * 35}.{'3' * 25}00000", "u": "0", "f": "1e+16", "s": "-0.0"},
    {
        "n": f"1{'0' * 400}",
        "d": f"-0.{'0' * 29}1",
        "u": "9007199254740993",
        "f": "0.1",
        "s": "1e400",
    },
    {"n": f"-{'9' * 60}.{'1' * 10}", "d": f"1.10{'0' * 28}", "u": "1", "f": "5e-324", "s": "007"},
    {"n": "-0.0", "d": f"0.{'0' * 30}", "u": None, "f": None, "s": ""},
    {"n": "0", "d": None, "u": None, "f": "1e400", "s": None},
    {"n": "0", "d": None, "u": None, "f": "9007199254740993", "s": None},
]


@pytest.mark.parametrize(("source", "target"), PAIRS + ITSELF)
def test_numbers_stay_exact(source, target):
    schema = table({"id": "int64", **EXACT}, dialect="")
    rows = [{"id": str(i), **values} for i, values in enumerate(EXACT_ROWS)]
    made = [
        [change("insert", after=row, schema=schema), change("delete", row, schema=schema)]
        for row in rows
    ]
    cut = False
    for envelope in (source, target, source):
        trips = travel(envelope, [one for changes in made for one in changes], bare=False)
        # A delete may tell its key only; what it tells has to be exact.
        cut = cut or any("before_image" in trip.losses for trip in trips)
        kept, made_again = [], []
        for row, pair in zip(rows, zip(trips[::2], trips[1::2], strict=True), strict=True):
            counted = any("exact_numbers" in trip.losses for trip in pair)
            if counted or any(trip.refusal or trip.unread for trip in pair):
                continue
            found = [change for trip in pair for change in trip.read]
            kept.append(row)
            made_again.append(found)
            for one, image in zip(found, (found[0].after, found[1].before), strict=True):
                back = by_name(one.schema, image)
                assert back is not None
                if back.get("f") is not None and row["f"] not in ("1e400", "9007199254740993"):
                    back["f"] = repr(float(back["f"]))
                names = back.keys() if cut else row.keys()
                different = {n: (row[n], back.get(n)) for n in names if back.get(n) != row[n]}
                assert not different, f"after {envelope.name}"
        rows, made = kept, made_again


@lru_cache
def good_changes(source: str) -> list[tuple[Any, list[Any]]]:
    """What the golden messages of an envelope say, with the settings for reading them."""
    streams = []
    for messages, rules, settings in good_streams(source):
        decoder = registry.get(source).decoder(settings, rules)  # type: ignore[misc]
        found = []
        for message in messages:
            with suppress(Refusal):
                found += [c for c in decoder.decode(message) if c.outcome == "ok"]
        streams.append((settings, [c for c in found if c.half is None]))
    return streams


@pytest.mark.parametrize(("source", "target"), PAIRS + ITSELF)
def test_what_golden_messages_lose_is_stated_before(source, target):
    """Also where this project writes no such messages itself, and only reads them."""
    for settings, changes in good_changes(source.name):
        stated = source.losses_to(target, {}, dict(settings))
        encoder = target.encoder(target.encode_settings().for_source(source, settings))
        for one in changes:
            losses: list[str] = []
            with suppress(Refusal):
                encoder.encode(one, losses)
            losses = lost_of(losses)
            assert source is target or set(losses) <= stated.keys(), f"{one}: {losses}"
