"""Decoders that remember tables: which columns these have, and the types that nobody declared.

What such a decoder makes of a message may depend on the messages before it that it took; one that
is refused tells nothing of its table. Asked what it would make of a message now (`settled`), it
remembers nothing of it, and says so where it would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from waybill.envelopes.memory.known_tables import FastByTable
from waybill.protocol import exactly
from waybill.values.known_columns import Memory, News

if TYPE_CHECKING:
    from collections.abc import Hashable

    from waybill.records import Change, Message, TableSchema


class Remembering(ABC):
    """A decoder that remembers tables.

    Attributes:
        settings: what it knows of the source.
        rules: declared keys and column types.
        memory: what it remembers.
    """

    settings: Any
    rules: Any
    memory: Memory

    @abstractmethod
    def decode(self, message: Message) -> list[Change]:
        """See `Decoder.decode`."""

    def fresh(self) -> Self:
        """A decoder with the same settings that has read nothing."""
        return type(self)(self.settings, self.rules)  # type: ignore[call-arg]

    def settled(self, message: Message, exact: bool = False) -> list[Change]:
        """The changes of a message that tells nothing new; nothing is remembered of it.

        Args:
            message: the message.
            exact: whether it is read by the exact way alone.

        Raises:
            News: it does.
            Refusal: the message cannot be taken.
        """
        self.memory.held = True
        try:
            changes = (exactly(self) if exact else self.decode)(message)
        finally:
            self.memory.held = False
        for change in changes:
            row = change.before is not None or change.after is not None
            if row and not all(map(self.memory.knows, self.schemas(message, change.schema))):
                raise News(apart=True)
        return changes

    def schemas(self, message: Message, schema: TableSchema) -> set[TableSchema]:
        """The schemas that messages like one may be read by, this or that way.

        Args:
            message: the message.
            schema: what it was read by itself.

        Raises:
            News: they are too many to tell.
        """
        return {schema}


class RememberedTable(Protocol):
    """A table whose messages can be read the known-table way."""

    @property
    def schema(self) -> TableSchema:
        """What is known of it."""

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The changes of a message of this table; None if it has to be read exactly."""


Table = TypeVar("Table", bound=RememberedTable)


class FastRemembering(FastByTable[Table], Remembering):
    """A decoder that remembers tables and knows that of a message by a hint in its bytes."""

    def settled(self, message: Message, exact: bool = False) -> list[Change]:
        """See `Remembering.settled`."""
        try:
            return super().settled(message, exact)
        except News as news:
            raise News(news.apart and self._tables.roomy) from None

    def schemas(self, message: Message, schema: TableSchema) -> set[TableSchema]:
        """See `Remembering.schemas`; values may decide whether a message is read by it."""
        table = self._probable(message.value or b"")
        return {schema} if table is None else {schema, table.schema}

    def _forget(self, hint: Hashable) -> None:
        if hint in self._tables:
            self.memory.add()
            super()._forget(hint)

    def _remember(self, hint: Hashable, table: Table) -> None:
        self.memory.add()
        super()._remember(hint, table)
