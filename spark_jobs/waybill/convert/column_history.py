"""When the columns came that conditions ask for: looked up in the archive where a row lacks one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.batches.messages import decode_message, messages_of
from waybill.batches.record_batches import record_batch
from waybill.errors import MissingColumnError
from waybill.lake import Span
from waybill.lake_columns import ARCHIVE, columns_of
from waybill.mapping.column_history import ColumnHistory, ColumnStatement, column_statements
from waybill.mapping.conditions import missing_columns
from waybill.records import intern_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from waybill.convert.plan import DecodePlan
    from waybill.convert.registry_schemas import RegistrySchemas
    from waybill.mapping.rules import Rules
    from waybill.records import Change
    from waybill.report import StageReport
    from waybill.spark_tasks.worker_startup import Make
    from waybill.stage_context import StageContext

Decoded = TypeVar("Decoded")

STATEMENTS = "column_statements"
"""The detail that tells what statements did to columns that rows lacked, by table."""

_MESSAGE = columns_of(
    ARCHIVE, "topic", "partition", "offset", "timestamp", "key", "value", "headers"
)
_FOUND = pa.schema([("table", pa.string()), ("statement", pa.string())])


class ColumnHistories:
    """What a batch knows of the columns that conditions ask for.

    Most rows have them all. Where one does not, the statements that the archive has brought since
    they were read last are read, those behind the row among them, and kept with the batch.

    Args:
        context: of the stage.
        reading: how messages are decoded.
        table: the full name of `changes`.
        schemas: of a registry.
    """

    def __init__(
        self, context: StageContext, reading: DecodePlan, table: str, schemas: RegistrySchemas
    ) -> None:
        self._context, self._reading, self._schemas = context, reading, schemas
        rules = reading.mapping.of_tables
        conditions = sorted({rule.where for rule in rules if rule.where is not None})
        self._looked = not conditions
        last = context.lake.last(table, "convert") if conditions else None
        kept = {} if last is None else last.report.get("details", {}).get(STATEMENTS, {})
        if kept.get("conditions") != conditions:
            kept = {"conditions": conditions, "upto": None, "tables": {}}
        self._kept: dict[str, Any] = kept

    @property
    def history(self) -> ColumnHistory:
        """What is known by now."""
        found = {
            table: tuple(
                ColumnStatement(column, null, order, time, (place[0], place[1], place[2]))
                for column, null, order, time, place in statements
            )
            for table, statements in self._kept["tables"].items()
        }
        by_source_time = self._context.spec.order.ambiguous == "source_time"
        return ColumnHistory(found, by_source_time, self._looked)

    def settle(self, decode: Callable[[], Decoded]) -> Decoded:
        """Decode; once more, with all statements, where a row lacks a column of a condition.

        The first try ends at the first such row, and most batches have none: to read the statements
        before each of them would cost more.

        Args:
            decode: does it, with the `history` of that moment.

        Returns:
            What it gives.

        Raises:
            MissingColumnError: nobody knows why a row lacks one.
        """
        try:
            return decode()
        except MissingColumnError:
            if self._looked:
                raise
        self._look()
        return decode()

    def tell(self, report: StageReport) -> None:
        """Keep what was found with the batch."""
        if self._kept["upto"] is not None:
            report.details[STATEMENTS] = self._kept

    def _look(self) -> None:
        self._looked = True
        self._context.progress(
            "convert: statements of the archive are read, as a row lacks a column"
        )
        lake = self._context.lake
        archive = lake.log("archive")
        upto = lake.head(archive)
        # Upkeep may have expired where it ended last.
        line = {snapshot.id for snapshot in lake.metadata(archive).ancestors(upto)}
        since = self._kept["upto"] if self._kept["upto"] in line else None
        messages = lake.task_rows(Span(archive, since, upto), _MESSAGE, {})
        rows = messages.collected(self._statements(), from_arrow_schema(_FOUND))
        found = {(row["table"], row["statement"]) for row in rows}
        # What was found stays, also where the archive has its messages no more.
        tables = {name: [*statements] for name, statements in self._kept["tables"].items()}
        for table, text in sorted(found):
            statement = json.loads(text)
            if statement not in tables.setdefault(table, []):
                tables[table].append(statement)
        self._kept = {**self._kept, "upto": upto, "tables": tables}

    def _statements(self) -> Make:
        """From batches of the archive to what statements in them do to columns, in a task."""
        reading, schemas = self._reading, self._schemas.of_tasks()

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            schemas.begin()
            decoder, asked = reading.decoder(), _ConditionColumns(reading.mapping)
            found: list[tuple[Any, ...]] = []
            for batch in batches:
                for message in messages_of(batch):
                    # Most messages are rows; nothing else is decoded a second time.
                    text = b"" if message.value is None else message.value.lower()
                    if b"alter" in text or b"sp_rename" in text:
                        for change in decode_message(decoder, message):
                            found += asked.of(change)
            schemas.end()
            yield record_batch(found, _FOUND)

        return read


class _ConditionColumns:
    """Finds what statements do to the columns that conditions ask for."""

    def __init__(self, mapping: Rules) -> None:
        self._mapping = mapping

    def of(self, change: Change) -> Iterator[tuple[str, str]]:
        """The tables that the statement of a change alters, and what it does, as JSON."""
        if change.outcome != "ok":
            return
        for table, statement in column_statements(change):
            bare = intern_schema(table.database, table.schema, table.table, dialect=table.dialect)
            conditions = [rule.where for rule in self._mapping.rules_of(bare) if rule.where]
            asked = {name.casefold() for text in conditions for name in missing_columns(text, bare)}
            if statement.column.casefold() in asked:
                yield table.qualified_name, json.dumps(statement)
