"""Messages of Kafka as rows of the archive."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)

from waybill.errors import Code, SourceError
from waybill.lake_columns import TIMESTAMP
from waybill.sources.tasks import archive_batch

KINDS = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "logappend"}
"""Who gave a timestamp, as the archive says it."""

LATEST = (2**63 - 1) // 1000
"""Milliseconds since 1970 that microseconds in 64 bits still hold; a timestamp beyond is null."""


def archive_rows(
    messages: list[Message], batch_id: str, only: tuple[str, int] | None, without_headers: bool
) -> tuple[pa.RecordBatch, list[int], list[Message]]:
    """Messages as rows.

    Args:
        messages: one or more.
        batch_id: the batch that brings them.
        only: topic and partition, where all are of one.
        without_headers: whether messages whose headers cannot be read go without them.

    Returns:
        The rows, the size of each message's key and value, and the messages that went without
        their headers.

    Raises:
        SourceError: the headers of a message cannot be read.
    """
    # There is no call for many messages at once; comprehensions are the fastest way.
    topic: Any = only[0] if only else [m.topic() for m in messages]
    partition: Any = only[1] if only else [m.partition() for m in messages]
    keys: list[Any] = [m.key() for m in messages]
    values: list[Any] = [m.value() for m in messages]
    headers, bare = _headers(messages, without_headers)
    times = [m.timestamp() for m in messages]
    kinds = [kind for kind, _ in times]
    uniform = kinds.count(kinds[0]) == len(kinds)
    stamps: list[int | None] = [time for _, time in times]
    if TIMESTAMP_NOT_AVAILABLE in kinds:
        stamps = [None if k == TIMESTAMP_NOT_AVAILABLE else t for k, t in times]
    if max((abs(stamp) for stamp in stamps if stamp is not None), default=0) > LATEST:
        stamps = [stamp if stamp is not None and abs(stamp) <= LATEST else None for stamp in stamps]
    milliseconds: Any = pa.array(stamps, pa.timestamp("ms", tz="UTC"))
    rows = archive_batch(
        batch_id,
        pa.array(values, pa.binary()),
        topic,
        partition,
        [m.offset() for m in messages],
        milliseconds.cast(TIMESTAMP),
        keys,
        headers if any(headers) else None,
        KINDS.get(kinds[0]) if uniform else [KINDS.get(kind) for kind in kinds],
    )
    sizes = [len(key or b"") + len(value or b"") for key, value in zip(keys, values, strict=True)]
    return rows, sizes, bare


def _headers(messages: list[Message], without: bool) -> tuple[list[Any], list[Message]]:
    """The headers of each message, and the messages that go without theirs.

    Of a name that is not a text, the client (confluent-kafka 2.16) gives a list with a hole, and
    leaves an error set. `map` looks for such an error after each call; a plain `message.headers()`
    that has run often does not and would pass the list on, which may end the process.
    """
    found: list[Any] = []
    bare: list[Message] = []
    # No message is asked twice: the second answer is the list, without an error.
    answers = map(Message.headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(answers)
        except (SystemError, UnicodeDecodeError) as error:
            if not _undecoded(error):
                raise
            message = messages[len(found)]
            if not without:
                raise SourceError(_unreadable(message), code=Code.HEADER_UNREADABLE) from None
            found.append(None)
            bare.append(message)
    return found, bare


def _undecoded(error: BaseException | None) -> bool:
    """Whether a name that is not a text is at the bottom of an error."""
    while isinstance(error, SystemError):
        error = error.__cause__
    return isinstance(error, UnicodeDecodeError)


def _unreadable(message: Message) -> str:
    return (
        f"the message at offset {message.offset()} of partition {message.partition()} of the topic "
        f"{message.topic()} has a header whose name is not UTF-8, which the client cannot read: to "
        "archive such messages without headers, set unreadable_headers: leave_out"
    )
