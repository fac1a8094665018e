"""What readers of JSON rows do not look at twice is what a closer look would have given.

A decoder that knows the table reads a message as a decoder that sees the table for the first time:
numbers in every notation, times that share their second with others, positions of all kinds.
"""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from waybill.envelopes import registry
from waybill.envelopes.dms.values import key_alone, micros_of, order_of, time_text
from waybill.envelopes.ogg.values import Clock, op_ts_of
from waybill.errors import Refusal
from waybill.records import Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type
from waybill.values.seconds import Seconds
from waybill.values.temporal import zone_named

TYPES = {
    "id": "bigint",
    "amount": "decimal(38,10)",
    "any": "number",
    "real": "double",
    "on": "boolean",
    "note": "varchar(9)",
    "at": "timestamp",
}
RULES = TableRules(
    {"d.t": TableRule(("id",), {name: parse_type(kind) for name, kind in TYPES.items()})}
)
GOOD = {"id": 1, "amount": 1, "any": 1, "real": 1, "on": True, "note": "x", "at": "2020-01-01"}


def maxwell(data: str, old: str | None) -> str:
    update = "" if old is None else f',"old":{old}'
    kind = "insert" if old is None else "update"
    return f'{{"database":"d","table":"t","type":"{kind}","ts":1,"data":{data}{update}}}'


def ogg(data: str, old: str | None) -> str:
    before = "" if old is None else f'"before":{old},'
    kind = "I" if old is None else "U"
    return f'{{"table":"d.t","op_type":"{kind}","pos":"1",{before}"after":{data}}}'


def dms(data: str, old: str | None) -> str:
    before = "" if old is None else f'"before-image":{old},'
    kind = "insert" if old is None else "update"
    metadata = f'{{"record-type":"data","operation":"{kind}","schema-name":"d","table-name":"t"}}'
    return f'{{"data":{data},{before}"metadata":{metadata}}}'


def dms_s3(data: str, old: str | None) -> str:
    return f'{{"Op":"I",{data[1:]}'


WRITERS = {"maxwell": maxwell, "ogg": ogg, "dms": dms, "dms-s3": dms_s3}

digits = st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
)
literals = st.one_of(
    digits,
    digits.map(json.dumps),
    st.sampled_from(
        ["null", "true", "false", '"true"', "1", "0", '""', '"abc"', "{}", "[1]", '"1e3"']
    ),
    st.sampled_from(['"2020-01-01 00:00:00.5"', '"2020-01-01T00:00:00Z"', '"2020-02-30 00:00:00"']),
    st.sampled_from(
        ['"2020-01-01:00:00:00"', '"0000-00-00 00:00:00"', '"٣"', '"-٣"', "-0", "1.50"]
    ),
)
rows = st.fixed_dictionaries({}, optional={name: literals for name in TYPES if name != "id"})


def row(values: dict[str, str], identity: str = "7") -> str:
    fields = {"id": identity, **values}
    inner = ",".join(f'"{name}":{fields[name]}' for name in TYPES if name in fields)
    return f"{{{inner}}}"


def decoder_of(name: str):
    envelope = registry.get(name)
    return envelope.decoder(envelope.decode_settings(), RULES)


def outcome(decoder, value: str):
    try:
        (change,) = decoder.decode(Message("d.t", 0, 3, 5, None, value.encode()))
    except Refusal as refusal:
        return refusal.kind  # which of several bad columns is named depends on their order
    images = [
        None if image is None else msgspec.to_builtins(image)
        for image in (change.before, change.after)
    ]
    return change.operation, images, change.sequence, change.key_image()


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=cases(40), deadline=None)
@given(after=rows, before=st.none() | rows, same=st.booleans())
@example(after={"amount": "1e3", "real": "1.50"}, before={"amount": "1e3"}, same=False)
def test_every_notation_is_read_as_by_a_closer_look(name, after, before, same):
    if same and before is not None:
        before = {**after, **dict(list(before.items())[:1])}
    if name == "maxwell":
        after = {column: after.get(column, "null") for column in TYPES if column != "id"}
    write = WRITERS[name]
    value = write(row(after), None if before is None else row(before))
    known = decoder_of(name)
    known.decode(Message("d.t", 0, 1, 5, None, write(json.dumps(GOOD), None).encode()))
    assert outcome(known, value) == outcome(decoder_of(name), value)


# Times


stamps = st.one_of(
    st.datetimes().map(lambda t: t.isoformat(" ")),
    st.datetimes().map(lambda t: t.isoformat("T", "microseconds")),
    st.tuples(
        st.datetimes().map(lambda t: t.isoformat(" ", "seconds")), st.integers(0, 10**14)
    ).map(lambda pair: f"{pair[0]}.{pair[1]}"),
    st.sampled_from(
        [
            *("2021-10-31 02:30:00", "2021-10-31 02:30:00.", "2021-10-31 02:30:00.٣", "2021-10-31"),
            *("2021-10-31 02:30:00.5", "2021-10-31 02:30:00,5", "2021-10-31 02:30:00x", "", "x"),
            *("2021-10-31 02:30:00.123456789012", "2021-10-31 02:30:00.1234567890123"),
        ]
    ),
)


def tried(read, *arguments):
    try:
        return read(*arguments)
    except Refusal as refusal:
        return refusal.kind, refusal.sentence


@settings(deadline=None)
@given(st.lists(stamps, max_size=9), st.sampled_from(["UTC", "Europe/Berlin"]))
def test_a_time_of_a_known_second_is_read_as_by_a_clock_that_is_new(texts, zone):
    known = Clock(zone_named(zone))
    for text in [*texts, *texts, *(text[:19] for text in texts)]:
        assert tried(known.micros, text) == tried(Clock(zone_named(zone)).micros, text)


@settings(deadline=None)
@given(st.lists(stamps, max_size=9), st.sampled_from(["", "Z"]))
def test_times_of_dms_are_read_as_for_the_first_time(texts, zone):
    from waybill.envelopes.dms import values as notation

    for text in texts:
        first, notation._seconds = tried(micros_of, text + zone, "f"), Seconds()
        assert tried(micros_of, text + zone, "f") == first
        assert tried(micros_of, text[:19] + zone, "f") == tried(micros_of, text[:19] + zone, "f")
        assert tried(micros_of, text + zone, "f") == first


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_times_are_written_as_they_are_read(micros):
    assert micros_of(time_text(micros), "f") == micros
    assert Clock(zone_named("UTC")).micros(op_ts_of(micros)) == micros


@pytest.mark.parametrize("write", [time_text, op_ts_of])
@pytest.mark.parametrize("micros", [-62_135_596_800_000_001, 253_402_300_800_000_000, 10**30])
def test_times_out_of_the_calendar_are_refused(write, micros):
    with pytest.raises(Refusal) as caught:
        write(micros)
    assert caught.value.kind == "encoding"


# Positions and keys


PARTS = st.lists(
    st.one_of(st.integers(0, 2**70).map(str), st.sampled_from(["", "00", "٣", "-1", "A/F", "1b"]))
)


@given(PARTS)
def test_positions_are_their_numbers(parts):
    text = ".".join(parts)
    pairs = [re.fullmatch("([0-9A-F]{1,8})/([0-9A-F]{1,8})", part) for part in parts]
    numbers = [re.fullmatch("0|[1-9][0-9]*", part) is not None for part in parts]
    expected = None
    if parts and all(map(any, zip(pairs, numbers, strict=True))) and (pairs[0] or all(numbers)):
        expected = tuple(
            int(pair[1], 16) * 2**32 + int(pair[2], 16) if pair else int(part)
            for part, pair in zip(parts, pairs, strict=True)
        )
    assert order_of(text, 7, 1) == expected


@given(st.integers(0, 10**9), PARTS, st.integers(0, 2**64), st.integers(0, 9))
def test_positions_in_a_binlog_are_file_and_numbers(file, parts, transaction, record):
    text = ":".join([f"mysql-bin.{file:06d}", *parts])
    expected = None
    if parts and all(re.fullmatch("[0-9]+", part) for part in parts):
        expected = (file, *map(int, parts))
    elif parts and transaction >> 32 == file:
        expected = (file, transaction & 0xFFFFFFFF, record)
    for _ in range(2):
        assert order_of(text, transaction, record) == expected
        mine = file * 2**32 + 5
        assert order_of(text + ":-1", mine, record) == (file, 5, record)
        assert order_of(text + ":-1", mine, None) is None


@pytest.mark.parametrize(
    "text",
    [
        # Oracle and SQL Server count in hexadecimal digits, which now and then look like decimals.
        "00000000.01ab5068.00000001.0000.02.0000:88.67945.16",
        "00000000.02015068.00000001.0000.02.0000:88.67945.16",
        "00000000.02015068.00000001",
        "0000002d:00000058:0005",
        "00000031:00000058:0005",
        "somewhere else",
        "",
        None,
    ],
)
def test_positions_of_unknown_form_tell_no_order_nor_does_the_transaction(text):
    assert order_of(text, 1179649, 1) is None


VALUES = st.sampled_from(["a", None, msgspec.UNSET])


@given(st.tuples(VALUES, VALUES, VALUES, VALUES))
def test_a_delete_with_nothing_but_nulls_beside_its_key_is_the_key(values):
    columns = tuple(Column(name, parse_type("string")) for name in "abcd")
    schema = intern_schema("d", None, "t", columns, ("b",))
    image = schema.Image(*values)
    rest = {value for i, value in enumerate(values) if i != 1} - {msgspec.UNSET}
    expected = schema.Image(f1=values[1]) if rest == {None} else image
    assert key_alone(schema, image) == expected
