"""Properties of tables that rest on what is there, whoever else sets some meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from waybill.lake.catalog import Catalog

if TYPE_CHECKING:
    from waybill.lake.tables import Lake


def change_properties(
    lake: Lake, table: str, make: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> None:
    """Set properties of a table in one atomic step with reading those that are there.

    Args:
        lake: the lake.
        table: full name.
        make: what to set, by what is there; called again where another commit came first.
    """
    while True:
        operations = lake.iceberg(table).operations()
        before = operations.current()
        there = before.properties()
        found = {str(key): str(there[key]) for key in there}
        after = lake.java("org.apache.iceberg.TableMetadata").buildFrom(before)
        # Whether one of unknown state went through shows when it is made once more.
        if Catalog.commit(operations, before, after.setProperties(dict(make(found))).build()):
            return
