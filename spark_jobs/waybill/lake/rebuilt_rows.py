"""Which changes of the log count, where a reload has brought all changes of a table once more.

Such a reload rebuilds the table: its batch has every change that the table is made of, as the
mapping of that day makes it, and what batches before it brought of the table counts no more
(`waybill.lake.replaced_changes`). Those changes stay in the log. A reload of single keys does the
same with the changes of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.lake.local_rows import local_rows
from waybill.lake.replaced_changes import STAGE, Replaced, reloads_before, replaced_in
from waybill.lake_columns import REBUILT, REBUILT_KEYS, TABLE_PARTS, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from waybill.lake.tables import Lake

ADDED_TO = "loaded_again"
"""The detail of a conversion's report with the tables whose changes reloads have brought once more,
so that they count beside what was there. A table that is rebuilt is none of them any more."""

_DDL = "_database string, _schema string, _table string, _batch string"
_NAMES = (*TABLE_PARTS, "batch")


class RebuiltTables:
    """The tables that reloads have rebuilt, as a snapshot of the log knows them.

    Args:
        lake: the lake.
        upto: the snapshot, None where the log is empty.

    Attributes:
        batches: the reload that rebuilt each of them last, by the table's qualified name.
        of_keys: the reload that rebuilt keys of a table last, by its qualified name.
        added_to: the tables whose changes came once more beside those of before.
    """

    def __init__(self, lake: Lake, upto: int | None) -> None:
        self._lake, self._upto = lake, upto
        self._table = lake.log("changes")
        self._replaced: list[Replaced] | None = None
        details = {} if upto is None else reloads_before(lake, upto)
        self.batches: Mapping[str, str] = details.get(REBUILT, {})
        self.of_keys: Mapping[str, str] = details.get(REBUILT_KEYS, {})
        self.added_to = frozenset(details.get(ADDED_TO, ()))

    @property
    def replaced(self) -> list[Replaced]:
        """What counts no more."""
        if self._replaced is None:
            self._replaced = replaced_in(self._lake, self._upto) if self._any else []
        return self._replaced

    @property
    def _any(self) -> bool:
        return bool(self.batches or self.of_keys)

    def since(self, after: int | None) -> dict[str, str]:
        """The tables that were rebuilt behind a snapshot of the log, with the last reload of each.

        Args:
            after: None for the beginning of the log.
        """
        if not self.batches:
            return {}
        came = self._came(after)
        return {name: batch for name, batch in self.batches.items() if batch in came}

    def keys_since(self, after: int | None) -> dict[str, frozenset[str]]:
        """The keys that were rebuilt behind a snapshot of the log, by the name of their table.

        Args:
            after: None for the beginning of the log.
        """
        if not self.of_keys:
            return {}
        came = self._came(after)
        found: dict[str, set[str]] = {
            name: set() for name, batch in self.of_keys.items() if batch in came
        }
        for one in self.replaced if found else ():
            if one.key is not None and one.by in came:
                found[dotted_name(one[:3])].add(one.key)
        return {name: frozenset(keys) for name, keys in found.items()}

    def _came(self, after: int | None) -> set[str]:
        """The batches behind a snapshot."""
        return {commit.batch for commit in self._lake.between(self._table, after, self._upto)}

    def has_both(self, after: int | None) -> bool:
        """Whether the changes behind a snapshot may be some that count no more."""
        if not self.since(after) and not self.keys_since(after):
            return False
        line = self._lake.between(self._table, after, self._upto)
        return sum(commit.stage == STAGE for commit in line) > 1

    def counting(self, rows: DataFrame) -> DataFrame:
        """The rows of `changes` that count."""
        return without(rows, self.replaced) if self._any else rows

    def replaced_since(self, after: int | None) -> int:
        """How many accepted changes behind a snapshot count no more."""
        if not self.has_both(after):
            return 0
        came = self._lake.increment(self._table, after, self._upto).where("outcome = 'ok'")
        return came.count() - without(came, self.replaced).count()


def without(rows: DataFrame, replaced: Iterable[Replaced]) -> DataFrame:
    """Rows of `changes` without those that count no more."""
    every = [one for one in replaced if not one.is_mark]
    tables = {one[:4] for one in every if one.key is None}
    keys = {(*one[:4], one.key) for one in every if one.key is not None}
    if tables:
        rows = _left(rows, tables, _NAMES, _DDL)
    if keys:
        rows = _left(rows, keys, (*_NAMES, "key"), f"{_DDL}, _key string")
    return rows


def _left(
    rows: DataFrame, known: Iterable[tuple[str | None, ...]], names: Sequence[str], ddl: str
) -> DataFrame:
    found = local_rows(rows.sparkSession, sorted(known, key=str), ddl)
    same = F.lit(True)
    for name in names:
        same &= F.col(name).eqNullSafe(F.col(f"_{name}"))
    return rows.join(F.broadcast(found), same, "left_anti")
