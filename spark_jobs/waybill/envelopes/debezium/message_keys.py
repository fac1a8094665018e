"""The key of a message, held against the row that the message holds.

Debezium makes the key of the row's own columns, so where the two disagree, nobody knows which is
meant (Debezium documentation, MySQL connector, "Change event keys": the key contains the values of
the primary key of the changed row).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.debezium.row_readers import text_of
from waybill.envelopes.debezium.schema_envelope import opened_key
from waybill.envelopes.stated_keys import contradiction, is_same
from waybill.errors import Refusal
from waybill.values.values import JSON_ERRORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.envelopes.debezium.row_readers import RowPlan
    from waybill.envelopes.debezium.values.readings import ColumnReading
    from waybill.records import Message

OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
"""Headers of a change of the key."""
_KEY_HEADERS = frozenset({OLD_KEY, NEW_KEY})
_FAULTS = (Refusal, ValueError, ArithmeticError, RecursionError)


def keys_of_headers(message: Message) -> tuple[dict[str, Raw], ...]:
    """The keys in the headers of a change of the key: a null in the row is a value there, or not.

    What is no key is left to `RowPlan.key_of`, which refuses it.
    """
    found_keys = []
    for header, value in message.headers or ():
        if header in _KEY_HEADERS and value is not None:
            try:
                found_keys.append(opened_key(value).fields)
            except (Refusal, *JSON_ERRORS):
                continue
    return tuple(found_keys)


def check_message_key(plan: RowPlan, key: bytes | None, images: Sequence[Any]) -> None:
    """See that a message key is that of the row after a change, or of the one before it.

    Args:
        plan: how the rows of the table are read.
        key: the message key; one that names no columns tells nothing.
        images: the row after the change, and the one before; None where there is none.

    Raises:
        Refusal: kind `key`, when it is the key of neither.
    """
    if key is None or not plan.stated_key:
        return
    fields = opened_key(key).fields
    stated = [_text_in_row(plan.columns[name], fields[name]) for name in plan.stated_key]
    places = [plan.schema.names.index(name) for name in plan.stated_key]
    rows = [
        [getattr(image, f"f{place}") for place in places] for image in images if image is not None
    ]
    if not rows or any(all(map(_is_same, row, stated)) for row in rows):
        return
    shown = [[str(text) for text in texts if text is not UNSET] for texts in (stated, rows[0])]
    raise contradiction("the message key", *shown)


def _text_in_row(reading: ColumnReading, raw: Raw) -> Any:
    """A value of a key as the text that it is in the row.

    The converter of keys may write a value in another way than that of rows: then what it shows is
    compared.
    """
    try:
        return text_of(reading, raw)
    except _FAULTS:
        text = bytes(raw).decode()
        return msgspec.json.decode(raw, type=str) if text.startswith('"') else text


def _is_same(mine: Any, stated: Any) -> bool:
    """Whether a value of a row is that of the key; what was not sent contradicts nothing."""
    if mine is UNSET or stated is UNSET or mine is stated:
        return True
    return mine is not None and stated is not None and is_same(mine, stated)
