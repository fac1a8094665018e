"""CSV dumps by RFC 4180: a quoted field ends where its quote does, and nothing is guessed.

A reader that takes what it can lets a quote that is never closed swallow the rows after it. So the
text is cut into whole rows by the grammar first, and what does not fit is an error; Arrow then
reads each part. Quotes inside of a field that does not begin with one stand for themselves.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import IO

import msgspec

from waybill.errors import Code, SourceError
from waybill.sources.streams import text_blocks

LARGEST = 64 << 20
"""Bytes of the largest row."""

# What can fail behind what it has tried is not repeated with `*+`: before 3.11.5 that ends too late
# (CPython's gh-106052). An atomic group remembers each round, so it gets few of them at once.
_FIELD_TEXT = rb'(?:"(?:[^"]++|"")*+"|[^",\r\n][^,\r\n]*+|)'
_FIELD = re.compile(_FIELD_TEXT)
_FIELD_AND_COMMA = re.compile(rb"%b," % _FIELD_TEXT)
_FIELDS = re.compile(rb"(?>(?:%b,)*)" % _FIELD_TEXT)
_ROW = re.compile(rb"%b(?:,%b)*+" % (_FIELD_TEXT, _FIELD_TEXT))
_ROWS = re.compile(rb"(?>(?:%b(?:,%b)*+(?:\r\n?|\n)){0,10000})" % (_FIELD_TEXT, _FIELD_TEXT))
_QUOTED = re.compile(rb'"(?:[^"]++|"")*+(?P<closed>"?)')
_LINE_ENDS = b"\r\n"

_encode = msgspec.json.Encoder().encode


def rows_of(path: str, stream: IO[bytes]) -> Iterator[list[bytes]]:
    """Rows as JSON objects of texts; a field that is empty and not quoted is null.

    Args:
        path: name of the file, for errors.
        stream: its content, unpacked.

    Raises:
        SourceError: a quote is not closed or not followed by the end of its field, a row has
            another number of fields than the first line or is too large, a text is no UTF-8.
    """
    import pyarrow as pa

    names: list[str] = []
    rows = 0
    try:
        for part in _parts(path, stream):
            if not names:
                part = part.lstrip(_LINE_ENDS)
                names, end = _names_of(path, part)
                part = part[end:].removeprefix(b"\r").removeprefix(b"\n")
            if part:
                found = _read(part, names)
                rows += len(found)
                yield found
    except (pa.ArrowException, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        message = f"{path} cannot be read as CSV in UTF-8 after row {rows} ({why}); replace it"
        raise SourceError(message, code=Code.DUMP_UNREADABLE) from error
    if not names:
        message = f"{path} cannot be read as CSV: its first line must name the columns; replace it"
        raise SourceError(message, code=Code.DUMP_UNREADABLE)


def _names_of(path: str, part: bytes) -> tuple[list[str], int]:
    """The names in the first line, and where it ends; none where there is no line."""
    row = _ROW.match(part)
    if not row or not part:
        return [], 0
    names, begin = [], 0
    while begin <= row.end():
        field = _FIELD.match(part, begin)
        assert field is not None, "a field may be empty"
        text = field[0].decode()
        names.append(text[1:-1].replace('""', '"') if text.startswith('"') else text)
        begin = field.end() + 1
    if len(set(names)) < len(names):
        message = f"{path} has several columns of one name in its first line: {names}"
        raise SourceError(message, code=Code.DUMP_UNREADABLE)
    return names, row.end()


def _read(part: bytes, names: list[str]) -> list[bytes]:
    """Whole rows as JSON."""
    import pyarrow as pa
    from pyarrow import csv

    table = csv.read_csv(
        io.BytesIO(part),
        read_options=csv.ReadOptions(
            column_names=names, block_size=len(part) + 1, use_threads=False
        ),
        # Where there is one column, an empty line is a row: its field is null.
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    found = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [_encode(dict(zip(names, row, strict=True))) for row in found]


def _parts(path: str, stream: IO[bytes]) -> Iterator[bytes]:
    """The text, cut between rows.

    Raises:
        SourceError: a quoted field does not end as it has to, or a row is too large.
    """
    held: list[bytes] = []
    size = seen = 0
    line = 1
    for block in text_blocks(stream, path):
        held.append(block)
        size += len(block)
        if size < 2 * seen:
            continue  # a long row is looked at again when it has doubled, not at every block
        text = b"".join(held)
        # The line feed of a carriage return at the end may be in the next block.
        cut = _end_of_rows(text, len(text) - text.endswith(b"\r"))
        part = text[:cut]
        line += _line_ends(part)
        _check_field(path, text, cut, line, ended=False)
        if part:
            yield part
        held = [text[cut:]]
        size = seen = len(text) - cut
        if size > LARGEST:
            message = (
                f"{path} has a row of more than {LARGEST >> 20} MiB from line {line} on: close the "
                "quote that is open there, or give the table as Parquet"
            )
            raise SourceError(message, code=Code.DUMP_UNREADABLE)
    text = b"".join(held)
    cut = _end_of_rows(text, len(text))
    _check_field(path, text, cut, line + _line_ends(text[:cut]), ended=True)
    if text:
        yield text


def _end_of_rows(text: bytes, end: int) -> int:
    begin = 0
    while (rows := _ROWS.match(text, begin, end)) and rows.end() > begin:
        begin = rows.end()
    return begin


def _check_field(path: str, text: bytes, row: int, line: int, ended: bool) -> None:
    """See that the quoted field at which the rows ended may still become one.

    Args:
        path: name of the file.
        text: what is there of it.
        row: where the row begins that is not whole.
        line: the number of its line.
        ended: whether nothing follows.
    """
    fields = _FIELDS.match(text, row)
    begin = fields.end() if fields else row
    quoted = _QUOTED.match(text, begin)
    if quoted is None:
        return
    after = text[quoted.end() : quoted.end() + 1]
    if after and after not in (b",", b"\r", b"\n"):
        why = "goes on after its closing quote"
        fix = "write a quote inside of a quoted field twice"
    elif ended and not quoted["closed"]:
        why = "is not closed before the end of the file"
        fix = "close it, or put the whole file there"
    else:
        return
    number = len(_FIELD_AND_COMMA.findall(text[row:begin])) + 1
    line += _line_ends(text[row:begin])
    raise SourceError(
        f"field {number} in line {line} of {path} is quoted and {why}: {fix}",
        code=Code.DUMP_UNREADABLE,
    )


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
