"""How values of Avro become canonical texts, and these the bytes of values of Avro.

What is not done here by compiled code is left, value by value, to the functions that read or write
a column exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from waybill.avro.programs import KINDS, choice, size_of
from waybill.avro.reading import READ_ERRORS, Leaf, Maker
from waybill.avro.schema import Node, without_null
from waybill.avro.writing import WRITE_ERRORS, Write, varint
from waybill.bulk import column_codecs
from waybill.bulk.arena import Texts, Value
from waybill.bulk.assembly import Filled
from waybill.bulk.column_codecs import ColumnReader, Convert, kinds, or_else, written
from waybill.bulk.kernels import avro_values as kernels
from waybill.bulk.value_kinds import BAD, BYTES, ENUM, OPTIONAL, STRING, VARINT, VOID
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Arena, Places
    from waybill.bulk.block import ValueEncoder
    from waybill.values.notation import ColumnForm

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


ANY = kinds(*range(VOID, STRING + OPTIONAL + 1))
"""Any kind: of one value of a program there are never others than of its type."""


# Reading


def kinds_of(node: Node) -> int | None:
    """The kinds of the values of a type, and of null; None for one that has no single values."""
    kind = KINDS.get(without_null(node).kind)
    return None if kind is None else kinds(VOID, kind, kind + OPTIONAL)


def reader_of(node: Node, leaf: Leaf) -> ColumnReader | None:
    """How a column is read.

    Args:
        node: its type.
        leaf: how its values become texts.

    Returns:
        None for a column whose values are no single ones.
    """
    allowed = kinds_of(node)
    if allowed is None:
        return None
    inner = without_null(node)
    exact = _each(inner, leaf)
    plain = leaf.convert is None and leaf.mark is None
    if leaf.column is not None:
        quick = leaf.column.convert()
        if leaf.mark is not None:
            quick = _without(leaf.mark, quick)
        return ColumnReader(allowed, or_else(quick, exact))
    if inner.kind in ("int", "long") and leaf.integer and leaf.mark is None:
        return ColumnReader(allowed, integer_texts)
    if inner.kind == "string" and plain:
        return ColumnReader(allowed, or_else(escaped, exact))
    return ColumnReader(allowed, exact)


def _without(mark: str | bytes, quick: Convert) -> Convert:
    """A converter that leaves out the values that stand for one that was not sent."""
    bytes_of_mark = mark.encode() if isinstance(mark, str) else mark

    def convert(arena: Arena, texts: Texts) -> Texts:
        made = quick(arena, texts)
        same = np.flatnonzero(texts.lengths == len(bytes_of_mark)).tolist()
        marked = [row for row in same if arena.text(texts, row) == bytes_of_mark]
        if not marked:
            return made
        lengths = made.lengths.copy()
        lengths[marked] = BAD
        return Texts(made.starts, lengths)

    return convert


def integers(arena: Arena, texts: Texts) -> Places:
    """The integers of varints."""
    values = np.empty_like(texts.starts)
    kernels.numbers(arena.data, texts.starts, texts.lengths, values)
    return values


def integer_texts(arena: Arena, texts: Texts) -> Texts:
    """Varints in plain digits."""
    return written(arena, integers(arena, texts), texts.lengths.copy())


def escaped(arena: Arena, texts: Texts) -> Texts:
    """Texts as they stand in JSON; those with rarer signs are converted exactly."""
    starts, lengths = texts.starts.copy(), texts.lengths.copy()
    at = arena.room(2 * int(np.maximum(lengths, 0).sum()))
    arena.size = kernels.escaped(arena.data, starts, lengths, at)
    return Texts(starts, lengths)


def escaped_texts() -> Convert:
    """A converter of texts to those of JSON."""
    return escaped


def decimal(scale: int) -> Convert:
    """A converter of the unscaled digits of a few bytes to numbers in plain digits."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        starts, lengths = texts.starts.copy(), texts.lengths.copy()
        at = arena.room(64 * len(starts))
        arena.size = kernels.decimals(arena.data, starts, lengths, scale, at)
        return Texts(starts, lengths)

    return convert


def counted_by(form: ColumnForm) -> Convert:
    """A converter of varints, by a form of numbers in plain digits."""
    convert = form.convert()
    return lambda arena, texts: convert(arena, integer_texts(arena, texts))


def _each(node: Node, leaf: Leaf) -> Convert:
    """What the exact reader of a column gives for each value that is not null."""
    return _calls(
        node, leaf, lambda found: _encode(found)[1:-1] if isinstance(found, str) else None
    )


def _calls(node: Node, leaf: Leaf | None, make: Callable[[Any], bytes | None]) -> Convert:
    """What a function makes of each value that is not null, as the exact reader gives it."""
    maker = Maker()
    read = maker.compile("value", [*maker.value(node, "v", leaf), "return v, p"])
    sized = KINDS[node.kind] >= BYTES

    def one(data: bytes) -> bytes | None:
        if sized:
            data = varint(len(data)) + data
        try:
            found, end = read(data, 0, len(data))
            return make(found) if end == len(data) else None
        except (*READ_ERRORS, Refusal):
            return None

    return lambda arena, texts: arena.each(texts, one)


def json_of(node: Node) -> tuple[bool, Convert]:
    """Whether values of a type are texts of JSON, and what makes these, or JSON as it is.

    Raises:
        ValueError: the type has no single values.
    """
    inner = without_null(node)
    if inner.kind not in KINDS:
        raise ValueError(f"no single value of {inner.kind}")
    if inner.kind in ("int", "long"):
        return False, integer_texts
    if inner.kind == "string":
        return True, or_else(escaped, _each(inner, Leaf()))
    return False, _calls(inner, None, lambda found: _encode(found))


def between(arena: Arena, rows: int, text: bytes, cuts: list[int], made: list[Value]) -> Texts:
    """Texts in the arena that are made of what is the same for all rows and of values.

    Args:
        arena: where the values are, and where the texts go.
        rows: how many there are.
        text: what is the same.
        cuts: where in it the part before each value begins, and where the last part begins and
            ends.
        made: what stands between.
    """
    bad = np.zeros(rows, np.bool_)
    for value in made:
        bad |= ~value.texts.good
    texts = Filled(arena, rows, text, cuts, made)
    ends = np.cumsum(texts.sizes)
    total = int(ends[-1]) if rows else 0
    at = arena.room(total)
    places = ends - texts.sizes + at
    texts.write(arena.data, places)
    arena.size = at + total
    return Texts(places, np.where(bad, BAD, texts.sizes))


# Writing


def value_encoder_of(node: Node) -> ValueEncoder | None:
    """How values of a type are written, null or not.

    Integers come as plain digits, texts and enums' symbols as those of JSON, all others as their
    bytes without length.
    """
    inner, null = choice(node)
    kind = KINDS.get(inner.kind)
    if kind is None:
        return None
    branch = -1 if null is None else null
    size, symbols = size_of(inner), inner.symbols
    exact = {"boolean": 1, "float": 4, "double": 8, "fixed": size}.get(inner.kind)

    def value_encoder(arena: Arena, value: Value) -> Value:
        texts = value.texts
        if value.quoted != (kind in (STRING, ENUM)):
            return Value(Texts(texts.starts, np.full_like(texts.lengths, BAD)), False)
        starts, lengths = texts.starts.copy(), texts.lengths.copy()
        if kind == VARINT:
            starts, lengths = _varints(arena, texts, size)
        elif kind == ENUM:
            starts, lengths = _numbers_of(arena, texts, symbols)
        elif kind == STRING:
            at = arena.room(int(np.maximum(lengths, 0).sum()))
            arena.size = kernels.unescaped(arena.data, starts, lengths, at)
        elif exact is not None:
            lengths[(lengths >= 0) & (lengths != exact)] = BAD
        at = arena.room(int(np.maximum(lengths, 0).sum()) + 11 * len(lengths))
        arena.size = kernels.dressed(arena.data, starts, lengths, kind >= BYTES, branch, at)
        return Value(Texts(starts, lengths), False)

    return value_encoder


def _varints(arena: Arena, texts: Texts, bits: int) -> Texts:
    values, _, lengths = column_codecs.numbers(arena, texts)
    if bits == _SHORT:
        lengths[(lengths >= 0) & (values != values.astype(np.int32))] = BAD
    starts = np.zeros_like(texts.starts)
    at = arena.room(10 * len(starts))
    arena.size = kernels.varints(values, arena.data, starts, lengths, at)
    return Texts(starts, lengths)


_SHORT = 32


def _numbers_of(arena: Arena, texts: Texts, symbols: tuple[str, ...]) -> Texts:
    """The numbers of an enum's symbols."""
    places = {_encode(symbol)[1:-1]: varint(i) for i, symbol in enumerate(symbols)}
    return arena.each(texts, places.get)


def bytes_by_call(write: Write, sized: bool) -> Convert:
    """The bytes of values without their length, of the function that writes them exactly.

    Args:
        write: appends the value of a text.
        sized: whether it writes the length first.
    """

    def one(text: bytes) -> bytes | None:
        out = bytearray()
        try:
            write(out, _decode(b'"%b"' % text))
        except (*WRITE_ERRORS, Refusal):
            return None
        return bytes(out[_length_end(out) :] if sized else out)

    return lambda arena, texts: arena.each(texts, one)


def bytes_of_json(
    write: Write, sized: bool, quoted: bool, parse: Callable[[bytes], Any]
) -> Convert:
    """The same for values of JSON, texts of it or anything else.

    Args:
        write: appends the value that `parse` gives.
        sized: whether it writes the length first.
        quoted: whether the values are texts.
        parse: reads JSON.
    """

    def one(text: bytes) -> bytes | None:
        out = bytearray()
        try:
            write(out, parse(b'"%b"' % text if quoted else text))
        except (*WRITE_ERRORS, Refusal):
            return None
        return bytes(out[_length_end(out) :] if sized else out)

    return lambda arena, texts: arena.each(texts, one)


def _length_end(data: bytearray) -> int:
    end = 0
    while data[end] > _MORE:
        end += 1
    return end + 1


_MORE = 127


def unscaled(scale: int, limit: int, lowest: int) -> Convert:
    """Numbers in plain digits as the bytes of their unscaled digits; see `kernels.unscaled`."""
    limit = min(limit, _MOST_DIGITS)
    lowest = max(lowest, -_MOST_DIGITS)

    def convert(arena: Arena, texts: Texts) -> Texts:
        starts, lengths = texts.starts.copy(), texts.lengths.copy()
        at = arena.room(8 * len(starts))
        arena.size = kernels.unscaled(arena.data, starts, lengths, scale, limit, lowest, at)
        return Texts(starts, lengths)

    return convert


_MOST_DIGITS = 10**18
