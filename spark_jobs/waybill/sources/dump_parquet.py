"""Parquet dumps: typed by the file, every value as a text or number that keeps all its digits."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.errors import Code, SourceError
from waybill.sources.parquet import bare, bare_type, rows_per_batch

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_encode = msgspec.json.Encoder().encode
_SPECIAL = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NO_FRACTION = re.compile(r"\.0+(?=Z?$)")
_FLOATS = {"halffloat": "float32", "float": "float32", "double": "float64"}
_EXTENSIONS = {"arrow.uuid": "string", "arrow.json": "json"}
"""Logical types of Arrow's extension types that are read."""


class _UnreadError(Exception):
    """Says of a column why it cannot be loaded, without its name."""


def types_of(path: str) -> dict[str, str]:
    """Logical types of the columns.

    Raises:
        SourceError: the file is not a Parquet file, or a column's type cannot be loaded.
    """
    with _opened(path) as parquet:
        return {
            field.name: _naming_column(path, field.name, _logical, field.type)
            for field in parquet.schema_arrow
        }


def rows_of(path: str) -> Iterator[list[bytes]]:
    """The rows as JSON objects, some megabytes at a time.

    Raises:
        SourceError: the file is not a Parquet file, or a column holds what cannot be loaded.
    """
    with _opened(path) as parquet:
        names = parquet.schema_arrow.names
        for batch in parquet.iter_batches(rows_per_batch(parquet)):
            columns = [
                _naming_column(path, name, _plain, column)
                for name, column in zip(names, batch.columns, strict=True)
            ]
            found = zip(*columns, strict=True)
            yield [_encode(dict(zip(names, row, strict=True))) for row in found]


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from waybill.storage.open import open_storage

    fs, name = open_storage(path)
    try:
        with fs.open(name, "rb") as file:
            parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
            names = parquet.schema_arrow.names
            if len(set(names)) < len(names):
                raise SourceError(
                    f"{path} has several columns of one name: {names}", code=Code.DUMP_UNREADABLE
                )
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{path} cannot be read as Parquet ({error}); replace it", code=Code.DUMP_UNREADABLE
        ) from error


def _naming_column(path: str, name: str, read: Callable[[Any], Any], given: Any) -> Any:
    """What is read of a column; errors name it."""
    try:
        return read(given)
    except _UnreadError as error:
        message = f"column {name!r} of {path} {error}: write it as another type, or leave it out"
        raise SourceError(message, code=Code.DUMP_UNREADABLE) from None


def _logical(kind: pa.DataType) -> str:
    import pyarrow as pa

    kind, types = bare_type(kind), pa.types
    if types.is_integer(kind):
        return str(kind)
    if types.is_floating(kind):
        return _FLOATS[str(kind)]
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _EXTENSIONS:
        return _EXTENSIONS[kind.extension_name]
    for test, name in _tests():
        if test(kind):
            return name
    if types.is_nested(kind):
        for number in range(kind.num_fields):
            _logical(kind.field(number).type)
        return "json"
    raise _UnreadError(f"is of type {kind}, which cannot be loaded")


def _tests() -> list[tuple[Callable[[Any], bool], str]]:
    from pyarrow import types

    return [
        (types.is_boolean, "boolean"),
        (types.is_string, "string"),
        (types.is_binary, "bytes"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (types.is_null, "json"),
    ]


def _plain(column: Any) -> list[Any]:
    """Values that stand in JSON with every digit they have."""
    import pyarrow as pa

    column = bare(column)
    kind, name = column.type, _logical(column.type)
    if name.startswith("decimal"):
        return _each(column, lambda number: msgspec.Raw(format(number, "f").encode()))
    if name in ("float32", "float64"):
        # The fewest digits that read back to the same value.
        if pa.types.is_float16(kind):
            column = column.cast(pa.float32())
        return _each(column.cast(pa.string()), _number)
    if name == "bytes":
        return _each(column, lambda data: base64.b64encode(data).decode())
    if name in ("timestamp", "timestamptz"):
        zone = "Z" if kind.tz else ""
        plain = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
        return _each(plain, lambda text: _NO_FRACTION.sub("", text.replace(" ", "T")) + zone)
    if name in ("date", "time"):
        return _each(column.cast(pa.string()), lambda text: _NO_FRACTION.sub("", text))
    if isinstance(kind, pa.BaseExtensionType):
        # A text of JSON is one, a UUID is written as people write it.
        return _each(column, str)
    if pa.types.is_nested(kind):
        return [None if value is None else _encode(value).decode() for value in _nested(column)]
    values: list[Any] = column.to_pylist()
    return values


def _nested(column: Any) -> list[Any]:
    """Values of lists, structs and maps; those in them as they would stand in a column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = bare(column)
    kind, types = column.type, pa.types
    there = column.is_valid().to_pylist()
    if types.is_struct(kind):
        names = [kind.field(number).name for number in range(kind.num_fields)]
        rows = zip(*(_nested(pc.struct_field(column, [n])) for n in range(len(names))), strict=True)
        return [
            dict(zip(names, row, strict=True)) if valid else None
            for row, valid in zip(rows, there, strict=True)
        ]
    if types.is_map(kind):
        pairs = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return [
            None if row is None else [[pair["key"], pair["value"]] for pair in row]
            for row in _nested(column.cast(pa.list_(pairs)))
        ]
    if types.is_nested(kind):
        items = iter(_nested(pc.list_flatten(column)))
        lengths = pc.list_value_length(column).to_pylist()
        return [None if n is None else [next(items) for _ in range(n)] for n in lengths]
    if types.is_floating(kind) and not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise _UnreadError("holds NaN or an infinite number inside of a value, as JSON cannot")
    return _plain(column)


def _each(column: Any, convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in column.to_pylist()]


def _number(text: str) -> Any:
    return _SPECIAL.get(text) or msgspec.Raw(text.encode())
