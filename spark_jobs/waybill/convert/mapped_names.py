"""What mapped tables are called, kept from batch to batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.mapping.changes import add_name, joined_tables
from waybill.report import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.mapping.rules import Rules
    from waybill.report import StageReport

NAMES = "source_names"
"""The detail that tells the source's names of tables by those that the lake has."""


def keep_names(
    before: Mapping[str, Any],
    mapping: Rules,
    renamed: Mapping[str, str],
    sources: Mapping[str, str],
    report: StageReport,
) -> None:
    """Keep the names of a batch with those of before.

    Args:
        before: details of the last conversion's report.
        mapping: of the migration.
        renamed: old names of tables by both names of each, the new one first, on two lines.
        sources: new names of mapped tables by the old ones.
        report: gets them.

    Raises:
        ConfigurationError: two tables of this batch and those before are called the same.
    """
    if mapping.renames:
        names: dict[str, str] = dict(before.get(NAMES, {}))
        for both, old in sorted(renamed.items()):
            add_name(names, both.partition("\n")[0], old)
        report.details[NAMES] = names
    if mapping.of_all:
        every = {**before.get(SOURCES, _known(before.get(NAMES, {}))), **sources}
        if every:
            report.details[SOURCES] = every


def _known(names: Mapping[str, str]) -> dict[str, str]:
    """What batches of before `SOURCES` was kept tell of it: nothing of tables that became one."""
    joined = joined_tables(names)
    return {old: now for now, old in names.items() if old != now and now not in joined}
