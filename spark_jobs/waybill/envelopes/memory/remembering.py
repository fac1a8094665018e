"""Decoders that remember tables: which columns these have, and the types that nobody declared.

What such a decoder makes of a message may depend on the messages before it that it took; one that
is refused tells nothing of its table. Asked what it would make of a message now (`settled`), it
remembers nothing of it, and says so where it would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from waybill.caches import Bounded
from waybill.envelopes.memory.known_tables import FastByTable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from waybill.records import Change, Column, Message, TableSchema
    from waybill.tables import TableName

_MAX_COLUMNS = 2_000
"""Of tables with more nothing is known from one message to the next, since each new column makes
everything that is known of its table anew; databases allow 1,000 to 1,600 columns."""


class News(Exception):
    """A message tells something that is not known.

    Attributes:
        apart: whether no other message of its table is settled, nor will those of another table
            be read otherwise for it.
    """

    def __init__(self, apart: bool = False) -> None:
        super().__init__()
        self.apart = apart


class Memory:
    """The columns of tables, as the messages that were taken showed them.

    Attributes:
        held: whether nothing may be added.
        begun_anew: whether tables were forgotten, of which something may be left elsewhere.
    """

    def __init__(self) -> None:
        self.held = False
        self.begun_anew = False
        self._columns: Bounded[TableName, tuple[Column, ...]] = Bounded()

    def known(self, name: TableName) -> dict[str, Column]:
        """The columns of a table; none where it is not known, or has had too many."""
        columns = self._columns.get(name, ())
        return {} if len(columns) > _MAX_COLUMNS else {c.name: c for c in columns}

    def knows(self, schema: TableSchema) -> bool:
        """Whether a table has just the columns of a schema, as far as is known by now."""
        return self._columns.get(_name_of(schema), ()) == schema.columns

    def keep(self, schema: TableSchema) -> None:
        """Know a table by the schema of a message that is taken.

        Raises:
            News: nothing may be added.
        """
        name = _name_of(schema)
        before = self._columns.get(name)
        if before == schema.columns:
            return
        self.add(first=before is None and self._columns.roomy)
        anew = self._columns.begins_anew_with(name, schema.columns)
        self.begun_anew = self.begun_anew or anew
        self._columns[name] = schema.columns

    def add(self, first: bool = False) -> None:
        """Say that something will be added.

        Args:
            first: whether it is all that is known of a table.

        Raises:
            News: it may not.
        """
        if self.held:
            raise News(first and not self.begun_anew)


def _name_of(schema: TableSchema) -> TableName:
    return schema.database, schema.schema, schema.table or ""


class Remembering(ABC):
    """A decoder that remembers tables.

    Attributes:
        settings: what it was told of the source.
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
        """A decoder that was told the same and has read nothing."""
        return type(self)(self.settings, self.rules)  # type: ignore[call-arg]

    def settled(self, message: Message) -> list[Change]:
        """The changes of a message that tells nothing new; nothing is remembered of it.

        Raises:
            News: it does.
            Refusal: the message cannot be taken.
        """
        self.memory.held = True
        try:
            changes = self.decode(message)
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
    """A table whose messages can be read the fast way."""

    @property
    def schema(self) -> TableSchema:
        """What is known of it."""

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The changes of a message of this table; None if it needs a closer look."""


Table = TypeVar("Table", bound=RememberedTable)


class FastRemembering(FastByTable[Table], Remembering):
    """A decoder that remembers tables and knows that of a message by a hint in its bytes."""

    def settled(self, message: Message) -> list[Change]:
        """See `Remembering.settled`."""
        try:
            return super().settled(message)
        except News as news:
            raise News(news.apart and self._tables.roomy) from None

    def schemas(self, message: Message, schema: TableSchema) -> set[TableSchema]:
        """See `Remembering.schemas`; values may decide whether a message is read the fast way."""
        table = self._probable(message.value or b"")
        return {schema} if table is None else {schema, table.schema}

    def _forget(self, hint: Hashable) -> None:
        if hint in self._tables:
            self.memory.add()
            super()._forget(hint)

    def _remember(self, hint: Hashable, table: Table) -> None:
        self.memory.add()
        super()._remember(hint, table)
