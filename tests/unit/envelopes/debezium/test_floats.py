"""Floats of Debezium: any JSON number is a text of its own or the digits that read back to it."""

from __future__ import annotations

import pytest
from msgspec import Raw

from waybill.envelopes.debezium.values.texts import float32_raw, float64_raw


@pytest.mark.parametrize("read", [float32_raw, float64_raw])
@pytest.mark.parametrize(
    "text", [f"{digits}e{sign}{'9' * 20}" for digits in ("1", "-2.5") for sign in ("", "-")]
)
def test_an_exponent_beyond_all_numbers_stays_as_it_is(read, text):
    assert read(Raw(text.encode())) == text
