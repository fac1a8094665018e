"""The specification of a migration: one YAML or JSON file, checked when it is read."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    PrivateAttr,
    model_validator,
)

from waybill.errors import Code, ConfigurationError
from waybill.spec.endpoints import Model, Source, Target
from waybill.spec.feedback_loops import own_output
from waybill.spec.values import (
    ColumnType,
    FilePlace,
    LengthOfTime,
    MigrationName,
    Schedule,
    SparkSettings,
)
from waybill.storage.objects.places import is_object_url, place_of
from waybill.tables import MAX_COLUMNS, TableRule, TableRules
from waybill.types import parse_type


class Table(Model):
    """What the envelope does not say about a table."""

    key: list[str] | None = None
    columns: dict[str, ColumnType] = Field(default_factory=dict)


class Dump(Model):
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


class Quality(Model):
    """What the gate checks."""

    suites: list[FilePlace] = Field(default_factory=lambda: ["changes", "tables"])
    on_failure: Literal["stop", "report"] = "stop"
    max_refused_share: float = Field(default=0.05, ge=0, le=1)
    """Share of refused messages above which the gate says no."""


class Lake(Model):
    """The Iceberg catalog and warehouse."""

    warehouse: FilePlace
    catalog: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Spark catalog properties; the embedded SQLite catalog in the warehouse where left out.
    `connection` names the connection that holds the catalog's login."""


class Order(Model):
    """How doubtful order is settled."""

    ambiguous: Literal["fail", "source_time", "partition"] = "fail"


class Tombstones(Model):
    """How long deleted keys are remembered."""

    keep: LengthOfTime = "90d"


class Transactions(Model):
    """Transactions, where the envelope tells when they begin and end."""

    hold: bool = True
    """Keep the changes of a transaction that has not ended for the next batch."""
    longest_wait: LengthOfTime = "24h"
    """How long a transaction may be open before the batch says so and stops."""


class Halves(Model):
    """Updates of two messages, where the envelope writes them so."""

    longest_wait: LengthOfTime = "24h"
    """How long half of an update may wait for the other half."""
    then: Literal["stop", "refuse", "take"] = "stop"
    """What becomes of the batch that finds it still waiting: it says so and stops, puts the half
    into quarantine, or takes an after image as an update without before image (and puts a before
    image into quarantine). With `longest_wait: 0s` after images are taken at once, for topics
    whose updates never have a before image."""


class StageSettings(Model):
    """What one stage has of its own."""

    spark: SparkSettings = Field(default_factory=dict)
    """Spark settings for this stage, before those of the migration."""


StageName = Literal["snapshot", "convert", "merge", "validate", "publish", "upkeep"]


class Upkeep(Model):
    """When and how the lake is kept in shape by a DAG of its own."""

    schedule: Schedule | None = "@daily"
    snapshots: LengthOfTime = "30d"
    """How long snapshots are kept."""


class Migration(Model):
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
        sentence = own_output(self.source, self.publish, self.lake.warehouse)
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
            raise ConfigurationError(message, code=Code.OPTION)
        if isinstance(kafka.end, dict):
            message = (
                f"the source of {self.name} ends at offsets (end:), so it cannot be read up to a "
                "time: leave one of them out"
            )
            raise ConfigurationError(message, code=Code.OPTION)
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
