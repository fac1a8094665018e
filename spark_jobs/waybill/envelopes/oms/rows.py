"""The function that reads the rows of one shape of an OMS table, generated from its columns.

It runs once for every message, so everything that the shape decides is decided before, and nothing
is called that can stand in the function itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.envelopes.sequence.settings import settled
from waybill.errors import Refusal
from waybill.records import Change
from waybill.types import INTEGER_RANGE
from waybill.values.generated import function
from waybill.values.values import is_integer_text, quotes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from waybill.records import Message, TableSchema
    from waybill.values.notation import Notation

ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "ROW": "read"}
"""Record types that carry a row, and their operations; ROW is a row of a full synchronization."""

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first second of year 1 and the last of year 9999."""
_MINUS_ZERO = re.compile(rb":\s*-0[,}\s]")
"""An integer that is carried on as it stands, and is another one once it was decoded."""
_LONGEST = 12
_MAX_TIMES = 1_000

_json = msgspec.json.Encoder()


def row_reader(
    schema: TableSchema,
    notations: list[Notation],
    decode: Callable[[bytes], Any],
    carried: type[Any],
    quotes: Callable[[Any], int],
    lobs: tuple[int, ...] = (),
    light: Raw | None = None,
    in_messages: bool = True,
    told_key: bool = False,
) -> Callable[[Message, bytes], list[Change] | None]:
    """A function from a message to its change, None if it needs a closer look.

    It raises what `decode` raises, and a Refusal for a bad value.

    Args:
        schema: the table.
        notations: how its columns are written.
        decode: gives the message as a struct.
        carried: a struct with those fields of `allMetaData` that are carried on.
        quotes: tells how many quotes a message needs for what was decoded of it.
        lobs: columns that an update did not touch if they are null in both images.
        light: what rows have to say about the types of their columns.
        in_messages: changes have a sequence id.
        told_key: whether `record_primary_value` has to be the key of the row.
    """
    extra = ", ".join(f"meta.{name}" for name in carried.__struct_fields__)
    after = ", ".join(f"a{i}" for i in range(len(notations)))
    before = after.replace("a", "b")
    names: dict[str, Any] = {
        "decode": decode,
        "into": _json.encode_into,
        # Encoding into the same buffer again spares most of the time.
        "buffer": bytearray(),
        "quotes": quotes,
        "quotes_of": quotes_of,
        "zero": _MINUS_ZERO.search,
        "times": _Times(),
        "ROWS": ROWS,
        "schema": schema,
        "Image": schema.Image,
        "Change": Change,
        "Carried": carried,
        "told": light,
        "told_or_not": (light, UNSET),
        "settled": settled,
        **{f"c{i}": notation.read for i, notation in enumerate(notations)},
    }
    lines = [
        "record = decode(value)",
        # No name stands twice in it: encoding it gives the same bytes again, or at least, where a
        # producer writes JSON in other ways, as many quotes; every name and string has two.
        "into(record, buffer)",
        "if buffer != value and (quotes(record) != quotes_of(value) or zero(value)): return None",
        "kind = record.recordType",
        "before = record.prevStruct",
        "after = record.postStruct",
        "if after is None:",
        '    if before is None or kind != "DELETE": return None',
        *_indented(_told("before", light)),
        *_indented(_one_image("before", "b", notations)),
        f"    before = Image({before})",
        '    operation = "delete"',
        "elif before is None:",
        '    if kind == "DELETE": return None',
        *_indented(_told("after", light)),
        *_indented(_one_image("after", "a", notations)),
        f"    after = Image({after})",
        "    operation = ROWS[kind]",
        'elif kind == "UPDATE":',
        *_indented(_told("after", light)),
        *([] if light is None else ["    if before.light not in told_or_not: return None"]),
        *_indented(_two_images(notations)),
        *[f"    if a{i} is None and b{i} is None: a{i} = b{i} = UNSET" for i in lobs],
        f"    after = Image({after})",
        f"    before = Image({before})",
        '    operation = "update"',
        "else: return None",
        "meta = record.allMetaData",
        *(_same_key(schema) if told_key else ()),
        "sequence = meta.storeDataSequence",
        f"into(Carried({extra}), buffer)",
        "change = Change(operation, schema, message, before=before, after=after,"
        " sequence=None if sequence is None else (sequence,),"
        ' full_row=operation == "read" and sequence is None,'
        " source_time=times[meta.timestamp], extra=b'{\"oms\":%b}' % buffer)",
        *(["if sequence is not None: return [change]"] if in_messages else []),
        f'return [settled(change, "storeDataSequence", {in_messages}, True)]',
    ]
    return function("read(message, value)", lines, names)


def _same_key(schema: TableSchema) -> list[str]:
    """Statements that turn to a closer look where the message tells another key beside the row."""
    key = "\x01".join(f"{{row.{field}}}" for field in schema.key_fields)
    return [
        "shown = meta.record_primary_value",
        "if shown is not None:",
        "    row = before if after is None else after",
        f"    if shown != f{key!r}: return None",
    ]


def _told(row: str, light: Raw | None) -> list[str]:
    """Statements that turn to a closer look where a row says something else about its types."""
    return [] if light is None else [f"if {row}.light != told: return None"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _one_image(row: str, local: str, notations: list[Notation]) -> list[str]:
    """Statements that put the texts of a decoded row into numbered local variables."""
    lines = []
    for i, notation in enumerate(notations):
        v = f"{local}{i}"
        lines += [f"{v} = {row}.f{i}", *_taken(v, i, notation)]
    return lines


def _two_images(notations: list[Notation]) -> list[str]:
    """The same for both rows of an update; a value that is the same is converted once."""
    lines = []
    for i, notation in enumerate(notations):
        a, b = f"a{i}", f"b{i}"
        taken = _taken(a, i, notation)
        lines += [f"{a} = after.f{i}", f"{b} = before.f{i}"]
        if taken:
            lines += [f"if {a} == {b}:", *_indented(taken), f"    {b} = {a}", "else:"]
            lines += _indented([*taken, *_taken(b, i, notation)])
    return lines


def _taken(v: str, i: int, notation: Notation) -> list[str]:
    """Statements that turn what was decoded into its canonical text."""
    if notation.wire in INTEGER_RANGE:
        # The decoder knows the limits of all but the largest type.
        beyond = f"if {v} > {INTEGER_RANGE['uint64'][1]}: return None"
        checked = [f"    {beyond}"] if notation.wire == "uint64" else []
        return [f"if {v} is not None:", *checked, f"    {v} = str({v})"]
    if notation.wire == "number":
        lines = [f'{v} = str({v}, "ascii")']
        if notation.plain:
            # JSON that stands between these two is a number; most have no exponent.
            plain = f'"," < {v} < ":" and "e" not in {v} and "E" not in {v}'
            return [*lines, f"if not ({plain}): {v} = c{i}({v})"]
        return [*lines, f"{v} = c{i}({v})"]
    return [] if notation.read is None else [f"if {v} is not None: {v} = c{i}({v})"]


class _Times(dict[str | None, int | None]):
    """Microseconds by `timestamp`: many messages share a second."""

    def __missing__(self, timestamp: str | None) -> int | None:
        if len(self) >= _MAX_TIMES:
            self.clear()
        time = self[timestamp] = seconds(timestamp)
        return time


def seconds(timestamp: str | None) -> int | None:
    """Microseconds since 1970 of `timestamp`, which is whole seconds in a string.

    Raises:
        Refusal: it is none, or not a time that a timestamp can hold.
    """
    if timestamp is None or timestamp == "":
        return None
    if len(timestamp) > _LONGEST or is_integer_text(timestamp) is None:
        raise Refusal("shape", f"timestamp is {timestamp[:40]!r} and not seconds since 1970")
    number = int(timestamp)
    if not FIRST_SECOND <= number <= LAST_SECOND:
        sentence = "timestamp is not in the years 1 to 9999; it must be in seconds"
        raise Refusal("shape", sentence)
    return number * 1_000_000
