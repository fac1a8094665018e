"""Notations of values: nothing is rounded, and what cannot be determined is refused."""

from __future__ import annotations

import re
import struct
from decimal import Context, Decimal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waybill.errors import Refusal
from waybill.values import values


def refusal_of(call, *arguments):
    with pytest.raises(Refusal) as caught:
        call(*arguments)
    return caught.value.kind


# Exact numbers


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1.10", "1.10"),
        ("-0.0", "-0.0"),
        ("-0", "-0"),
        ("007", "7"),
        ("+1.50", "1.50"),
        ("1.", "1"),
        (".5", "0.5"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        ("0e-5", "0.00000"),
        ("0E400", "0"),
        ("1e400", "1" + "0" * 400),
        ("9" * 60 + ".1", "9" * 60 + ".1"),
        ("9" * 5000, "9" * 5000),
        ("1e19999", "1" + "0" * 19999),
    ],
)
def test_a_number_becomes_plain_digits(text, plain):
    assert values.number_text(text) == plain


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "1_0", " 1", "1 ", "1\n", "٣", "1e", "e5", "-", ".", "1.2.3", "0x10", "½"),
        *("NaN", "Infinity", "-inf", "1e20001", "1e-30000", "1e999999999999"),
        *("1e99999999999999999999", "1e-99999999999999999999"),
    ],
)
def test_what_is_no_number_is_refused(text):
    assert refusal_of(values.number_text, text) == "value"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
@example(Decimal("1E+300"))
@example(Decimal("-0E+3"))
def test_plain_text_is_exact(number):
    if abs(number.adjusted()) > values.MAX_DIGITS or number == 0:
        return
    text = values.plain_text(number)
    assert values.is_plain_number(text)
    assert Decimal(text) == number
    exponent = number.as_tuple().exponent
    assert -Decimal(text).as_tuple().exponent == max(0, -exponent)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "sNaN", "1E+20001", "1E-20001"])
def test_what_has_no_plain_text_is_refused(number):
    assert refusal_of(values.plain_text, Decimal(number)) == "value"


# Floating point


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.10", "1.1"),
        ("1.0E-38", "1e-38"),
        ("9.007199254740992E15", "9007199254740992.0"),
        ("0.3000000000000000", "0.3"),
        ("-0", "-0.0"),
        ("-0.0", "-0.0"),
        ("0e999", "0.0"),
        ("5", "5.0"),
        ("NaN", "NaN"),
        ("nan", "NaN"),
        ("Infinity", "Infinity"),
        ("-inf", "-Infinity"),
        # The exact value of the nearest float64, all 751 digits of it.
        (format(Decimal.from_float(5e-324), "f"), "5e-324"),
        # As Java prints them: two digits at least, and before 19 often all 17.
        ("4.9E-324", "5e-324"),
        ("-9.9E-324", "-1e-323"),
        ("7.4449557257619597E17", "7.44495572576196e+17"),
        ("0.29999999999999999", "0.3"),
        # What does not fit stays.
        ("7.4449557257619596E17", "7.4449557257619596E17"),
        ("0.30000000000000001", "0.30000000000000001"),
        ("4.8E-324", "4.8E-324"),
        ("1e400", "1e400"),
        ("1e-400", "1e-400"),
        ("0.1000000000000000000000001", "0.1000000000000000000000001"),
        ("9007199254740993", "9007199254740993"),
        ("1_0", "1_0"),
        (" 1.5", " 1.5"),
        ("abc", "abc"),
        ("1e99999999999999999999", "1e99999999999999999999"),
    ],
)
def test_float64_texts(text, canonical):
    assert values.float64_text(text) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.2222", "1.2222"),
        ("1.6777216E7", "16777216.0"),
        ("1.10000002384185791015625", "1.1"),
        ("1.100000023841858", "1.1"),
        ("3.4028235E38", "3.4028235e+38"),
        ("1.4E-45", "1e-45"),  # as Java prints it
        ("1.3E-45", "1.3E-45"),
        ("1e-45", "1e-45"),
        ("-0.0", "-0.0"),
        ("NaN", "NaN"),
        ("16777217", "16777217"),
        ("3.5e38", "3.5e38"),
        ("1e400", "1e400"),
        ("abc", "abc"),
    ],
)
def test_float32_texts(text, canonical):
    assert values.float32_text(text) == canonical


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float64_texts_read_back(number):
    for text in (values.float64_value(number), f"{number:.17e}", format(Decimal(number), "f")):
        canonical = values.float64_text(text)
        assert struct.pack(">d", float(canonical)) == struct.pack(">d", number)
        assert Decimal(canonical) in (Decimal(text), Decimal(repr(number)))
        assert values.float64_text(canonical) == canonical
    assert values.is_float64_text(values.float64_value(number))


@pytest.mark.parametrize("text", ["", "nan", "inf", "-inf", "NaN", "Infinity", "1", "1.50", "1_0"])
def test_other_texts_are_not_the_canonical_one_of_a_finite_float64(text):
    assert not values.is_float64_text(text)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(2.0**-149)
@example(3.4028234663852886e38)
def test_float32_texts_read_back(number):
    canonical = values.float32_value(number)
    assert struct.pack(">f", float(canonical)) == struct.pack(">f", number)
    for text in (canonical, repr(number), format(Decimal(number), "f")):
        assert values.float32_text(text) == canonical


@given(st.floats(width=32, min_value=2.0**-100, max_value=2.0**100))
def test_a_text_beside_the_middle_is_rounded_once(number):
    upper = struct.unpack(
        ">f", struct.pack(">I", struct.unpack(">I", struct.pack(">f", number))[0] + 1)
    )[0]
    exact = Context(prec=400)
    middle = exact.divide(exact.add(Decimal(number), Decimal(upper)), 2)
    text = f"{middle:f}" + ("" if "." in f"{middle:f}" else ".") + "0" * 40 + "1"
    assert values._nearest_float32(text) == upper
    assert values._nearest_float32(f"-{text}") == -upper


# Bytes


@given(st.binary(max_size=40))
def test_base64_comes_back(data):
    assert values.base64_bytes(values.base64_text(data)) == data


@pytest.mark.parametrize("text", ["a", "YQ", "YQ=", "YQ==\n", "YQ == ", "Y-_=", "YQ==YQ==", "é==="])
def test_what_is_no_base64_is_refused(text):
    assert refusal_of(values.base64_bytes, text) == "value"


def test_bits_are_as_many_bytes_as_their_width_needs():
    assert values.bits_text(1, 9) == "AAE="
    assert values.bits_value("AAE=") == 1
    assert values.bits_value("") == 0
    for value, bits in ((-1, 8), (256, 8)):
        assert refusal_of(values.bits_text, value, bits) == "value"


# JSON


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a" :2}',
        b'{"\\u0061":1,"a":2}',
        b'[{"b":{"a":1,"a":1}}]',
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b'"\xed\xa0\x80"',
        b"{} {}",
        b"",
        b"{",
        b"[NaN]",
        b"[Infinity]",
        b"[01]",
        b'["\n"]',
        b"[" * 200_000,
        b'{"a":' * 200_000,
    ],
)
def test_bad_json_is_refused(text):
    assert refusal_of(values.check_json, text) == "json"


def test_good_json_passes():
    values.check_json(b' {"a": [{"a": 1e999}, {"a": ' + b"9" * 6000 + b"}]}\n")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@example({'a"': '":\\', "\\": '\\"'})
def test_quotes_are_counted_exactly(value):
    def count(part):
        if isinstance(part, dict):
            return sum(1 + count(inner) for inner in part.values())
        if isinstance(part, list):
            return sum(count(inner) for inner in part)
        return int(isinstance(part, str))

    assert values.quotes_of(msgspec.json.encode(value)) == 2 * count(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [(b'{"a":"x"}', "shape"), (b"{", "json"), (b'"\xff"', "json"), (b"[" * 200_000, "json")],
)
def test_errors_of_the_decoder_become_refusals(text, kind):
    shape = {b'"': str, b"[": list}.get(text[:1], dict[str, int])
    with pytest.raises(values.JSON_ERRORS) as caught:
        msgspec.json.decode(text, type=shape)
    assert values.json_refusal(caught.value).kind == kind


@pytest.mark.parametrize("depth", [values.MAX_DEPTH + 1, 100_000])
def test_nesting_has_a_limit_that_is_not_python_s(depth):
    with pytest.raises(Refusal, match="nested too deeply"):
        values.check_json(b"[" * depth + b"]" * depth)


def test_brackets_in_texts_are_no_nesting():
    values.check_json(b'["' + b'[{\\"' * 10_000 + b'"]')


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("-1", None),
        ("-0", None),
        ("007", None),
        ("", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_natural_numbers(text, number):
    assert values.natural_of(text) == number


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (rb'{"a":"\ud800"}', r"\ud800"),
        (rb'{"a":"x\uDC00"}', r"\uDC00"),
        (rb'{"\udfff":1}', r"\udfff"),
        (rb'{"a":"\ude00\ud83d"}', r"\ude00"),
        (rb'{"a":"\ud83d\ude00\\\ud83d"}', r"\ud83d"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_as_such(text, half):
    with pytest.raises(Refusal, match=re.escape(f"holds {half}, half of a surrogate pair")):
        values.check_json(text)


def test_whole_pairs_and_what_only_looks_like_half_of_one_are_taken():
    values.check_json(rb'{"a":"\ud83d\ude00","b":"\\ud800"}')
