"""What becomes of a change of a table whose rows have to meet a condition.

A target holds the rows that meet it. A row that comes to meet it is new there, and one that no
longer does is gone. Where a message does not tell the row before, nobody knows whether the row is
there: then it is written as a row that may be there, or deleted as one that may not be, which gives
the same table either way.

So it is with rows that are read or inserted, too. An INSERT seems to prove that no row was there,
but without a condition it takes the place of whatever readers have under its key, and they would
have that row still if nothing were sent:

- In Canal, GoldenGate, SharePlex and DataHub the rows of a newer snapshot are INSERTs.
- A table was emptied and filled again, and the TRUNCATE is not in the topic: many envelopes have
  none.
- The connector lost its place, and a DELETE was never sent.
- The source is read once more under another condition.

So no operation spares the DELETE, only what `_replaces_none` knows of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.errors import Refusal
from waybill.full_load import BOOTSTRAP_TOPIC
from waybill.records import ROW_OPERATIONS, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.mapping.conditions import Truth
    from waybill.records import Change

REASON = "where"
"""Class of the refusal of a change of which nobody can say whether its row meets the condition."""


def moved(change: Change, holds: Callable[[Any], Truth]) -> Change | None:
    """A change as a reader of the rows that meet a condition needs it; None if it needs none.

    Args:
        change: of the source's table.
        holds: the condition.

    Raises:
        Refusal: the message leaves out what decides it.
    """
    if change.operation not in ROW_OPERATIONS:
        return change
    before, after = change.before, change.after
    was: Truth = UNSET if before is None else holds(before)
    if after is None:
        return None if was is False or was is None else change
    whole = _completed(change)
    now = holds(whole)
    if now is UNSET:
        raise Refusal(REASON, "the message leaves out a column that the condition asks for")
    if now is True:
        return _met(change, was, whole)
    if change.operation in ("insert", "read") and _replaces_none(change):
        return None
    if change.operation == "update" and was is not UNSET and was is not True:
        return None
    return _left(change, was)


def _replaces_none(change: Change) -> bool:
    """Whether a row that is inserted or read replaces none that readers may have.

    So do rows of the first snapshot, those that a target begins with, and those without a key.
    """
    begins = change.full_row or change.message.topic.startswith(BOOTSTRAP_TOPIC)
    return begins or not change.schema.key


def _completed(change: Change) -> Any:
    """The row after, with what only the row before tells: an update leaves that as it is."""
    before, after = change.before, change.after
    if before is None or change.operation != "update":
        return after
    names = after.__struct_fields__
    values = [getattr(after, name) for name in names]
    if UNSET not in values:
        return after
    older = [getattr(before, name) for name in names]
    return type(after)(
        *(old if new is UNSET else new for old, new in zip(older, values, strict=True))
    )


def _met(change: Change, was: Truth, whole: Any) -> Change:
    """A change after which the row meets the condition."""
    if change.operation != "update" or was is True:
        return change
    if UNSET in [getattr(whole, name) for name in whole.__struct_fields__]:
        raise Refusal(
            REASON, "the row may be new to readers, and the message does not hold all of it"
        )
    if was is UNSET:
        # Under its old key it may be there, too: only an update takes that away.
        operation = "update" if change.old_key_image() is not None else "upsert"
        return msgspec.structs.replace(change, operation=operation, after=whole)
    return msgspec.structs.replace(
        change, operation="insert", before=None, after=whole, moved_from=None
    )


def _left(change: Change, was: Truth) -> Change:
    """A change after which the row does not meet the condition: it is gone for readers."""
    schema = change.schema
    gone = change.before
    if was is not True:
        # Only its key is known to be that of a row that readers may have.
        key = change.old_key_image()
        key = key_of(schema, change.after) if key is None else key
        if key is None:
            raise Refusal(
                REASON, "the table has no key, and the message does not hold the row before"
            )
        values = dict(zip(schema.key_fields, msgspec.structs.astuple(key), strict=True))
        gone = schema.Image(**values)
    return msgspec.structs.replace(
        change, operation="delete", before=gone, after=None, moved_from=None
    )
