"""Where the columns of a batch come from, for the lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.errors import WaybillError
from waybill.lake.names import split
from waybill.merge.origins import ColumnOrigin, TableOrigin, keep_origins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.lake import Branch, Lake
    from waybill.merge.table_plans import TablePlan
    from waybill.spec.migration import Migration


def keep_column_origins(
    spec: Migration,
    lake: Lake,
    batch: str,
    made: Mapping[str, Branch],
    plans: Mapping[str, TablePlan],
) -> str | None:
    """Write down where columns come from.

    This comes before the record, so that a merge that is on record has it. Only the lineage needs
    it: what goes wrong here must not hold the merge up.

    Args:
        spec: the migration.
        lake: the lake.
        batch: the batch's id.
        made: the branches of its tables.
        plans: what it means for these tables.

    Returns:
        What went wrong; None if nothing did.
    """
    # A catalog that is a database leaves its tables in the warehouse.
    kinds = [spec.lake.catalog.get(name) for name in ("type", "catalog-impl")]
    in_warehouse = kinds in ([None, None], ["jdbc", None])
    tables = {}
    for name, branch in made.items():
        state = plans[name].state
        columns = tuple(ColumnOrigin(*column[:3]) for column in state.columns)
        place = "" if in_warehouse else lake.metadata(branch.table).shape.location
        tables[name] = TableOrigin(".".join(split(branch.table)), state.topics, columns, place)
    if not tables:
        return None
    try:
        keep_origins(spec, batch, tables)
    except (WaybillError, OSError) as error:
        return f"the lineage of the batch names no columns, as they could not be written: {error}"
    return None
