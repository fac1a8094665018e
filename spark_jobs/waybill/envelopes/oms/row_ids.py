"""The key that `rowid` of a SharePlex message tells beside the row.

Source: OceanBase documentation "Data formats", section "SharePlex-compatible JSON message format":
the table's name, a hyphen, and the values of the key with U+0001 between them. One sample has
nothing between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from waybill.envelopes.stated_keys import SEPARATOR, is_same
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.records import TableSchema


def opening_of(table: str) -> str:
    """What stands in `rowid` before the key of a row of a table."""
    return f"{table}-"


def check_row_id(schema: TableSchema, images: tuple[Any, Any], row_id: str, table: str) -> None:
    """See that `rowid` tells the key of the row.

    It names no columns: the values may stand in another order than those of the declared key, and
    may be those of another key, whose columns the row has too.

    Args:
        schema: the table, whose key `is_compared`.
        images: the row after the change, and the one before; None where there is none.
        row_id: `rowid`.
        table: the table's name as the message has it; under another name nothing is compared.

    Raises:
        Refusal: kind `key`, when no row has these values.
    """
    opening = opening_of(table)
    if not row_id.startswith(opening) or _is_usual(schema, images, row_id, opening):
        return
    text = row_id.removeprefix(opening)
    parts = text.split(SEPARATOR)
    rows = [image for image in images if image is not None]
    keys = [[v for v in schema.key_values(row) if isinstance(v, str)] for row in rows]
    if any(len(key) < len(schema.key_fields) for key in keys):
        return
    if any(text in (SEPARATOR.join(key), "".join(key)) for key in keys):
        return
    if any(_has(astuple(row), parts) for row in rows):
        return
    shown = ", ".join(keys[0])[:60]
    sentence = f"meta.rowid holds the key {', '.join(parts)[:60]!r}, and that of the row is"
    raise Refusal("key", f"{sentence} {shown!r}: nothing says which of them is meant")


def _is_usual(schema: TableSchema, images: tuple[Any, Any], row_id: str, opening: str) -> bool:
    """Whether it is the declared key of the newest row, as in nearly every message."""
    after, before = images
    newest = before if after is None else after
    key: Any = () if newest is None else schema.key_values(newest)
    try:
        return row_id == opening + SEPARATOR.join(key)
    except TypeError:
        return False  # the row lacks one of the columns


def _has(values: Iterable[Any], parts: list[str]) -> bool:
    """Whether a row has each of some values."""
    texts = [value for value in values if isinstance(value, str)]
    return all(any(is_same(part, text) for text in texts) for part in parts)
