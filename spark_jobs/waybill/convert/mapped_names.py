"""What mapped tables are called, kept from batch to batch.

The record goes on in batches whose mapping renames nothing: a table that is renamed later must not
get the name of one that was renamed before. Tables that came before anything was renamed are in no
record; their names are those of the merged tables.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.mapping.changes import add_name, joined_tables
from waybill.report import NEWEST, SOURCES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from waybill.lake.history import History
    from waybill.mapping.rules import Rules
    from waybill.report import StageReport

NAMES = "source_names"
"""The detail that tells the source's names of tables by those that the lake has."""


class EarlierTables:
    """What earlier batches have called tables, as metadata of the lake tell it.

    Args:
        lake: the lake.
        upto: snapshot of `changes` up to which batches are earlier ones, None for all.
    """

    def __init__(self, lake: History, upto: int | None = None) -> None:
        self._lake = lake
        self._changes = lake.log("changes")
        self._upto = upto

    def names(self) -> dict[str, str]:
        """The newest record, where the last batch has none; empty where there never was one.

        Earlier versions kept none with a batch whose mapping renamed nothing.
        """
        for commit in self._lake.commits(self._changes):
            names = commit.report["details"].get(NAMES)
            if names is not None:
                return dict(names)
        return {}

    @cached_property
    def there(self) -> frozenset[str]:
        """The names of the tables that the lake has."""
        merged = self._lake.last(self._lake.log("merges"), "merge")
        after = None if merged is None else merged.cursor["changes"]
        found = set(self._lake.merged_tables())
        # A run that stopped has decoded tables that no merge has made yet.
        for commit in self._lake.between(self._changes, after, self._upto):
            details = commit.report["details"]
            found.update(details.get("tables", {}), details.get(NEWEST, {}))
        return frozenset(found)


class Met(NamedTuple):
    """What a batch has met.

    Attributes:
        renamed: old names of tables by both names of each, the new one first, on two lines.
        sources: new names of mapped tables by the old ones.
        came: what tables are called that it has changes of.
        rebuilt: those of them that have rows of no earlier batch any more.
    """

    renamed: Mapping[str, str]
    sources: Mapping[str, str]
    came: Collection[str] = ()
    rebuilt: Collection[str] = ()


def keep_names(
    before: Mapping[str, Any],
    mapping: Rules,
    met: Met,
    earlier: EarlierTables,
    report: StageReport,
) -> None:
    """Keep the names of a batch with those of before.

    Args:
        before: details of the last conversion's report.
        mapping: of the migration.
        met: what the batch has met.
        earlier: what other batches have called tables.
        report: gets them.

    Raises:
        ConfigurationError: two tables of this batch and those before are called the same.
    """
    if mapping.renames or NAMES in before:
        names = dict(before[NAMES]) if NAMES in before else earlier.names()
        for name in met.rebuilt:
            names.pop(name, None)
        pairs = [(both.partition("\n")[0], old) for both, old in sorted(met.renamed.items())]
        for now, old in pairs if mapping.renames else [(name, name) for name in sorted(met.came)]:
            if now != old and now not in {*names, *met.rebuilt} and now in earlier.there:
                # Nothing was renamed when that table came.
                names[now] = now
            add_name(names, now, old)
        report.details[NAMES] = names
    if mapping.of_all:
        every = {**before.get(SOURCES, _known(before.get(NAMES, {}))), **met.sources}
        if every:
            report.details[SOURCES] = every


def _known(names: Mapping[str, str]) -> dict[str, str]:
    """What batches of before `SOURCES` was kept tell of it: nothing of tables that became one."""
    joined = joined_tables(names)
    return {old: now for now, old in names.items() if old != now and now not in joined}
