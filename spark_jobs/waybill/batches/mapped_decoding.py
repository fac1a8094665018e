"""Decoded rows of `changes` as the migration's mapping makes them, before they are written."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.batches.change_rows import schema_row
from waybill.batches.mapped_changes import MappedChanges, with_column
from waybill.batches.record_batches import record_batch
from waybill.lake_columns import CHANGE_PLACE, CHANGES
from waybill.mapping.column_history import NO_HISTORY
from waybill.mapping.masks import WITHHELD
from waybill.mapping.shards import VOID, emptied_as_json
from waybill.mapping.transaction_rows import ChangeTexts, digest_of, with_digest
from waybill.records import ROW_OPERATIONS, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from waybill.mapping.changes import Bags
    from waybill.mapping.column_history import ColumnHistory
    from waybill.mapping.rules import Rules
    from waybill.mapping.shards import Floor
    from waybill.tables import TableRules

_GONE = (
    *("key", "old_key", "before", "after", "transaction", "ddl_text", "schema_id", "extra"),
    *("half", "reason", "raw_key", "raw"),
)
"""What is not kept of a change that is left out."""
_IMAGES = ("key", "old_key", "before", "after")
_COUNTED = (*ROW_OPERATIONS, "truncate", "ddl")
"""Operations that the end of a transaction may count."""
NO_FLOORS: Mapping[str, Floor] = MappingProxyType({})
_RAW = ("raw_key", "raw")


class MappedDecoding:
    """Maps what a task decodes.

    Args:
        rules: the mapping.
        declared: what is declared of the source's tables.
        floors: see `MappedChanges`.
        by_source_time: see `MappedChanges`.
        bags: see `ChangeMapper`.
        history: see `ChangeMapper`.

    Attributes:
        emptied: how many TRUNCATEs and statements there were that empty joined tables.
    """

    def __init__(
        self,
        rules: Rules,
        declared: TableRules,
        floors: Mapping[str, Floor] = NO_FLOORS,
        by_source_time: bool = False,
        bags: Bags = "id",
        history: ColumnHistory = NO_HISTORY,
    ) -> None:
        self.emptied = 0
        self._hides = rules.masks
        self._maps, self._leaves_out = rules.of_all, False
        self._given: dict[str, TableSchema] = {}
        self._mapped = MappedChanges(
            rules, self._given, declared, floors, by_source_time, bags, history
        )

    @property
    def names(self) -> dict[str, str]:
        """The source's names of tables by those that they have now, as far as they were met."""
        return self._mapped.mapping.names

    @property
    def sources(self) -> dict[str, str]:
        """The names that tables have now by those of the source.

        Without those that the merge knows by the source's name, as it gets rows of them.
        """
        found = {}
        for mapped in self._mapped.tables:
            before, now = mapped.source.qualified_name, mapped.schema.qualified_name
            if mapped.source.table and (before != now or mapped.where is not None):
                found[before] = now
        return found

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of some batches as they become; schemas stand before their first row."""
        for batch in batches:
            is_schema = np.asarray(pc.equal(batch.column("outcome"), pa.scalar("schema")))
            if not self._maps and not self._any_left_out(batch, is_schema):
                yield batch
                continue
            schemas = batch.filter(pa.array(is_schema))
            rows = pa.Table.from_batches([batch.filter(pa.array(~is_schema))])
            yield from self._rows(self._learnt(schemas), rows)

    def _any_left_out(self, batch: pa.RecordBatch, is_schema: Any) -> bool:
        """Whether a table was left out until now, where nothing else is done to tables."""
        for row in batch.filter(pa.array(is_schema)).to_pylist() if is_schema.any() else ():
            schema = self._given[row["schema_id"]] = TableSchema.from_json(row["extra"])
            self._leaves_out |= self._mapped.mapping.rules.left_out(schema) is not None
        return self._leaves_out

    def _learnt(self, schemas: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows that tell the schemas as they become."""
        made: list[tuple[Any, ...]] = []
        for row in schemas.to_pylist():
            if row["schema_id"] not in self._given:
                self._given[row["schema_id"]] = TableSchema.from_json(row["extra"])
            mapped = self._mapped.table(row["schema_id"])
            if mapped is not None:
                first = {name: row[name] for name in (*CHANGE_PLACE, "batch")}
                made.append(tuple(schema_row(mapped.schema, first).values()))
        return [record_batch(made, CHANGES)] if made else []

    def _of_statements(self, rows: pa.Table, places: Iterable[int]) -> list[pa.RecordBatch]:
        """The rows that tell the schemas of some statements: their tables may have no other row."""
        made: list[tuple[Any, ...]] = []
        for row in rows.take(pa.array(sorted(places))).to_pylist():
            schema = self._mapped.schemas.get(row["schema_id"])
            if row["outcome"] == "ok" and schema is not None:
                first = {name: row[name] for name in (*CHANGE_PLACE, "batch")}
                made.append(tuple(schema_row(schema, first).values()))
        return [record_batch(made, CHANGES)] if made else []

    def _rows(self, schemas: list[pa.RecordBatch], rows: pa.Table) -> list[pa.RecordBatch]:
        if not rows.num_rows:
            return schemas
        found, why, sentences, emptied = self._mapped.map(rows)
        digests: dict[int, str] = {}
        if pc.any(pc.is_valid(why)).as_py():
            found, digests = self._left_out(rows, found, why, sentences)
        if emptied:
            # Whoever makes the deletes reads here which tables are meant.
            self.emptied += len(emptied)
            tables = [emptied.get(place) for place in range(found.num_rows)]
            extras = pa.array(
                [None if t is None else emptied_as_json(t) for t in tables], pa.string()
            )
            found = _set(found, "extra", pc.is_valid(extras), extras)
            schemas = [*schemas, *self._of_statements(found, emptied)]
        if digests:
            found = _with_digests(found, digests)
        if self._hides:
            for name in _RAW:
                found = with_column(found, name, pa.nulls(found.num_rows, CHANGES.field(name).type))
            refused = pc.equal(found.column("outcome"), pa.scalar("refused"))
            found = _set(found, "reason", refused, pa.scalar(WITHHELD))
        return [*schemas, *found.cast(CHANGES).combine_chunks().to_batches()]

    def _left_out(
        self, rows: pa.Table, found: pa.Table, why: Any, sentences: Any
    ) -> tuple[pa.Table, dict[int, str]]:
        """Mapped rows without what is not kept of those that are left out, and digests of some.

        Args:
            rows: as they were decoded.
            found: the same, mapped.
            why: for each row why it is left out.
            sentences: for each row why it is refused.
        """
        out, refused = pc.is_valid(why), pc.is_valid(sentences)
        outcomes = pc.if_else(refused, pa.scalar("refused"), pa.scalar("skipped"))
        found = _set(found, "outcome", out, outcomes)
        found = _set(found, "reason_kind", out, why)
        counted, digests = self._of_transactions(rows, why, refused)
        void = pc.and_(counted, pc.fill_null(pc.equal(why, pa.scalar(VOID)), False))
        for name in _GONE:
            gone = out
            if name == "transaction":
                gone = pc.and_not(out, counted)
            elif name in _IMAGES:
                # It may have come before, when it was taken, and is known by them.
                gone = pc.and_not(out, void)
            found = _set(found, name, gone, pa.scalar(None, CHANGES.field(name).type))
        return _set(found, "reason", refused, sentences), digests

    def _of_transactions(
        self, rows: pa.Table, why: Any, refused: Any
    ) -> tuple[Any, dict[int, str]]:
        """Which rows of transactions are left out of tables that are taken, and their digests.

        Those from before their table was emptied keep their images and need none.

        Args:
            rows: as they were decoded.
            why: for each row why it is left out.
            refused: for each row whether it is refused; its transaction waits for it.
        """
        asked: Any = pc.and_(pc.is_valid(rows.column("transaction")), pc.is_valid(why))
        of_rows: Any = pc.is_in(rows.column("operation"), value_set=pa.array(_COUNTED))
        places = np.flatnonzero(np.asarray(pc.and_not(pc.and_(asked, of_rows), refused)))
        numbers: Any = pa.array(places)
        columns = [
            rows.column(name).take(numbers).to_pylist()
            for name in ("schema_id", "operation", *_IMAGES)
        ]
        reasons = why.take(numbers).to_pylist()
        counted = np.zeros(rows.num_rows, np.bool_)
        digests: dict[int, str] = {}
        for place, reason, schema_id, operation, *images in zip(
            places.tolist(), reasons, *columns, strict=True
        ):
            mapped = None if schema_id is None else self._mapped.table(schema_id)
            if mapped is None or not mapped.source.table:
                continue
            counted[place] = True
            if reason != VOID:
                digests[place] = digest_of(mapped, operation, ChangeTexts(*images))
        return pa.array(counted), digests


def _set(rows: pa.Table, name: str, where: Any, values: Any) -> pa.Table:
    """Rows with other values in a column where a condition holds."""
    return with_column(rows, name, pc.if_else(where, values, rows.column(name)))


def _with_digests(rows: pa.Table, digests: dict[int, str]) -> pa.Table:
    """Rows with the digests of some that are left out, by their numbers."""
    extras = rows.column("extra").to_pylist()
    for place, digest in digests.items():
        extras[place] = with_digest(extras[place], digest)
    return with_column(rows, "extra", pa.array(extras, pa.string()))
