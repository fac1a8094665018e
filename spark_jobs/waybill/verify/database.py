"""The source database, as a verification reads it: in sessions that can write nothing.

Every value is read as the database's own text and never by way of a driver's types, so that no
number is rounded and no time is shifted on the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from waybill.connections import Connection
    from waybill.verify.canonical import SourceColumn

Texts = tuple[str | None, ...]
"""A row as the database writes it, in the order of the columns that were asked for."""

LOOKED_UP = 500
"""Keys of one query."""


class DatabaseView(NamedTuple):
    """A moment of the database that everything was read at.

    Attributes:
        clock: the database's own clock right after the view was taken, microseconds since 1970.
        position: where its log of changes was, as people know it; None where the user may not know.
    """

    clock: int
    position: str | None


class SourceTable(NamedTuple):
    """A table of the database.

    Attributes:
        parts: its name in parts, as SQL quotes each of them.
        columns: in its order.
    """

    parts: tuple[str, ...]
    columns: tuple[SourceColumn, ...]


class TablePiece(NamedTuple):
    """A part of a table that one query reads.

    Attributes:
        source: what stands behind FROM.
        where: the condition; everything where it is empty.
    """

    source: str
    where: str = ""


class Database(ABC):
    """One session in a source database.

    Args:
        connection: where to and as whom.
    """

    kind = ""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session: Any = None

    @abstractmethod
    def _open(self) -> Any:
        """A session that reads only and prints values as this class reads them."""

    @abstractmethod
    def begin(self, shared: str | None = None) -> DatabaseView:
        """Take a read view, in which everything is read until the next one.

        Args:
            shared: one that another session takes (`share`); a view of its own without it.
        """

    @abstractmethod
    def share(self) -> str | None:
        """A name under which other sessions see the same view; None where there is none."""

    @abstractmethod
    def release(self) -> None:
        """Give the read view back."""

    @abstractmethod
    def clock(self) -> int:
        """The database's clock, microseconds since 1970."""

    @abstractmethod
    def table(self, identity: tuple[str, str, str], named: str | None) -> SourceTable | None:
        """A table; None where there is none.

        Args:
            identity: its database, schema and table in the messages, empty where there is none.
            named: its name in the database, if the migration says it.
        """

    @abstractmethod
    def tables(self) -> list[tuple[str, ...]]:
        """The names, in parts, of all tables that the user may see and that hold rows."""

    @abstractmethod
    def identity(self, parts: tuple[str, ...]) -> tuple[str, str, str]:
        """What messages name as database, schema and table, empty where there is none."""

    @abstractmethod
    def pieces(self, table: SourceTable, key: Sequence[str], about: int) -> list[TablePiece]:
        """The table cut into about so many pieces, which together are all of it."""

    @abstractmethod
    def count(self, table: SourceTable) -> int:
        """How many rows it has."""

    @abstractmethod
    def rows(self, columns: Sequence[SourceColumn], piece: TablePiece) -> Iterator[Texts]:
        """The rows of a piece, read while they come."""

    @abstractmethod
    def key_piece(
        self, table: SourceTable, key: Sequence[SourceColumn], keys: Sequence[Sequence[str]]
    ) -> TablePiece:
        """The rows that have one of these keys, given by their canonical texts."""

    def looked_up(
        self,
        table: SourceTable,
        columns: Sequence[SourceColumn],
        key: Sequence[SourceColumn],
        keys: Sequence[Sequence[str]],
    ) -> Iterator[Texts]:
        """The rows that have one of these keys."""
        for start in range(0, len(keys), LOOKED_UP):
            piece = self.key_piece(table, key, keys[start : start + LOOKED_UP])
            yield from self.rows(columns, piece)

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> Self:
        self._session = self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
