"""The ledger: a compacted topic with one record for each part that was sent.

A record is written in the transaction of its part, so it is there if, and only if, the part is.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic, OffsetSpec

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, ConflictError, WaybillError
from waybill.kafka.cluster import Cluster
from waybill.kafka.failures import code_of
from waybill.publish.kafka.topic import PATIENCE, describe

SLOTS = 16
"""Partitions that entries are spread over. A target's entries are all in one, and a transaction
that hangs hides later entries of its own partition only."""

SETTINGS = {"cleanup.policy": "compact"}
"""How the topic is made; everything else is as the brokers have it."""

OPEN_FOR = 180.0
"""Seconds to wait for transactions of other targets that hide what stands behind them."""

SILENCE = 20.0
"""Seconds without a word from the brokers while the ledger is read."""

_END: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class LedgerEntry(msgspec.Struct, kw_only=True):
    """What was sent with one part.

    Attributes:
        topic: where to.
        messages: how many records.
        tombstones: those of them without a value.
        bytes: of keys, values and headers.
        sha256: checksum of the messages (`content.Content`).
        first: change of the first message, as topic/partition/offset/index.
        last: change of the last message.
        offsets: first and last offset by partition of the topic.
        of: messages of the whole batch for this target.
    """

    topic: str
    messages: int
    tombstones: int
    bytes: int
    sha256: str
    first: str
    last: str
    offsets: dict[str, tuple[int, int]]
    of: int


class Owner(NamedTuple):
    """Who publishes: a target of a migration."""

    migration: str
    target: str

    @property
    def transactional_id(self) -> str:
        """The id that one run at a time can hold."""
        return f"waybill/{self.migration}/{self.target}"

    @property
    def slot(self) -> int:
        """The partition of the ledger with this target's entries."""
        return zlib.crc32(f"{self.migration}/{self.target}".encode()) % SLOTS

    def key(self, batch: str, part: int) -> bytes:
        """The key of an entry."""
        return f"{self.migration}/{batch}/{self.target}/{part}".encode()

    def read_key(self, key: bytes) -> tuple[str, int] | None:
        """Batch and part of a key; None if the entry is another target's, or no entry at all."""
        try:
            migration, _, rest = key.decode().partition("/")
        except UnicodeDecodeError:
            # Whatever it is, a compacted topic keeps it for good.
            return None
        batch, _, rest = rest.partition("/")
        target, _, part = rest.rpartition("/")
        if (migration, target) != self or not part.isdecimal():
            return None
        return batch, int(part)


Entries = dict[tuple[str, int], LedgerEntry]
"""Entries of one target by batch and part."""


def ensure_ledger(cluster: Cluster, topic: str) -> None:
    """See that the ledger is there and keeps what is written to it; make it if it is not there.

    Raises:
        ConfigurationError: it cannot be made or written to, or it would lose entries.
        UnreachableError: no server answers.
    """
    if not exists(cluster, topic):
        _make(cluster, topic)
    check_ledger(cluster, topic)


def check_ledger(cluster: Cluster, topic: str) -> None:
    """See that a ledger that is there keeps what is written to it; errors as `ensure_ledger`."""
    found = describe(cluster, topic)
    if found.partitions < SLOTS:
        message = (
            f"the ledger {topic} has {counted(found.partitions, 'partition')} and needs {SLOTS}: "
            "add some, or name another topic in the target's setting ledger"
        )
        raise ConfigurationError(message, code=Code.PUBLISH_LEDGER)
    policy = found.settings.get("cleanup.policy", SETTINGS["cleanup.policy"])
    if policy != SETTINGS["cleanup.policy"]:
        message = (
            f"the ledger {topic} has cleanup.policy={policy}, so it would forget what was sent: "
            "set it to compact"
        )
        raise ConfigurationError(message, code=Code.PUBLISH_LEDGER)


def exists(cluster: Cluster, topic: str) -> bool:
    """Whether a topic is there, as far as the user may know."""
    try:
        describe(cluster, topic)
    except ConfigurationError as error:
        if code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return False
        raise
    return True


def _make(cluster: Cluster, topic: str) -> None:
    made = cluster.admin.create_topics([NewTopic(topic, SLOTS, config=SETTINGS)])[topic]
    try:
        cluster.answer(made, f"making the ledger {topic}")
    except WaybillError as error:
        if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        if error.transient:
            raise
        message = (
            f"{error.sentence}; or let somebody make it who may, with {SLOTS} partitions and "
            "cleanup.policy=compact"
        )
        raise ConfigurationError(message, code=Code.PUBLISH_LEDGER) from error
    limit = time.monotonic() + SILENCE
    # A topic that was just made has not got all its leaders at once.
    while not _led(cluster, topic) and time.monotonic() < limit:
        time.sleep(0.1)


def _led(cluster: Cluster, topic: str) -> bool:
    with suppress(KafkaException):
        # The client remembers for long that the topic was not there, unless it asks for all of it.
        cluster.admin.list_topics(topic, timeout=PATIENCE)
    try:
        cluster.offsets([(topic, number) for number in range(SLOTS)], _END)
    except WaybillError as error:
        if code_of(error) is None:
            raise
        return False
    return True


def read_entries(
    properties: Mapping[str, str],
    topic: str,
    owner: Owner,
    progress: Callable[..., Any] = lambda *_: None,
) -> Entries:
    """Every entry of a target. Complete if the target's transactional id was taken before.

    Who reads what is committed does not see past a transaction that is open, e.g. one that a killed
    run of another target left. So this waits until nothing is open below the end of now.

    Raises:
        ConfigurationError: the ledger is not there or may not be read.
        ConflictError: a transaction of another target stays open.
        UnreachableError: the brokers fell silent.
    """
    cluster = Cluster(properties)
    place = (topic, owner.slot)
    end = cluster.offsets([place], _END, IsolationLevel.READ_UNCOMMITTED)[place]
    limit = time.monotonic() + OPEN_FOR
    said = False
    while cluster.offsets([place], _END)[place] < end:
        if time.monotonic() > limit:
            message = (
                f"a transaction in the ledger {topic}, partition {owner.slot}, stays open: another "
                "target is being published, or a killed run left it; run again later"
            )
            raise ConflictError(message, code=Code.PUBLISHED_CONCURRENTLY)
        if not said:
            progress("publish: waiting for another target's transaction in the ledger %s", topic)
            said = True
        time.sleep(0.1)
    return _read(properties, topic, owner, end, cluster) if end else {}


def _read(
    properties: Mapping[str, str], topic: str, owner: Owner, end: int, cluster: Cluster
) -> Entries:
    entries: Entries = {}
    heard: list[KafkaError] = []
    consumer = Consumer(
        {
            **properties,
            # The client wants a name for a group; nothing is ever committed for it.
            "group.id": "waybill-ledger",
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": "20",
            "error_cb": heard.append,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, owner.slot, OFFSET_BEGINNING)])
        limit = time.monotonic() + SILENCE
        while True:
            record = consumer.poll(0.2)
            if record is None:
                if time.monotonic() > limit:
                    raise cluster.failure(
                        heard[-1] if heard else KafkaError(KafkaError._TIMED_OUT),
                        f"the ledger {topic}",
                    )
                continue
            limit = time.monotonic() + SILENCE
            error = record.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise cluster.failure(error, f"the ledger {topic}")
            if error is None:
                _take(entries, owner, record.key(), record.value())
            offset = record.offset()
            # Markers of transactions have offsets too and are never delivered.
            if offset is not None and offset >= (end if error is not None else end - 1):
                return entries
    finally:
        consumer.close()


def _take(entries: Entries, owner: Owner, key: bytes | None, value: bytes | None) -> None:
    name = None if key is None else owner.read_key(key)
    if name is None:
        return
    if value is None:
        entries.pop(name, None)
    else:
        entries[name] = msgspec.json.decode(value, type=LedgerEntry)
