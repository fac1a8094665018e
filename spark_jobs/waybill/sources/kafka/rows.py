"""Messages of Kafka as rows of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
)

from waybill.layout import TIMESTAMP
from waybill.sources.tasks import archive_batch

if TYPE_CHECKING:
    from confluent_kafka import Message

KINDS = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "logappend"}
"""Who gave a timestamp, as the archive says it."""

LATEST = (2**63 - 1) // 1000
"""Milliseconds since 1970 that microseconds in 64 bits still hold; a timestamp beyond is null."""


def archive_rows(
    messages: list[Message], batch_id: str, only: tuple[str, int] | None
) -> tuple[pa.RecordBatch, list[int]]:
    """Messages as rows.

    Args:
        messages: one or more.
        batch_id: the batch that brings them.
        only: topic and partition, where all are of one.

    Returns:
        The rows, and the size of each message's key and value.
    """
    # There is no call for many messages at once; comprehensions are the fastest way.
    topic: Any = only[0] if only else [m.topic() for m in messages]
    partition: Any = only[1] if only else [m.partition() for m in messages]
    keys: list[Any] = [m.key() for m in messages]
    values: list[Any] = [m.value() for m in messages]
    headers: Any = [m.headers() for m in messages]
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
    return rows, sizes
