"""LOB columns that an update did not touch: null in both images, and no value at all.

Source: help.aliyun.com, document 400562: JSON, geometries, BLOB and TEXT beyond VARCHAR are null in
both images of an update that did not touch them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from waybill.envelopes.oms.type_names import DIALECT, is_lob
from waybill.protocol import Limit
from waybill.values.generated import function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from waybill.envelopes.oms.settings import OmsWriteSettings
    from waybill.records import TableSchema


NULL_IS_UNTOUCHED = Limit(
    "lobs",
    "unchanged",
    "before_image",
    "a LOB column that is null in both rows is read as one that was not touched",
)
"""What it costs to write such columns as OMS does."""


def untouchable(schema: TableSchema) -> tuple[int, ...]:
    """The columns that are null in both images of an update that did not touch them."""
    named = schema.dialect in (DIALECT, "mysql")
    return _lobs(schema, {c.name: c.source_type for c in schema.columns} if named else None)


def _lobs(schema: TableSchema, names: Mapping[str, str | None] | None) -> tuple[int, ...]:
    """The LOB columns beside the key, by the names of types that are stated (None: no names)."""
    key = schema.key or ()
    return tuple(
        i
        for i, column in enumerate(schema.columns)
        if is_lob(column.type, None if names is None else names[column.name])
        and column.name not in key
    )


def forget(lobs: tuple[int, ...]) -> Callable[[Any, Any], None]:
    """A function that leaves out of both images the columns that are null in both of them."""
    lines = [
        f"if before.f{i} is None and after.f{i} is None: before.f{i} = after.f{i} = UNSET"
        for i in lobs
    ]
    return function("forget(before, after)", lines, {})


def maybe_untouched(schema: TableSchema, settings: OmsWriteSettings) -> tuple[int, ...]:
    """The columns that an update may be written with although it did not touch them."""
    return tuple(
        i
        for i, column in enumerate(schema.columns)
        if settings.lobs == "unchanged"
        and (is_lob(column.type, None) or is_lob(column.type, column.source_type or ""))
    )


class WrittenLobs:
    """Writes the LOB columns of a table that an update did not touch, where that is set.

    Args:
        schema: the table.
        settings: whether they are written as null.
        names: the types that messages name; None if they name none. Without, a reader cannot tell
            a TEXT from a VARCHAR and takes its null for one.
        whole: whether a row after the update is filled up from the row before.
    """

    def __init__(
        self,
        schema: TableSchema,
        settings: OmsWriteSettings,
        names: Mapping[str, str | None] | None,
        whole: bool = False,
    ) -> None:
        self.columns: tuple[int, ...] = ()
        self._written = self._read = frozenset[int]()
        self._whole = whole
        if settings.lobs == "unchanged":
            self._written = frozenset(untouchable(schema))
            self._read = frozenset(_lobs(schema, names))
            self.columns = tuple(sorted(self._written | self._read))

    def null_in(self, image: Any) -> bool:
        """Whether such a column is null in an image."""
        return any(getattr(image, f"f{i}") is None for i in self.columns)

    def unstated_before(self, before: Any, after: Any) -> bool:
        """Whether such a column is null after an update and not stated in the row before."""
        return before is not None and any(
            getattr(before, f"f{i}") is UNSET and getattr(after, f"f{i}") is None
            for i in self.columns
        )

    def as_null(self, before: Any, after: Any, lost: set[str]) -> tuple[Any, Any]:
        """Both images of an update, in which such columns that neither tells are null.

        Where both images are null, readers find a LOB column that was not touched, and a null in
        others: what that changes is added to `lost`.
        """
        if not self.columns or before is None:
            return before, after
        before, after = before.__copy__(), after.__copy__()
        for i in self.columns:
            field = f"f{i}"
            was, now = getattr(before, field), getattr(after, field)
            if was is UNSET and now is UNSET and i in self._written:
                setattr(before, field, None)
                setattr(after, field, None)
            elif was is not None or not (now is None or (now is UNSET and self._whole)):
                continue
            untouched = i in self._read
            if (was is None) == untouched:
                lost.add("before_image")
            if (now is None) == untouched:
                lost.add("unchanged_columns")
        return before, after
