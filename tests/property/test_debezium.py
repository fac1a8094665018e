"""What is written in Debezium JSON is read as the same value, for every type and notation."""

from __future__ import annotations

import base64
import re
from datetime import date, timedelta

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from waybill.envelopes import registry
from waybill.envelopes.debezium.values import times
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import INTEGER_RANGE, LogicalType, parse_type
from waybill.values.values import float32_value, to_float32

ENVELOPE = registry.get("debezium-json")
MESSAGE = Message("t", 0, 0, None, None, None)

# Values


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decimals(precision: int, scale: int):
    def text(number: int) -> str:
        figures = str(abs(number)).rjust(scale + 1, "0")
        whole = f"{figures[:-scale]}.{figures[-scale:]}" if scale else figures
        return f"-{whole}" if number < 0 else whole

    return st.integers(-(10**precision) + 1, 10**precision - 1).map(text)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
dates = st.integers(-(2**31), 2**31 - 1).map(times.date_text)
fractions = st.sampled_from(["", ".5", ".123", ".000001", ".999999"])
clocks = st.integers(0, 86_399).map(lambda s: f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}")
long_clocks = st.integers(-3_020_399, 3_020_399).map(lambda s: times.time_text(s, 0))
days = st.integers(-1_000_000, 3_000_000).map(times.date_text)
stamps = st.builds("{}T{}{}".format, days, clocks, fractions)

VALUES = {
    **{kind: st.integers(*bounds).map(str) for kind, bounds in INTEGER_RANGE.items()},
    "boolean": st.sampled_from(["true", "false"]),
    "decimal(60,0)": decimals(60, 0),
    "decimal(60,30)": decimals(60, 30),
    "decimal(5,5)": decimals(5, 5),
    "number": st.one_of(decimals(50, 7), st.integers().map(str), st.just("0." + "0" * 40 + "1")),
    "float64": st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.sampled_from(["NaN", "Infinity", "-Infinity"]),
    "float32": st.floats(width=32, allow_nan=False, allow_infinity=False).map(float32_value),
    **dict.fromkeys(("string", "enum", "set", "xml", "interval", "unknown", "json"), texts),
    "bytes": st.binary(max_size=40).map(base64_of),
    "bit(12)": st.integers(0, 4095).map(lambda n: base64_of(n.to_bytes(2, "big"))),
    "bit(64)": st.binary(min_size=8, max_size=8).map(base64_of),
    "geometry": st.builds(
        lambda order, srid, rest: base64_of(
            bytes([order]) + (b"\x01\x00\x00\x20" if order else b"\x20\x00\x00\x01") + srid + rest
        ),
        st.integers(0, 1),
        st.binary(min_size=4, max_size=4),
        st.binary(max_size=16),
    ),
    "date": dates,
    "time": st.builds("{}{}".format, long_clocks, fractions),
    "timestamp": stamps | st.sampled_from(["infinity", "-infinity"]),
    "timestamptz": st.builds("{}T{}{}Z".format, days, clocks, fractions),
}


def normal(kind: str, text):
    """A value without what a count of time cannot tell: how many zeros end its fraction."""
    if kind in ("time", "timestamp") and isinstance(text, str):
        return re.sub(r"\.?0+$", "", text) if "." in text else text
    return text


def settings_of(draw) -> dict:
    return {
        "schemas": draw(st.booleans()),
        "decimals": draw(st.sampled_from(["string", "precise"])),
        "binary": draw(st.sampled_from(["bytes", "base64", "base64-url-safe", "hex"])),
        "temporal": draw(
            st.sampled_from(["adaptive", "isostring", "microseconds", "nanoseconds", "connect"])
        ),
        "unsigned": draw(st.sampled_from([None, "number", "long", "precise"])),
    }


@st.composite
def cases(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=6))
    values = [draw(st.none() | VALUES[kind]) for kind in kinds]
    absent = draw(st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds)))
    return kinds, values, absent, settings_of(draw)


def written_and_read(change, settings):
    """The changes that reading gives of what writing gave, with the same settings on both sides."""
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(**settings))
    schema = change.schema
    types = {column.name: column.type for column in schema.columns}
    rules = TableRules() if settings["schemas"] else TableRules({"d.t": TableRule(None, types)})
    unsigned = settings["unsigned"] or "number"
    decoder = ENVELOPE.decoder(
        ENVELOPE.decode_settings(
            decimals=settings["decimals"],
            binary=settings["binary"],
            temporal=settings["temporal"],
            unsigned=unsigned,
        ),
        rules,
    )
    found = []
    for out in encoder.encode(change, []):
        found += decoder.decode(Message("t", 0, 0, 0, out.key, out.value, out.headers))
    return found


def written_or_refused(change, settings):
    try:
        return written_and_read(change, settings)
    except Refusal as refusal:
        return refusal


@given(cases())
def test_every_value_comes_back(case):
    kinds, values, absent, settings = case
    columns = [Column(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds)]
    schema = intern_schema("d", None, "t", (Column("id", LogicalType("int64")), *columns), ("id",))
    given_values = {
        f"f{i + 1}": value
        for i, (value, left_out) in enumerate(zip(values, absent, strict=True))
        if not left_out
    }
    after = schema.Image(f0="1", **given_values)
    change = Change("update", schema, MESSAGE, after=after, sequence=(10**30, 7), source_time=-1)
    found = written_or_refused(change, settings)
    if isinstance(found, Refusal):
        # What the notation cannot hold is refused, and only that.
        assert found.kind == "encoding"
        assert cannot_be_written(kinds, values, absent, settings), found.sentence
        return
    (back,) = found
    assert (back.operation, back.schema.key, back.sequence) == ("update", ("id",), (10**30, 7))
    assert back.source_time == -1
    got = msgspec.json.decode(msgspec.json.encode(back.after))
    expected = msgspec.json.decode(msgspec.json.encode(after))
    assert got.keys() == expected.keys()
    for i, kind in enumerate(kinds):
        name = f"c{i}"
        if name in expected:
            assert normal(kind, got[name]) == normal(kind, expected[name]), (kind, settings)
    if settings["schemas"]:
        assert {c.name: c.type for c in back.schema.columns} == {
            c.name: STANDS_FOR.get(c.type.kind, c.type) for c in schema.columns
        }


STANDS_FOR = {"unknown": LogicalType("string")}


def cannot_be_written(kinds, values, absent, settings) -> bool:
    for kind, value, left_out in zip(kinds, values, absent, strict=True):
        if value is None or left_out:
            continue
        if settings["temporal"] == "connect" and kind in ("time", "timestamp"):
            return True
        if settings["temporal"] == "nanoseconds" and value.endswith("infinity"):
            return True
        if kind == "uint64" and settings["schemas"] and settings["unsigned"] == "number":
            return True
    return False


@given(st.sampled_from(sorted(VALUES)), st.data(), st.booleans())
def test_a_change_of_the_key_comes_back(kind, data, schemas):
    """As the delete of one key and the update of another, whatever the key is made of."""
    assume(kind not in ("time", "timestamp", "float64", "float32", "unknown"))
    old, new = data.draw(VALUES[kind]), data.draw(VALUES[kind])
    assume(old != new)
    schema = intern_schema(
        "d", None, "t", (Column("k", parse_type(kind)), Column("v", LogicalType("string"))), ("k",)
    )
    change = Change(
        "update", schema, MESSAGE, before=schema.Image(old, "x"), after=schema.Image(new, None)
    )
    settings = {
        "schemas": schemas,
        "decimals": "precise",
        "binary": "bytes",
        "temporal": "adaptive",
        "unsigned": None,
    }
    deleted, tombstone, moved = written_and_read(change, settings)
    assert (deleted.operation, deleted.rank) == ("delete", 0)
    assert msgspec.structs.astuple(deleted.key_image()) == (old,)
    assert tombstone.reason_kind == "tombstone"
    assert (moved.operation, moved.rank) == ("update", 1)
    assert msgspec.structs.astuple(moved.key_image()) == (new,)
    assert msgspec.structs.astuple(moved.old_key_image()) == (old,)
    assert msgspec.structs.astuple(moved.after) == (new, None)


# Counts of time


@given(st.integers(-719_162, 2_932_896))
def test_dates_are_those_of_the_calendar(count):
    expected = date(1970, 1, 1) + timedelta(days=count)
    assert times.date_text(count) == expected.isoformat()


@given(st.integers(-(10**12), 10**12))
@example(-719_528)
@example(-719_529)
@example(2_932_897)
def test_a_date_of_any_year_reads_back(count):
    assert times.date_value(times.date_text(count)) == count


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([3, 6, 9]))
@example(times.POSITIVE_INFINITY, 6)
@example(times.NEGATIVE_INFINITY // 1000, 3)
def test_a_count_of_time_reads_back(count, digits):
    convert = {3: times.millis_text, 6: times.micros_text, 9: times.nanos_text}[digits]
    assert times.timestamp_value(convert(count), digits) == count
    assert times.time_value(times.time_text(count, digits), digits) == count
    assert times.duration_value(times.duration_text(count, digits), digits) == count


@given(st.integers(-(2**40), 2**40), st.integers(-(2**40), 2**40))
def test_texts_of_one_century_sort_as_their_counts(one, other):
    assume(all(0 <= count // 1000 // 86_400 // 366 <= 99 for count in (one, other)))
    texts = times.micros_text(one * 1000), times.micros_text(other * 1000)
    assert (texts[0] < texts[1]) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        *("", "0000-00-00", "2023-02-29", "1900-02-29", "2023-13-01", "2023-00-10", "2023-1-1"),
        *("2023-04-31", "infinity", "20230101", "2023-01-01 ", "٢٠٢٣-01-01"),
    ],
)
def test_what_is_no_date_has_no_count(text):
    with pytest.raises(ValueError, match=r".+"):
        times.date_value(text)


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        *(("2023-02-30T00:00:00", 6), ("2023-01-01T24:00:00", 6), ("2023-01-01T23:60:00", 6)),
        *(("2023-01-01T23:59:60", 6), ("2023-01-01", 6), ("0000-00-00 00:00:00", 3)),
        *(("2023-01-01T00:00:00.0001", 3), ("2023-01-01T00:00:00.0000001", 6)),
        *(("2023-01-01T00:00:00Z", 6), ("2023-01-01T00:00:00.5Z", 6), ("infinity", 9)),
    ],
)
def test_what_is_no_timestamp_of_the_unit_has_no_count(text, digits):
    with pytest.raises(ValueError, match=r".+"):
        times.timestamp_value(text, digits)


@pytest.mark.parametrize(
    "text",
    [
        *("10000-01-01", "+2023-01-01", "-0000-01-01", "+09999-01-01", "0044-03-15 BC"),
        *(
            "2000-02-29 12:00:00",
            "2000-02-29T12:00",
            "10000-01-01T00:00:00",
            "2000-02-29T12:00:00.",
        ),
        *("-00:00:00", "024:00:00", "12:00", "1:00:00"),
        *("PT-0S", "PT01S", "PT1.5S", "PT1.000S", "PT1M", "P1D", "PT1.0000001S"),
    ],
)
def test_a_text_that_would_come_back_as_another_has_no_count(text):
    value = (
        times.duration_value
        if text.startswith("P")
        else times.time_value
        if text.count("-") < 2
        else times.timestamp_value
    )
    with pytest.raises(ValueError, match=r".+"):
        value(text, 6)
    if text.count("-") > 1 and "T" not in text:
        with pytest.raises(ValueError, match=r".+"):
            times.date_value(text)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2023-11-14T22:13:20.5Z", "2023-11-14T22:13:20.5Z"),
        ("2023-11-14T00:13:20.500000+02:00", "2023-11-13T22:13:20.500000Z"),
        ("2023-12-31T23:30:00-01", "2024-01-01T00:30:00Z"),
        ("1890-01-01T00:00:00+00:53:28", "1889-12-31T23:06:32Z"),
        ("infinity", "infinity"),
        ("soon+1", "soon+1"),
    ],
)
def test_instants_end_in_z(text, utc):
    assert times.zoned_text(text) == utc


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_of_the_property_are_floats(value):
    assert to_float32(float(float32_value(value))) == value
