"""Numbers of Avro decimals as digits, and digits as numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.unit.avro.test_programs import content_texts
from tests.unit.bulk.test_kernels import back, texts_of
from waybill.avro.columns import decimal, unscaled
from waybill.bulk.value_kinds import BAD


@properties(200)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 30), st.integers(0, 2))
def test_unscaled_digits(number, scale, more):
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1 + more
    arena, texts = content_texts([number.to_bytes(size, "big", signed=True), None, b""])
    convert = decimal(scale)
    assert convert is not None
    found = back(arena, convert(arena, texts))
    expected = f"{Decimal(number).scaleb(-scale):f}" if scale else str(number)
    if number == 0 and scale:
        expected = "0." + "0" * scale
    assert found == ["BAD" if size > 8 else expected, None, "BAD"]


@properties(300)
@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=4)
    | st.integers(-(10**20), 10**20).map(Decimal),
    st.integers(0, 6),
)
def test_digits_to_unscaled(number, scale):
    text = f"{number:f}"
    arena, texts = texts_of([text, None])
    limit = 10**12
    found = unscaled(scale, limit, -limit)(arena, texts)
    assert found.lengths[1] == -1
    if found.lengths[0] == BAD:
        return
    value = int(Decimal(text).scaleb(scale))
    assert Decimal(value).scaleb(-scale) == Decimal(text)
    assert -limit < value < limit
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    assert arena.text(found, 0) == value.to_bytes(size, "big", signed=True)


@pytest.mark.parametrize("text", ["1", "-1", "0", "0.5", "12.34", "-128", "127", "128", "32768"])
def test_plain_numbers_have_unscaled_digits(text):
    arena, texts = texts_of([text])
    assert unscaled(2, 10**10, -(10**10))(arena, texts).lengths[0] > 0


@pytest.mark.parametrize(
    "text",
    ["", "-", "-0", "-0.00", "01", "1.", ".5", "1.234", "1e2", "+1", "1 ", "1" * 19, "1.2.3"],
)
def test_others_have_none(text):
    arena, texts = texts_of([text])
    assert unscaled(2, 10**18, -(10**18))(arena, texts).lengths[0] == BAD


def test_out_of_range_has_none():
    arena, texts = texts_of(["-1", "10000", "9999", "-10000"])
    assert unscaled(0, 10000, 0)(arena, texts).lengths.tolist() == [BAD, BAD, 2, BAD]
