"""A producer of transactions, whose errors are ours."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from waybill.errors import Code, ConfigurationError, ConflictError, WaybillError
from waybill.kafka.failures import failure

QUEUE = "queue.buffering.max.kbytes"
"""Property of the client: kB of all messages that it holds until the brokers have them."""

PRODUCER = {
    "compression.type": "lz4",
    "linger.ms": "20",
    "queue.buffering.max.messages": "200000",
    QUEUE: "131072",
}
"""What a connection may say otherwise."""

MOST_QUEUED = 2_097_151
"""The greatest value of it that the client allows."""

BATCH_BYTES = 1_000_000
"""Bytes of a batch of records, where the topic takes that much."""

MESSAGE_BYTES = (1_000, 1_000_000_000)
"""The least and the greatest `message.max.bytes` that the client allows."""

FENCED = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)
"""Somebody else took the transactional id, or the transaction went on for too long."""

BEGIN_WITHIN = 60.0
"""Seconds for taking a transactional id; a broker that was just started needs some."""


class Transactions:
    """Sends in transactions under one id; whoever takes the id next ends them.

    Args:
        properties: of the client.
        transactional_id: the id.
        timeout: seconds that a transaction may be open; then the brokers end it.
        largest: bytes of the largest message that the topic takes, None if that is not known.

    Attributes:
        offsets: first and last offset of the watched records of the transaction, by partition;
            known when it is finished.
        cause: what the client said when a method here raised an error, None before.

    Raises:
        ConfigurationError: a property is wrong.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        transactional_id: str,
        timeout: float,
        largest: int | None = None,
    ) -> None:
        self.id = transactional_id
        self._about = f"publishing as {transactional_id} to {properties.get('bootstrap.servers')}"
        self._timeout = timeout
        self._heard: list[KafkaError] = []
        settings: dict[str, Any] = {**PRODUCER, **properties}
        if largest is not None:
            # The client's own limit must not be lower than the topic's; its batches not larger.
            least, most = MESSAGE_BYTES
            settings["message.max.bytes"] = min(max(largest, least), most)
            settings.setdefault("batch.size", min(BATCH_BYTES, largest))
        if QUEUE not in properties:
            settings[QUEUE] = _queue(settings)
        settings |= {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(timeout * 1000),
            "enable.idempotence": "true",
            "acks": "all",
            "error_cb": self._heard.append,
        }
        try:
            self._producer = Producer(settings)
        except KafkaException as error:
            raise failure(error.args[0], self._about) from error
        self._in_transaction = False
        self._lost: KafkaError | None = None
        self.offsets: dict[int, tuple[int, int]] = {}
        self.cause: KafkaError | None = None

    def __enter__(self) -> Transactions:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._in_transaction:
            # The first error is the one to tell; what cannot be ended here is ended by the next
            # run, which takes the id.
            with suppress(KafkaException, SystemError):
                self._producer.purge()
                self._producer.abort_transaction(5)
        # Dropped, not closed: closing waits for brokers that may be away.
        del self._producer

    def take(self) -> None:
        """Take the id: older holders are fenced, and what they left open is ended.

        Raises:
            ConfigurationError: the login, a right or the timeout is wrong.
            UnreachableError: no server answers.
        """
        with self._errors_translated():
            limit = time.monotonic() + BEGIN_WITHIN
            while True:
                try:
                    # In short steps, so that a wrong password is reported when it is known.
                    return self._producer.init_transactions(2)
                except KafkaException as error:
                    self._producer.poll(0)
                    self._raise_permanent()
                    if not error.args[0].retriable() or time.monotonic() > limit:
                        raise

    def begin(self) -> None:
        """Begin a transaction."""
        with self._errors_translated():
            self._producer.begin_transaction()
            self._in_transaction = True
            self.offsets = {}

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        watched: bool = False,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Send a record in the transaction; waits while the client's queue is full.

        Args:
            topic: where to.
            value: None for a tombstone.
            key: None for none.
            partition: of the topic.
            watched: whether its place goes into `offsets`. A callback for every record would take
                longer than sending them.
            timestamp: milliseconds since 1970, 0 for now.
            headers: names and values.

        Raises:
            ConfigurationError: the record is larger than the whole queue, or the topic does not
                take one of the transaction.
            ConflictError: the id was taken by another run.
        """
        callback = self._on_delivery if watched else None
        empty = False
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, callback, None, timestamp, headers
                )
                return
            except BufferError:
                if empty:
                    size = len(value or b"") + len(key or b"")
                    message = (
                        f"{self._about}: a message of {size} bytes for the topic {topic} is larger "
                        f"than the client's queue: raise {QUEUE} of the connection to at least "
                        f"{_kbytes(size)}, or leave it out"
                    )
                    raise ConfigurationError(message, code=Code.CONNECTION_INVALID) from None
                self.look(0.1)
                empty = not len(self._producer)
            except (KafkaException, SystemError) as error:
                raise self._fault(error) from error

    def look(self, seconds: float = 0) -> None:
        """Let the client tell what became of records.

        Raises:
            ConflictError: the id was taken by another run.
        """
        with self._errors_translated():
            self._producer.poll(seconds)

    def finish(self) -> None:
        """Wait until the brokers have every record.

        Raises:
            ConfigurationError: the topic does not take one.
            ConflictError: the id was taken by another run.
            UnreachableError: they do not take them in time.
        """
        with self._errors_translated():
            left = self._producer.flush(self._timeout)
        if left or self._lost is not None:
            self._raise_permanent()
            lost = self._lost
            if lost is None or lost.code() == KafkaError._INVALID_DIFFERENT_RECORD:
                lost = self._aborting() or lost or KafkaError(KafkaError._MSG_TIMED_OUT)
            error = KafkaException(lost)
            raise self._fault(error) from error

    def commit(self) -> None:
        """Make the transaction count.

        Raises:
            ConflictError: the id was taken by another run, or the transaction took too long.
            UnreachableError: it is not known what became of it; the next run finds out.
        """
        with self._errors_translated():
            limit = time.monotonic() + self._timeout
            while True:
                try:
                    self._producer.commit_transaction(10)
                    self._in_transaction = False
                    return
                except KafkaException as error:
                    if not error.args[0].retriable() or time.monotonic() > limit:
                        raise

    def _on_delivery(self, error: KafkaError | None, record: Any) -> None:
        if error is not None:
            self._lost = self._lost or error
            return
        number, offset = record.partition(), record.offset()
        first, last = self.offsets.get(number, (offset, offset))
        self.offsets[number] = (min(first, offset), max(last, offset))

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        """Errors of the client as ours."""
        try:
            yield
        except (KafkaException, SystemError) as error:
            raise self._fault(error) from error

    def _fault(self, error: KafkaException | SystemError) -> WaybillError:
        kafka_error = error.args[0] if isinstance(error, KafkaException) else None
        if kafka_error is None or kafka_error.code() == KafkaError._FATAL:
            kafka_error = self._fatal(error)
        if kafka_error.code() == KafkaError._STATE:
            kafka_error = self._aborting() or kafka_error
        self.cause = kafka_error
        if kafka_error.code() in FENCED:
            self._in_transaction = False
            message = (
                f"{self._about}: another run publishes to this target now, or the transaction was "
                f"open for more than {self._timeout:.0f} s; the unfinished transaction of this run "
                "was aborted: let the other run end, then run again"
            )
            return ConflictError(message, code=Code.PUBLISHED_CONCURRENTLY)
        if kafka_error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            message = (
                f"{self._about}: transactions may not be open for {self._timeout:.0f} s there: "
                "lower the target's setting transaction_timeout"
            )
            return ConfigurationError(message, code=Code.TARGET_TOPIC)
        return failure(kafka_error, self._about, self._heard)

    def _fatal(self, error: KafkaException | SystemError) -> KafkaError:
        """The fatal error behind one that only says that there was one.

        A fatal error that comes in the midst of other callbacks makes the client return without
        an exception, or with one and a result: Python calls either a SystemError. From then on
        every call about transactions says what it was.
        """
        for kafka_error in (error, error.__cause__):
            if (
                isinstance(kafka_error, KafkaException)
                and kafka_error.args[0].code() != KafkaError._FATAL
            ):
                return kafka_error.args[0]  # type: ignore[no-any-return]
        try:
            self._producer.begin_transaction()
        except KafkaException as found:
            if found.args[0].fatal():
                return found.args[0]  # type: ignore[no-any-return]
        raise error

    def _aborting(self) -> KafkaError | None:
        """Why the transaction can only be aborted, None where it goes on.

        A record learns no more than that its batch failed, and few have a callback. From then on
        the client takes no record and says nothing but that its state is another.
        """
        if not self._in_transaction:
            return None
        try:
            # Within a transaction this changes nothing.
            self._producer.begin_transaction()
        except KafkaException as found:
            error: KafkaError = found.args[0]
            return error if error.txn_requires_abort() or error.fatal() else None
        except SystemError:
            return None  # see `_fatal`
        return None

    def _raise_permanent(self) -> None:
        """Raise what the client heard, if waiting does not help."""
        for heard in self._heard:
            fault = failure(heard, self._about)
            if not fault.transient:
                raise fault


def _queue(settings: Mapping[str, Any]) -> str:
    """The size of the client's queue: the usual one, or the largest message if that is larger."""
    largest = str(settings.get("message.max.bytes", ""))
    usual = int(PRODUCER[QUEUE])
    # What is not a number the client itself refuses.
    needed = _kbytes(int(largest)) if largest.isascii() and largest.isdigit() else 0
    return str(min(max(usual, needed), MOST_QUEUED))


def _kbytes(size: int) -> int:
    """So many kB hold so many bytes."""
    return -(-size // 1024)
