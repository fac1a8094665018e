"""Schemas of a registry, kept in the lake: old messages can be read when the registry is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from waybill.avro.fetched_schemas import Text, fetched_from, remember
from waybill.lake_columns import REGISTRY_SCHEMAS
from waybill.spark_tasks.counters import Tally

if TYPE_CHECKING:
    from waybill.convert.plan import DecodePlan
    from waybill.stage_context import StageContext


class OfTasks(NamedTuple):
    """What crosses to the tasks; nothing happens there without a registry.

    Attributes:
        url: the registry.
        kept: what the lake has of it.
        new: takes what it sent beyond that.
    """

    url: str
    kept: dict[str, Text]
    new: Tally

    def begin(self) -> None:
        """Let a task know what is kept."""
        if self.url:
            remember(self.url, self.kept)

    def end(self) -> None:
        """Tell the driver what a task has fetched."""
        if self.url:
            fresh = fetched_from(self.url).items()
            self.new.add({id_: tuple(text) for id_, text in fresh if id_ not in self.kept})


class RegistrySchemas:
    """What one batch asks a registry for; of envelopes without one, nothing.

    Args:
        context: the stage.
        reading: how messages are decoded.
    """

    def __init__(self, context: StageContext, reading: DecodePlan) -> None:
        self._context = context
        self.url: str = getattr(reading.settings, "registry", None) or ""
        self.kept: dict[str, Text] = {}
        self._new = Tally(context.spark.sparkContext)
        if self.url:
            self._table = context.lake.ensure(context.lake.log("schemas"), REGISTRY_SCHEMAS)
            rows = context.lake.read(self._table).where(F.col("registry") == self.url)
            self.kept = {row.id: Text(row.schema, tuple(row.references)) for row in rows.collect()}

    def of_tasks(self) -> OfTasks:
        """What the tasks need."""
        return OfTasks(self.url, self.kept, self._new)

    def keep(self) -> None:
        """Keep what is new, before the changes that were read with it are committed."""
        found = self._new.counts
        if not found:
            return
        lake, batch = self._context.lake, self._context.batch
        branch = lake.branch(self._table, "schemas", batch)
        rows = [(self.url, i, schema, list(refs), batch) for i, (schema, refs) in found.items()]
        branch.append_rows(rows, REGISTRY_SCHEMAS)
        branch.fast_forward()
