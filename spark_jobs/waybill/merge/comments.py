"""What the comments of a merged table's columns say: where each comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from waybill.merge import columns as own

if TYPE_CHECKING:
    from waybill.merge.columns import MergedColumn
    from waybill.records import TableSchema

OWN_COMMENTS = {
    own.KEY: "the key as a JSON text image",
    own.ORDER: "the order of the newest change",
    own.DELETED: "true in tombstones, which only Waybill sees",
    own.IMAGE: "the row's exact texts, or what its columns do not say of them",
    own.SOURCES: "other keys whose changes contribute to the row",
    own.BATCH: "the batch that wrote the row",
    own.GONE: "why there is a tombstone",
}
"""Comments of the columns that every merged table has."""


def comments(
    qualified: str, columns: Iterable[MergedColumn], schemas: Iterable[TableSchema]
) -> dict[str, str]:
    """The comments of columns, by their names in the lake.

    A column that the schemas do not have is left out: it keeps its comment. Where they describe
    one differently, as its table was altered in the middle of the batch, the comment has both
    types.

    Args:
        qualified: the source table's name.
        columns: its columns.
        schemas: how a batch describes the table.
    """
    types: dict[str, set[str]] = {}
    for schema in schemas:
        for column in schema.columns:
            known = column.source_type or (None if column.type.kind == "unknown" else column.type)
            types.setdefault(column.name, set()).update([] if known is None else [str(known)])
    found = dict(OWN_COMMENTS)
    for column_of in columns:
        kinds = types.get(column_of.name)
        if kinds is not None:
            type_ = " or ".join(sorted(kinds))
            words = (column_of.name, type_, "of", qualified)
            found[column_of.lake] = " ".join(filter(None, words))
    return found
