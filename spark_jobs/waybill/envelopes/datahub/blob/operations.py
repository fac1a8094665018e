"""The operations of DataHub BLOB messages, and the rules that hold however a message is read.

Sources of the rules: "DataHub message formats", sections payload object and Operation types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.envelopes.sequence.settings import with_id, without_id
from waybill.errors import Refusal
from waybill.order import BEFORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Change

DDL_OPS = frozenset({"CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX"})
OTHER_OPS = frozenset({"GTID", "XACOMMIT", "XAROLLBACK"})
EVENTS = {
    **dict.fromkeys(DDL_OPS, "ddl"),
    **dict.fromkeys(OTHER_OPS, "other"),
    "QUERY": "ddl",
    "TRUNCATE": "truncate",
    "TRANSACTION_BEGIN": "begin",
    "TRANSACTION_END": "commit",
    "MHEARTBEAT": "heartbeat",
}
"""Operations without a row."""

ROWS = {
    "INSERT": ("insert", False, True),
    "UPDATE_BEFOR": ("update", True, False),
    "UPDATE_BEFORE": ("update", True, False),
    "UPDATE_AFTER": ("update", None, True),
    "UPDATE": ("update", None, True),
    "DELETE": ("delete", True, False),
}
"""Operations with a row, and whether they have a before and an after image (None: they may).

`UPDATE_BEFOR` is the documented spelling, the other one is met too. A real UPDATE_AFTER may hold
both images, and is the whole update then.
"""

FULL_ROW_ID = "-1"
"""The sequence id of full rows in real messages, whose event time is -1 as well."""

MAX_ID_DIGITS = 1000

NOTHING_CARRIED = b'{"streamx":{}}'
"""`extra` of an event whose message tells nothing that a target of the same family carries on."""

# Nothing is given back once it matched: comments end where they end, and a statement behind many of
# them is recognised in one pass.
_ROW_STATEMENT = re.compile(
    r"(?>(?:\s++|/\*.*?\*/|--[^\n]*\n|#[^\n]*\n|\()*)"
    r"(?:INSERT|UPDATE|DELETE|REPLACE|SELECT|LOAD|MERGE|WITH|CALL|BEGIN|START|COMMIT|ROLLBACK"
    r"|SAVEPOINT|XA)\b",
    re.IGNORECASE | re.DOTALL,
)


def is_row_statement(text: str) -> bool:
    """Whether a statement changes rows (or asks for them), so that it defines nothing."""
    return _ROW_STATEMENT.match(text) is not None


def finish_row(change: Change, op: str, number: Any, in_messages: bool = True) -> Change:
    """The change of a row with its sequence id, as full row or half of an update where it is one.

    Args:
        change: operation and images are set.
        op: the operation as the message names it.
        number: `sequenceId`, a string or a number; None or UNSET where there is none.
        in_messages: row changes of the topic have one ("DML operations").

    Raises:
        Refusal: the sequence id is no number, or does not go with the operation.
    """
    text = number if type(number) is str else sequence_text(number)
    if text is None:
        _check_without(change, op, in_messages)
        return change
    if text.isdigit() and text.isascii() and len(text) <= MAX_ID_DIGITS:
        if not in_messages:
            raise with_id("payload.sequenceId")
        change.sequence = (int(text),)
        if change.operation == "update":
            if change.after is None:
                change.half, change.rank = "before", BEFORE
            elif change.before is None and op == "UPDATE_AFTER":
                change.half = "after"
        return change
    if text != FULL_ROW_ID:
        raise wrong_sequence()
    if op != "INSERT":
        raise Refusal("shape", f"sequenceId {FULL_ROW_ID} marks full rows, which are no {op}")
    change.operation = "read"
    change.full_row = True
    return change


def _check_without(change: Change, op: str, in_messages: bool) -> None:
    """Refuse a row that lacks the sequence id that it needs."""
    if in_messages:
        raise without_id("payload.sequenceId", op)
    if change.after is None and change.operation == "update":
        raise Refusal("pair", f"an {op} without sequenceId cannot find its after image")


def sequence_text(number: Any) -> str | None:
    """The text of a sequence id, None where there is none."""
    return None if number is None or number is UNSET else str(number)


def wrong_sequence() -> Refusal:
    """The refusal of a sequence id that is no number."""
    return Refusal("shape", f"payload.sequenceId must be digits, or {FULL_ROW_ID} for a full row")


def wrong_images(op: str, before: Any, after: Any) -> Refusal:
    """The refusal of a row that has not the images that its operation asks for."""
    _, needs_before, needs_after = ROWS[op]
    name, needed = "after", needs_after
    if needs_before is not None and needs_before != (before is not None):
        name, needed = "before", needs_before
    rule = "hold the row" if needed else "be empty"
    return Refusal("shape", f"payload.{name} must {rule} in an {op}")


def extra_template(
    system: bool, checkpoint: bool, about: dict[str, Any]
) -> Callable[[Any], bytes | None]:
    """A function from the `timestamp` of a message to the `extra` of its change.

    `extra` is what a target of the same family carries on: the further times, and what `about`
    says of the message besides, under the name `streamx`.
    """
    static = msgspec.json.encode({k: v for k, v in about.items() if v is not None})[1:-1]
    parts = [b'"systemTime":%d'] * system + [b'"checkpointTime":%d'] * checkpoint
    parts += [static.replace(b"%", b"%%")] if static else []
    form = b'{"streamx":{' + b",".join(parts) + b"}}"
    if system and checkpoint:
        return lambda times: form % (times.systemTime, times.checkpointTime)
    if system:
        return lambda times: form % times.systemTime
    if checkpoint:
        return lambda times: form % times.checkpointTime
    constant = form.replace(b"%%", b"%") if static else None
    return lambda _times: constant
