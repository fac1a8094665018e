"""Rows of `changes` of some tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from waybill.envelopes.pairs import DUPLICATE
from waybill.lake_columns import TABLE_PARTS, dotted_name
from waybill.mapping.changes import STATEMENT
from waybill.mapping.rules import NOT_MET, fits
from waybill.mapping.shards import EMPTIED, OF_ONE, VOID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TAKEN = ("ok", "refused", "waiting", "schema")
LEFT_OUT = (EMPTIED, VOID, NOT_MET, STATEMENT, OF_ONE, DUPLICATE)
"""Why changes of a table that is taken are left out: it is made without them, and the end of their
transaction counts them. What empties one of several joined tables is among them, too, and so is
half of an update that came twice: it shows that its message was read."""


class KeptTables:
    """Keeps the rows of tables, and what tells their schemas; leaves out all others.

    Args:
        tables: names or patterns of the tables.

    Attributes:
        rows: how many were kept, without those that tell schemas.
        met: the qualified names of the tables that they are of.
    """

    def __init__(self, tables: tuple[str, ...]) -> None:
        self._tables = tables
        self._known: dict[tuple[str | None, ...], bool] = {}
        self.rows = 0
        self.met: set[str] = set()

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is kept of some batches."""
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in TABLE_PARTS]
            outcomes = batch.column("outcome").to_pylist()
            reasons = batch.column("reason_kind").to_pylist()
            kept = [
                (outcome in _TAKEN or reason in LEFT_OUT) and self._is_one(names)
                for outcome, reason, names in zip(
                    outcomes, reasons, zip(*columns, strict=True), strict=True
                )
            ]
            mask = np.array(kept, np.bool_)
            found_rows = zip(outcomes, kept, zip(*columns, strict=True), strict=True)
            met = {names for o, k, names in found_rows if k and o != "schema"}
            self.met |= set(map(dotted_name, met))
            self.rows += sum(o != "schema" for o, k in zip(outcomes, kept, strict=True) if k)
            found = batch.filter(pa.array(mask))
            if found.num_rows:
                yield found

    def _is_one(self, names: tuple[str | None, ...]) -> bool:
        found = self._known.get(names)
        if found is None:
            database, _, table = names
            whole = ".".join(part for part in names if part)
            short = ".".join(part for part in (database, table) if part)
            found = bool(table) and fits((whole, short), self._tables)
            self._known[names] = found
        return found
