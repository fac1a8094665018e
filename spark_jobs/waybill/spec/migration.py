"""The specification of a migration: one YAML or JSON file, checked when it is read."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from waybill.errors import ConfigurationError
from waybill.spec.feedback_loops import own_output
from waybill.spec.values import (
    ColumnType,
    End,
    FilePlace,
    LengthOfTime,
    MigrationName,
    Schedule,
    SparkSettings,
    Start,
)
from waybill.storage.objects.places import is_object_url, place_of
from waybill.tables import MAX_COLUMNS, TableRule, TableRules
from waybill.types import parse_type

LAYOUTS = ("lines", "parquet", "kcat", "whole")
"""File layouts of a source."""

INTERNAL = "__"
"""What names of topics begin with that belong to the brokers; no pattern finds them."""

LEDGER = "waybill-published"
"""The topic that says what was sent, where nothing else is said; no pattern finds it."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FilesSource(_Model):
    """Messages in files."""

    path: FilePlace
    """Folder, file or glob; on a disk, in object storage (`s3://`, `oss://`), or any
    URL that fsspec knows."""
    layout: Literal["lines", "parquet", "kcat", "whole"] = "lines"
    topic: str | None = None
    """Topic of the messages; the folder's name where nothing is said."""


class KafkaSource(_Model):
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


class SchemasFile(_Model):
    """Where schemas that are not in the messages come from."""

    file: FilePlace | None = None


class Source(_Model):
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


class Table(_Model):
    """What the envelope does not say about a table."""

    key: list[str] | None = None
    columns: dict[str, ColumnType] = Field(default_factory=dict)


class Dump(_Model):
    """A dump of a whole table: Parquet, CSV (with a first line of names) or JSON Lines."""

    path: FilePlace
    """File, folder or glob; on a disk, in object storage (`s3://`, `oss://`), or any
    URL that fsspec knows."""
    as_of: int | list[int] | None = None
    """Sequence id of the source up to which it is complete, as the envelope tells it. Left out: the
    rows that the table starts from, older than every change. Given: what is older and not in the
    dump is gone."""

    @property
    def sequence(self) -> tuple[int, ...] | None:
        """The sequence id in parts."""
        if self.as_of is None:
            return None
        return (self.as_of,) if isinstance(self.as_of, int) else tuple(self.as_of)


class Quality(_Model):
    """What the gate checks."""

    suites: list[FilePlace] = Field(default_factory=lambda: ["changes", "tables"])
    on_failure: Literal["stop", "report"] = "stop"
    max_refused_share: float = Field(default=0.05, ge=0, le=1)
    """Share of refused messages above which the gate says no."""


class FilesTarget(_Model):
    """Published messages as files."""

    path: FilePlace
    layout: Literal["lines", "parquet"] = "lines"


class KafkaTarget(_Model):
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


class Target(_Model):
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


class Lake(_Model):
    """The Iceberg catalog and warehouse."""

    warehouse: FilePlace
    catalog: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Spark catalog properties; the embedded SQLite catalog in the warehouse where left out.
    `connection` names the connection that holds the catalog's login."""


class Order(_Model):
    """How doubtful order is settled."""

    ambiguous: Literal["fail", "source_time", "partition"] = "fail"


class Tombstones(_Model):
    """How long deleted keys are remembered."""

    keep: LengthOfTime = "90d"


class Transactions(_Model):
    """Transactions, where the envelope tells when they begin and end."""

    hold: bool = True
    """Keep the changes of a transaction that has not ended for the next batch."""
    longest_wait: LengthOfTime = "24h"
    """How long a transaction may be open before the batch says so and stops."""


class Halves(_Model):
    """Updates of two messages, where the envelope writes them so."""

    longest_wait: LengthOfTime = "24h"
    """How long half of an update may wait for the other half."""
    then: Literal["stop", "refuse", "take"] = "stop"
    """What becomes of the batch that finds it still waiting: it says so and stops, puts the half
    into quarantine, or takes an after image as an update without before image (and puts a before
    image into quarantine). With `longest_wait: 0s` after images are taken at once, for topics
    whose updates never have a before image."""


class StageSettings(_Model):
    """What one stage has of its own."""

    spark: SparkSettings = Field(default_factory=dict)
    """Spark settings for this stage, before those of the migration."""


StageName = Literal["snapshot", "convert", "merge", "validate", "publish", "upkeep"]


class Upkeep(_Model):
    """When and how the lake is kept in shape by a DAG of its own."""

    schedule: Schedule | None = "@daily"
    snapshots: LengthOfTime = "30d"
    """How long snapshots are kept."""


class Migration(_Model):
    """One migration: a source, the tables it fills and the topics it publishes."""

    name: MigrationName
    description: str = ""
    schedule: Schedule | None = None
    owner: str = "data"
    tags: list[str] = Field(default_factory=list)
    source: Source
    full: dict[str, Dump] = Field(default_factory=dict)
    tables: dict[str, Table] = Field(default_factory=dict)
    quality: Quality = Field(default_factory=Quality)
    publish: list[Target] = Field(default_factory=list)
    dropped_targets: list[str] = Field(default_factory=list)
    """Names that targets under `publish` had: messages that still wait for one of them are left out
    and counted. Those of any other target that is not there stop the batch."""
    lake: Lake
    order: Order = Field(default_factory=Order)
    tombstones: Tombstones = Field(default_factory=Tombstones)
    transactions: Transactions = Field(default_factory=Transactions)
    halves: Halves = Field(default_factory=Halves)
    upkeep: Upkeep | None = None
    on_loss: Literal["report", "fail"] = "report"
    spark: SparkSettings = Field(default_factory=dict)
    """Spark settings for every stage."""
    stages: dict[StageName, StageSettings] = Field(default_factory=dict)
    _file: Path | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _distinct_targets(self) -> Migration:
        labels = [target.label for target in self.publish]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            message = f"two targets are called {sorted(twice)[0]!r}; give each a name:"
            raise ValueError(message)
        both = [label for label in labels if label in self.dropped_targets]
        if both:
            message = (
                f"the target {both[0]!r} is under publish and among the dropped_targets; take it "
                "out of one of them"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _distinct_paths(self) -> Migration:
        first: dict[str, str] = {}
        for target in self.publish:
            if target.files is not None:
                label = first.setdefault(target.files.path.rstrip("/"), target.label)
                if label != target.label:
                    message = (
                        f"the targets {label!r} and {target.label!r} publish files to one path; "
                        "give each a path of its own:"
                    )
                    raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _never_its_own_source(self) -> Migration:
        sentence = own_output(self)
        if sentence is not None:
            raise ValueError(sentence)
        return self

    def read_from(self, file: Path) -> Migration:
        """The same migration, which knows the file that it was read from."""
        self._file = file.resolve()
        return self

    def command(self, *words: str) -> str:
        """A command line of Waybill about this migration that runs as it stands.

        Args:
            words: of the command; `FILE` stands for the migration's file, and stays where the
                migration was made without one.
        """
        file = "FILE" if self._file is None else str(self._file)
        return shlex.join(["waybill", *(file if word == "FILE" else word for word in words)])

    @property
    def snapshots_kept(self) -> str:
        """How long the upkeep keeps snapshots, as a length of time."""
        return (self.upkeep or Upkeep()).snapshots

    def for_stage(self, stage: str) -> Migration:
        """The migration as one stage sees it, with the stage's Spark settings among its own."""
        own = {str(name): given.spark for name, given in self.stages.items()}.get(stage)
        return self.model_copy(update={"spark": {**self.spark, **own}}) if own else self

    def ending(self, moment: datetime) -> Migration:
        """The migration with its topics read up to a time at most.

        Raises:
            ConfigurationError: the source is in files, whose messages have no time, or has an end
                by offsets.
        """
        kafka = self.source.kafka
        if kafka is None:
            message = f"the source of {self.name} is in files, which cannot be read up to a time"
            raise ConfigurationError(message)
        if isinstance(kafka.end, dict):
            message = (
                f"the source of {self.name} ends at offsets (end:), so it cannot be read up to a "
                "time: leave one of them out"
            )
            raise ConfigurationError(message)
        end = moment if kafka.end is None else min(moment, kafka.end)
        source = self.source.model_copy(update={"kafka": kafka.model_copy(update={"end": end})})
        return self.model_copy(update={"source": source})

    @property
    def connections(self) -> list[str]:
        """Names of the connections that the stages need."""
        ends = [self.source.kafka, *(target.kafka for target in self.publish)]
        names = {end.connection for end in ends if end is not None}
        names |= {place_of(path).connection_name for path in self._paths if is_object_url(path)}
        if self.lake.catalog.get("connection"):
            names.add(str(self.lake.catalog["connection"]))
        return sorted(names)

    @property
    def _paths(self) -> list[str]:
        """Every place of files."""
        files = [self.source.files, *(target.files for target in self.publish)]
        schemas = self.source.schemas
        return [
            *(end.path for end in files if end is not None),
            *([schemas.file] if schemas is not None and schemas.file else []),
            *(dump.path for dump in self.full.values()),
            *self.quality.suites,
            self.lake.warehouse,
        ]

    @property
    def rules(self) -> TableRules:
        """The declared tables, ready to look up."""
        return table_rules(self.tables, self.source.max_columns)


def table_rules(tables: dict[str, Table], max_columns: int = MAX_COLUMNS) -> TableRules:
    """Table declarations as the decoders look them up, and how many columns a message may have."""
    return TableRules(
        {
            name: TableRule(
                None if table.key is None else tuple(table.key),
                {column: parse_type(text) for column, text in table.columns.items()},
            )
            for name, table in tables.items()
        },
        max_columns,
    )
