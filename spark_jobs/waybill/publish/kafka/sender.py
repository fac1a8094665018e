"""Sends the messages of a target part by part, in one task of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from waybill.errors import Code, ConfigurationError, ConflictError
from waybill.publish.kafka.checksums import Content
from waybill.publish.kafka.ledger import LedgerEntry, Owner, read_entries
from waybill.publish.kafka.part_boundaries import Cut, Limits, cut
from waybill.publish.kafka.partitions import Partitioner
from waybill.publish.kafka.refused_records import Suspects
from waybill.publish.kafka.transactions import Transactions
from waybill.publish.outgoing import place
from waybill.types import LAST_MICRO

BATCH_HEADER = "waybill-batch"
"""Header with the batch that published a message."""

SOURCE_HEADER = "waybill-source"
"""Header with the change it was made from, as topic/partition/offset/index."""

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("batch", pa.string()),
    ("part", pa.int32()),
    ("entry", pa.binary()),
    ("before", pa.bool_()),
]
SENT = pa.schema(_FIELDS)
"""One row per part: its entry in the ledger, and whether an earlier run had sent it."""


@dataclass(frozen=True)
class Group:
    """The messages that one batch made for the target.

    Attributes:
        batch: the batch.
        messages: how many there are.
    """

    batch: str
    messages: int


@dataclass(frozen=True)
class Sending:
    """All that a task needs to publish to one target; plain data, sent to the task.

    Attributes:
        owner: migration and target.
        properties: of the clients; secrets are in here.
        topic: where to.
        partitions: how many the topic has.
        largest: bytes of the largest message that it takes, None if not known.
        ledger: the ledger's topic.
        groups: the batches whose messages come, in the order in which they come.
        partition: the one that takes everything, None to choose by key.
        keyless: how messages without key are spread (`Partitioner`).
        source_time: whether records carry the time of the source.
        origin: whether records get the headers `waybill-batch` and `waybill-source`.
        timeout: seconds that a transaction may be open.
        limits: how large parts become.
    """

    owner: Owner
    properties: dict[str, str] = field(repr=False)
    topic: str
    partitions: int
    largest: int | None
    ledger: str
    groups: tuple[Group, ...]
    partition: int | None = None
    keyless: str = "table"
    source_time: bool = False
    origin: bool = False
    timeout: float = 120.0
    limits: Limits = field(default_factory=Limits)

    def transactions(self) -> Transactions:
        """The producer of this target."""
        return Transactions(
            self.properties, self.owner.transactional_id, self.timeout, self.largest
        )

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send what is not in the ledger, and compare what is.

        Args:
            batches: every message of the groups, by group and in order.

        Raises:
            ConflictError: another run took over, or a batch was published with other messages.
        """
        with self.transactions() as transactions:
            transactions.take()
            entries = read_entries(self.properties, self.ledger, self.owner)
            check_entries(self, entries)

            def known(group: int, part: int) -> int | None:
                entry = entries.get((self.groups[group].batch, part))
                return None if entry is None else entry.messages

            for piece in cut(batches, known, self.limits):
                group = self.groups[piece.group]
                before = entries.get((group.batch, piece.part))
                if before is not None:
                    compare(self, group, piece, before)
                    entry = before
                else:
                    entry = _PartInFlight(self, transactions, group, piece).send()
                yield _row(group.batch, piece.part, entry, before is not None)


def check_entries(sending: Sending, entries: dict[tuple[str, int], LedgerEntry]) -> None:
    """Hold the entries of the batches to come against what is to be sent, as far as counts tell.

    Raises:
        ConflictError: a batch was published with other messages, or to another topic.
    """
    for group in sending.groups:
        parts = sorted(part for batch, part in entries if batch == group.batch)
        if parts != list(range(len(parts))):
            message = (
                f"the ledger {sending.ledger} has lost entries of batch {group.batch} for "
                f"{sending.owner.target}, so what was sent is unknown: see that its "
                "cleanup.policy is compact, or name another ledger to send the whole batch again"
            )
            raise ConflictError(message, code=Code.LEDGER_INCOMPLETE)
        for part in parts:
            entry = entries[group.batch, part]
            if entry.topic != sending.topic:
                message = (
                    f"batch {group.batch} was published to the topic {entry.topic} before, not to "
                    f"{sending.topic}: name the first again, or another ledger to send the whole "
                    "batch to the second too"
                )
                raise ConflictError(message, code=Code.PUBLISHED_DIFFERENTLY)
            if entry.of != group.messages:
                raise other_messages(sending, group)


def compare(sending: Sending, group: Group, piece: Cut, entry: LedgerEntry) -> None:
    """Hold the messages of a part against its entry.

    Raises:
        ConflictError: other messages were sent.
    """
    content = Content()
    for batch in piece.pieces:
        content.add(batch)
    if content.sha256 != entry.sha256:
        raise other_messages(sending, group)


def other_messages(sending: Sending, group: Group) -> ConflictError:
    """The error of a batch whose messages are not those that were sent."""
    return ConflictError(
        f"batch {group.batch} was published to the topic {sending.topic} before, with other "
        f"messages, as the ledger {sending.ledger} says; nothing was sent twice: to send the whole "
        "batch as it is now, name another ledger, and another topic if readers must not get both",
        code=Code.PUBLISHED_DIFFERENTLY,
    )


class _PartInFlight:
    """One part on its way."""

    def __init__(
        self, sending: Sending, transactions: Transactions, group: Group, piece: Cut
    ) -> None:
        self.sending = sending
        self.transactions = transactions
        self.group = group
        self.piece = piece
        self.content = Content()
        self.suspects = Suspects(sending.topic)
        self.choose = Partitioner(sending.partitions, sending.partition, sending.keyless).choose

    def send(self) -> LedgerEntry:
        """Send it; when this returns, it counts.

        Raises:
            ConfigurationError: the topic does not take one of its records.
        """
        try:
            return self._send_all()
        except ConfigurationError as error:
            refusal = self.suspects.refusal(self.transactions.cause)
            if refusal is None:
                raise
            raise refusal from error

    def _send_all(self) -> LedgerEntry:
        self.transactions.begin()
        first = last = ""
        for batch in self.piece.pieces:
            self._send(batch)
            self.content.add(batch)
            self.transactions.look()
            first = first or place(batch, 0)
            last = place(batch, batch.num_rows - 1)
        # The offsets are known when the brokers have everything.
        self.transactions.finish()
        content, owner = self.content, self.sending.owner
        entry = LedgerEntry(
            topic=self.sending.topic,
            messages=content.messages,
            tombstones=content.tombstones,
            bytes=content.bytes,
            sha256=content.sha256,
            first=first,
            last=last,
            offsets={
                str(number): ends for number, ends in sorted(self.transactions.offsets.items())
            },
            of=self.group.messages,
        )
        key = owner.key(self.group.batch, self.piece.part)
        self.transactions.send(self.sending.ledger, msgspec.json.encode(entry), key, owner.slot)
        self.transactions.commit()
        return entry

    def _send(self, batch: pa.RecordBatch) -> None:
        partitions = self.choose(batch)
        # The first and the last record of each partition tell where all of them are.
        watched = [False] * batch.num_rows
        last: dict[int, int] = {}
        times = self._times(batch)
        self.suspects.note(batch, times)
        for i, number in enumerate(partitions):
            watched[i] = number not in last
            last[number] = i
        for i in last.values():
            watched[i] = True
        columns = [
            batch.column("value").to_pylist(),
            batch.column("key").to_pylist(),
            partitions,
            watched,
            times,
            self._headers(batch),
        ]
        send, topic = self.transactions.send, self.sending.topic
        for value, key, number, watch, time, headers in zip(*columns, strict=True):
            send(topic, value, key, number, watch, time, headers)

    def _times(self, batch: pa.RecordBatch) -> list[int]:
        if not self.sending.source_time:
            return [0] * batch.num_rows
        micros = batch.column("timestamp").cast(pa.int64()).to_pylist()
        # Kafka has no time before 1970, and brokers refuse those far ahead of theirs; where the
        # time is on no calendar, as before 1970, that of sending is the one to take.
        return [
            0 if time is None or not 0 <= time <= LAST_MICRO else time // 1000 for time in micros
        ]

    def _headers(self, batch: pa.RecordBatch) -> list[list[tuple[str, bytes | None]] | None]:
        column = batch.column("headers")
        if column.null_count == len(column) and not self.sending.origin:
            return [None] * len(column)
        rows = [
            None if row is None else [(h["key"], h["value"]) for h in row]
            for row in column.to_pylist()
        ]
        if not self.sending.origin:
            return rows
        name = (BATCH_HEADER, self.group.batch.encode())
        return [
            [*(row or ()), name, (SOURCE_HEADER, place(batch, i).encode())]
            for i, row in enumerate(rows)
        ]


def _row(batch: str, part: int, entry: LedgerEntry, before: bool) -> pa.RecordBatch:
    row = {"batch": batch, "part": part, "entry": msgspec.json.encode(entry), "before": before}
    return pa.RecordBatch.from_pylist([row], schema=SENT)
