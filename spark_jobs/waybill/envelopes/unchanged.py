"""The row before an update that changed nothing, in envelopes that tell the changed columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import TableSchema


def one_column(schema: TableSchema) -> Callable[[Any], Any]:
    """A function from an image to an image of one of its columns.

    Changed columns that are empty say that the row before is not known; one that did not change
    says that it is known and the same. A column of the key is taken only where there is no other,
    because readers may take it for a change of the key.
    """
    image = schema.Image
    keys = schema.key_fields if schema.key else ()
    fields = image.__struct_fields__
    chosen = [field for field in fields if field not in keys] or list(fields)

    def one(row: Any) -> Any:
        return image(**{field: getattr(row, field) for field in chosen[:1]})

    return one
