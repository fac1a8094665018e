"""Every type of the document's mapping table, in every serialization method of OMS, both ways.

The notations are made here a second time, from numbers and dates, and compared with what is read
and written: full rows and increments, V3.3.0 and what was before.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.histories import by_name
from waybill.envelopes import registry
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type
from waybill.values.values import base64_text

METHODS = [name for name in registry.names() if name.startswith("oms-")]
VERSIONS = ["3.3.0", "earlier"]
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock


def text_of(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def pair(*texts: str) -> tuple[str, str]:
    """The canonical text and the JSON that stands for it."""
    canonical, wire = texts
    return canonical, wire


def integers(low: int, high: int) -> st.SearchStrategy[tuple[str, str]]:
    return st.integers(low, high).map(lambda n: pair(str(n), str(n)))


def numbers(value: Decimal) -> tuple[str, str]:
    plain = f"{value:f}"
    return plain, plain


def longs(digits: str, scale: int, minus: bool) -> tuple[str, str]:
    whole, fraction = digits[:-scale] or "0", digits[-scale:]
    text = f"{'-' if minus else ''}{whole.lstrip('0') or '0'}.{fraction}"
    return text, text


def wall(moment: datetime, digits: str, version: str) -> tuple[str, str]:
    canonical = moment.isoformat() + (f".{digits}" if digits else "")
    if version == "earlier":
        return canonical, text_of(canonical)
    return canonical, text_of(canonical.replace("T", " "))


def instant(moment: datetime, digits: str, version: str) -> tuple[str, str]:
    seconds = (moment - EPOCH) // timedelta(seconds=1)
    if version == "earlier":
        return f"{moment.isoformat()}Z", str(seconds)
    if not digits:
        return f"{moment.isoformat()}Z", text_of(str(seconds))
    # A decimal number of seconds, sign and all.
    exact = Decimal(seconds) + Decimal(f"0.{digits}")
    plain = f"{exact:.{len(digits)}f}"
    return f"{moment.isoformat()}.{digits}Z", text_of(plain)


def bits(number: int, version: str) -> tuple[str, str]:
    canonical = base64_text(number.to_bytes(2, "big"))
    return canonical, str(number) if version == "earlier" else text_of(canonical)


MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)
NANOS = st.sampled_from(["", "0", "5", "012345", "123456789", "000000001"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
STRINGS = TEXTS.map(lambda text: pair(text, text_of(text)))
BYTES = st.binary(max_size=9).map(lambda data: pair(base64_text(data), text_of(base64_text(data))))


def types(version: str) -> dict[str, tuple[str, st.SearchStrategy[tuple[str, str]]]]:
    """By type of the document: how it is declared, and its values."""
    return {
        "tinyint": ("int8", integers(-128, 127)),
        "tinyint unsigned": ("uint8", integers(0, 255)),
        "smallint": ("int16", integers(-(2**15), 2**15 - 1)),
        "mediumint": ("int32", integers(-(2**23), 2**23 - 1)),
        "int": ("int32", integers(-(2**31), 2**31 - 1)),
        "bigint": ("int64", integers(-(2**63), 2**63 - 1)),
        "bigint unsigned": ("uint64", integers(0, 2**64 - 1)),
        "year": ("int16", integers(1901, 2155)),
        "bool": ("boolean", st.sampled_from([pair("true", "1"), pair("false", "0")])),
        "decimal": ("decimal(65,30)", st.decimals(-(10**34), 10**34, places=30).map(numbers)),
        "numeric": (
            "number",
            st.builds(
                longs,
                st.integers(10**479, 10**500 - 1).map(str),
                st.integers(1, 30),
                st.booleans(),
            ),
        ),
        "float": (
            "float32",
            st.floats(width=32, allow_nan=False, allow_infinity=False).map(
                lambda f: pair(shortest32(f), shortest32(f))
            ),
        ),
        "double": (
            "float64",
            st.floats(allow_nan=False, allow_infinity=False).map(lambda f: pair(repr(f), repr(f))),
        ),
        **dict.fromkeys(("char", "varchar", "text", "longtext"), ("string", STRINGS)),
        "enum": ("enum", STRINGS),
        "set": ("set", STRINGS),
        **dict.fromkeys(("tinyblob", "blob", "binary", "varbinary"), ("bytes", BYTES)),
        "bit": ("bit(12)", st.integers(0, 4095).map(lambda n: bits(n, version))),
        "date": ("date", st.dates().map(lambda d: pair(d.isoformat(), text_of(d.isoformat())))),
        "time": ("time", st.times().map(lambda t: pair(t.isoformat(), text_of(t.isoformat())))),
        "datetime": ("timestamp", st.builds(wall, MOMENTS, NANOS, st.just(version))),
        "timestamp": ("timestamptz", st.builds(instant, MOMENTS, NANOS, st.just(version))),
    }


def shortest32(value: float) -> str:
    """The fewest digits that tell a float32."""
    import struct

    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        try:
            packed = struct.pack(">f", short)
        except OverflowError:
            continue  # the largest ones, rounded up
        if packed == struct.pack(">f", value):
            return repr(short)
    raise AssertionError


TABLE = {version: types(version) for version in VERSIONS}
NAMES = list(TABLE["3.3.0"])
SCHEMA = intern_schema(
    "shop",
    None,
    "orders",
    (
        Column("id", parse_type("int64")),
        *(Column(name, parse_type(TABLE["3.3.0"][name][0])) for name in NAMES),
    ),
    ("id",),
)
RULES = TableRules(
    {"shop.orders": TableRule(("id",), {column.name: column.type for column in SCHEMA.columns})}
)


@st.composite
def rows(draw: st.DrawFn, version: str) -> tuple[Any, dict[str, str]]:
    """An image, and the JSON of its values by column."""
    values, wires = {"id": "1"}, {"id": "1"}
    for name in NAMES:
        canonical, wire = draw(st.just((None, "null")) | TABLE[version][name][1])
        values[name], wires[name] = canonical, wire
    return SCHEMA.Image(**{f"f{SCHEMA.index[n]}": v for n, v in values.items()}), wires


def change(operation: str, before: Any, after: Any) -> Change:
    full = operation == "read"
    return Change(
        operation,
        SCHEMA,
        Message("t", 0, 4, 5, None, None),
        before=before,
        after=after,
        sequence=None if full else (160934467100001,),
        full_row=full,
        source_time=None if full else 1_609_344_671_000_000,
    )


@st.composite
def changes(draw: st.DrawFn, version: str) -> tuple[Change, dict[str, str], dict[str, str]]:
    """A full row or an increment, and the JSON of its images."""
    operation = draw(st.sampled_from(["read", "insert", "update", "delete"]))
    one, one_wire = draw(rows(version))
    two, two_wire = draw(rows(version))
    if operation == "delete":
        return change(operation, one, None), one_wire, {}
    if operation == "update":
        return change(operation, one, two), one_wire, two_wire
    return change(operation, None, two), {}, two_wire


def images_of(method: str, value: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """The JSON of the values before and after, as a reader of the document finds them."""
    document = parsed(value)
    if method in ("oms-default", "oms-extended"):
        found = [document["prevStruct"], document["postStruct"]]
    elif method == "oms-canal":
        (data,), old = document["data"], (document["old"] or [{}])[0]
        found = [{**data, **old}, data]
        if document["type"] != "UPDATE":
            found = [data, {}] if document["type"] == "DELETE" else [{}, data]
    elif method == "oms-shareplex":
        found = [{}, document["data"]]
        if document["meta"]["op"] != "ins":
            found = [
                document.get("key", document["data"]),
                {**document.get("key", {}), **document["data"]},
            ]
        if document["meta"]["op"] == "del":
            found[1] = {}
    else:
        found = [
            image and image["data"] for image in map(document["payload"].get, ("before", "after"))
        ]
    one, two = ({n: w for n, w in (i or {}).items() if n != "__light_type"} for i in found)
    return one, two


class Literal(str):
    """A number or a truth value as it stood there."""


def parsed(value: bytes) -> Any:
    """JSON whose scalars stay the text that stood there."""

    def walk(raw: bytes) -> Any:
        if raw[:1] == b"{":
            return {n: walk(bytes(v)) for n, v in msgspec.json.decode(raw, type=RAWS).items()}
        if raw[:1] == b"[":
            return [walk(bytes(v)) for v in msgspec.json.decode(raw, type=list[msgspec.Raw])]
        if raw == b"null":
            return None
        if raw[:1] == b'"':
            return json.loads(raw)
        return Literal(raw.decode())

    return walk(value)


RAWS = dict[str, msgspec.Raw]


def plain(wire: str) -> Any:
    return parsed(wire.encode())


each = pytest.mark.parametrize("method", METHODS)
both = pytest.mark.parametrize("version", VERSIONS)
quick = settings(max_examples=cases(8), suppress_health_check=list(HealthCheck), deadline=None)


def coder(method: str, version: str, way: str) -> Any:
    envelope = registry.get(method)
    if way == "write":
        return envelope.encoder(envelope.encode_settings(version=version, trailing_zeros=True))
    return envelope.decoder(envelope.decode_settings(version=version, lobs="null"), RULES)


@each
@both
@quick
@given(data=st.data())
def test_values_are_written_as_the_document_says_and_read_back(method, version, data):
    made, before, after = data.draw(changes(version))
    (encoded,) = coder(method, version, "write").encode(made, [])
    for found, wires in zip(images_of(method, encoded.value), (before, after), strict=True):
        expected = {name: plain(wire) for name, wire in wires.items()}
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert (type(found[name]), found[name]) == (type(value), value), name
    decoder = coder(method, version, "read")
    for _ in range(2):  # The second time it is a table that is known.
        (read,) = decoder.decode(Message("t", 0, 4, 5, encoded.key, encoded.value))
        for mine, theirs in ((made.before, read.before), (made.after, read.after)):
            assert by_name(SCHEMA, mine) == by_name(read.schema, theirs)
    operation = made.operation
    if operation == "read" and method == "oms-canal":
        operation = "insert"
    assert read.operation == operation


SHORT = {
    "datetime": ("2020-11-25T00:01:00", '"2020-11-25T00:01"'),
    "time": ("00:01:00", '"00:01"'),
    "timestamp": ("2020-11-24T16:01:02Z", '"1606233662"'),
}


@each
def test_seconds_that_are_zero_may_be_left_out_before_3_3_0(method):
    """As are written by older projects; other values of the row are not needed."""
    values = dict.fromkeys(NAMES) | {"id": "1"}
    image = SCHEMA.Image(**{f"f{SCHEMA.index[n]}": v for n, v in values.items()})
    (encoded,) = coder(method, "earlier", "write").encode(change("insert", None, image), [])
    value = encoded.value
    for name, (_, wire) in SHORT.items():
        value = value.replace(f'"{name}":null'.encode(), f'"{name}":{wire}'.encode())
    (read,) = coder(method, "earlier", "read").decode(Message("t", 0, 4, 5, None, value))
    found = by_name(read.schema, read.after) or {}
    assert {name: found[name] for name in SHORT} == {n: text for n, (text, _) in SHORT.items()}


AT = intern_schema("shop", None, "orders", (Column("at", parse_type("timestamptz")),), ())


@quick
@given(
    seconds=st.integers(0, 253_402_300_799),
    nanos=st.integers(0, 10**9 - 1) | st.integers(0, 999).map(lambda millis: millis * 10**6),
)
def test_milliseconds_with_nanoseconds_are_exact(seconds, nanos):
    """DataWorks: both counts made here from integers; no double holds them."""
    moment = (EPOCH + timedelta(seconds=seconds)).isoformat()
    image = AT.Image(f0=f"{moment}.{nanos:09d}Z")
    envelope = registry.get("oms-dataworks")
    encoder = envelope.encoder(envelope.encode_settings(times="milliseconds", trailing_zeros=True))
    made = Change("insert", AT, Message("t", 0, 4, 5, None, None), after=image, sequence=(1,))
    (encoded,) = encoder.encode(made, [])
    number = parsed(encoded.value)["payload"]["after"]["data"]["at"]
    assert type(number) is Literal
    whole, _, rest = number.partition(".")
    assert int(whole) * 10**6 + int(rest or 0) == seconds * 10**9 + nanos
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    in_two_numbers = f"{seconds * 1000 + nanos // 10**6}.{nanos:09d}"
    for wire in (number, in_two_numbers):
        value = encoded.value.replace(f'"at":{number}'.encode(), f'"at":{wire}'.encode())
        (read,) = decoder.decode(Message("t", 0, 4, 5, None, value))
        day, _, digits = read.after.f0[:-1].partition(".")
        assert (day, digits.ljust(9, "0")) == (moment, f"{nanos:09d}")


LOBS = intern_schema(
    "shop",
    None,
    "orders",
    tuple(
        Column(name, parse_type(kind, "mysql"), kind)
        for name, kind in {"id": "bigint", "doc": "json", "data": "blob", "name": "text"}.items()
    ),
    ("id",),
    "mysql",
)


@each
@quick
@given(data=st.data())
def test_lobs_that_were_not_touched_stay_so(method, data):
    """Null in both images, and nothing else, is distinguished from a value and read as no value."""
    envelope = registry.get(method)
    touched = data.draw(st.lists(st.sampled_from(["doc", "data"]), unique=True))
    images = []
    for _ in range(2):
        lobs = {name: data.draw(st.none() | st.just("e30=")) for name in touched}
        images.append({"id": "1", "name": data.draw(st.sampled_from(["", "x"])), **lobs})
    for name in touched:
        if images[0][name] is None and images[1][name] is None:
            images[1][name] = "e30="
    before, after = (LOBS.Image(**{f"f{LOBS.index[n]}": v for n, v in i.items()}) for i in images)
    made = Change(
        "update", LOBS, Message("t", 0, 4, 5, None, None), before=before, after=after, sequence=(1,)
    )
    losses: list[str] = []
    encoder = envelope.encoder(envelope.encode_settings(lobs="unchanged"))
    (encoded,) = encoder.encode(made, losses)
    assert "unchanged_columns" not in losses
    rules = TableRules({"shop.orders": TableRule(("id",), {c.name: c.type for c in LOBS.columns})})
    decoder = envelope.decoder(envelope.decode_settings(), rules)
    for _ in range(2):
        (read,) = decoder.decode(Message("t", 0, 4, 5, None, encoded.value))
        assert by_name(read.schema, read.before) == images[0]
        assert by_name(read.schema, read.after) == images[1]
