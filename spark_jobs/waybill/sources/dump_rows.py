"""Rows of table dumps (Parquet, CSV, JSON Lines) as JSON objects, every value exact."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.errors import SourceError
from waybill.sources.parquet import rows_per_batch
from waybill.sources.streams import DigestReader, line_lists, unpacked

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".json": "lines",
}
"""Format by suffix; `.gz` and `.zst` may follow that of a text."""

_encode = msgspec.json.Encoder().encode
_SPECIAL = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NO_FRACTION = re.compile(r"\.0+(?=Z?$)")


def format_of(path: str) -> str:
    """The format of a dump by its name.

    Raises:
        SourceError: the name tells none.
    """
    plain = re.sub(r"\.(gz|zst)$", "", path)
    for suffix, name in FORMATS.items():
        if plain.endswith(suffix):
            return name
    message = f"{path} is no dump that can be read: give it as {', '.join(FORMATS)}"
    raise SourceError(message)


def dump_types(path: str) -> dict[str, str]:
    """Logical types that the file itself tells; none but Parquet does."""
    if format_of(path) != "parquet":
        return {}
    from waybill.storage import open_storage

    fs, name = open_storage(path)
    with fs.open(name, "rb") as file:
        return {field.name: _logical(field.type) for field in _parquet(file, path).schema_arrow}


def dump_rows(path: str, stream: DigestReader) -> Iterator[list[bytes]]:
    """The rows of a dump, some thousand at a time; rows of JSON Lines as they are.

    Raises:
        SourceError: the file cannot be read; names it and, where it is known, the row.
    """
    kind = format_of(path)
    if kind == "lines":
        for lines in line_lists(unpacked(stream, path), path):
            kept = [line for line in lines if line]
            if kept:
                yield kept
    elif kind == "csv":
        yield from _csv(path, stream)
    else:
        yield from _parquet_rows(path)


def _csv(path: str, stream: DigestReader) -> Iterator[list[bytes]]:
    """Records of a CSV file as texts; a field that is empty and not quoted is null."""
    import pyarrow as pa
    from pyarrow import csv

    from waybill.sources.streams import opened

    parse = csv.ParseOptions(newlines_in_values=True)
    rows = 0
    try:
        with opened(path) as first:
            head = csv.open_csv(_file(unpacked(first, path)), parse_options=parse)
            names = head.schema.names
        if len(set(names)) < len(names):
            message = f"{path} has several columns of one name in its first line: {names}"
            raise SourceError(message)
        convert = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        reader = csv.open_csv(
            _file(unpacked(stream, path)),
            parse_options=parse,
            convert_options=convert,
        )
        for batch in reader:
            found = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            rows += batch.num_rows
            yield [_encode(dict(zip(names, row, strict=True))) for row in found]
    except pa.ArrowException as error:
        why = " ".join(str(error).split())
        message = f"{path} cannot be read as CSV in UTF-8 after row {rows} ({why}); replace it"
        raise SourceError(message) from error


def _file(stream: Any) -> Any:
    """As Arrow reads it, block by block."""
    import pyarrow as pa

    return pa.PythonFile(stream, mode="r")


def _parquet(file: Any, path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} cannot be read as Parquet ({error}); replace it") from error


def _parquet_rows(path: str) -> Iterator[list[bytes]]:
    from waybill.storage import open_storage

    fs, name = open_storage(path)
    with fs.open(name, "rb") as file:
        parquet = _parquet(file, path)
        names = parquet.schema_arrow.names
        for batch in parquet.iter_batches(rows_per_batch(parquet)):
            columns = [_plain(column) for column in batch.columns]
            found = zip(*columns, strict=True)
            yield [_encode(dict(zip(names, row, strict=True))) for row in found]


def _logical(kind: pa.DataType) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return next((name for test, name in _tests() if test(kind)), "json")


def _tests() -> list[tuple[Callable[[Any], bool], str]]:
    from pyarrow import types

    return [
        (types.is_boolean, "boolean"),
        (types.is_string, "string"),
        (types.is_large_string, "string"),
        (types.is_binary, "bytes"),
        (types.is_large_binary, "bytes"),
        (types.is_fixed_size_binary, "bytes"),
        (types.is_date, "date"),
        (types.is_time, "time"),
    ]


def _plain(column: Any) -> list[Any]:
    """Values that stand in JSON with every digit they have."""
    import pyarrow as pa

    kind, name = column.type, _logical(column.type)
    if name.startswith("decimal"):
        return _each(column, lambda number: msgspec.Raw(format(number, "f").encode()))
    if name in ("float32", "float64"):
        # The fewest digits that read back to the same value.
        return _each(column.cast(pa.string()), _number)
    if name == "bytes":
        return _each(column, lambda data: base64.b64encode(data).decode())
    if name in ("timestamp", "timestamptz"):
        zone = "Z" if kind.tz else ""
        plain = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
        return _each(plain, lambda text: _NO_FRACTION.sub("", text.replace(" ", "T")) + zone)
    if name in ("date", "time"):
        return _each(column.cast(pa.string()), lambda text: _NO_FRACTION.sub("", text))
    if name == "json":
        return _each(column, lambda value: msgspec.json.encode(value, enc_hook=str).decode())
    values: list[Any] = column.to_pylist()
    return values


def _each(column: Any, convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in column.to_pylist()]


def _number(text: str) -> Any:
    return _SPECIAL.get(text) or msgspec.Raw(text.encode())
