"""The columns that an update changed, among all that are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.values.generated import function

if TYPE_CHECKING:
    from collections.abc import Callable


def keep_changed(columns: int) -> Callable[[Any, Any, Any], None]:
    """A function that leaves out of a row the columns that are the same in two images."""
    lines = [f"if one.f{i} == other.f{i}: row.f{i} = UNSET" for i in range(columns)]
    return function("keep(row, one, other)", lines, {})
