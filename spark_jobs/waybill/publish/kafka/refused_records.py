"""Which record of a part a topic may have refused: brokers name the part's batch and no record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError

from waybill.errors import Code, ConfigurationError
from waybill.publish.outgoing import place

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Timed(NamedTuple):
    """A record with a time of its own: milliseconds since 1970, and its change."""

    time: int
    place: str

    def __str__(self) -> str:
        moment = _EPOCH + timedelta(milliseconds=self.time)
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC (change {self.place})"


class Suspects:
    """The records of a part that a topic refuses before others.

    Args:
        topic: where they go.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._newest: _Timed | None = None
        self._oldest: _Timed | None = None
        self._keyless: str | None = None

    def note(self, batch: pa.RecordBatch, times: list[int]) -> None:
        """See records that are sent.

        Args:
            batch: the messages.
            times: the time of each in milliseconds since 1970, 0 for that of sending.
        """
        known = [time for time in times if time]
        if known:
            newest, oldest = max(known), min(known)
            if self._newest is None or newest > self._newest.time:
                self._newest = _Timed(newest, place(batch, times.index(newest)))
            if self._oldest is None or oldest < self._oldest.time:
                self._oldest = _Timed(oldest, place(batch, times.index(oldest)))
        keys = batch.column("key")
        if self._keyless is None and keys.null_count:
            self._keyless = place(batch, keys.is_null().to_pylist().index(True))

    def refusal(self, cause: KafkaError | None) -> ConfigurationError | None:
        """The error that says what the topic refuses, None where that is not known.

        Args:
            cause: what the client said.
        """
        code = None if cause is None else cause.code()
        if code == KafkaError.INVALID_TIMESTAMP and self._newest is not None:
            message = (
                f"the topic {self.topic} does not take the time of a record, so this part of the "
                f"batch was not sent; its newest record is of {self._newest}, its oldest of "
                f"{self._oldest}: raise message.timestamp.after.max.ms or "
                "message.timestamp.before.max.ms of the topic, or set timestamps: now for the "
                "target, then run the batch again"
            )
        elif code == KafkaError.INVALID_RECORD and self._keyless is not None:
            message = (
                f"the topic {self.topic} does not take a record, so this part of the batch was not "
                f"sent; the message of change {self._keyless} has no key, which a compacted topic "
                "does not take: set its cleanup.policy to delete, or publish to another topic, "
                "then run the batch again"
            )
        else:
            return None
        return ConfigurationError(message, code=Code.TARGET_TOPIC)
