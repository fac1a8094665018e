"""Messages of the archive, one at a time: from a row of Arrow to the changes that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waybill.errors import Code, Refusal, WaybillError
from waybill.records import Change, Message, refused

if TYPE_CHECKING:
    from waybill.protocol import Decoder


def messages_of(batch: pa.RecordBatch) -> Iterator[Message]:
    """The messages of an archive batch; columns that are missing count as null."""
    # Often one message is asked for: each look at the schema would take longer than its values.
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    nulls: list[Any] = [None] * batch.num_rows

    def column(name: str) -> list[Any]:
        found = columns.get(name)
        return nulls if found is None else found.to_pylist()

    times = nulls
    if "timestamp" in columns:
        micros = columns["timestamp"].view(pa.int64()).to_pylist()
        times = [None if t is None else t // 1000 for t in micros]
    headers_column = columns.get("headers")
    headers = (
        nulls
        if headers_column is None or headers_column.null_count == batch.num_rows
        else headers_column.to_pylist()
    )
    for topic, partition, offset, timestamp, key, value, header in zip(
        column("topic"),
        column("partition"),
        column("offset"),
        times,
        column("key"),
        column("value"),
        headers,
        strict=True,
    ):
        pairs = [(h["key"], h["value"]) for h in header] if header else None
        yield Message(topic, partition, offset, timestamp, key, value, pairs)


def decode_message(decoder: Decoder, message: Message) -> list[Change]:
    """The changes of a message; a message that cannot be taken becomes one refused row."""
    try:
        return decoder.decode(message)
    except Refusal as refusal:
        return [refused(message, refusal)]
    except WaybillError:
        raise
    except Exception as error:
        raise envelope_fault("reading the message", message, error) from error


def envelope_fault(doing: str, message: Message, error: Exception) -> WaybillError:
    """What is raised where an envelope's code fails in a way that no message should bring about."""
    place = f"{message.topic}, partition {message.partition}, offset {message.offset}"
    return WaybillError(
        f"{doing} at {place} failed with {type(error).__name__}: {error}; this is a defect in the "
        "envelope's code, not in the message: please report it",
        code=Code.ENVELOPE_FAULT,
    )
