"""What the log says of the names that a table's columns had, for a table with renamed columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from waybill.lake.names import literal
from waybill.merge.increment import QUALIFIED
from waybill.merge.renamed_texts import full_rows_outside
from waybill.merge.renamings import exchanged, instead, present_schema, renaming_error
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from waybill.merge.increment import Increment
    from waybill.merge.renamings import Renamings
    from waybill.records import TableSchema


class NamesInLog(NamedTuple):
    """Asks the log of a batch.

    Attributes:
        increment: the batch.
    """

    increment: Increment

    @property
    def after(self) -> int | None:
        """Snapshot of `changes` behind which the batch begins."""
        return self.increment.after

    def present_schemas(
        self, qualified: str, schemas: Mapping[str, TableSchema], higher: str, renamed: Renamings
    ) -> list[TableSchema]:
        """The schemas of a table's changes with the names of now.

        Args:
            qualified: the table.
            schemas: those of the batch, by id.
            higher: only changes above this order are asked for.
            renamed: the table's renamings.

        Raises:
            SchemaChangeError: two columns of one would get one name.
        """
        rows = self._rows(self.increment.accepted(), qualified)
        rows = rows.where(f"{self.increment.order} > '{higher}'")
        level = " + ".join(
            f"cast({self.increment.order} < {literal(one.order)} AS int)" for one in renamed
        )
        used = rows.select("schema_id", F.expr(level).alias("level")).distinct().collect()
        found = {}
        for id_, level in sorted((row.schema_id or "", row.level) for row in used):
            schema = schemas.get(id_)
            if schema is None:
                continue
            now = present_schema(schema, renamed[len(renamed) - level :])
            if now is None:
                raise renaming_error(
                    f"changes of {qualified} from before a column was renamed have both of its "
                    f"names ({', '.join(schema.names)})",
                    instead(qualified),
                )
            found[now.id] = now
        return list(found.values())

    def merged(self, qualified: str, order: str, above: bool) -> list[TableSchema]:
        """The schemas of changes that were merged before the batch, on one side of an order."""
        rows = self._rows(self.increment.merged_before().where("outcome = 'ok'"), qualified)
        side = ">" if above else "<"
        return self._schemas(rows.where(f"{self.increment.order} {side} {literal(order)}"))

    def full_rows_outside(self, qualified: str, renamed: Renamings) -> list[TableSchema]:
        """The schemas of full rows that may have been read before or after renamings.

        Those that came with batches before the statements are older, or show it by having a new
        name that is not a column yet. Where names were exchanged they do not show it.
        """
        lake, upto = self.increment.lake, self.increment.upto
        came = lake.increment(lake.log("changes"), self.full_rows_since(renamed), upto)
        came = self.increment.rebuilt.counting(came)
        rows = self._rows(came.where("outcome = 'ok'"), qualified)
        return self._schemas(rows.where(full_rows_outside(renamed)))

    def full_rows_since(self, renamed: Renamings) -> int | None:
        """Snapshot of `changes` behind which full rows may be unclear; None for the whole log."""
        asked = {one.after for one in renamed}
        if None in asked or exchanged(renamed):
            return None
        lake = self.increment.lake
        line = lake.metadata(lake.log("changes")).ancestors(self.increment.upto)
        # A statement with a lower order may have come later. Upkeep may have expired any of them.
        known = [snapshot.id for snapshot in line if snapshot.id in asked]
        return known[-1] if len(known) == len(asked) else None

    @staticmethod
    def _rows(frame: DataFrame, qualified: str) -> DataFrame:
        mine = frame.where(F.col("operation").isin(*ROW_OPERATIONS))
        return mine.where(f"{QUALIFIED} = {literal(qualified)}")

    def _schemas(self, rows: DataFrame) -> list[TableSchema]:
        ids = {row.schema_id for row in rows.select("schema_id").distinct().collect()}
        return list(self.increment.schemas_of(ids - {None}).values())
