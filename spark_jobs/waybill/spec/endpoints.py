"""Where messages come from and where they go, as a migration says it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from waybill.envelopes import registry
from waybill.spec.mapping import Selection, TableMapping, rules_of
from waybill.spec.model import Model
from waybill.spec.values import End, FilePlace, LengthOfTime, Start
from waybill.tables import MAX_COLUMNS

if TYPE_CHECKING:
    from waybill.mapping.rules import Rules

LAYOUTS = ("lines", "parquet", "kcat", "whole")
"""File layouts of a source."""


INTERNAL = "__"
"""What names of topics begin with that belong to the brokers; no pattern finds them."""


LEDGER = "waybill-published"
"""The topic that says what was sent, where nothing else is said; no pattern finds it."""


class FilesSource(Model):
    """Messages in files."""

    path: FilePlace
    """Folder, file or glob."""
    layout: Literal["lines", "parquet", "kcat", "whole"] = "lines"
    """What a file contains, see [Source layouts](#source-layouts)."""
    topic: str | None = None
    """Topic of the messages; by default the name of the folder, or its first name if it was
    moved."""


class KafkaSource(Model):
    """Messages in [topics](kafka.md) of Kafka, or of a server that speaks its protocol."""

    connection: str = "kafka_default"
    """Name of the connection: brokers, login, TLS."""
    topics: list[str] = Field(default_factory=list)
    """Names of topics; either this or `pattern`."""
    pattern: str | None = None
    """Regular expression that matches whole topic names, evaluated for every batch. It never
    matches internal topics (`__…`) or the ledger `waybill-published`."""
    start: Start = "earliest"
    """Where reading of a new topic starts. Give offsets by topic and partition. A partition or
    topic that appears later is read from its earliest message."""
    end: End = None
    """Where reading ends. A time: each partition is read up to the first message with that
    timestamp or a later one. Offsets by topic and partition: the first offset that is not read;
    partitions that are not named have no end."""
    on_data_loss: Literal["fail", "earliest"] = "fail"
    """What to do if brokers deleted messages that were not read: `fail`, or continue with the
    earliest message and count the missing offsets."""
    unreadable_headers: Literal["fail", "leave_out"] = "fail"
    """What to do with a message that has a header whose name is not UTF-8: `fail`, or archive the
    message without headers and count it."""
    group: str | None = Field(default=None, min_length=1)
    """Consumer group to which offsets are committed after each batch, for lag monitoring only. The
    lake alone decides what is read next."""
    messages_per_task: int = Field(default=250_000, ge=1)
    """Maximum number of offsets of a partition that one task reads."""
    stall: LengthOfTime = "60s"
    """How long a read waits for silent brokers before the batch stops."""

    @field_validator("pattern")
    @classmethod
    def _expression(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            message = f"{pattern!r} is not a regular expression ({error})"
            raise ValueError(message) from None
        return pattern

    @model_validator(mode="after")
    def _named(self) -> KafkaSource:
        if bool(self.topics) == (self.pattern is not None):
            message = "say which topics: topics: [name, …], or pattern: a regular expression"
            raise ValueError(message)
        for field, place in (("start", self.start), ("end", self.end)):
            # What a pattern finds is only known when a batch is planned.
            strange = set(place) - set(self.topics) if isinstance(place, dict) else set()
            if strange and self.topics:
                message = f"{field} names the topic {min(strange)}, which is not in topics: fix it"
                raise ValueError(message)
        return self

    def takes(self, topic: str) -> bool:
        """Whether a topic of this name is read, if there is one."""
        if self.pattern is None:
            return topic in self.topics
        found = re.fullmatch(self.pattern, topic) is not None
        return found and topic != LEDGER and not topic.startswith(INTERNAL)


class SchemasFile(Model):
    """Schemas that the messages do not carry."""

    file: FilePlace | None = None
    """File or folder of schemas, as the page of the [envelope](envelopes.md) describes it."""


class Source(Model):
    """Where the messages come from and how to read them."""

    files: FilesSource | None = None
    """Messages in files; either this or `kafka`."""
    kafka: KafkaSource | None = None
    """Messages in topics."""
    envelope: str
    """[Envelope](envelopes.md) of the messages."""
    schemas: SchemasFile | None = None
    """Schemas of messages that do not carry their own."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the envelope, see `waybill envelopes NAME`."""
    max_columns: int = Field(MAX_COLUMNS, ge=1, le=1_000_000)
    """Maximum number of columns that a message may describe; a message with more is refused."""

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        if (self.files is None) == (self.kafka is None):
            message = (
                "say where the messages are, one of files: {path: …, layout: lines} and "
                "kafka: {topics: […]}"
            )
            raise ValueError(message)
        return self

    @property
    def splits_updates(self) -> bool:
        """Whether an update may be two messages, as its envelope has them."""
        return registry.get(self.envelope).pairs


class FilesTarget(Model):
    """Published messages as files."""

    path: FilePlace
    """Folder that belongs to this target alone."""
    layout: Literal["lines", "parquet"] = "lines"
    """One message value a line, or Kafka's columns in Parquet. Binary envelopes need `parquet`."""


class KafkaTarget(Model):
    """Messages [published](publishing.md) to a topic of Kafka, each exactly once."""

    connection: str = "kafka_default"
    """Name of the connection: brokers, login, TLS."""
    topic: str
    """Name of an existing topic."""
    partition: int | None = Field(default=None, ge=0)
    """The partition for every message; by default chosen by key, as Kafka's Java client does."""
    keyless: Literal["table", "spread"] = "table"
    """Messages without a key: all of a `table` in one partition and therefore in order, or `spread`
    over all partitions without order."""
    timestamps: Literal["now", "source"] = "now"
    """Timestamp of the records: when they are sent, or when the change was made. Brokers expire
    records by this time, so with `source` records older than `retention.ms` are soon deleted,
    and may [refuse](publishing.md#times) times that are far from theirs."""
    origin_headers: bool = False
    """Add the headers `waybill-batch` and `waybill-source` (topic/partition/offset/index)."""
    ledger: str = LEDGER
    """Compacted topic that records what was sent; created with 16 partitions if it does not
    exist."""
    transaction_timeout: LengthOfTime = "2m"
    """How long a part may take, and how long a killed run may block readers if no other run takes
    over."""


class Target(Model):
    """One target of published messages."""

    envelope: str
    """[Envelope](envelopes.md) of the published messages."""
    files: FilesTarget | None = None
    """Publish files; either this or `kafka`."""
    kafka: KafkaTarget | None = None
    """Publish to a topic."""
    name: str | None = None
    """Name of the target in reports; by default that of the envelope."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the envelope, see `waybill envelopes NAME`."""
    select: Selection = Field(default_factory=Selection)
    """Which [tables](mapping.md) of the lake are published."""
    map: list[TableMapping] = Field(default_factory=list)
    """How tables and columns are [mapped](mapping.md) in the messages; names are those of the
    lake."""
    bootstrap: Literal["none", "tables", "archive"] = "none"
    """What a target that is added to a running migration [begins
    with](publishing.md#a-new-target-in-the-middle), before later changes: nothing (`none`), the
    merged `tables` as full rows, or every change that the lake has since the beginning
    (`archive`)."""

    @model_validator(mode="after")
    def _one_place(self) -> Target:
        if (self.files is None) == (self.kafka is None):
            message = "say where to publish, one of files: {path: …} and kafka: {topic: …}"
            raise ValueError(message)
        if any(one.join is not None for one in self.map):
            raise ValueError(
                "join is for map of the migration only, so that the lake has the joined table, too:"
            )
        return self

    def mapping(self) -> Rules:
        """What the target chooses and renames.

        Raises:
            ConfigurationError: the key of a mask is missing.
        """
        return rules_of(self.select, self.map)

    @property
    def label(self) -> str:
        """The target's name in the outbox and in reports."""
        return self.name or self.envelope
