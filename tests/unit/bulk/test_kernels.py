"""What is compiled, held against what Python says of the same values."""

from __future__ import annotations

import gc
import json
import weakref
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.contract.effort import properties
from waybill.bulk import kernels
from waybill.bulk.arena import Arena, Texts
from waybill.bulk.block import JSON, Scanned, paths_of
from waybill.bulk.column_codecs import (
    BLANK,
    T,
    by_call,
    numbers,
    or_else,
    units_to_wall_clock,
    wall_clock,
    wall_clock_to_units,
    without_zeros,
    written,
)
from waybill.bulk.value_kinds import BAD, ESCAPED
from waybill.order import order_key, read_order_key
from waybill.values import temporal
from waybill.values.temporal import iso_from_blank

INT64 = st.integers(-(2**63), 2**63 - 1)


def texts_of(values: list[str | None]) -> tuple[Arena, Texts]:
    arena = Arena(b"")
    places = [(0, -1) if v is None else (arena.add(v.encode()), len(v.encode())) for v in values]
    starts, lengths = np.array(places, np.int64).reshape(-1, 2).T.copy()
    return arena, Texts(starts, lengths)


def back(arena: Arena, texts: Texts) -> list[str | None]:
    return [
        "BAD"
        if texts.lengths[row] == BAD
        else None
        if (v := arena.text(texts, row)) is None
        else v.decode()
        for row in range(len(texts.starts))
    ]


def block_of(*values: bytes) -> Scanned:
    ends = np.cumsum([len(value) for value in values])
    texts = Scanned(b"".join(values), ends - [len(value) for value in values], ends)
    return texts.scan_by(JSON)


# Messages

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | INT64
    | st.text(max_size=6)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@properties(150)
@given(ANY_JSON, st.booleans())
def test_values_stand_where_json_has_them(data, ascii_only):
    value = json.dumps(data, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False)
    try:
        text = value.encode()
    except UnicodeEncodeError:
        return
    block = block_of(text)
    count = int(block.counts[0])
    if count < 0:
        # Rarer notations: escapes of other signs, escapes in names.
        assert "\\" in value
        return
    paths = paths_of(text)
    assert len(paths) == count
    for slot, path in enumerate(paths):
        found = data
        for step in path:
            found = found[step]
        start, stop = int(block.starts[0, slot]), int(block.stops[0, slot])
        quote = 1 if block.kinds[0, slot] <= ESCAPED else 0
        assert json.loads(text[start - quote : stop + quote]) == found


@properties(300)
@given(st.binary(max_size=20) | st.text('{}[]":,\\ntrue0.-5e"', max_size=20).map(str.encode))
@example(b'{"a":1}}')
@example(b'{"a":1,}')
@example(b"[1,]")
@example(b"-")
@example(b"01")
@example(b"1.")
@example(b"1e")
@example(b"1e+")
@example(b"-1.5E-7")
@example(b"1e5.5")
@example(b'{"a":1"b":2}')
@example(b'"\x01"')
@example(b'"a\\')
@example(b"nul")
@example(b"[}")
@example(b"")
def test_what_is_no_json_is_not_taken(text):
    if block_of(text).counts[0] >= 0:
        json.loads(text)


@properties(50)
@given(st.lists(st.binary(min_size=1, max_size=30), min_size=2, max_size=5))
def test_a_message_ends_where_it_ends(values):
    """Whatever stands behind a message is not looked at."""
    alone = [int(block_of(value).counts[0]) for value in values]
    assert block_of(*values).counts.tolist() == alone


# Numbers and times


@properties(100)
@given(st.lists(INT64, min_size=1))
@example([-(2**63), 2**63 - 1, 0, -1, 10**18, -(10**18)])
def test_digits(values):
    arena = Arena(b"")
    assert back(arena, written(arena, np.array(values, np.int64))) == [str(v) for v in values]


@properties(100)
@given(st.lists(st.none() | st.from_regex(r"-?[0-9]{1,21}|[+ ]?[0-9]{1,3}[ .]?", fullmatch=True)))
@example(["-0", "00", "", "-", "9223372036854775807", "9223372036854775808", "१"])
def test_integers(values):
    arena, texts = texts_of(values)
    found, _, lengths = numbers(arena, texts)
    for value, number, length in zip(values, found.tolist(), lengths.tolist(), strict=True):
        if value is None:
            assert length == -1
        elif length >= 0:
            assert str(number) == value
        else:
            assert length == BAD
            # Whatever fits 64 bits in plain digits is taken, but for the smallest integer.
            plain = value.isascii() and value.lstrip("-").isdigit() and str(int(value)) == value
            assert not plain or abs(int(value)) > 2**63 - 1


MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


@properties(150)
@given(st.lists(MOMENTS, min_size=1))
def test_moments_and_their_counts(moments):
    counts = [(moment - EPOCH) // timedelta(microseconds=1) for moment in moments]
    texts = [moment.isoformat(timespec="microseconds") for moment in moments]
    arena, digits = texts_of([str(count) for count in counts])
    assert back(arena, units_to_wall_clock(6)(arena, digits)) == texts
    arena, clocks = texts_of(texts)
    assert back(arena, wall_clock_to_units(6)(arena, clocks)) == [str(c) for c in counts]


@pytest.mark.parametrize("count", [-62_135_596_801, 253_402_300_800])
def test_years_of_more_digits_are_left_to_others(count):
    arena, texts = texts_of([str(count)])
    assert back(arena, units_to_wall_clock(0)(arena, texts)) == ["BAD"]


CLOCKS = st.from_regex(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,13})?", fullmatch=True
)
DAMAGED = st.builds(
    lambda moment, at, sign: f"{moment[:at]}{sign}{moment[at + 1 :]}",
    MOMENTS.map(str),
    st.integers(0, 25),
    st.sampled_from("-/:. 0T9z"),
)
"""A clock with one sign instead of another."""


@properties(200)
@given(st.lists(MOMENTS.map(str) | CLOCKS | DAMAGED | st.text(max_size=30), min_size=1))
@example(
    ["2023-02-29 00:00:00", "2024-02-29 00:00:00", "1900-02-29 00:00:00", "2024-01-01 24:00:00"]
)
@example(
    ["2024-01-01 00:00:00.", "2024-01-01 00:00:60", "0000-01-01 00:00:00", "2024-13-01 00:00:00"]
)
def test_wall_clocks_are_those_of_python(values):
    arena, texts = texts_of(values)
    for value, found in zip(values, back(arena, wall_clock(BLANK, T)(arena, texts)), strict=True):
        # What is not taken is left to `iso_from_blank` itself.
        assert found in ("BAD", iso_from_blank(value))
        assert found != "BAD" or value == iso_from_blank(value) or not value.isascii()


CLOCK = st.from_regex(r"-?[0-9]{1,3}:[0-9]{2}:[0-6][0-9](\.[0-9]{0,10}0{0,3})?", fullmatch=True)


@properties(200)
@given(st.lists(CLOCK | st.from_regex(r"[0-9]{0,2}\.?[05Z:]{0,3}", fullmatch=True), min_size=1))
@example(["00:01:02.500000", "00:01:02.000", "10:00:00", "00:61:02.50", "0", ".0", "00:00:00."])
def test_zeros_at_the_end_of_fractions_go_as_python_takes_them_away(values):
    for opening, kind in (("", "time"), ("2020-11-25T", "timestamp")):
        shorten = temporal.without_zeros(kind)
        usual = ["10:20:30.500", "10:20:30.000000000", "10:20:30", "10:20:30.05"]
        given_texts = [opening + value for value in values + usual]
        arena, texts = texts_of(given_texts)
        found = back(arena, without_zeros(arena, texts, len(opening)))
        for text, short in zip(given_texts, found, strict=True):
            # What is not taken is left to that function itself.
            allowed = kind == "timestamp" and not temporal.is_wall_clock(text)
            assert allowed or short in ("BAD", shorten(text))
        shown = ["10:20:30.5", "10:20:30", "10:20:30", "10:20:30.05"]
        assert found[len(values) :] == [opening + clock for clock in shown]


# Order keys

PARTS = st.lists(st.integers(0, 2**63 - 1), max_size=4)


@properties(100)
@given(
    PARTS, st.booleans(), st.integers(0, 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
)
def test_order_keys(parts, full, rank, partition, offset):
    wanted = order_key(tuple(parts) or None, rank, partition, offset, 0, full)
    rows = np.array(parts, np.int64).reshape(len(parts), 1)
    places = np.array([partition]), np.array([offset])
    out, bounds = kernels.order_keys(rows, ord("0" if full else "1"), rank if parts else 1, *places)
    assert out.tobytes().decode() == wanted
    assert bounds.tolist() == [0, len(wanted)]
    found = np.zeros((4, 1), np.int64)
    counts, ranks, flags = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.bool_)
    kernels.read_order_keys(out, bounds[:1], bounds[1:], found, counts, ranks, flags)
    sequence, read_rank, read_full = read_order_key(wanted)
    assert tuple(found[: counts[0], 0].tolist()) == (sequence or ())
    assert (int(ranks[0]), bool(flags[0])) == (read_rank, read_full)


@pytest.mark.parametrize("sequence", [(-1,), (2**63,), (10**30, 1), (1, 2, 3, 4, 5)])
def test_rarer_order_keys_are_left_to_others(sequence):
    data = np.frombuffer(order_key(sequence, 1, 0, 7, 0).encode(), np.uint8)
    counts, ranks, flags = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.bool_)
    bounds = np.array([0]), np.array([len(data)])
    kernels.read_order_keys(data, *bounds, np.zeros((4, 1), np.int64), counts, ranks, flags)
    assert counts[0] == -1


def test_converters_of_the_same_are_one_and_hold_nothing_once_they_are_not_used():
    class Decoder:
        def read(self, text: str) -> str:
            return text

    decoder = Decoder()
    read = decoder.read
    made = or_else(wall_clock(BLANK, T), by_call(read))
    assert made is or_else(wall_clock(BLANK, T), by_call(read))
    assert made is not or_else(wall_clock(T, BLANK), by_call(read))
    held = weakref.ref(decoder)
    del made, read, decoder
    gc.collect()
    assert held() is None
