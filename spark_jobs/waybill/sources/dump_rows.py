"""Rows of table dumps (Parquet, CSV, JSON Lines) as JSON objects, every value exact."""

from __future__ import annotations

import re
from collections.abc import Iterator

from waybill.errors import Code, SourceError
from waybill.sources import dump_csv, dump_parquet
from waybill.sources.streams import BLANKS, DigestReader, line_lists, unpacked

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".json": "lines",
}
"""Format by suffix; `.gz` and `.zst` may follow that of a text."""


def format_of(path: str) -> str:
    """The format of a dump by its name.

    Raises:
        SourceError: the name tells none.
    """
    plain = re.sub(r"\.(gz|zst)$", "", path)
    for suffix, name in FORMATS.items():
        if plain.endswith(suffix):
            return name
    message = f"{path} is not a dump that can be read: give it as {', '.join(FORMATS)}"
    raise SourceError(message, code=Code.DUMP_UNREADABLE)


def dump_types(path: str) -> dict[str, str]:
    """Logical types that the file itself tells; none but Parquet does.

    Raises:
        SourceError: it has a column of a type that cannot be loaded.
    """
    return dump_parquet.types_of(path) if format_of(path) == "parquet" else {}


def dump_rows(path: str, stream: DigestReader) -> Iterator[list[bytes]]:
    """The rows of a dump, some thousand at a time; rows of JSON Lines as they are.

    Raises:
        SourceError: the file cannot be read; names it and, where it is known, the row.
    """
    kind = format_of(path)
    if kind == "lines":
        for lines in line_lists(unpacked(stream, path), path):
            kept = [line for line in lines if line not in BLANKS]
            if kept:
                yield kept
    elif kind == "csv":
        yield from dump_csv.rows_of(path, unpacked(stream, path))
    else:
        yield from dump_parquet.rows_of(path)
