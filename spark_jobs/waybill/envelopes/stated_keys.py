"""The key that a message tells beside its row: where the two disagree, nobody knows which is meant.

Compared are numbers and texts alone; of other types the two may be written in different ways.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from waybill.records import TableSchema
    from waybill.types import LogicalType

_TEXTS = frozenset({"string", "enum", "unknown"})
SEPARATOR = "\x01"
"""Stands between the values of a key in OMS (OceanBase documentation, Data formats)."""
_LONGEST = 200
"""Digits of a number that is compared by its value."""


def is_compared(schema: TableSchema) -> bool:
    """Whether all columns of the key are of types whose values are compared."""
    kinds = [schema.columns[place].type for place in schema.key_places]
    return bool(kinds) and all(_is_compared(kind) for kind in kinds)


def _is_compared(kind: LogicalType) -> bool:
    whole = kind.is_integer or kind.kind in ("number", "decimal")
    return whole or kind.kind in _TEXTS


def key_text(schema: TableSchema) -> Callable[[Any], str]:
    """A function from the image of a row to its key as one text, as OMS states it."""
    fields = schema.key_fields
    values: Callable[[Any], Any] = attrgetter(*fields)
    if len(fields) == 1:
        return lambda image: str(values(image))
    return lambda image: SEPARATOR.join(map(str, values(image)))


def check_stated_key(
    schema: TableSchema, images: Sequence[Any], stated: list[str], where: str
) -> None:
    """See that a key stated beside a row is that of the row.

    Args:
        schema: the table, whose key `is_compared`.
        images: the row after the change, and the one before; None where there is none.
        stated: the values of the key as texts, in key order.
        where: what tells them, for the error.

    Raises:
        Refusal: kind `key`, when it is the key of neither.
    """
    found = [schema.key_values(image) for image in images if image is not None]
    if any(not isinstance(text, str) for key in found for text in key):
        return
    if any(_same(key, stated) for key in found):
        return
    raise contradiction(where, stated, [str(text) for text in found[0]])


def contradiction(where: str, stated: Sequence[str], mine: Sequence[str]) -> Refusal:
    """The refusal of a row beside which another key is stated than its own.

    Args:
        where: what tells it.
        stated: the values that it tells.
        mine: those of the row.
    """
    shown, own = (", ".join(texts)[:60] for texts in (stated, mine))
    sentence = f"{where} tells the key {shown!r}, and that of the row is {own!r}"
    return Refusal("key", f"{sentence}: nothing says which of them is meant")


def _same(key: Sequence[Any], stated: list[str]) -> bool:
    # A text may hold what stands between the values where these are stated as one text.
    if SEPARATOR.join(key) == SEPARATOR.join(stated):
        return True
    return len(key) == len(stated) and all(
        is_same(mine, other) for mine, other in zip(key, stated, strict=True)
    )


def is_same(mine: str, other: str) -> bool:
    """Whether two texts are the same, or one number."""
    if mine == other:
        return True
    if len(mine) > _LONGEST or len(other) > _LONGEST:
        return False
    try:
        return Decimal(mine) == Decimal(other)
    except InvalidOperation:
        return False
