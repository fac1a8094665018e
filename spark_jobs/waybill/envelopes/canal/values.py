"""How Canal writes the values of a column: every value is a string, and the type decides which.

An ENUM is its number and a SET its bit mask, the texts stand only in `mysqlType`. Bytes are one
character each, BINARY(n) without its trailing zero bytes. A BIT is a decimal number. A TIMESTAMP
is printed in the time zone of the server's Java machine; where its clocks showed an hour twice, it
is taken for the first. Floats are Java's texts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Literal

from waybill.counting import counted
from waybill.errors import Refusal
from waybill.types import BOOLEAN
from waybill.values.declared import check_for
from waybill.values.mysql_types import fixed_length, logical_type, members
from waybill.values.notation import Notation, column_form
from waybill.values.values import base64_bytes, base64_text, bits_digits, bits_text, is_integer_text
from waybill.values.wall_clocks import WITH_BLANK, instants_in

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from waybill.types import LogicalType

Convert = Callable[[str], str]

_TEXTS = frozenset({"enum", "set", "string", "unknown"})
_MAX_CACHED = 10_000
MOST_BITS, MOST_BYTES = 64, 255
"""The n of MySQL's largest BIT(n) and BINARY(n): no value is filled up to what messages invent."""


def notation_of(kind: LogicalType, mysql: str | None, zone: ZoneInfo) -> Notation:
    """How the values of a column stand in Canal's messages.

    Writing refuses (kind `encoding`) what has no notation.

    Args:
        kind: what the column holds, as declared or as `mysql` says.
        mysql: the column's text in `mysqlType`.
        zone: time zone of the Canal server.
    """
    named = logical_type(mysql).kind
    if named in ("enum", "set") and kind.kind in _TEXTS:
        return _words(named, members(mysql or ""))
    if kind.kind == "geometry":
        return Notation("text", bytes_reader(fixed_length(mysql or ""), True), geometry_writer)
    if kind.kind == "bytes":
        length = fixed_length(mysql or "")
        write = bytes_writer if length is None else fixed_bytes_writer(length)
        return Notation("text", bytes_reader(length, False), write)
    if kind.kind == "bit":
        return Notation("text", bits_reader(kind.precision or 1), bits_digits)
    if kind.kind == "timestamptz":
        return instants_in(zone)
    if kind.is_integer and is_year(mysql):
        return Notation("text", _year, _four_digits)
    return _number(kind) if kind.is_number else _NOTATIONS.get(kind.kind, _TEXT)


def _words(named: str, names: tuple[str, ...]) -> Notation:
    """The notation of an ENUM or SET, which stands as its text where its words are not known."""
    if not names:
        return _TEXT
    if named == "enum":
        return Notation("text", enum_reader(names), enum_writer(names))
    return Notation("text", set_reader(names), set_writer(names))


@cache
def _number(kind: LogicalType) -> Notation:
    """The notation of a type of numbers, none of which is written that would be refused."""
    check = check_for(kind)

    def write(text: str) -> str:
        try:
            if check is not None:
                check(text)
        except Refusal as refusal:
            raise Refusal("encoding", refusal.sentence) from None
        return text

    form = column_form(kind)
    return Notation("text", check, write, form, form)


def is_year(mysql: str | None) -> bool:
    """Whether a MySQL type is YEAR, whose 0 is written 0000."""
    return mysql is not None and mysql.strip().lower().startswith("year")


# Members


def enum_reader(names: tuple[str, ...]) -> Convert:
    """Numbers of an ENUM to texts; 0 is MySQL's empty error value, texts pass."""
    # A number is a number, also where a member is called so.
    texts = {"": "", **{name: name for name in names}, "0": ""}
    texts.update({str(i): name for i, name in enumerate(names, start=1)})

    def read(value: str) -> str:
        try:
            return texts[value]
        except KeyError:
            message = f"{value[:60]!r} is neither a member of the ENUM nor a number of one"
            raise Refusal("value", message) from None

    return read


def enum_writer(names: tuple[str, ...]) -> Convert:
    """Texts of an ENUM to numbers."""
    numbers = {name: str(i) for i, name in reversed(list(enumerate(names, start=1)))}
    numbers.setdefault("", "0")

    def write(text: str) -> str:
        try:
            return numbers[text]
        except KeyError:
            raise Refusal("encoding", f"{text[:60]!r} is not a member of the ENUM") from None

    return write


def set_reader(names: tuple[str, ...]) -> Convert:
    """Bit masks of a SET to texts joined by commas; texts of known members pass."""
    known: dict[str, str] = {"": ""}

    def unmask(value: str) -> str:
        if is_integer_text(value) is None:
            if all(part in names for part in value.split(",")):
                return value
        elif len(value) <= 20 and 0 <= (mask := int(value)) < 1 << len(names):
            return ",".join(name for i, name in enumerate(names) if mask >> i & 1)
        message = f"{value[:60]!r} is neither members of the SET nor a bit mask of them"
        raise Refusal("value", message)

    def read(value: str) -> str:
        found = known.get(value)
        if found is None:
            found = unmask(value)
            if len(known) < _MAX_CACHED:
                known[value] = found
        return found

    return read


def set_writer(names: tuple[str, ...]) -> Convert:
    """Texts of a SET to bit masks."""
    bits = {name: 1 << i for i, name in reversed(list(enumerate(names)))}

    def write(text: str) -> str:
        if not text:
            return "0"
        mask = 0
        for part in text.split(","):
            if part not in bits:
                raise Refusal("encoding", f"{part[:60]!r} is not a member of the SET")
            mask |= bits[part]
        return str(mask)

    return write


# Bytes and bits


def bytes_reader(length: int | None, geometry: bool) -> Convert:
    """Text with one character per byte to Base64.

    Args:
        length: the n of BINARY(n), to which values are filled up with zero bytes.
        geometry: MySQL's four bytes of reference system stand before the WKB.
    """

    def read(value: str) -> str:
        if length is not None and length > MOST_BYTES:
            raise Refusal("value", f"binary({length}) is no type of MySQL")
        try:
            data = value.encode("latin-1")
        except UnicodeEncodeError:
            message = "a value of a bytes column holds a character that is not one byte"
            raise Refusal("value", message) from None
        if length is not None and len(data) < length:
            data = data.ljust(length, b"\0")
        return base64_text(_wkb(data) if geometry else data)

    return read


def bytes_writer(text: str) -> str:
    """Base64 to text with one character per byte."""
    return _bytes_to_write(text).decode("latin-1")


def fixed_bytes_writer(length: int) -> Convert:
    """As `bytes_writer`, for BINARY(n): shorter values would be filled up when they are read."""

    def write(text: str) -> str:
        written = bytes_writer(text)
        if len(written) != length:
            message = f"a value of {counted(len(written), 'byte')} is none of binary({length})"
            raise Refusal("encoding", message)
        return written

    return write


def geometry_writer(text: str) -> str:
    """WKB in Base64 to MySQL's own form, one character per byte."""
    data = _bytes_to_write(text)
    if len(data) < 5:
        raise Refusal("encoding", "a value of a geometry column is no WKB")
    order = _byte_order(data[0])
    kind = int.from_bytes(data[1:5], order)
    if kind & _HAS_SRID:
        srid = int.from_bytes(data[5:9], order)
        plain = (kind & ~_HAS_SRID).to_bytes(4, order)
        data = srid.to_bytes(4, "little") + data[:1] + plain + data[9:]
    else:
        data = bytes(4) + data
    return data.decode("latin-1")


_HAS_SRID = 0x20000000
"""Flag in the type of an extended WKB: the number of the reference system follows."""


def _byte_order(flag: int) -> Literal["little", "big"]:
    return "little" if flag == 1 else "big"


def _wkb(data: bytes) -> bytes:
    """MySQL's geometry as WKB, or as extended WKB where it names a reference system."""
    if len(data) < 9:
        raise Refusal("value", "a value of a geometry column is no geometry")
    if data[:4] == bytes(4):
        return data[4:]
    order = _byte_order(data[4])
    srid = int.from_bytes(data[:4], "little").to_bytes(4, order)
    kind = (int.from_bytes(data[5:9], order) | _HAS_SRID).to_bytes(4, order)
    return data[4:5] + kind + srid + data[9:]


def bits_reader(bits: int) -> Convert:
    """The decimal number of a BIT(n) to Base64."""

    def read(value: str) -> str:
        if bits > MOST_BITS:
            raise Refusal("value", f"bit({bits}) is no type of MySQL")
        if len(value) > 20 or is_integer_text(value) is None:
            raise Refusal("value", f"{value[:60]!r} is not the number of a bit({bits})")
        return bits_text(int(value), bits)

    return read


def _bytes_to_write(text: str) -> bytes:
    try:
        return base64_bytes(text)
    except Refusal as refusal:
        raise Refusal("encoding", refusal.sentence) from None


# The rest


def _year(value: str) -> str:
    return "0" if value == "0000" else value


def _four_digits(text: str) -> str:
    return "0000" if text == "0" else text


def _digit(text: str) -> str:
    if text in ("0", "1"):
        raise Refusal("encoding", f"{text!r} is not a boolean, and would be one in Canal")
    return {"false": "0", "true": "1"}.get(text, text)


_TEXT = Notation("text")
_NOTATIONS = {
    "boolean": Notation("text", check_for(BOOLEAN), _digit),
    "timestamp": WITH_BLANK,
}
