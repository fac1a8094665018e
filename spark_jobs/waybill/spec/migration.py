"""The specification of a migration: one YAML or JSON file, checked when it is read."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import (
    Field,
    PrivateAttr,
    model_validator,
)

from waybill.errors import Code, ConfigurationError
from waybill.spec.alerts import Alerts
from waybill.spec.endpoints import Source, Target
from waybill.spec.feedback_loops import own_output
from waybill.spec.file_text import FileText
from waybill.spec.mapping import Selection, TableMapping, check_joins, joined_names, rules_of
from waybill.spec.model import Model
from waybill.spec.schema_changes import SchemaChanges, decisions_of
from waybill.spec.values import (
    ColumnType,
    FilePlace,
    LengthOfTime,
    MigrationName,
    Schedule,
    SparkSettings,
)
from waybill.spec.verification import Verify
from waybill.storage.objects.places import is_object_url, place_of
from waybill.tables import MAX_COLUMNS, TableRule, TableRules
from waybill.types import parse_type

if TYPE_CHECKING:
    from waybill.mapping.rules import Rules
    from waybill.spec.decisions import Decisions


class Table(Model):
    """What the envelope does not state about a table.

    The name may hold `*` for any characters; the table's own name takes precedence.
    """

    key: list[str] | None = None
    """Key columns; `[]` declares that the table has no key."""
    columns: dict[str, ColumnType] = Field(default_factory=dict)
    """Types of columns, see [Column types](#column-types)."""


class Dump(Model):
    """A dump of a whole table, see [Full data](#full-data)."""

    path: FilePlace
    """File, folder or glob."""
    as_of: int | list[int] | None = None
    """Sequence id of the source up to which the dump is complete. Without it, its rows are older
    than every change. With it, rows that are older and not in the dump are deleted."""

    @property
    def sequence(self) -> tuple[int, ...] | None:
        """The sequence id in parts."""
        if self.as_of is None:
            return None
        return (self.as_of,) if isinstance(self.as_of, int) else tuple(self.as_of)


class Quality(Model):
    """What the gate checks."""

    suites: list[FilePlace] = Field(default_factory=lambda: ["changes", "tables", "trends"])
    """Suites of expectations: names of built-in suites, or paths of `.json` files."""
    on_failure: Literal["stop", "ask", "report"] = "stop"
    """What a failed gate does: hold the batch, hold it and [ask a person](gate.md#a-person-decides)
    in Airflow, or only report it."""
    answer_within: LengthOfTime = "7d"
    """With `ask`: how long the task waits for an answer before it fails; the batch stays held."""
    max_refused_share: float = Field(default=0.05, ge=0, le=1)
    """Share of refused messages above which the batch fails the gate, from 0 to 1."""


class Lake(Model):
    """The Iceberg catalog and warehouse."""

    warehouse: FilePlace
    """Folder of the tables. Without it and without `catalog`: `$WAYBILL_LAKE`, else `.waybill/lake`
    beside the folder of migrations."""
    catalog: dict[str, Any] = Field(default_factory=dict, repr=False)
    """[Catalog](catalogs.md) properties; by default the catalog is an SQLite file in the warehouse.
    `connection` names the connection that holds the catalog's login."""
    text_images: Literal["all", "needed"] = "all"
    """What merged tables store as [exact text](merge.md#exact-texts) beside the typed columns:
    `all` values, or only those that the typed columns do not give exactly."""


class Order(Model):
    """How ambiguous [order](order.md) is resolved."""

    ambiguous: Literal["fail", "source_time", "partition"] = "fail"
    """What decides between changes without sequence ids from several partitions."""


class Tombstones(Model):
    """How long deleted keys are remembered."""

    keep: LengthOfTime = "90d"
    """How long a late change of a deleted key still loses."""


class Retention(Model):
    """How long messages of published batches are kept, where [upkeep](operating.md#upkeep) runs."""

    archive: LengthOfTime | None = None
    """Messages as they were read; refused messages stay longer. Unset, all stay."""
    changes: LengthOfTime | None = None
    """Changes of rows, as decoded from messages; [some stay
    longer](operating.md#what-stays-of-changes). Unset, all stay."""
    outbox: LengthOfTime | None = None
    """Messages as they were encoded for targets; refused messages stay longer. Unset, all stay."""

    @property
    def limits(self) -> dict[str, str]:
        """The tables that have a limit, each with it."""
        found = {"archive": self.archive, "changes": self.changes, "outbox": self.outbox}
        return {name: limit for name, limit in found.items() if limit is not None}


class Transactions(Model):
    """[Transactions](merge.md#transactions), where the envelope states their begin and end."""

    hold: bool = True
    """Whether changes of a transaction that has not ended are held for the next batch."""
    longest_wait: LengthOfTime = "24h"
    """How long a transaction may be open before the batch stops."""


class Halves(Model):
    """[Split updates](glossary.md#split-update), where the envelope has them."""

    longest_wait: LengthOfTime = "24h"
    """How long one half of an update may wait for the other."""
    then: Literal["stop", "refuse", "take"] = "stop"
    """What to do with a half that waited too long: `stop` the batch, `refuse` the half, or `take`
    an after image as an update without before image and refuse a before image. With
    `longest_wait: 0s`, `take` suits topics whose updates never have a before image."""


class StageSettings(Model):
    """What applies to one stage only."""

    spark: SparkSettings = Field(default_factory=dict)
    """Spark settings of this stage; they override those of the migration."""


StageName = Literal["snapshot", "convert", "merge", "validate", "publish", "upkeep", "verify"]


class Upkeep(Model):
    """[Upkeep](operating.md#upkeep) of the lake in a DAG of its own."""

    schedule: Schedule | None = "@daily"
    """When upkeep runs."""
    snapshots: LengthOfTime = "30d"
    """How long snapshots are kept."""


class Migration(Model):
    """One migration: a source, the tables it fills and the targets it publishes to."""

    name: MigrationName
    """Lower-case letters, digits and `_`, not ending in `_log`. It names the DAG and the lake's
    namespaces."""
    description: str = ""
    """Description of the migration in Airflow."""
    schedule: Schedule | None = None
    """When the DAG runs; without a schedule, only when triggered by hand."""
    after_assets: list[str] = Field(default_factory=list)
    """Names of Airflow [assets](signals.md#assets): a run starts once each of them has been updated
    since the last run. Cannot be combined with `schedule`."""
    owner: str = "data"
    """Owner of the DAG in Airflow."""
    tags: list[str] = Field(default_factory=list)
    """Tags of the DAG in Airflow."""
    source: Source
    """Where messages come from."""
    full: dict[str, Dump] = Field(default_factory=dict)
    """Dumps of whole tables, by the name that the messages give the table."""
    tables: dict[str, Table] = Field(default_factory=dict)
    """Keys and types, by table name or pattern."""
    select: Selection = Field(default_factory=Selection)
    """Which [tables](mapping.md) the migration includes."""
    shadow_tables: Literal["leave_out", "take"] = "leave_out"
    """Whether [shadow tables](mapping.md#shadow-tables) of gh-ost and pt-online-schema-change are
    left out."""
    map: list[TableMapping] = Field(default_factory=list)
    """How tables and columns are [mapped](mapping.md), in the lake and for every target."""
    schema_changes: list[SchemaChanges] = Field(default_factory=list)
    """How [changes of columns](merge.md#schema-changes) are handled, decided before they happen."""
    quality: Quality = Field(default_factory=Quality)
    """What the [gate](gate.md) checks."""
    publish: list[Target] = Field(default_factory=list)
    """[Targets](publishing.md)."""
    dropped_targets: list[str] = Field(default_factory=list)
    """Names of targets that were removed from `publish`: messages that wait for them are skipped
    and counted. Messages for any other missing target stop the batch."""
    lake: Lake
    """Where tables are kept."""
    order: Order = Field(default_factory=Order)
    """How ambiguous order is resolved."""
    tombstones: Tombstones = Field(default_factory=Tombstones)
    """How long deleted keys are remembered."""
    retention: Retention = Field(default_factory=Retention)
    """How long messages of published batches are kept."""
    transactions: Transactions = Field(default_factory=Transactions)
    """What to do with open transactions."""
    halves: Halves = Field(default_factory=Halves)
    """What to do with incomplete split updates."""
    watch: Schedule | None = None
    """When Airflow asks the source, between batches, [how much waits there](pages.md#lag). Unset,
    as often as `alerts` requires, else only when a batch begins."""
    alerts: Alerts | None = None
    """Whom Airflow notifies, and of which events."""
    upkeep: Upkeep | None = None
    """Upkeep in a DAG of its own; unset, upkeep runs only as `waybill upkeep`."""
    verify: Verify | None = None
    """The source database, to compare the merged tables with."""
    on_loss: Literal["report", "fail"] = "report"
    """Whether the migration runs if a target cannot carry everything."""
    spark: SparkSettings = Field(default_factory=dict)
    """[Spark settings](cluster.md#settings) of every stage."""
    stages: dict[StageName, StageSettings] = Field(default_factory=dict)
    """Settings of single stages."""
    _file: Path | None = PrivateAttr(default=None)
    _written: str | None = PrivateAttr(default=None)

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
    def _one_way_to_start(self) -> Migration:
        if self.schedule is not None and self.after_assets:
            raise ValueError("schedule and after_assets both say when it runs; leave out one:")
        own = [asset for asset in self.after_assets if asset.startswith(f"{self.name}/")]
        if own:
            message = (
                f"after_assets names {own[0]!r}, which it updates itself, so that every run would "
                "start the next one; leave it out"
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
    def _joined_in_one_way(self) -> Migration:
        check_joins(self.map)
        return self

    @model_validator(mode="after")
    def _never_its_own_source(self) -> Migration:
        sentence = own_output(self.source, self.publish, self.lake.warehouse)
        if sentence is not None:
            raise ValueError(sentence)
        return self

    def read_from(self, file: Path, text: str) -> Migration:
        """The same migration, which knows the file that it was read from, and its text."""
        self._file = file.resolve()
        self._written = text
        return self

    @property
    def text(self) -> FileText | None:
        """The text of its file, as it may be kept; None where it was made without one."""
        return None if self._written is None else FileText.of(self._written)

    @property
    def digest(self) -> str:
        """The digest of `text`, empty where there is none."""
        return "" if (text := self.text) is None else text.digest

    def command(self, *words: str) -> str:
        """A command line of Waybill about this migration that runs as it stands.

        Args:
            words: of the command; `FILE` stands for the migration's file, and stays where the
                migration was made without one.
        """
        file = "FILE" if self._file is None else str(self._file)
        return shlex.join(["waybill", *(file if word == "FILE" else word for word in words)])

    @property
    def watched(self) -> str | None:
        """When the DAG runs that looks after the migration between batches; None without one."""
        alerts = self.alerts.watch if self.alerts is not None and self.alerts.watches else None
        return self.watch or alerts

    @property
    def reports(self) -> str:
        """The folder of all reports about its batches."""
        return f"{self.lake.warehouse.rstrip('/')}/{self.name}/reports"

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
        mapped = [*self.map, *(one for target in self.publish for one in target.map)]
        names.update(name for one in mapped for name in one.connections)
        return sorted(names)

    @property
    def database(self) -> str | None:
        """Name of the connection of the source database, which only a verification needs."""
        return None if self.verify is None else self.verify.database

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

    def mapping(self) -> Rules:
        """What the migration chooses and renames, for the lake and everything after it.

        Raises:
            ConfigurationError: the key of a mask is missing.
        """
        return replace(rules_of(self.select, self.map), shadows=self.shadow_tables == "leave_out")

    @property
    def decisions(self) -> Decisions:
        """What is decided about changes of columns."""
        return decisions_of(self.schema_changes, joined_names(self.map))

    @property
    def masks(self) -> bool:
        """Whether the lake holds masked values, so that nobody is shown messages as they came."""
        return any(one.columns.mask for one in self.map)

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
