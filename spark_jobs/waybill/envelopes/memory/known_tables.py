"""Reading most messages the known-table way, by the table that they are probably about.

A decoder learns tables from messages that it read closely. The next message is read by the table
that names in its bytes point to, without looking whether they really are its names: that table
gives None, or raises, for everything that is not exactly as it knows it, and then the message is
read closely.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from waybill.caches import Bounded
from waybill.errors import Refusal
from waybill.records import Change, skipped
from waybill.values.values import JSON_ERRORS

if TYPE_CHECKING:
    from waybill.records import Message


class KnownTable(Protocol):
    """A table whose messages can be read the known-table way."""

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The changes of a message of this table; None if it has to be read exactly."""


Table = TypeVar("Table", bound=KnownTable)


class FastFirst(ABC, Generic[Table]):
    """A decoder that reads a message first by the table that it is probably about."""

    def decode(self, message: Message) -> list[Change]:
        """The changes of one message.

        Raises:
            Refusal: the message cannot be taken.
        """
        value = message.value
        if value is None:
            return [skipped(message, "no value")]
        table = self._probable(value)
        if table is not None:
            try:
                changes = table.read(message, value)
                if changes is not None:
                    return changes
            except (*JSON_ERRORS, Refusal):
                pass  # read closely, which says what is wrong
        return self._slow(message, value)

    def exact(self, message: Message) -> list[Change]:
        """See `protocol.Shortened`."""
        if message.value is None:
            return [skipped(message, "no value")]
        return self._slow(message, message.value)

    @abstractmethod
    def _probable(self, value: bytes) -> Table | None:
        """The table that a message is probably about, None if that cannot be determined."""

    @abstractmethod
    def _slow(self, message: Message, value: bytes) -> list[Change]:
        """The changes of a message of which nothing is taken for known.

        Raises:
            Refusal: the message cannot be taken.
        """


class FastByTable(FastFirst[Table]):
    """A decoder that knows the table of a message by a hint in its bytes."""

    def __init__(self) -> None:
        self._tables: Bounded[Hashable, Table] = Bounded()
        # The table of a topic of one table, however its JSON is written.
        self._only: Table | None = None

    @abstractmethod
    def _hint(self, value: bytes) -> Hashable:
        """The names of a table that stand in a message, as bytes of JSON."""

    def _probable(self, value: bytes) -> Table | None:
        return self._only or self._tables.get(self._hint(value))

    def _forget(self, hint: Hashable) -> None:
        """Read the next messages with these names closely."""
        if hint in self._tables:
            del self._tables[hint]
            self._only = None

    def _remember(self, hint: Hashable, table: Table) -> None:
        """Read the next messages with these names by a table."""
        self._tables[hint] = table
        self._only = table if len(self._tables) == 1 else None
