"""Notations of time: digits kept, clocks not shifted, what is no time left alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.errors import ConfigurationError
from waybill.values import temporal

FIRST = datetime(1, 1, 3, tzinfo=UTC).replace(tzinfo=None)
LAST = datetime(9999, 12, 29, tzinfo=UTC).replace(tzinfo=None)
NO_TIMES = [
    *("", "0000-00-00 00:00:00", "2023-02-30 00:00:00", "2023-01-01", "2023-01-01 24:00:00"),
    *("2023-01-01 00:00", "20230101 000000", "2023-W01-1 00:00:00", "2023-01-01 00:00:00+01:00"),
    *("2023-01-01 00:00:00,5", "2023-01-01 00:00:00.", "2023-01-01 00:00:00.1x", "x" * 25),
    *("2023-01-01 00:00:00.1234567890123", "٢٠٢٣-01-01 00:00:00", "2023-01-01 00:00:00 "),
]


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time_stays(text):
    shanghai = temporal.zone_named("Asia/Shanghai")
    utc = temporal.zone_named("UTC")
    for convert in (
        temporal.iso_from_blank,
        temporal.blank_from_iso,
        temporal.utc_from_epoch,
        temporal.epoch_from_utc,
        temporal.utc_from_zoned,
        temporal.utc_from_wall(shanghai),
        temporal.wall_from_utc(shanghai),
        temporal.utc_from_wall(utc),
        temporal.wall_from_utc(utc),
    ):
        assert convert(text) == text
        assert convert(text.replace(" ", "T") + "Z") == text.replace(" ", "T") + "Z"


@pytest.mark.parametrize("fraction", ["", ".0", ".000000", ".123456789", ".123456789012"])
def test_wall_clocks_keep_their_digits(fraction):
    blank, iso = f"2023-06-01 12:34:56{fraction}", f"2023-06-01T12:34:56{fraction}"
    assert temporal.iso_from_blank(blank) == iso
    assert temporal.iso_from_blank(iso) == iso
    assert temporal.blank_from_iso(iso) == blank


@pytest.mark.parametrize(
    ("zone", "wall", "utc"),
    [
        ("UTC", "2023-06-01 00:00:00.5", "2023-06-01T00:00:00.5Z"),
        ("Asia/Shanghai", "2023-06-01 00:00:00.10", "2023-05-31T16:00:00.10Z"),
        ("Asia/Shanghai", "1988-07-01 00:00:00", "1988-06-30T15:00:00Z"),  # daylight saving
        ("America/New_York", "2023-11-05 00:30:00", "2023-11-05T04:30:00Z"),
        ("Asia/Kolkata", "1970-01-01 05:30:00.000", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_wall_clocks_of_a_zone(zone, wall, utc):
    found = temporal.zone_named(zone)
    assert temporal.utc_from_wall(found)(wall) == utc
    assert temporal.wall_from_utc(found)(utc) == wall


def test_the_first_of_two_equal_hours():
    convert = temporal.utc_from_wall(temporal.zone_named("America/New_York"))
    assert convert("2023-11-05 01:30:00") == "2023-11-05T05:30:00Z"


@pytest.mark.parametrize(
    ("zone", "wall"),
    [
        ("Europe/Berlin", "2021-03-28 02:30:00.5"),
        ("Europe/Berlin", "2021-03-28T02:00:00"),
        ("America/New_York", "2023-03-12 02:59:59"),
        ("Pacific/Apia", "2011-12-30 12:00:00"),
    ],
)
def test_an_hour_that_was_left_out_is_no_time(zone, wall):
    """Taken for an instant, it would be shown as another hour when it is written again."""
    assert temporal.utc_from_wall(temporal.zone_named(zone))(wall) == wall


def test_the_ends_of_the_calendar_stay():
    far = temporal.zone_named("Pacific/Kiritimati")
    east = temporal.zone_named("Asia/Shanghai")
    assert temporal.utc_from_wall(east)("0001-01-01 00:00:00") == "0001-01-01 00:00:00"
    assert temporal.wall_from_utc(far)("9999-12-31T23:00:00Z") == "9999-12-31T23:00:00Z"


def test_an_unknown_zone_is_a_configuration_error():
    for name in ("Mars/Olympus", "", "../../etc/passwd", "/etc/localtime"):
        with pytest.raises(ConfigurationError):
            temporal.zone_named(name)


@pytest.mark.parametrize(
    ("epoch", "utc"),
    [
        ("1606233662.012345", "2020-11-24T16:01:02.012345Z"),
        ("0", "1970-01-01T00:00:00Z"),
        ("0.500", "1970-01-01T00:00:00.500Z"),
        ("-0.5", "1969-12-31T23:59:59.5Z"),
        ("-1", "1969-12-31T23:59:59Z"),
        ("-1.25", "1969-12-31T23:59:58.75Z"),
        ("-2.000", "1969-12-31T23:59:58.000Z"),
        ("253402300799.999999999999", "9999-12-31T23:59:59.999999999999Z"),
    ],
)
def test_seconds_since_1970(epoch, utc):
    assert temporal.utc_from_epoch(epoch) == utc
    assert temporal.epoch_from_utc(utc) == epoch


@pytest.mark.parametrize("text", ["253402300800", "-62135596801", "1e5", "+1", "1.", ".5", "1.5Z"])
def test_what_is_no_second_stays(text):
    assert temporal.utc_from_epoch(text) == text


@given(st.datetimes(FIRST, LAST, timezones=st.just(UTC)))
def test_seconds_come_back(instant):
    text = instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    assert temporal.utc_from_epoch(temporal.epoch_from_utc(text)) == text
    zone = temporal.zone_named("Asia/Kathmandu")
    wall = temporal.wall_from_utc(zone)(text)
    assert temporal.utc_from_wall(zone)(wall) == text


@pytest.mark.parametrize(
    ("zoned", "utc"),
    [
        ("2020-11-25 00:01:02.012345 Asia/Shanghai", "2020-11-24T16:01:02.012345Z"),
        ("2020-11-25 00:01:02 UTC", "2020-11-25T00:01:02Z"),
        ("2020-11-25 00:01:02 Mars/Olympus", "2020-11-25 00:01:02 Mars/Olympus"),
        ("0000-00-00 00:00:00 UTC", "0000-00-00 00:00:00 UTC"),
    ],
)
def test_datetimes_with_a_zone(zoned, utc):
    assert temporal.utc_from_zoned(zoned) == utc
