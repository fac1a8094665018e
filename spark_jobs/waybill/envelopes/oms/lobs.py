"""LOB columns that an update did not touch: null in both images, and no value at all.

Source: help.aliyun.com, document 400562: JSON, geometries, BLOB and TEXT beyond VARCHAR are null in
both images of an update that did not touch them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from waybill.envelopes.generated import function
from waybill.envelopes.oms.type_names import DIALECT, is_lob

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.oms.settings import OmsWriteSettings
    from waybill.records import TableSchema


def untouchable(schema: TableSchema) -> tuple[int, ...]:
    """The columns that are null in both images of an update that did not touch them."""
    key = schema.key or ()
    named = schema.dialect in (DIALECT, "mysql")
    return tuple(
        i
        for i, column in enumerate(schema.columns)
        if is_lob(column.type, column.source_type if named else None) and column.name not in key
    )


def forget(lobs: tuple[int, ...]) -> Callable[[Any, Any], None]:
    """A function that leaves out of both images the columns that are null in both of them."""
    lines = [
        f"if before.f{i} is None and after.f{i} is None: before.f{i} = after.f{i} = UNSET"
        for i in lobs
    ]
    return function("forget(before, after)", lines, {})


class WrittenLobs:
    """Writes the LOB columns of a table that an update did not touch, where that is set.

    Args:
        schema: the table.
        settings: whether they are written as null.
        named: whether messages name the types of columns. Without, a reader cannot tell a TEXT
            from a VARCHAR and takes its null for one.
    """

    def __init__(self, schema: TableSchema, settings: OmsWriteSettings, named: bool = True) -> None:
        self.columns = untouchable(schema) if settings.lobs == "unchanged" else ()
        columns = schema.columns
        self.mistaken = frozenset(
            i for i in self.columns if not (named or is_lob(columns[i].type, None))
        )

    def null_in(self, image: Any) -> bool:
        """Whether such a column is null in an image."""
        return any(getattr(image, f"f{i}") is None for i in self.columns)

    def untold_before(self, before: Any, after: Any) -> bool:
        """Whether such a column is null after an update and not told of the row before."""
        return any(
            getattr(before, f"f{i}") is UNSET and getattr(after, f"f{i}") is None
            for i in self.columns
        )

    def as_null(self, before: Any, after: Any, losses: list[str]) -> tuple[Any, Any]:
        """Both images of an update, in which such columns that neither tells are null."""
        if not self.columns or before is None:
            return before, after
        before, after = before.__copy__(), after.__copy__()
        for i in self.columns:
            field = f"f{i}"
            values = getattr(before, field), getattr(after, field)
            if values == (UNSET, UNSET):
                setattr(before, field, None)
                setattr(after, field, None)
                if i in self.mistaken:
                    losses.append("unchanged_columns")
            elif values == (None, None):
                losses.append("unchanged_columns")
        return before, after
