"""Rows of `changes` of some tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from waybill.mapping.rules import fits
from waybill.mapping.shards import EMPTIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TAKEN = ("ok", "refused", "waiting", "schema")
_NAMES = ("database", "schema", "table")
_KEYS = ("key", "old_key")

RowKeys = Mapping[str, frozenset[frozenset[tuple[str, str | None]]]]
"""Keys of rows by the names of their tables: each the columns with the texts that images have."""


class KeptTables:
    """Keeps the rows of tables, and what tells their schemas; leaves out all others.

    Args:
        tables: names or patterns of the tables.
        keys: of those tables only the changes that are about one of these rows; a TRUNCATE is about
            none. All changes where it is None.

    Attributes:
        rows: how many were kept, without those that tell schemas.
    """

    def __init__(self, tables: tuple[str, ...], keys: RowKeys | None = None) -> None:
        self._tables, self._keys = tables, keys
        self._known: dict[tuple[str | None, ...], bool] = {}
        self.rows = 0

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is kept of some batches."""
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in _NAMES]
            outcomes = batch.column("outcome").to_pylist()
            reasons = batch.column("reason_kind").to_pylist()
            kept = [
                # What empties one of several joined tables is left out, and its rows have to go.
                (outcome in _TAKEN or reason == EMPTIED) and self._is_one(names)
                for outcome, reason, names in zip(
                    outcomes, reasons, zip(*columns, strict=True), strict=True
                )
            ]
            if self._keys is not None:
                keys = zip(*(batch.column(name).to_pylist() for name in _KEYS), strict=True)
                kept = [
                    own and (outcome == "schema" or self._is_about(table, texts))
                    for own, outcome, table, texts in zip(
                        kept, outcomes, map(_named, zip(*columns, strict=True)), keys, strict=True
                    )
                ]
            mask = np.array(kept, np.bool_)
            self.rows += sum(o != "schema" for o, k in zip(outcomes, kept, strict=True) if k)
            found = batch.filter(pa.array(mask))
            if found.num_rows:
                yield found

    def _is_one(self, names: tuple[str | None, ...]) -> bool:
        found = self._known.get(names)
        if found is None:
            database, _, table = names
            whole = _named(names)
            short = ".".join(part for part in (database, table) if part)
            found = bool(table) and fits((whole, short), self._tables)
            self._known[names] = found
        return found

    def _is_about(self, table: str, texts: tuple[str | None, ...]) -> bool:
        """Whether a change is about a row of one of the keys."""
        wanted = () if self._keys is None else self._keys.get(table, ())
        return any(frozenset(json.loads(t).items()) in wanted for t in texts if t is not None)


def _named(names: tuple[str | None, ...]) -> str:
    return ".".join(part for part in names if part)
