"""Avro object container files, read for a few fields of each record.

Iceberg keeps its lists of files in them, most of whose bytes are statistics that a look into the
lake does not ask for; they are stepped over and never made into objects. Format: Avro 1.12
specification, "Binary Encoding" and "Object Container Files".
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

MAGIC = b"Obj\x01"

Reader = Callable[[bytes, int], tuple[Any, int]]
Skipper = Callable[[bytes, int], int]

Wanted = Mapping[str, Any]
"""Fields by name: None for a whole field, else what is wanted of the record in it."""


class UnknownCodecError(ValueError):
    """A file is compressed in a way that is not known here, which says nothing against it."""


class Container(NamedTuple):
    """A file: its header's metadata, and its records in order."""

    metadata: dict[str, bytes]
    records: Iterator[dict[str, Any]]


def read_container(data: bytes, wanted: Wanted) -> Container:
    """Some fields of every record of a file.

    Args:
        data: the whole file.
        wanted: fields by name; those that the file does not have are left out.

    Raises:
        UnknownCodecError: its compression is not known here.
        ValueError: it is no such file, or it is damaged.
    """
    if not data.startswith(MAGIC):
        raise ValueError("it is no Avro file")
    try:
        metadata, at = _of_map(_bytes)(data, len(MAGIC))
        schema = json.loads(metadata["avro.schema"])
    except (IndexError, KeyError) as error:
        raise ValueError("its Avro header is broken") from error
    codec = metadata.get("avro.codec", b"null").decode()
    if codec not in ("null", "deflate"):
        raise UnknownCodecError(f"its compression {codec} is not known here")
    return Container(metadata, _records(data, at, codec, _reader(schema, wanted)))


def _records(data: bytes, at: int, codec: str, read: Reader) -> Iterator[dict[str, Any]]:
    mark, at = data[at : at + 16], at + 16
    try:
        while at < len(data):
            count, at = _long(data, at)
            size, at = _long(data, at)
            block, at = data[at : at + size], at + size
            if data[at : at + 16] != mark:
                raise ValueError("it is cut off or damaged")
            at += 16
            block = zlib.decompress(block, -15) if codec == "deflate" else block
            place = 0
            for _ in range(count):
                record, place = read(block, place)
                yield record
    except (IndexError, zlib.error, struct.error) as error:
        raise ValueError("it is cut off or damaged") from error


# Primitive values.


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value, at, shift = byte & 127, at + 1, 7
    while byte > 127:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return (value >> 1) ^ -(value & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    return data[at : at + size], at + size


def _string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _long(data, at)
    return data[at : at + size].decode(), at + size


def _float(data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from("<f", data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from("<d", data, at)[0], at + 8


_READERS: dict[str, Reader] = {
    "null": lambda _, at: (None, at),
    "boolean": lambda data, at: (data[at] == 1, at + 1),
    "int": _long,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


# What a schema says.


def _reader(schema: Any, wanted: Wanted | None) -> Reader:
    """Makes the value of a schema; of a record only what is wanted, everything for None."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        return _of_union([_reader(one, wanted) for one in kind])
    if isinstance(kind, dict):
        return _reader(kind, wanted)
    if kind == "record":
        return _of_record(schema, wanted)
    if kind == "array":
        return _of_array(_reader(schema["items"], None))
    if kind == "map":
        return _of_map(_reader(schema["values"], None))
    if kind == "fixed":
        size = schema["size"]
        return lambda data, at: (data[at : at + size], at + size)
    if kind == "enum":
        symbols = schema["symbols"]
        return lambda data, at: _symbol(symbols, *_long(data, at))
    read: Reader = _known(kind, _READERS)
    return read


def _symbol(symbols: list[str], number: int, at: int) -> tuple[str, int]:
    return symbols[number], at


def _of_union(branches: list[Reader]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        return branches[branch](data, at)

    return read


def _of_record(schema: Any, wanted: Wanted | None) -> Reader:
    steps: list[tuple[str | None, Any]] = []
    for field in schema["fields"]:
        if wanted is None or field["name"] in wanted:
            inner = None if wanted is None else wanted[field["name"]]
            steps.append((field["name"], _reader(field["type"], inner)))
        else:
            steps.append((None, _skipper(field["type"])))

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        for name, step in steps:
            if name is None:
                at = step(data, at)
            else:
                found[name], at = step(data, at)
        return found, at

    return read


def _of_array(item: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            count, at = _long(data, at)
            if not count:
                return found, at
            if count < 0:
                _, at = _long(data, at)
            for _ in range(abs(count)):
                value, at = item(data, at)
                found.append(value)

    return read


def _of_map(item: Reader) -> Reader:
    def pair(data: bytes, at: int) -> tuple[Any, int]:
        key, at = _string(data, at)
        value, at = item(data, at)
        return (key, value), at

    pairs = _of_array(pair)

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found, at = pairs(data, at)
        return dict(found), at

    return read


def _known(kind: str, known: Mapping[str, Any]) -> Any:
    if kind not in known:
        raise ValueError(f"its type {kind} is not known here")
    return known[kind]


# Stepping over.


def _skipper(schema: Any) -> Skipper:
    """Steps over the value of a schema."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        return _over_union([_skipper(one) for one in kind])
    if isinstance(kind, dict):
        return _skipper(kind)
    if kind == "record":
        types = [field["type"] for field in schema["fields"]]
        return _over_longs(len(types)) if _all_longs(types) else _over_each(types)
    if kind == "array":
        return _over_items(schema["items"])
    if kind == "map":
        pair = {"type": "record", "fields": [{"type": "string"}, {"type": schema["values"]}]}
        return _over_items(pair)
    if kind == "fixed":
        return _over_size(schema["size"])
    step: Skipper = _known(kind, _SKIPPERS)
    return step


def _all_longs(types: list[Any]) -> bool:
    return all(one in ("int", "long") for one in types)


def _over_size(size: int) -> Skipper:
    return lambda _, at: at + size


@cache
def _longs(count: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:[\x80-\xff]*[\x00-\x7f]){%d}" % count)


def _over_longs(count: int) -> Skipper:
    """Over so many numbers at once, which is most of what statistics are."""
    match = _longs(count).match

    def skip(data: bytes, at: int) -> int:
        found = match(data, at)
        if found is None:
            raise IndexError("the numbers end too early")
        return found.end()

    return skip


def _over_bytes(data: bytes, at: int) -> int:
    size, at = _long(data, at)
    return at + size


def _over_union(branches: list[Skipper]) -> Skipper:
    def skip(data: bytes, at: int) -> int:
        branch, at = _long(data, at)
        return branches[branch](data, at)

    return skip


def _over_each(types: list[Any]) -> Skipper:
    steps = [_skipper(one) for one in types]

    def skip(data: bytes, at: int) -> int:
        for step in steps:
            at = step(data, at)
        return at

    return skip


def _over_items(schema: Any) -> Skipper:
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    types = [field["type"] for field in fields]
    numbers = len(types) if types and _all_longs(types) else 0
    step = _skipper(schema)

    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = _long(data, at)
            if not count:
                return at
            if count < 0:
                size, at = _long(data, at)
                at += size
            elif numbers:
                at = _over_longs(numbers * count)(data, at)
            else:
                for _ in range(count):
                    at = step(data, at)

    return skip


_SKIPPERS: dict[str, Skipper] = {
    "null": _over_size(0),
    "boolean": _over_size(1),
    "float": _over_size(4),
    "double": _over_size(8),
    "int": _over_longs(1),
    "long": _over_longs(1),
    "enum": _over_longs(1),
    "bytes": _over_bytes,
    "string": _over_bytes,
}
