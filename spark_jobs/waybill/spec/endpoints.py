"""Where messages come from and where they go, as a migration says it."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from waybill.spec.values import End, FilePlace, LengthOfTime, Start
from waybill.tables import MAX_COLUMNS

LAYOUTS = ("lines", "parquet", "kcat", "whole")
"""File layouts of a source."""


INTERNAL = "__"
"""What names of topics begin with that belong to the brokers; no pattern finds them."""


LEDGER = "waybill-published"
"""The topic that says what was sent, where nothing else is said; no pattern finds it."""


class Model(BaseModel):
    """Base of a specification's parts; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class FilesSource(Model):
    """Messages in files."""

    path: FilePlace
    """Folder, file or glob; on a disk, in object storage (`s3://`, `oss://`), or any
    URL that fsspec knows."""
    layout: Literal["lines", "parquet", "kcat", "whole"] = "lines"
    topic: str | None = None
    """Topic of the messages; the folder's name where nothing is said."""


class KafkaSource(Model):
    """Messages in topics of a Kafka broker, or of what speaks its protocol."""

    connection: str = "kafka_default"
    """Name of the connection: broker, login, TLS."""
    topics: list[str] = Field(default_factory=list)
    """Names of topics."""
    pattern: str | None = None
    """Regular expression that whole names of topics match; looked up anew for every batch. It does
    not find topics of the brokers, nor the ledger that targets have where they name none."""
    start: Start = "earliest"
    """Where a topic is read from that was not read before: `earliest`, `latest`, a time, or offsets
    by topic and partition. What appears later, a partition or a topic that the pattern finds, is
    read from its earliest message."""
    end: End = None
    """Up to where topics are read. A time: messages from the first one on that is as new are left;
    by the message's timestamp, in each partition for itself. Offsets by topic and partition: the
    first that are left; partitions that are not named have no end."""
    on_data_loss: Literal["fail", "earliest"] = "fail"
    """What to do when the brokers have deleted messages that were not read yet: `fail`, or go on
    from the earliest there is, and say how many offsets are missing."""
    unreadable_headers: Literal["fail", "leave_out"] = "fail"
    """What to do with a message that has a header whose name is not UTF-8, which the client cannot
    read: `fail`, or archive it without its headers, and say how many there are."""
    group: str | None = Field(default=None, min_length=1)
    """Consumer group that gets the offsets after each batch, for those who watch its lag. What is
    read next is decided by the lake alone."""
    messages_per_task: int = Field(default=250_000, ge=1)
    """Offsets of a partition that one task reads at most."""
    stall: LengthOfTime = "60s"
    """How long a read waits for brokers that say nothing before the batch gives up."""

    @field_validator("pattern")
    @classmethod
    def _expression(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            message = f"{pattern!r} is no regular expression ({error})"
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
                message = f"{field} names the topic {min(strange)}, which is not in topics: mend it"
                raise ValueError(message)
        return self

    def takes(self, topic: str) -> bool:
        """Whether a topic of this name is read, if there is one."""
        if self.pattern is None:
            return topic in self.topics
        found = re.fullmatch(self.pattern, topic) is not None
        return found and topic != LEDGER and not topic.startswith(INTERNAL)


class SchemasFile(Model):
    """Where schemas that are not in the messages come from."""

    file: FilePlace | None = None


class Source(Model):
    """Where the messages come from and how to read them."""

    files: FilesSource | None = None
    kafka: KafkaSource | None = None
    envelope: str
    schemas: SchemasFile | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    max_columns: int = Field(MAX_COLUMNS, ge=1, le=1_000_000)
    """How many columns a message may describe; one with more is refused."""

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        if (self.files is None) == (self.kafka is None):
            message = (
                "say where the messages are, one of files: {path: …, layout: lines} and "
                "kafka: {topics: […]}"
            )
            raise ValueError(message)
        return self


class FilesTarget(Model):
    """Published messages as files."""

    path: FilePlace
    layout: Literal["lines", "parquet"] = "lines"


class KafkaTarget(Model):
    """Published messages in a topic of a Kafka broker, each of them once."""

    connection: str = "kafka_default"
    """Name of the connection: broker, login, TLS."""
    topic: str
    """Name of the topic, which must be there."""
    partition: int | None = Field(default=None, ge=0)
    """The one partition that takes everything. Left out: by key, as Kafka's Java client chooses."""
    keyless: Literal["table", "spread"] = "table"
    """Messages without key: those of a table in one partition and so in order, or spread over all
    partitions without order."""
    timestamps: Literal["now", "source"] = "now"
    """Time of the records: when they are sent, or when the change was made. Brokers delete records
    by this time, so with `source` those older than the topic's retention.ms are gone at once."""
    origin_headers: bool = False
    """Add the headers waybill-batch and waybill-source (topic/partition/offset/index)."""
    ledger: str = LEDGER
    """Compacted topic that says what was sent; made with 16 partitions if it is not there."""
    transaction_timeout: LengthOfTime = "2m"
    """How long a part may take; how long a killed run may keep readers waiting that no other run
    takes over."""


class Target(Model):
    """One published topic."""

    envelope: str
    files: FilesTarget | None = None
    kafka: KafkaTarget | None = None
    name: str | None = None
    """Name of the target in reports; the envelope's name where nothing is said."""
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_place(self) -> Target:
        if (self.files is None) == (self.kafka is None):
            message = "say where to publish, one of files: {path: …} and kafka: {topic: …}"
            raise ValueError(message)
        return self

    @property
    def label(self) -> str:
        """The target's name in the outbox and in reports."""
        return self.name or self.envelope
