"""The kinds of source databases, by the types of their connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.connections import get_connection
from waybill.errors import Code, ConfigurationError
from waybill.verify.mysql import MySQL
from waybill.verify.postgresql import PostgreSQL

if TYPE_CHECKING:
    from waybill.connections import Connection
    from waybill.verify.database import Database


KINDS: dict[str, type[Database]] = {
    "postgres": PostgreSQL,
    "postgresql": PostgreSQL,
    "mysql": MySQL,
    "mariadb": MySQL,
}
"""Types of connections, and the kind of database that each is."""


def database_of(connection: Connection) -> Database:
    """The database of a connection; `with` opens a session in it.

    Raises:
        ConfigurationError: it is of a kind that cannot be verified.
    """
    kind = KINDS.get(connection.kind.lower())
    if kind is not None:
        return kind(connection)
    message = (
        f"the connection {connection.name} is of the type {connection.kind!r}, and a verification "
        f"reads {', '.join(sorted(KINDS))}: name the connection of the source database"
    )
    raise ConfigurationError(message, code=Code.CONNECTION_INVALID)


def database_named(name: str) -> Database:
    """The database of a connection's name.

    Raises:
        ConfigurationError: there is no such connection, or see `database_of`.
    """
    return database_of(get_connection(name))
