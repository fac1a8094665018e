"""Counts of microseconds: the short way for usual texts is the exact way."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waybill.envelopes.debezium.values.times import micros_writer, timestamp_value

_TEXTS = st.one_of(
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds")),
    st.from_regex(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]{5,7}", fullmatch=True
    ),
    st.text("0123456789-:T. ²３Z", max_size=30),
)


def _exactly(text: str) -> int:
    return timestamp_value(text, 6)


@given(_TEXTS)
@example("infinity")
@example("2024-02-30T00:00:00.000000")
@example("0000-00-00T00:00:00.000000")
@example("2024-05-17T13:45:12.12345²")
@example("2024-05-17T13:45:12.12345３")
@example("2024-05-17 13:45:12.123456")
@example("9999-12-31T23:59:59.999999")
@example("-0001-01-01T00:00:00.000000")
def test_the_short_way_counts_as_the_exact_one(text: str) -> None:
    try:
        expected = _exactly(text)
    except ValueError:
        with pytest.raises(ValueError, match=r".*"):
            micros_writer(_exactly)(text)
        return
    assert micros_writer(_exactly)(text) == expected


def test_the_short_way_asks_for_no_usual_text() -> None:
    asked: list[str] = []

    def exactly(text: str) -> int:
        asked.append(text)
        return _exactly(text)

    assert micros_writer(exactly)("2024-05-17T13:45:12.123456") == 1_715_953_512_123_456
    assert micros_writer(exactly)("2024-05-17T13:45:12") == 1_715_953_512_000_000
    assert asked == ["2024-05-17T13:45:12"]
