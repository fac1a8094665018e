"""Rows of `changes` of some keys of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from waybill.batches.kept_tables import LEFT_OUT
from waybill.lake_columns import TABLE_PARTS, dotted_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_READ = ("key", "old_key", "outcome", "reason_kind", *TABLE_PARTS)


class KeptKeys:
    """Keeps the changes that touch keys, and what their tables have beside changes.

    That is what tells their schemas, and what was refused or left out of the tables: it names no
    key, and may have been a change of one. Statements of the tables are left out.

    Args:
        keys: key images by the qualified name of their table.

    Attributes:
        others: how many accepted rows of these tables were left out.
    """

    def __init__(self, keys: Mapping[str, Collection[str]]) -> None:
        self._keys = {name: frozenset(some) for name, some in keys.items()}
        self.others = 0

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is kept of some batches."""
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in _READ)
            kept = [self._is_kept(*row) for row in zip(*columns, strict=True)]
            found = batch.filter(pa.array(np.array(kept, np.bool_)))
            if found.num_rows:
                yield found

    def _is_kept(
        self,
        key: str | None,
        old_key: str | None,
        outcome: str,
        reason: str | None,
        *names: str | None,
    ) -> bool:
        keys = self._keys.get(dotted_name(names))
        if keys is None:
            return False
        if outcome not in ("ok", "waiting"):
            return outcome in ("schema", "refused") or reason in LEFT_OUT
        is_own = key in keys or old_key in keys
        self.others += not is_own
        return is_own
