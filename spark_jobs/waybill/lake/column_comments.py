"""Comments of columns, which people see in catalogs and query tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waybill.lake.tables import Lake


def comment_columns(lake: Lake, table: str, comments: Mapping[str, str]) -> None:
    """Let columns of a table have these comments; nothing is committed where they have.

    Args:
        lake: the lake.
        table: full name.
        comments: by the names of columns in the lake.
    """
    fields = lake.metadata(table).shape.schema["fields"]
    there = {field["name"]: field.get("doc") for field in fields}
    changed = {name: text for name, text in comments.items() if there[name] != text}
    if not changed:
        return
    update = lake.iceberg(table).updateSchema()
    for name, text in changed.items():
        update = update.updateColumnDoc(name, text)
    update.commit()
