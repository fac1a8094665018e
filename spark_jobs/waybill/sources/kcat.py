"""Layout `kcat`: the lines that `kcat -C -J` writes.

An object a line with topic, partition, offset, tstype, ts (milliseconds, -1 or left out where there
is none), broker, headers (name, value, name, value, …; with `-X` an object of lists), key and
payload (text or null). kcat escapes control characters, quotes and backslashes and writes every
other byte as it is, so a payload that is no UTF-8 stands in the line as it was.
Source: kcat, json.c, fmt_msg_output_json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from waybill.errors import Code, SourceError
from waybill.sources.streams import BLANKS, DigestReader, line_lists, unpacked
from waybill.sources.tasks import FileCounts, FileTask, archive_batch, bounded

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".kcat", ".jsonl", ".ndjson", ".json", ".txt")


class _KcatRecord(msgspec.Struct, gc=False):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
    offset: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    payload: str | None
    key: str | None = None
    ts: int | None = None
    tstype: str | None = None
    headers: list[str | None] | dict[str, list[str | None]] | None = None


_KINDS = ("create", "logappend")
_LATEST = (2**63 - 1) // 1000
"""The latest time in milliseconds whose microseconds fit into the archive."""

_decode = msgspec.json.Decoder(_KcatRecord).decode


def read(
    task: FileTask, stream: DigestReader, counts: FileCounts, batch_id: str
) -> Iterator[pa.RecordBatch]:
    """The messages of a file, a few thousand at a time.

    Raises:
        SourceError: a line is not what kcat writes; names file and line.
    """
    import pyarrow as pa

    number = 0
    for lines in line_lists(unpacked(stream, task.path), task.path):
        for part in bounded(lines):
            rows = []
            for line in part:
                number += 1
                if line in BLANKS:
                    counts.empty += 1
                    continue
                try:
                    rows.append(fields_of_line(line))
                except (ValueError, TypeError, OverflowError) as error:
                    raise SourceError(
                        _complaint(task, number, error), code=Code.SOURCE_LAYOUT
                    ) from error
            if not rows:
                continue
            counts.rows += len(rows)
            topics, partitions, offsets, times, keys, values, headers, types = zip(
                *rows, strict=True
            )
            yield archive_batch(
                batch_id,
                pa.array(values, pa.binary()),
                pa.array(topics, pa.string()),
                pa.array(partitions, pa.int32()),
                list(offsets),
                list(times),
                list(keys),
                list(headers),
                list(types),
            )


def fields_of_line(text: bytes) -> tuple[Any, ...]:
    """Topic, partition, offset, time in microseconds, key, value, headers and kind of time.

    Raises:
        ValueError: it is not a line of kcat; TypeError and OverflowError mean the same.
    """
    try:
        line, encoding = _line_of(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None

    def raw(value: str | None) -> bytes | None:
        return None if value is None else value.encode("utf-8", encoding)

    pairs = None if line.headers is None else list(_pairs(line))
    for name in (line.topic, *(key for key, _ in pairs or ())):
        name.encode()  # half of a surrogate pair is not a text
    return (
        line.topic,
        line.partition,
        line.offset,
        None if line.ts is None or line.ts < 0 else _micros(line.ts),
        raw(line.key),
        raw(line.payload),
        None if pairs is None else [{"key": key, "value": raw(value)} for key, value in pairs],
        line.tstype if line.tstype in _KINDS else None,
    )


def _line_of(text: bytes) -> tuple[_KcatRecord, str]:
    """A line, and how its texts become the bytes that they were."""
    try:
        return _decode(text), "strict"
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Bytes that are no UTF-8 come as lone surrogates and go back as the bytes they were. A lone
        # surrogate that is written as an escape stands for no byte; kcat writes none.
        encoding = "strict" if _is_utf8(text) else "surrogateescape"
        data = json.loads(text.decode("utf-8", "surrogateescape"))
        return msgspec.convert(data, _KcatRecord), encoding


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _micros(milliseconds: int) -> int:
    if milliseconds > _LATEST:
        raise OverflowError(f"ts {milliseconds} is not a time")
    return milliseconds * 1000


def _pairs(line: _KcatRecord) -> Iterator[tuple[str, str | None]]:
    headers = line.headers
    if isinstance(headers, dict):
        for name, values in headers.items():
            for value in values:
                yield name, value
    elif headers is not None:
        for key, value in zip(headers[::2], headers[1::2], strict=True):
            if key is None:
                raise ValueError("a header without a name")
            yield key, value


def _complaint(task: FileTask, number: int, error: Exception) -> str:
    return (
        f"line {number} of {task.path} is not a line of `kcat -J` ({error}); take it out, or "
        "record the topic again without `-s`"
    )
