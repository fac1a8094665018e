"""What suites on rows see of a sample: its rows as the merge makes them, its changes, its messages.

They are small tables of Spark, so that every expectation runs as it will in the gate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.cli.check_tables import image_of
from waybill.errors import Refusal
from waybill.records import ROW_OPERATIONS, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waybill.merge.columns import MergedColumn
    from waybill.merge.rules import Change as Ruled
    from waybill.protocol import Encoder
    from waybill.records import Change
    from waybill.spec.migration import Migration
    from waybill.validate.suites import Over, Suite

_CHANGES = (
    "outcome string, operation string, source_time long, key string, before string, after string"
)
_ROWS = "key string, image string"
_MESSAGES = (
    "outcome string, target string, topic string, `partition` int, offset bigint, `index` int, "
    "`table` string, timestamp long, key binary, value binary, losses array<string>"
)


class SampleRows(NamedTuple):
    """A sample for suites on rows.

    Attributes:
        spec: the migration.
        changes: the accepted changes of the sample.
        encoders: makes the encoder of each target, by label.
        ruled: a change as the rules of the merge take it, None where they take none.
    """

    spec: Migration
    changes: list[Change]
    encoders: Mapping[str, Callable[[], Encoder]]
    ruled: Callable[[Change], Ruled | None]

    def holds(self, suite: Suite) -> bool:
        """Whether it has anything that a suite on rows could look at.

        Raises:
            ConfigurationError: the suite runs over messages to a target that is not there.
        """
        from waybill.validate.seen_rows import check_target
        from waybill.validate.suites import PUBLISHED

        if suite.over.kind == PUBLISHED:
            check_target(suite, list(self.encoders))
            return bool(self.changes)
        return bool(self.of_table(suite.over))

    @contextmanager
    def spark(self) -> Iterator[SparkSession]:
        """A session for the block; one that runs already stays."""
        from pyspark import SparkContext

        from waybill.lake.session import start_session

        running = SparkContext._active_spark_context is not None
        if not running:
            sys.stderr.write(
                "waybill: suites on rows need Spark, starting it takes some seconds …\n"
            )
        session = start_session(self.spec, f"waybill {self.spec.name}")
        try:
            yield session
        finally:
            if not running:
                session.stop()

    def seen_by(self, spark: SparkSession, over: Over) -> DataFrame:
        """What a suite runs over."""
        from waybill.validate.suites import CHANGES, ROWS

        if over.kind == ROWS:
            return self._rows(spark, over)
        return self._changes(spark, over) if over.kind == CHANGES else self._messages(spark, over)

    def of_table(self, over: Over) -> list[Change]:
        """The changes of rows of the table that a suite names."""
        return [
            change
            for change in self.changes
            if change.half is None
            and change.operation in (*ROW_OPERATIONS, "truncate")
            and change.schema.qualified_name == over.name
        ]

    def _rows(self, spark: SparkSession, over: Over) -> DataFrame:
        """The rows that the sample leaves in a table."""
        from waybill.merge.rules import fold
        from waybill.validate.row_suites import NAME
        from waybill.validate.seen_rows import with_typed_images

        changes = self.of_table(over)
        own = [ruled for change in changes if (ruled := self.ruled(change)) is not None]
        lines = [(_text(key), _text(row.image)) for key, row in fold({}, own).items() if row.live]
        names, types = self._columns(changes)
        frame = spark.createDataFrame(lines, _ROWS).withColumnRenamed("key", NAME)
        return with_typed_images(frame, ("image",), names, types).select("image.*", NAME)

    def _changes(self, spark: SparkSession, over: Over) -> DataFrame:
        """The changes of a table."""
        from waybill.validate.seen_rows import changes_of

        changes = self.of_table(over)
        lines = [
            (
                *("ok", change.operation, change.source_time, _key_of(change)),
                *(
                    None if image is None else _text(image)
                    for image in (change.before, change.after)
                ),
            )
            for change in changes
        ]
        rows = _timed(spark.createDataFrame(lines, _CHANGES), "source_time")
        return changes_of(rows, *self._columns(changes))

    def _messages(self, spark: SparkSession, over: Over) -> DataFrame:
        """The messages that the sample becomes for a target."""
        from waybill.validate.seen_rows import published

        encoder = self.encoders[over.name]()
        lines = []
        for change in self.changes:
            losses: list[str] = []
            try:
                written = [] if change.half is not None else encoder.encode(change, losses)
            except Refusal:
                # The finding about the target has reported it.
                continue
            at = change.message
            place = ("ok", over.name, at.topic, at.partition, at.offset, change.index)
            about = (*place, change.schema.qualified_name, change.source_time)
            lines += [(*about, message.key, message.value, losses) for message in written]
        return published(_timed(spark.createDataFrame(lines, _MESSAGES), "timestamp"), over.name)

    def _columns(self, changes: list[Change]) -> tuple[dict[str, str], dict[str, str]]:
        """Names of the table's columns in the source, and their types, by names in the lake."""
        from waybill.merge.column_changes import extend

        schemas: dict[int, TableSchema] = {id(c.schema): c.schema for c in changes}
        found: tuple[MergedColumn, ...] = ()
        for schema in schemas.values():
            rule = self.spec.rules.find(schema.database, schema.schema, schema.table)
            found = extend(found, [schema], rule.columns, schema.qualified_name, 0)
        return {c.lake: c.name for c in found}, {c.lake: c.type for c in found}


def _timed(rows: DataFrame, column: str) -> DataFrame:
    """Rows with times for microseconds since 1970: not every time is one that Python has."""
    from pyspark.sql import functions as F

    return rows.withColumn(column, F.timestamp_micros(column))


def _key_of(change: Change) -> str | None:
    try:
        key = change.key_image()
    except Refusal:
        # The sample has reported it.
        return None
    return None if key is None else _text(key)


def _text(image: Any) -> str:
    return image if isinstance(image, str) else msgspec.json.encode(image_of(image)).decode()
