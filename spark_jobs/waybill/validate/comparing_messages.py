"""Compares a change with the messages that were made from it, in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.validate.message_effects import effects_of_messages

if TYPE_CHECKING:
    from waybill.protocol import Decoder
    from waybill.records import Change, TableSchema
    from waybill.validate.message_effects import ChangeMessages, Expected
    from waybill.validate.readers import TargetReader

NO_CHANGE = "comes from no accepted change"
"""What is wrong with messages at whose place none is."""


class MessageJudge:
    """Compares changes with their messages for one target.

    Args:
        reader: how the messages are read.
    """

    def __init__(self, reader: TargetReader) -> None:
        self._reader = reader
        self._expected = reader.expected()
        self._of_schema: dict[str, tuple[Decoder, Expected] | None] = {}

    def difference(
        self, change: Change | None, messages: ChangeMessages, weakened: bool, decoder: Decoder
    ) -> tuple[str | None, bool]:
        """What is different, None for nothing; and whether the messages could be read.

        Args:
            change: as the target has it; None where there is none.
            messages: those that were made from it.
            weakened: whether its row cannot be expected to come back whole.
            decoder: of the reader.
        """
        why, decoded = _difference(decoder, self._expected, change, messages, weakened)
        if why is None or change is None:
            return why, decoded
        by_own_types = self._by_own_types(change.schema)
        if by_own_types is None:
            return why, decoded
        why_then, _ = _difference(*by_own_types, change, messages, weakened)
        return (None, True) if why_then is None else (why, decoded)

    def _by_own_types(self, schema: TableSchema) -> tuple[Decoder, Expected] | None:
        """What reads messages of a schema; None where nothing about its table is in doubt."""
        if schema.id not in self._of_schema:
            own = self._reader.with_types_of(schema)
            names = (schema.database, schema.schema, schema.table)
            same = own.rules.find(*names) == self._reader.rules.find(*names)
            self._of_schema[schema.id] = None if same else (own.decoder(), own.expected())
        return self._of_schema[schema.id]


def _difference(
    decoder: Decoder,
    expected: Expected,
    change: Change | None,
    messages: ChangeMessages,
    weakened: bool,
) -> tuple[str | None, bool]:
    found, why = effects_of_messages(decoder, messages)
    if why is not None:
        return why, False
    if change is None:
        return NO_CHANGE, True
    return expected.difference(change, messages, found, weakened), True
